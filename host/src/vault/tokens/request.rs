//! The body of `POST /tokens`, checked.

mod described;
mod evaluate;
pub(super) mod size;

use std::collections::BTreeMap;
use std::str::FromStr as _;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub(super) use described::{Metadata, MetadataPatch, TokenData};
pub(super) use evaluate::evaluate_id;

use self::evaluate::Unevaluated;
use self::size::json_bytes;
use super::Token;
use crate::expression::{ExpressionError, Mask, Template};
use crate::limits::{
    CONTAINERS_MAX, FAULTS_MAX, METADATA_KEY_CHARS_MAX, METADATA_KEYS_MAX,
    METADATA_VALUE_CHARS_MAX, SEARCH_INDEXES_MAX, TOKEN_DATA_BYTES_MAX,
};
use crate::model::container::{Container, places};
use crate::model::faults::Faults;
use crate::model::id::TokenId;
use crate::model::member::{Few, FromJson, Member, Partly, Text};
use crate::model::plaintext::{Plaintext, opaque};
use crate::model::time::{Timestamp, parse_expiry};
use crate::token_type::TokenType;
use zeroize::Zeroizing;

/// Containers of a body.
pub(super) type Containers = Few<Text<Container>, 1, CONTAINERS_MAX>;
/// Index expressions of a body.
pub(super) type Indexes = Partly<Source, 0, SEARCH_INDEXES_MAX>;

/// The source of an expression that can be parsed.
#[derive(Clone)]
pub(super) struct Source(pub(super) String);

impl FromJson for Source {
    fn from_json(value: Value) -> Result<Self, Faults> {
        let text = String::from_json(value)?;
        // Which no data is needed to tell of.
        let parsed =
            if text.is_empty() { Err(ExpressionError::Empty) } else { Template::parse_kept(&text) };
        parsed.map(|_| Self(text)).map_err(|error| Faults::one("", error.to_string()))
    }
}

/// Body of `POST /tokens` (interface §4.1).
#[derive(Default, Deserialize, ToSchema)]
pub struct CreateToken {
    /// The id, or an expression over `data` that gives one; drawn when absent. An id has 3 to 400 characters, no control
    /// character, none of `# / \ + ? [ ] | & = % { } ^ "`, and no white space at its ends; it is not `search`, and does not
    /// begin with `token:`.
    #[schema(value_type = Option<String>, min_length = 3, max_length = 4096)]
    #[serde(default)]
    pub(super) id: Member<String>,
    /// The token type.
    #[schema(value_type = TokenType, required = true)]
    #[serde(default)]
    pub(super) r#type: Member<Text<TokenType>>,
    /// The sensitive value. A `card` has `number` and may have `expiration_month` (1 to 12), `expiration_year` (1000 to
    /// 9999) and `cvc`, a `bank` has `routing_number` and `account_number`; all but month and year are text. The other
    /// types are text, and a `token` is anything but `null`.
    #[schema(value_type = TokenData, required = true)]
    #[serde(default)]
    pub(super) data: Member<Value>,
    /// What callers with the transform `mask` see: text or any JSON with expressions over `data`. `null` means no
    /// mask; absent, the type's default. An expression over the `cvc` of a card shows nothing once that is erased: its
    /// member is left out, its item of an array is `null`, and the rest stays.
    #[schema(value_type = Option<Value>)]
    #[serde(default)]
    pub(super) mask: Member<Value>,
    /// Where the token lies; the type's default when absent.
    #[schema(value_type = Option<Vec<Container>>, min_items = 1, max_items = 20)]
    #[serde(default)]
    pub(super) containers: Member<Containers>,
    /// Non-sensitive notes.
    #[schema(value_type = Option<Metadata>)]
    #[serde(default)]
    pub(super) metadata: Member<Map<String, Value>>,
    /// Expressions over `data`, each to a value the token can be found by. They must not depend on
    /// what is erased, such as the `cvc` of a card, nor draw at random (`alias_…`) or tell the time (`now`).
    #[schema(value_type = Option<Vec<String>>, max_items = 20, min_length = 1)]
    #[serde(default)]
    pub(super) search_indexes: Member<Indexes>,
    /// Expression over `data` and `metadata` to the value that is fingerprinted. It must not depend
    /// on what is erased, such as the `cvc` of a card, nor draw at random (`alias_…`) or tell the time (`now`), and any but
    /// the type's default must not be empty. Numbers are compared as JSON has them: `100` is another one than `100.0`,
    /// which is the same as `1e2`. The number `5` comes to the same as the text `5`, and so to the same fingerprint, unless the
    /// expression tells them apart, as `{{ data | json_stringify }}` does.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    pub(super) fingerprint_expression: Member<String>,
    /// Whether the token is to be deduplicated: if the tenant has one of the same fingerprint, that one is answered with 200,
    /// as it is, and nothing of this request is stored, neither its `id`, `expires_at` and metadata nor what the fingerprint
    /// leaves out of the data, as it does the expiry and `cvc` of a card. What is to tell tokens apart belongs into
    /// `fingerprint_expression`.
    #[schema(value_type = Option<bool>)]
    #[serde(default)]
    pub(super) deduplicate_token: Member<bool>,
    /// When the token ends: RFC 3339, a date such as `2030-08-26`, `8/26/2030` or `8/26/2030 7:23:57 PM +00:00`.
    #[schema(value_type = Option<String>, pattern = "^[0-9]", example = "2030-08-26T19:23:57+00:00")]
    #[serde(default)]
    pub(super) expires_at: Member<String>,
}

