//! The body of `POST /tokens`, checked.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::crypto::entropy::Entropy;
use crate::expression::{ExpressionError, Mask, Scope, Template};
use crate::limits::{
    CONTAINERS_MAX, JSON_DEPTH_MAX, METADATA_KEY_CHARS_MAX, METADATA_KEYS_MAX,
    METADATA_VALUE_CHARS_MAX, SEARCH_INDEXES_MAX, TOKEN_DATA_BYTES_MAX, TOKEN_MASK_BYTES_MAX,
};
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::member::{FromJson, Member, Text, is_within};
use crate::model::plaintext::Plaintext;
use crate::model::time::{Timestamp, parse_expiry};
use crate::token_type::TokenType;
use zeroize::Zeroizing;

/// Body of `POST /tokens` (interface §4.1).
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct CreateToken {
    /// The id, or an expression over `data` that gives one; drawn when absent.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    pub(super) id: Member<String>,
    /// The token type.
    #[schema(value_type = String, example = "card", required = true)]
    #[serde(default)]
    pub(super) r#type: Member<Text<TokenType>>,
    /// The sensitive value.
    #[schema(value_type = Value, example = json!({"number": "4242424242424242"}), required = true)]
    #[serde(default)]
    pub(super) data: Member<Value>,
    /// What callers with the transform `mask` see: text or any JSON with expressions over `data`. `null` means no
    /// mask; absent, the type's default.
    #[schema(value_type = Option<Value>, example = "{{ data | reveal_last: 4 }}")]
    #[serde(default)]
    pub(super) mask: Member<Value>,
    /// Where the token lies; the type's default when absent.
    #[schema(value_type = Option<Vec<String>>, example = json!(["/pci/high/"]))]
    #[serde(default)]
    pub(super) containers: Member<Vec<Text<Container>>>,
    /// Non-sensitive notes.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    #[serde(default)]
    pub(super) metadata: Member<Map<String, Value>>,
    /// Expressions over `data`, each to a value the token can be found by.
    #[schema(value_type = Option<Vec<String>>)]
    #[serde(default)]
    pub(super) search_indexes: Member<Vec<String>>,
    /// Expression over `data` and `metadata` to the value that is fingerprinted.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    pub(super) fingerprint_expression: Member<String>,
    /// Whether the token is to be deduplicated.
    #[schema(value_type = Option<bool>)]
    #[serde(default)]
    pub(super) deduplicate_token: Member<bool>,
    /// When the token ends.
    #[schema(value_type = Option<String>, example = "2030-08-26T19:23:57+00:00")]
    #[serde(default)]
    pub(super) expires_at: Member<String>,
}

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
    pub(super) fingerprinted: Zeroizing<String>,
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

    /// Checks everything that does not depend on what is stored, and finds all that is wrong.
    pub(in crate::vault) fn check(
        self,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Result<NewToken, Faults> {
        let mut faults = Faults::new();
        let id = self.id.optional("id", &mut faults);
        let id = id.and_then(|text| read_id(text, &mut faults)).unwrap_or(IdRule::Drawn);
        let kind = self.r#type.required_text("type", &mut faults);
        let data = self.data.required("data", &mut faults);
        let containers = self.containers.optional("containers", &mut faults);
        let containers = containers.map(|texts| read_containers(texts, &mut faults));
        let metadata = self.metadata.optional("metadata", &mut faults);
        let metadata = metadata.map(|members| read_metadata(members, &mut faults));
        let deduplicate = self.deduplicate_token.optional("deduplicate_token", &mut faults);
        let expires_at = self.expires_at.optional("expires_at", &mut faults);
        let expires_at = expires_at.and_then(|text| read_expiry(&text, now, &mut faults));
        let sources = self.search_indexes.optional("search_indexes", &mut faults);
        let fingerprint_expression =
            self.fingerprint_expression.optional("fingerprint_expression", &mut faults);
        let (Some(kind), Some(data)) = (kind, data) else { return Err(faults) };
        check_data(kind, &data, &mut faults);
        if faults.concern("data") {
            return Err(faults);
        }
        let scope = Scope { data: &data, metadata: metadata.as_ref(), entropy };
        let mask = match self.mask {
            Member::Absent => kind.default_mask(&data),
            mask => mask.optional("mask", &mut faults),
        };
        if let Some(mask) = &mask {
            check_mask(mask, &scope, &mut faults);
        }
        let source = fingerprint_expression.as_deref();
        let source = source.unwrap_or_else(|| kind.default_fingerprint_expression());
        let fingerprinted = evaluate_fingerprint(source, &scope, &mut faults);
        let defaults = || kind.default_search_indexes().iter().map(ToString::to_string).collect();
        let sources = sources.unwrap_or_else(defaults);
        let indexed = evaluate_indexes(&sources, &scope, &mut faults);
        let containers = containers.unwrap_or_else(|| vec![kind.default_container()]);
        let new = NewToken {
            id,
            kind,
            mask,
            containers,
            search_indexes: Some(sources).filter(|sources| !sources.is_empty()),
            indexed,
            fingerprint_expression,
            fingerprinted: fingerprinted.unwrap_or_default(),
            deduplicate,
            expires_at,
            metadata,
            data: Plaintext::new(data),
        };
        faults.into_result(new)
    }
}

