//! Log entries as they are sealed ([`super::super::short`]): every request writes one, and a list one for each token that it
//! shows.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{KeptEntry, LogEntry};
use crate::crypto::wiped::Wiped;
use crate::model::id::TenantId;
use crate::model::log::{ActorType, Operation};
use crate::model::time::Timestamp;
use crate::vault::record::from_json_text;
use crate::vault::short::Id;
use crate::vault::{Error, short};

/// Room that is enough for most entries.
const USUAL_BYTES: usize = 192;

/// An entry in short.
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

/// Writes an entry in short.
pub fn write(kept: &KeptEntry) -> Result<Wiped, Error> {
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
    let mut text = short::write(&short, USUAL_BYTES)?;
    if let Some(trace_id) = &entry.trace_id {
        text = short::go_on(text, &Id::of(trace_id))?;
    }
    Ok(text.into_bytes())
}

/// Reads an entry, in short or in JSON.
pub fn read(text: &[u8]) -> Result<KeptEntry, Error> {
    let Some((short, behind)) = short::begin::<Short<'_>>(text)? else {
        let (id, entry) = from_json_text(text)?;
        return Ok(KeptEntry { id, entry });
    };
    // Nothing is there of what no request led to, and before it was kept.
    let trace_id = short::end::<Id<'_>>(behind)?;
    let actor_type = Some(short.actor_type).filter(|name| !name.is_empty());
    let actor_type = actor_type.map(short::named::<ActorType>).transpose()?;
    let entry = LogEntry {
        tenant_id: TenantId(short.tenant_id),
        actor_id: short.actor_id,
        actor_type,
        entity_type: short.entity_type.parse().map_err(Error::internal)?,
        entity_id: short.entity_id.to_text().into_owned(),
        operation: short::named::<Operation>(short.operation)?,
        message: short.message.to_owned(),
        created_at: Timestamp(short.created_ms),
        trace_id: trace_id.map(|id| id.to_text().into_owned()),
    };
    Ok(KeptEntry { id: short.id, entry })
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
    use crate::vault::short::assert_comes_back;

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
        let texts = (ids(), ".{0,80}", prop::option::of(ids()));
        (any::<(u128, u128, Option<u128>, u64)>(), names, texts).prop_map(
            |(
                (id, tenant, actor, ms),
                (entity_type, operation, actor_type),
                (entity_id, message, trace_id),
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
                    trace_id,
                };
                KeptEntry { id: Uuid::from_u128(id), entry }
            },
        )
    }

    proptest! {
        #[test]
        fn an_entry_comes_back_from_either_format(kept in entries(), cut in any::<prop::sample::Index>()) {
            let short = write(&kept).unwrap();
            let json = json_text(&(kept.id, &kept.entry)).unwrap();
            let untraced = LogEntry { trace_id: None, ..kept.entry.clone() };
            let without = KeptEntry { id: kept.id, entry: untraced };
            assert_comes_back(&kept, [&short, &json], (cut.index(short.len()), &without), read);
            let entry = &kept.entry;
            let texts = [Some(&entry.message), Some(&entry.entity_id), entry.trace_id.as_ref()];
            let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
            prop_assert!(short.len() < json.len() / 2 + texts);
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
            trace_id: None,
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
        let untraced = expected.concat();
        assert_eq!(*write(&kept).unwrap(), untraced);
        // Drawn, and as the caller gave it.
        let drawn = Uuid::from_u128(5).simple().to_string();
        for (trace_id, written) in [
            (drawn.as_str(), [b"\x02\x10".as_slice(), &id(5)].concat()),
            ("a", b"\x01\x01a".into()),
        ] {
            let entry = LogEntry { trace_id: Some(trace_id.to_owned()), ..kept.entry.clone() };
            let traced = KeptEntry { id: kept.id, entry };
            assert_eq!(*write(&traced).unwrap(), [untraced.as_slice(), &written].concat());
        }
        let named = LogEntry { entity_id: "my-card".to_owned(), actor_id: None, ..kept.entry };
        let text = write(&KeptEntry { id: kept.id, entry: named }).unwrap();
        let end = b"\x0bapplication\x0freactor_formula\x01\x07my-card\x06invoke\x04Said";
        assert!(text.ends_with(&[[0].as_slice(), end].concat()));
    }
}
