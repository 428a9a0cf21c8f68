//! Tokens, as the vault's interface has them.
//!
//! Members that this version does not know are ignored when read. A new member is a field here.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Problem;

/// A token to be stored: its type and data, and whatever else is set.
///
/// ```
/// use tokamak_sdk::{NewToken, json};
///
/// NewToken::new("card", json!({ "number": "4242424242424242" }))
///     .container("/pci/high/")
///     .metadata("order", "A-17")
///     .expires_at("2030-08-26T00:00:00Z")
///     .deduplicate();
/// ```
#[derive(Clone, Serialize)]
pub struct NewToken {
    #[serde(rename = "type")]
    token_type: String,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    // Absent is the type's own mask, null is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint_expression: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    search_indexes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deduplicate_token: Option<bool>,
}

impl NewToken {
    /// A token of this type with this data.
    pub fn new(token_type: impl Into<String>, data: impl Into<Value>) -> Self {
        Self {
            token_type: token_type.into(),
            data: data.into(),
            id: None,
            mask: None,
            containers: Vec::new(),
            metadata: BTreeMap::new(),
            fingerprint_expression: None,
            search_indexes: Vec::new(),
            expires_at: None,
            deduplicate_token: None,
        }
    }

    /// Sets the id, or an expression over the data that makes one.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Sets the mask, in place of the type's own.
    #[must_use]
    pub fn mask(self, mask: impl Into<Value>) -> Self {
        Self { mask: Some(mask.into()), ..self }
    }

    /// Has no mask, not even the type's own.
    #[must_use]
    pub fn no_mask(self) -> Self {
        self.mask(Value::Null)
    }

    /// Adds a container.
    #[must_use]
    pub fn container(mut self, container: impl Into<String>) -> Self {
        self.containers.push(container.into());
        self
    }

    /// Adds an entry of metadata. Never put sensitive data there.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the expression of what is fingerprinted.
    #[must_use]
    pub fn fingerprint_expression(self, expression: impl Into<String>) -> Self {
        Self { fingerprint_expression: Some(expression.into()), ..self }
    }

    /// Adds an expression whose value the token is found by.
    #[must_use]
    pub fn search_index(mut self, expression: impl Into<String>) -> Self {
        self.search_indexes.push(expression.into());
        self
    }

    /// Sets the end of the token's life, such as `2030-08-26T19:23:57Z`.
    #[must_use]
    pub fn expires_at(self, time: impl Into<String>) -> Self {
        Self { expires_at: Some(time.into()), ..self }
    }

    /// Returns the token of equal contents instead, when there is one.
    #[must_use]
    pub fn deduplicate(self) -> Self {
        Self { deduplicate_token: Some(true), ..self }
    }

    /// Makes a token also when there is one of equal contents, whatever the tenant's settings say.
    #[must_use]
    pub fn keep_duplicate(self) -> Self {
        Self { deduplicate_token: Some(false), ..self }
    }
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("type", &self.token_type).finish_non_exhaustive()
    }
}

/// A token, as the application may see it.
#[derive(Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Token {
    /// Its id.
    pub id: String,
    /// Its type, such as `card`, which is told also of a token that the application may not read.
    #[serde(rename = "type", default)]
    pub token_type: String,
    /// Its data as the deciding rule shapes it: in clear, masked, or absent.
    #[serde(default)]
    pub data: Option<Value>,
    /// Its mask, an expression or an object of expressions.
    #[serde(default)]
    pub mask: Option<Value>,
    /// The same for equal contents of one type.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Where it is kept.
    #[serde(default)]
    pub containers: Vec<String>,
    /// What is known about it, none of it sensitive.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// When it was made.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When its life ends.
    #[serde(default)]
    pub expires_at: Option<String>,
    /// The application or session that made it.
    #[serde(default)]
    pub created_by: Option<String>,
    /// When it was changed last, if it was.
    #[serde(default)]
    pub modified_at: Option<String>,
    /// The application or session that changed it last.
    #[serde(default)]
    pub modified_by: Option<String>,
    /// The expression of what is fingerprinted, if it is not the type's own.
    #[serde(default)]
    pub fingerprint_expression: Option<String>,
    /// Expressions whose values it is found by.
    #[serde(default)]
    pub search_indexes: Vec<String>,
    #[serde(rename = "_extras", default)]
    extras: Extras,
}

/// What an answer tells beside the token.
#[derive(Clone, Default, PartialEq, Deserialize)]
struct Extras {
    #[serde(default)]
    deduplicated: bool,
}

impl Token {
    /// Whether it was there before, with the contents that a new one was to have: see [`NewToken::deduplicate`].
    pub fn is_deduplicated(&self) -> bool {
        self.extras.deduplicated
    }

    /// The data as a type of the formula; a problem when it is absent or has another shape.
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.data.as_ref().and_then(|data| T::deserialize(data).ok()).ok_or_else(|| {
            Problem::new(500, "Unexpected Answer", "the token's data is absent or has another type")
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("id", &self.id)
            .field("type", &self.token_type)
            .finish_non_exhaustive()
    }
}
