//! Tokens as they are sealed ([`super::super::short`]): a list reads twenty, a run each that it is given.
//!
//! `data` follows the rest as JSON, to the end of the text. A blank before it tells that the token has been moved: it means
//! nothing to JSON, so that versions that know nothing of it read the token all the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{About, Token};
use crate::crypto::wiped::Wiped;
use crate::model::audit::Audit;
use crate::model::container::Container;
use crate::model::id::TenantId;
use crate::model::plaintext::Plaintext;
use crate::model::time::Timestamp;
use crate::vault::record::{from_json_text, json_text};
use crate::vault::short::Id;
use crate::vault::{Error, short};

/// Room that is enough for most tokens.
const USUAL_BYTES: usize = 512;

/// What stands before the data of a token that has been moved.
const MOVED: &[u8] = b" ";

/// A token but its `data` in short.
#[derive(Serialize, Deserialize)]
struct Short<'a> {
    #[serde(borrow)]
    id: Id<'a>,
    tenant_id: Uuid,
    type_name: &'a str,
    /// As JSON.
    mask: Option<&'a str>,
    fingerprint: &'a str,
    containers: Vec<&'a str>,
    metadata: Option<Vec<(&'a str, &'a str)>>,
    search_indexes: Option<Vec<&'a str>>,
    fingerprint_expression: Option<&'a str>,
    deduplicate_token: Option<bool>,
    expires_ms: Option<u64>,
    transient_until_ms: Option<u64>,
    created_by: Option<Uuid>,
    created_ms: u64,
    modified_by: Option<Uuid>,
    modified_ms: Option<u64>,
}

/// A token as it was JSON.
#[derive(Deserialize)]
struct Long {
    about: About,
    data: Value,
}

/// Writes a token in short.
pub fn write(token: &Token) -> Result<Wiped, Error> {
    let About { id, tenant_id, type_name, mask, fingerprint, containers, .. } = &token.about;
    let About { metadata, search_indexes, fingerprint_expression, audit, .. } = &token.about;
    let mask = mask.as_ref().map(json_text).transpose()?;
    let mask = mask.as_deref().map(str::from_utf8).transpose().map_err(Error::internal)?;
    let ms = |time: Option<Timestamp>| time.map(|time| time.0);
    let short = Short {
        id: Id::of(id),
        tenant_id: tenant_id.0,
        type_name,
        mask,
        fingerprint,
        containers: containers.iter().map(Container::as_str).collect(),
        metadata: metadata
            .as_ref()
            .map(|pairs| pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()),
        search_indexes: search_indexes
            .as_ref()
            .map(|indexes| indexes.iter().map(String::as_str).collect()),
        fingerprint_expression: fingerprint_expression.as_deref(),
        deduplicate_token: token.about.deduplicate_token,
        expires_ms: ms(token.about.expires_at),
        transient_until_ms: ms(token.about.transient_until),
        created_by: audit.created_by,
        created_ms: audit.created_at.0,
        modified_by: audit.modified_by,
        modified_ms: ms(audit.modified_at),
    };
    let mut text = short::write(&short, USUAL_BYTES)?;
    if token.about.moved {
        text.extend(MOVED);
    }
    serde_json::to_writer(&mut text, token.data.expose()).map_err(Error::internal)?;
    Ok(text.into_bytes())
}