opaque!(CreateToken);

/// A token to be made: everything about it is valid and evaluated, but for what the vault adds.
pub struct NewToken {
    pub(super) id: IdRule,
    pub(super) kind: TokenType,
    pub(super) data: Plaintext,
    pub(super) mask: Option<Value>,
    pub(super) containers: Vec<Container>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) search_indexes: Option<Vec<String>>,
    pub(super) indexed: Vec<Zeroizing<String>>,
    pub(super) fingerprint_expression: Option<String>,
    /// `None` only when a change leaves the fingerprint as it was.
    pub(super) fingerprinted: Option<Zeroizing<String>>,
    pub(super) deduplicate: Option<bool>,
    pub(super) expires_at: Option<Timestamp>,
}

/// How a token gets its id.
pub enum IdRule {
    /// The vault draws it.
    Drawn,
    /// The caller chose it.
    Literal(String),
    /// It is evaluated, perhaps to another value each time.
    Expression(Box<Template>),
}

impl CreateToken {
    /// A body of `type` and `data` alone.
    pub fn plain(data: Value) -> Self {
        Self {
            r#type: Member::Given(Text(TokenType::generic())),
            data: Member::Given(data),
            ..Self::default()
        }
    }

    /// Checks everything that does not depend on what is stored, but for the expressions. A body that a change makes of a
    /// token comes with that token as it was `before`.
    fn read(self, now: Timestamp, before: Option<&Token>) -> Result<Unevaluated, Faults> {
        let mut faults = Faults::new();
        let id = self.id.optional("id", &mut faults);
        let id = id.and_then(|text| read_id(text, &mut faults)).unwrap_or(IdRule::Drawn);
        let kind = self.r#type.required_text("type", &mut faults);
        // Without a type, all else that is wrong is found as on data of the one that takes any.
        let kind = kind.unwrap_or_else(TokenType::generic);
        let data = self.data.required("data", &mut faults);
        let containers = self.containers.optional("containers", &mut faults);
        let containers = containers.map(|given| read_places(given, before, &mut faults));
        let metadata = self.metadata.optional("metadata", &mut faults);
        let metadata = metadata.map(|members| read_metadata(members, &mut faults));
        let deduplicate = self.deduplicate_token.optional("deduplicate_token", &mut faults);
        let expires_at = self.expires_at.optional("expires_at", &mut faults);
        let expires_at = expires_at.and_then(|text| read_expiry(&text, now, &mut faults));
        let sources = self.search_indexes.optional("search_indexes", &mut faults);
        let sources = sources.map(|sources| sources.entries("search_indexes", &mut faults));
        let texts = |sources: Vec<Option<Source>>| {
            // Where there are too many, no more are evaluated than there may be.
            let sources = sources.into_iter().take(SEARCH_INDEXES_MAX);
            sources.map(|source| source.map(|Source(text)| text)).collect::<Vec<_>>()
        };
        let sources = sources.map(texts);
        let fingerprint_expression =
            self.fingerprint_expression.optional("fingerprint_expression", &mut faults);
        let Some(mut data) = data.filter(|data| are_data(kind, data, &mut faults)) else {
            // Expressions cannot be evaluated without data; but those that are none on any data are named with it.
            if let Some(mask) = self.mask.optional("mask", &mut faults) {
                faults.take("mask", Mask::parse(&mask));
            }
            if let Some(source) = &fingerprint_expression {
                faults.check("fingerprint_expression", Template::parse(source));
            }
            return Err(faults);
        };
        kind.normalize(&mut data);
        let mask = match self.mask {
            Member::Absent => kind.default_mask(&data),
            mask => mask.optional("mask", &mut faults),
        };
        let defaults = || {
            let sources = kind.default_search_indexes().iter();
            sources.map(|source| Some((*source).to_string())).collect()
        };
        Ok(Unevaluated {
            id,
            kind,
            mask,
            containers: containers.unwrap_or_else(|| vec![kind.default_container()]),
            search_indexes: sources.unwrap_or_else(defaults),
            fingerprint_expression,
            deduplicate,
            expires_at,
            metadata,
            data: Plaintext::new(data),
            faults,
        })
    }
}

