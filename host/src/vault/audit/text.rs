//! Log entries as they are sealed: short, since every request writes one, and a list one for each token that it shows.
//!
//! A byte for the format, then [`Short`] in postcard's wire format: ids as their 16 bytes, names as the log shows them, so
//! that no name ever stands for another one. Before this format entries were JSON, which never begins with that byte; they
//! are read as they were.

use std::borrow::Cow;

use serde::de::IntoDeserializer as _;
use serde::de::value::Error as NameError;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{KeptEntry, LogEntry};
use crate::model::id::TenantId;
use crate::model::log::{ActorType, Operation};
use crate::model::time::Timestamp;
use crate::vault::Error;
use crate::vault::record::from_json_text;

/// What an entry begins with that is no JSON.
const FORMAT: u8 = 1;
/// Room that is enough for most entries.
const USUAL_BYTES: usize = 160;

/// An entry in short. Members are in this order for good: nothing in the text names them.
#[derive(Serialize, Deserialize)]
struct Short<'a> {
    id: Uuid,
    tenant_id: Uuid,
    created_ms: u64,
    actor_id: Option<Uuid>,
    /// The name; empty when it is not known.
    actor_type: &'a str,
    entity_type: &'a str,
    #[serde(borrow)]
    entity_id: Id<'a>,
    operation: &'a str,
    message: &'a str,
}

/// An id of anything. Most are drawn.
#[derive(Serialize, Deserialize)]
enum Id<'a> {
    Drawn(Uuid),
    Named(&'a str),
}

impl<'a> Id<'a> {
    fn of(text: &'a str) -> Self {
        // Braces and capitals are read as well, but would not come back.
        let drawn = Uuid::try_parse(text).ok();
        let comes_back =
            |id: &Uuid| *id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        drawn.filter(comes_back).map_or(Self::Named(text), Self::Drawn)
    }

    fn to_text(&self) -> Cow<'a, str> {
        match self {
            Self::Drawn(id) => Cow::Owned(id.to_string()),
            Self::Named(text) => Cow::Borrowed(text),
        }
    }
}

/// Writes an entry in short.
pub fn write(kept: &KeptEntry) -> Result<Vec<u8>, Error> {
    let KeptEntry { id, entry } = kept;
    let short = Short {
        id: *id,
        tenant_id: entry.tenant_id.0,
        created_ms: entry.created_at.0,
        actor_id: entry.actor_id,
        actor_type: entry.actor_type.map_or("", ActorType::as_str),
        entity_type: entry.entity_type.as_str(),
        entity_id: Id::of(&entry.entity_id),
        operation: entry.operation.as_str(),
        message: &entry.message,
    };
    let mut text = Vec::with_capacity(USUAL_BYTES);
    text.push(FORMAT);
    postcard::to_extend(&short, text).map_err(Error::internal)
}

/// Reads an entry, in short or in JSON.
pub fn read(text: &[u8]) -> Result<KeptEntry, Error> {
    let Some((&FORMAT, short)) = text.split_first() else {
        let (id, entry) = from_json_text(text)?;
        return Ok(KeptEntry { id, entry });
    };
    let (short, rest) = postcard::take_from_bytes::<Short<'_>>(short).map_err(Error::internal)?;
    if !rest.is_empty() {
        return Err(Error::internal("a log entry goes on behind its end"));
    }
    let actor_type = Some(short.actor_type).filter(|name| !name.is_empty());
    let actor_type = actor_type.map(named::<ActorType>).transpose()?;
    let entry = LogEntry {
        tenant_id: TenantId(short.tenant_id),
        actor_id: short.actor_id,
        actor_type,
        entity_type: short.entity_type.parse().map_err(Error::internal)?,
        entity_id: short.entity_id.to_text().into_owned(),
        operation: named::<Operation>(short.operation)?,
        message: short.message.to_owned(),
        created_at: Timestamp(short.created_ms),
    };
    Ok(KeptEntry { id: short.id, entry })
}