/// Reads a token, in short or in JSON.
pub fn read(text: &[u8]) -> Result<Token, Error> {
    let Some((short, data)) = short::begin::<Short<'_>>(text)? else {
        let Long { about, data } = from_json_text(text)?;
        return Ok(Token { about, data: Plaintext::new(data), indexed: Vec::new(), erased: false });
    };
    let moved = data.starts_with(MOVED);
    let data = Plaintext::new(from_json_text(data)?);
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let pairs = |pairs: Vec<_>| pairs.into_iter().map(pair).collect::<BTreeMap<_, _>>();
    let containers = short.containers.into_iter().map(|path| path.parse().map_err(Error::internal));
    let about = About {
        id: short.id.to_text().into_owned(),
        tenant_id: TenantId(short.tenant_id),
        type_name: short.type_name.to_owned(),
        mask: short.mask.map(|mask| from_json_text(mask.as_bytes())).transpose()?,
        fingerprint: short.fingerprint.to_owned(),
        containers: containers.collect::<Result<_, _>>()?,
        metadata: short.metadata.map(pairs),
        search_indexes: short.search_indexes.map(owned),
        fingerprint_expression: short.fingerprint_expression.map(str::to_owned),
        deduplicate_token: short.deduplicate_token,
        expires_at: short.expires_ms.map(Timestamp),
        transient_until: short.transient_until_ms.map(Timestamp),
        moved,
        audit: Audit {
            created_by: short.created_by,
            created_at: Timestamp(short.created_ms),
            modified_by: short.modified_by,
            modified_at: short.modified_ms.map(Timestamp),
        },
    };
    Ok(Token { about, data, indexed: Vec::new(), erased: false })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::{json_text, read, write};
    use crate::model::audit::Audit;
    use crate::model::id::TenantId;
    use crate::model::plaintext::Plaintext;
    use crate::model::time::Timestamp;
    use crate::vault::tokens::{About, Token};

    fn data() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((".{0,8}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn ids() -> impl Strategy<Value = String> {
        let drawn = any::<u128>().prop_map(|id| Uuid::from_u128(id).to_string());
        prop_oneof![drawn, "[A-Za-z0-9_-]{3,100}"]
    }

    prop_compose! {
        fn abouts()(
            (id, type_name, fingerprint) in (ids(), "[a-z_]{1,20}", "[A-Za-z0-9]{0,44}"),
            (mask, expression) in (prop::option::of(data()), prop::option::of(".{0,40}")),
            containers in prop::collection::vec("(/[a-z0-9_-]{1,8}){1,4}/", 0..4),
            metadata in prop::option::of(prop::collection::btree_map(".{0,10}", ".{0,20}", 0..4)),
            indexes in prop::option::of(prop::collection::vec(".{0,20}", 0..3)),
            times in any::<(Option<u64>, Option<u64>, u64, Option<u64>)>(),
            (tenant, by, changed_by, deduplicate_token)
                in any::<(u128, Option<u128>, Option<u128>, Option<bool>)>(),
        ) -> About {
            // As far as a time can be written as JSON.
            let time = |ms: u64| Timestamp(ms % (1 << 47));
            About {
                id,
                tenant_id: TenantId(Uuid::from_u128(tenant)),
                type_name,
                // JSON's null is no mask.
                mask: mask.filter(|mask| !mask.is_null()),
                fingerprint,
                containers: containers.iter().map(|path| path.parse().unwrap()).collect(),
                metadata,
                search_indexes: indexes,
                fingerprint_expression: expression,
                deduplicate_token,
                expires_at: times.0.map(time),
                transient_until: times.1.map(time),
                moved: false,
                audit: Audit {
                    created_by: by.map(Uuid::from_u128),
                    created_at: time(times.2),
                    modified_by: changed_by.map(Uuid::from_u128),
                    modified_at: times.3.map(time),
                },
            }
        }
    }

    /// All of a token as JSON, as it was sealed before.
    fn long(token: &Token) -> Value {
        json!({"about": serde_json::to_value(&token.about).unwrap(), "data": token.data.expose()})
    }

    proptest! {
        #[test]
        fn a_token_comes_back_from_either_format(
            (about, data) in (abouts(), data()),
            moved in any::<bool>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let about = About { moved, ..about };
            let kept = Token { about, data: Plaintext::new(data), indexed: Vec::new(), erased: false };
            let short = write(&kept).unwrap();
            let back = read(&short).unwrap();
            prop_assert_eq!((long(&back), back.about.moved), (long(&kept), moved));
            let json = json_text(&long(&kept)).unwrap();
            prop_assert_eq!(long(&read(&json).unwrap()), long(&kept));
            prop_assert!(short.len() < json.len());
            // What is cut off is no token, unless it ends with a number that is one without its last digits.
            let read_short = read(&short[..cut.index(short.len())]);
            prop_assert!(read_short.is_err() || kept.data.expose().is_number());
            prop_assert!(read(&[short.as_slice(), b"x"].concat()).is_err());
        }
    }

    #[test]
    fn the_layout_stays() {
        let about = About {
            id: Uuid::from_u128(1).to_string(),
            tenant_id: TenantId(Uuid::from_u128(2)),
            type_name: "card".to_owned(),
            mask: Some(json!({"m": 1})),
            fingerprint: "F".to_owned(),
            containers: vec!["/a/".parse().unwrap(), "/b/c/".parse().unwrap()],
            metadata: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
            search_indexes: Some(vec!["{{ data }}".to_owned()]),
            fingerprint_expression: Some("{{ id }}".to_owned()),
            deduplicate_token: Some(true),
            expires_at: Some(Timestamp(300)),
            transient_until: Some(Timestamp(7)),
            moved: false,
            audit: Audit {
                created_by: Some(Uuid::from_u128(3)),
                created_at: Timestamp(8),
                modified_by: Some(Uuid::from_u128(4)),
                modified_at: Some(Timestamp(9)),
            },
        };
        let mut token = Token {
            about,
            data: Plaintext::new(json!({"n": 2})),
            indexed: Vec::new(),
            erased: false,
        };
        let id = |last: u8| [[16].as_slice(), &[0; 15], &[last]].concat();
        let expected = [
            [1, 0].as_slice(),
            &id(1),
            &id(2),
            b"\x04card\x01\x07{\"m\":1}\x01F\x02\x03/a/\x05/b/c/\x01\x01\x01k\x01v",
            b"\x01\x01\x0a{{ data }}\x01\x08{{ id }}\x01\x01",
            // 300 as a varint.
            &[1, 0xac, 0x02, 1, 7, 1],
            &id(3),
            &[8, 1],
            &id(4),
            b"\x01\x09{\"n\":2}",
        ];
        assert_eq!(*write(&token).unwrap(), expected.concat());
        token.about = About {
            id: "my-card".to_owned(),
            mask: None,
            containers: Vec::new(),
            metadata: None,
            search_indexes: None,
            fingerprint_expression: None,
            deduplicate_token: None,
            expires_at: None,
            transient_until: None,
            moved: true,
            audit: Audit::created(None, Timestamp(8)),
            ..token.about
        };
        let least = [
            b"\x01\x01\x07my-card".as_slice(),
            &id(2),
            b"\x04card\0\x01F\0\0\0\0\0\0\0\0\x08\0\0 {\"n\":2}",
        ];
        assert_eq!(*write(&token).unwrap(), least.concat());
    }
}