fn read_id(text: String, faults: &mut Faults) -> Option<IdRule> {
    if crate::expression::is_expression(&text) {
        let template = faults.check("id", Template::parse(&text))?;
        return Some(IdRule::Expression(Box::new(template)));
    }
    faults.check("id", TokenId::from_str(&text))?;
    Some(IdRule::Literal(text))
}

/// Containers, each once; what a token lies in already may stay.
fn read_places(
    Few(texts): Containers,
    before: Option<&Token>,
    faults: &mut Faults,
) -> Vec<Container> {
    let before = before.map(|before| before.about.containers.as_slice());
    places(texts, before.unwrap_or_default(), faults)
}

pub(super) fn read_metadata(
    members: Map<String, Value>,
    faults: &mut Faults,
) -> BTreeMap<String, String> {
    if members.len() > METADATA_KEYS_MAX {
        faults.add("metadata", format!("must have at most {METADATA_KEYS_MAX} keys"));
    }
    let mut metadata = BTreeMap::new();
    // Where there are too many, more faults than of so many are not named.
    for (key, value) in members.into_iter().take(METADATA_KEYS_MAX.max(FAULTS_MAX)) {
        if let Some((end, _)) = key.char_indices().nth(METADATA_KEY_CHARS_MAX) {
            let most = format!("must have a key of at most {METADATA_KEY_CHARS_MAX} characters");
            faults.add(format!("metadata.{}…", &key[..end]), most);
            continue;
        }
        let path = format!("metadata.{key}");
        if key.is_empty() {
            faults.add(path, "must have a key");
            continue;
        }
        match String::from_json(value) {
            Err(inner) => faults.extend_under(&path, inner),
            Ok(text) if text.chars().count() > METADATA_VALUE_CHARS_MAX => {
                let message = format!("must have at most {METADATA_VALUE_CHARS_MAX} characters");
                faults.add(path, message);
            }
            Ok(text) => {
                metadata.insert(key, text);
            }
        }
    }
    metadata
}

pub(super) fn read_expiry(text: &str, now: Timestamp, faults: &mut Faults) -> Option<Timestamp> {
    let end = faults.check("expires_at", parse_expiry(text))?;
    if end <= now {
        faults.add("expires_at", "is in the past");
    }
    Some(end)
}

fn are_data(kind: TokenType, data: &Value, faults: &mut Faults) -> bool {
    if let Err(inner) = kind.validate(data) {
        faults.extend_under("data", inner);
    }
    if json_bytes(data) > TOKEN_DATA_BYTES_MAX {
        faults.add("data", format!("must have at most {TOKEN_DATA_BYTES_MAX} bytes as JSON"));
    }
    !faults.concern("data")
}