/// What has this name in JSON too.
fn named<'n, T: Deserialize<'n>>(name: &'n str) -> Result<T, Error> {
    T::deserialize(name.into_deserializer()).map_err(|error: NameError| Error::internal(error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{read, write};
    use crate::model::id::TenantId;
    use crate::model::log::{ActorType, EntityType, Operation};
    use crate::model::time::Timestamp;
    use crate::vault::audit::{KeptEntry, LogEntry};
    use crate::vault::record::json_text;

    const OPERATIONS: [Operation; 6] = [
        Operation::Create,
        Operation::Read,
        Operation::Update,
        Operation::Delete,
        Operation::Use,
        Operation::Invoke,
    ];
    const ACTORS: [Option<ActorType>; 4] =
        [None, Some(ActorType::User), Some(ActorType::Application), Some(ActorType::Session)];

    /// Ids as they are drawn, almost as they are drawn, and as people give them.
    fn ids() -> impl Strategy<Value = String> {
        let id = any::<u128>().prop_map(Uuid::from_u128);
        prop_oneof![
            id.clone().prop_map(|id| id.to_string()),
            id.clone().prop_map(|id| id.to_string().to_uppercase()),
            id.prop_map(|id| id.simple().to_string()),
            ".{0,200}",
        ]
    }

    fn entries() -> impl Strategy<Value = KeptEntry> {
        let names = (
            prop::sample::select(EntityType::ALL),
            prop::sample::select(&OPERATIONS[..]),
            prop::sample::select(&ACTORS[..]),
        );
        let texts = (ids(), ".{0,80}");
        (any::<(u128, u128, Option<u128>, u64)>(), names, texts).prop_map(
            |(
                (id, tenant, actor, ms),
                (entity_type, operation, actor_type),
                (entity_id, message),
            )| {
                let entry = LogEntry {
                    tenant_id: TenantId(Uuid::from_u128(tenant)),
                    actor_id: actor.map(Uuid::from_u128),
                    actor_type,
                    entity_type,
                    entity_id,
                    operation,
                    message,
                    // As far as a time can be written as JSON.
                    created_at: Timestamp(ms % (1 << 47)),
                };
                KeptEntry { id: Uuid::from_u128(id), entry }
            },
        )
    }

    proptest! {
        #[test]
        fn an_entry_comes_back_from_either_format(kept in entries(), cut in any::<prop::sample::Index>()) {
            let short = write(&kept).unwrap();
            prop_assert_eq!(&read(&short).unwrap(), &kept);
            let json = json_text(&(kept.id, &kept.entry)).unwrap();
            prop_assert_eq!(&read(&json).unwrap(), &kept);
            prop_assert!(short.len() < json.len() / 2 + kept.entry.message.len() + kept.entry.entity_id.len());
            // What is cut off, or goes on, is no entry.
            prop_assert!(read(&short[..cut.index(short.len())]).is_err());
            prop_assert!(read(&[short.as_slice(), b"x"].concat()).is_err());
        }
    }

    #[test]
    fn the_layout_stays() {
        let entry = LogEntry {
            tenant_id: TenantId(Uuid::from_u128(2)),
            actor_id: Some(Uuid::from_u128(3)),
            actor_type: Some(ActorType::Application),
            entity_type: EntityType::ReactorFormula,
            entity_id: Uuid::from_u128(4).to_string(),
            operation: Operation::Invoke,
            message: "Said".to_owned(),
            created_at: Timestamp(300),
        };
        let id = |last: u8| [[0; 15].as_slice(), &[last]].concat();
        let expected = [
            [1, 16].as_slice(),
            &id(1),
            &[16],
            &id(2),
            // 300 as a varint.
            &[0xac, 0x02, 1, 16],
            &id(3),
            b"\x0bapplication\x0freactor_formula\x00\x10",
            &id(4),
            b"\x06invoke\x04Said",
        ];
        let kept = KeptEntry { id: Uuid::from_u128(1), entry };
        assert_eq!(write(&kept).unwrap(), expected.concat());
        let named = LogEntry { entity_id: "my-card".to_owned(), actor_id: None, ..kept.entry };
        let text = write(&KeptEntry { id: kept.id, entry: named }).unwrap();
        let end = b"\x0bapplication\x0freactor_formula\x01\x07my-card\x06invoke\x04Said";
        assert!(text.ends_with(&[[0].as_slice(), end].concat()));
    }
}