fn read_id(text: String, faults: &mut Faults) -> Option<IdRule> {
    if crate::expression::is_expression(&text) {
        let template = faults.check("id", Template::parse(&text))?;
        return Some(IdRule::Expression(Box::new(template)));
    }
    faults.check("id", crate::model::id::TokenId::from_str(&text))?;
    Some(IdRule::Literal(text))
}

fn read_containers(texts: Vec<Text<Container>>, faults: &mut Faults) -> Vec<Container> {
    if texts.is_empty() || texts.len() > CONTAINERS_MAX {
        faults.add("containers", format!("must be 1 to {CONTAINERS_MAX} containers"));
    }
    let mut containers = Vec::with_capacity(texts.len().min(CONTAINERS_MAX));
    for Text(container) in texts {
        if !containers.contains(&container) {
            containers.push(container);
        }
    }
    containers
}

fn read_metadata(members: Map<String, Value>, faults: &mut Faults) -> BTreeMap<String, String> {
    if members.len() > METADATA_KEYS_MAX {
        faults.add("metadata", format!("must have at most {METADATA_KEYS_MAX} keys"));
        return BTreeMap::new();
    }
    let mut metadata = BTreeMap::new();
    for (key, value) in members {
        if key.is_empty() || key.chars().count() > METADATA_KEY_CHARS_MAX {
            let range = format!("must have keys of 1 to {METADATA_KEY_CHARS_MAX} characters");
            faults.add("metadata", range);
            continue;
        }
        let path = format!("metadata.{key}");
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

fn read_expiry(text: &str, now: Timestamp, faults: &mut Faults) -> Option<Timestamp> {
    let end = faults.check("expires_at", parse_expiry(text))?;
    if end <= now {
        faults.add("expires_at", "is in the past");
    }
    Some(end)
}

fn check_data(kind: TokenType, data: &Value, faults: &mut Faults) {
    if let Err(inner) = kind.validate(data) {
        faults.extend_under("data", inner);
    }
    if json_bytes(data) > TOKEN_DATA_BYTES_MAX {
        faults.add("data", format!("must have at most {TOKEN_DATA_BYTES_MAX} bytes as JSON"));
    }
    check_depth("data", data, faults);
}

fn check_mask(mask: &Value, scope: &Scope<'_>, faults: &mut Faults) {
    if json_bytes(mask) > TOKEN_MASK_BYTES_MAX {
        faults.add("mask", format!("must have at most {TOKEN_MASK_BYTES_MAX} bytes as JSON"));
        return;
    }
    if !check_depth("mask", mask, faults) {
        return;
    }
    let evaluated = Mask::parse(mask).and_then(|mask| mask.evaluate(scope.data, scope.entropy));
    if let Err(inner) = evaluated {
        faults.extend_under("mask", inner);
    }
}

/// What is stored lies deeper than it did in its body: without a bound of our own, the parser could read the one and
/// not the other.
fn check_depth(path: &str, value: &Value, faults: &mut Faults) -> bool {
    let within = is_within(value, JSON_DEPTH_MAX);
    if !within {
        faults.add(path, format!("must not be nested more than {JSON_DEPTH_MAX} levels deep"));
    }
    within
}

fn evaluate_fingerprint(
    source: &str,
    scope: &Scope<'_>,
    faults: &mut Faults,
) -> Option<Zeroizing<String>> {
    let evaluated = Template::parse_kept(source).and_then(|template| template.evaluate_text(scope));
    faults.check("fingerprint_expression", evaluated).map(Zeroizing::new)
}

fn evaluate_indexes(
    sources: &[String],
    scope: &Scope<'_>,
    faults: &mut Faults,
) -> Vec<Zeroizing<String>> {
    if sources.len() > SEARCH_INDEXES_MAX {
        faults.add("search_indexes", format!("must be at most {SEARCH_INDEXES_MAX}"));
        return Vec::new();
    }
    let evaluate = |source: &String| -> Result<String, ExpressionError> {
        Template::parse_kept(source)?.evaluate_index(scope)
    };
    let mut values = Vec::with_capacity(sources.len());
    for (index, source) in sources.iter().enumerate() {
        let value = faults.check(&format!("search_indexes[{index}]"), evaluate(source));
        values.extend(value.map(Zeroizing::new));
    }
    values
}

/// Bytes of a value as JSON, counted without writing them anywhere.
fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);

    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    // A value always serialises; if it did not, it would be too large.
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::CreateToken;
    use crate::crypto::entropy::SeededEntropy;
    use crate::limits::JSON_DEPTH_MAX;
    use crate::model::member;
    use crate::model::time::Timestamp;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn data_and_masks_are_no_deeper_than_the_store_reads() {
        let faults = |data: Value, mask: Value| {
            let body = json!({"type": "token", "data": data, "mask": mask});
            let body: CreateToken = member::read(body).unwrap();
            let checked = body.check(Timestamp(0), &SeededEntropy::new(1));
            checked.err().map(|faults| faults.into_map().into_keys().collect::<Vec<_>>())
        };
        let (deep, too_deep) = (nested(JSON_DEPTH_MAX), nested(JSON_DEPTH_MAX + 1));
        assert_eq!(faults(deep.clone(), deep.clone()), None);
        assert_eq!(faults(too_deep.clone(), json!(1)), Some(vec!["data".to_owned()]));
        assert_eq!(faults(deep, too_deep), Some(vec!["mask".to_owned()]));
    }
}
