//! Identifiers.
//!
//! To add a kind of entity: one line in the `uuid_ids!` table below.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::limits::{TOKEN_ID_CHARS_MAX, TOKEN_ID_CHARS_MIN};

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl FromStr for $name {
            type Err = InvalidUuid;

            fn from_str(text: &str) -> Result<Self, InvalidUuid> {
                Uuid::parse_str(text).map(Self).map_err(|_| InvalidUuid)
            }
        }
    )+};
}

uuid_ids! {
    /// Identifies a tenant.
    TenantId,
    /// Identifies an application.
    ApplicationId,
    /// Identifies a reactor formula.
    FormulaId,
    /// Identifies a reactor.
    ReactorId,
    /// Identifies one call of a reactor.
    InvocationId,
}

/// The text is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be a UUID")]
pub struct InvalidUuid;

/// Identifies a token within its tenant (decisions §3): 3 to 400 characters, none of `#/\+?[]|&=%{}^"`, no
/// control character, no space at either end, no `token:` in front.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TokenId(String);

/// Why a text is no token id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidTokenId {
    /// Too short or too long.
    #[error("must have 3 to 400 characters")]
    Length,
    /// A character that ids may not have.
    #[error("must not contain control characters or any of # / \\ + ? [ ] | & = % {{ }} ^ \"")]
    Character,
    /// A space at the start or the end, which a reference would lose.
    #[error("must not start or end with white space")]
    OuterSpace,
    /// A start that a reference takes for its own.
    #[error("must not start with {WHOLE}, which in a reference stands for the whole token")]
    Whole,
    /// A word that stands at the same place in the address of something else.
    #[error("must not be {SEARCH}, which is an address of its own")]
    Reserved,
}

const FORBIDDEN: &str = "#/\\+?[]|&=%{}^\"";
/// What a reference to a whole token puts before its id (decisions §4): an id that began so could not be referred to.
const WHOLE: &str = "token:";
/// `/tokens/search` is where tokens are searched: one of this id could not be addressed.
const SEARCH: &str = "search";

impl TokenId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = InvalidTokenId;

    fn from_str(text: &str) -> Result<Self, InvalidTokenId> {
        if !(TOKEN_ID_CHARS_MIN..=TOKEN_ID_CHARS_MAX).contains(&text.chars().count()) {
            return Err(InvalidTokenId::Length);
        }
        if text.chars().any(|c| c.is_control() || FORBIDDEN.contains(c)) {
            return Err(InvalidTokenId::Character);
        }
        if text.trim() != text {
            return Err(InvalidTokenId::OuterSpace);
        }
        if text.starts_with(WHOLE) {
            return Err(InvalidTokenId::Whole);
        }
        if text == SEARCH {
            return Err(InvalidTokenId::Reserved);
        }
        Ok(Self(text.to_owned()))
    }
}

impl From<Uuid> for TokenId {
    fn from(id: Uuid) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidTokenId, TokenId};

    #[test]
    fn token_ids() {
        let long = "é".repeat(400);
        for valid in ["abc", "4242-XXXX", "Jane Doe, 1980!", "a:b;c@d~e<f>", &long] {
            assert!(valid.parse::<TokenId>().is_ok(), "{valid}");
        }
        for forbidden in "#/\\+?[]|&=%{}^\"".chars().chain(['\n', '\u{7f}']) {
            let id = format!("ab{forbidden}cd");
            assert_eq!(id.parse::<TokenId>(), Err(InvalidTokenId::Character), "{id:?}");
        }
        let too_long = "a".repeat(401);
        for wrong in ["", "ab", &too_long] {
            assert_eq!(wrong.parse::<TokenId>(), Err(InvalidTokenId::Length));
        }
        assert_eq!(" abc".parse::<TokenId>(), Err(InvalidTokenId::OuterSpace));
        for wrong in ["token:", "token:abc", "token: abc", "token:token:abc"] {
            assert_eq!(wrong.parse::<TokenId>(), Err(InvalidTokenId::Whole), "{wrong}");
        }
        assert_eq!("search".parse::<TokenId>(), Err(InvalidTokenId::Reserved));
        for valid in [
            "Search",
            "search1",
            "token",
            "token abc",
            "Token:abc",
            "TOKEN:abc",
            "my token:abc",
            "token :a",
        ] {
            assert!(valid.parse::<TokenId>().is_ok(), "{valid}");
        }
        assert_eq!(
            InvalidTokenId::Whole.to_string(),
            "must not start with token:, which in a reference stands for the whole token"
        );
    }
}
