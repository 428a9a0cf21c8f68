//! Entities as records of the store: sealing, terms, and the table of kinds.
//!
//! An [`Entity`] says which kind it is, how it is indexed, and how it is written; this module seals it, opens it and
//! puts it into batches. The store below sees opaque bytes; the entities above see no key.
//!
//! To keep a new kind of entity: a row in [`kind`], and an `impl Entity`.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::{Builder, Uuid};
use zeroize::Zeroizing;

use super::Error;
use super::index::Index;
use super::shares;
use crate::crypto::entropy::Entropy;
use crate::crypto::keys::TenantKeys;
use crate::crypto::seal::{self, Place};
use crate::crypto::wiped::{Wiped, WipedBuffer};
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::model::weight;
use crate::store::{Kind, Record};

/// The kinds of records. A number, once given, is never given to another kind.
pub mod kind {
    use super::Kind;

    /// Keys of the whole vault.
    pub const SYSTEM: Kind = Kind(0);
    /// Tenants.
    pub const TENANT: Kind = Kind(1);
    /// Keys of a tenant.
    pub const TENANT_KEYS: Kind = Kind(2);
    /// Applications.
    pub const APPLICATION: Kind = Kind(3);
    /// Tokens.
    pub const TOKEN: Kind = Kind(4);
    /// Formulas.
    pub const FORMULA: Kind = Kind(5);
    /// Components of formulas.
    pub const COMPONENT: Kind = Kind(6);
    /// Reactors.
    pub const REACTOR: Kind = Kind(7);
    /// Invocations.
    pub const INVOCATION: Kind = Kind(8);
    /// Log entries.
    pub const LOG: Kind = Kind(9);
    /// Sessions.
    pub const SESSION: Kind = Kind(10);
    /// Answers kept for idempotency keys.
    pub const ANSWER: Kind = Kind(11);
    /// Asynchronous runs.
    pub const JOB: Kind = Kind(12);
    /// Deliveries of their results.
    pub const DELIVERY: Kind = Kind(13);
    /// Secrets that webhooks are signed with.
    pub const SIGNING_SECRETS: Kind = Kind(14);
    /// Where tokens lay that are gone.
    pub const LAST_PLACE: Kind = Kind(15);
    /// How far a tenant's records are sealed anew.
    pub const RESEALING: Kind = Kind(20);
    /// Tenants whose keys were destroyed and whose records go.
    pub const ERASED: Kind = Kind(21);
    /// The time of day when it was believed last.
    pub const BELIEVED_TIME: Kind = Kind(22);

    /// How many records of a kind are read at once, where it may be so many of most: the largest of some take tens of MiB.
    pub fn some_at_once(kind: Kind, most: usize) -> usize {
        match kind {
            COMPONENT => 1,
            JOB | ANSWER | SESSION => most.div_ceil(16),
            // A token of a MiB is rare, and so is an application with a hundred long rules.
            TOKEN | APPLICATION => most.div_ceil(4),
            _ => most,
        }
    }
}

/// Something kept, sealed with its tenant's keys.
pub trait Entity: Sized + Send {
    /// The kind of record.
    const KIND: Kind;
    /// What a message calls it.
    const NOUN: &'static str;

    /// Its id within tenant and kind.
    fn id(&self) -> String;

    /// When it was made, in milliseconds since the Unix epoch: lists show the newest first.
    fn created_ms(&self) -> u64;

    /// When it ends by itself, in milliseconds since the Unix epoch.
    fn expires_ms(&self) -> Option<u64> {
        None
    }

    /// About how many bytes one with this text takes, as it is read and as it is shown: JSON, most often.
    fn weight(text: &[u8]) -> usize {
        2 * weight::of_json(text)
    }

    /// What it can be found by, beside its id and time.
    fn index(&self, _: &mut Index<'_>) {}

    /// Lets go of what must not be seen any longer at this time.
    fn settle(&mut self, _now_ms: u64) {}

    /// The text to seal.
    fn to_text(&self) -> Result<Wiped, Error>;

    /// Reads what [`Self::to_text`] wrote.
    fn from_text(text: &[u8]) -> Result<Self, Error>;
}

/// JSON text of an entity, left nowhere else in memory.
pub fn json_text(entity: &impl Serialize) -> Result<Wiped, Error> {
    let mut text = WipedBuffer::default();
    serde_json::to_writer(&mut text, entity).map_err(Error::internal)?;
    Ok(text.into_bytes())
}

/// JSON text to be handed on, left nowhere else in memory.
pub fn json_string(value: &impl Serialize) -> Result<Zeroizing<String>, Error> {
    let mut text = WipedBuffer::default();
    serde_json::to_writer(&mut text, value).map_err(Error::internal)?;
    text.into_text().map_err(Error::internal)
}

/// Reads what [`json_text`] wrote.
pub fn from_json_text<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(Error::internal)
}

/// An entity with the version it was read at.
#[derive(Debug, Clone)]
pub struct Stored<E> {
    /// The entity.
    pub entity: E,
    /// What an update must find unchanged.
    pub version: u64,
}

/// Seals an entity for the store.
pub fn to_record<E: Entity>(
    entity: &E,
    tenant: TenantId,
    keys: &TenantKeys,
    entropy: &dyn Entropy,
) -> Result<Record, Error> {
    to_record_of(entity, &entity.to_text()?, tenant, keys, entropy)
}

/// As [`to_record`], with the entity's text at hand.
pub fn to_record_of<E: Entity>(
    entity: &E,
    text: &[u8],
    tenant: TenantId,
    keys: &TenantKeys,
    entropy: &dyn Entropy,
) -> Result<Record, Error> {
    let id = entity.id();
    let place = Place { kind: E::KIND.0, tenant: tenant.0.as_bytes(), id: &id };
    let body = seal::seal_enveloped(keys.sealing_key(), place, text, entropy);
    let (terms, numbers, uniques) = found_by(entity, keys).into_parts();
    Ok(Record {
        kind: E::KIND,
        tenant,
        id,
        version: 0,
        order_ms: entity.created_ms(),
        body: body.map_err(Error::internal)?,
        terms,
        numbers,
        uniques,
    })
}

/// What an entity is found by.
pub fn found_by<'k, E: Entity>(entity: &E, keys: &'k TenantKeys) -> Index<'k> {
    collected(entity, Index::new(keys))
}

/// What an entity is found by, added to what there is.
pub fn collected<'k, E: Entity>(entity: &E, mut index: Index<'k>) -> Index<'k> {
    entity.index(&mut index);
    if let Some(end_ms) = entity.expires_ms() {
        index.number(super::index::number::EXPIRES_AT, end_ms);
    }
    index
}

/// Opens a record. One that does not open is a fault of ours, and says so in the operator's log.
pub fn from_record<E: Entity>(record: &Record, keys: &TenantKeys) -> Result<Stored<E>, Error> {
    read_record(record, keys, |text| Ok(shares::opened(E::weight(text))?))
}

/// The same, if there is room for it: asked with the text before it is read.
pub fn read_record<E: Entity>(
    record: &Record,
    keys: &TenantKeys,
    room: impl FnOnce(&[u8]) -> Result<(), Error>,
) -> Result<Stored<E>, Error> {
    let text = open_text::<E>(record, keys)?;
    room(&text)?;
    Ok(Stored { entity: E::from_text(&text)?, version: record.version })
}

/// The text of a record, as in [`from_record`].
pub fn open_text<E: Entity>(record: &Record, keys: &TenantKeys) -> Result<Wiped, Error> {
    let place = Place { kind: record.kind.0, tenant: record.tenant.0.as_bytes(), id: &record.id };
    seal::open_enveloped(|version| keys.opening_key(version), place, &record.body)
        .map_err(|cause| Error::internal(format_args!("a {} {cause}", E::NOUN)))
}

/// Draws ids that sort by the time they were drawn: UUIDs of version 7 with a counter in their first random bits.
#[derive(Debug, Default)]
pub struct IdSource(AtomicU64);

/// Bits of the counter within a millisecond.
const COUNTER_BITS: u32 = 12;

impl IdSource {
    /// A fresh id. Two of one millisecond sort in the order they were drawn.
    pub fn draw(&self, now: Timestamp, entropy: &dyn Entropy) -> Uuid {
        id_of(self.take(now, 1), entropy)
    }

    /// So many fresh ids, ascending: nobody else draws one between them.
    pub fn draw_some<'e>(
        &self,
        now: Timestamp,
        count: usize,
        entropy: &'e dyn Entropy,
    ) -> impl Iterator<Item = Uuid> + use<'e> {
        let first = self.take(now, count as u64);
        (first..first + count as u64).map(move |stamp| id_of(stamp, entropy))
    }

    /// The first of so many stamps that nobody else has.
    fn take(&self, now: Timestamp, count: u64) -> u64 {
        let earliest = now.0 << COUNTER_BITS;
        let last = |last: u64| earliest.max(last + 1) + count.saturating_sub(1);
        let next = |before| Some(last(before));
        let previous = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let (Ok(before) | Err(before)) = previous;
        earliest.max(before + 1)
    }
}

fn id_of(stamp: u64, entropy: &dyn Entropy) -> Uuid {
    let mut random = [0; 10];
    entropy.fill(&mut random);
    let [.., high, low] = stamp.to_be_bytes();
    random[0] = high & 0x0f;
    random[1] = low;
    Builder::from_unix_timestamp_millis(stamp >> COUNTER_BITS, &random).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::IdSource;
    use crate::crypto::entropy::SeededEntropy;
    use crate::model::time::Timestamp;

    #[test]
    fn ids_sort_by_the_order_they_were_drawn_in() {
        let (ids, entropy) = (IdSource::default(), SeededEntropy::new(8));
        // More than the counter holds in one millisecond, and a clock that goes back.
        let times = vec![1_000_000; 5_000].into_iter().chain([999_999, 1_000_001]);
        let drawn: Vec<_> = times.map(|ms| ids.draw(Timestamp(ms), &entropy)).collect();
        assert!(drawn.is_sorted());
        assert!(drawn.iter().all(|id| id.get_version_num() == 7));
        let mut distinct = drawn.clone();
        distinct.dedup();
        assert_eq!(distinct.len(), drawn.len());
    }

    #[test]
    fn ids_drawn_together_have_nobody_elses_between_them() {
        let (ids, entropy) = (IdSource::default(), SeededEntropy::new(9));
        let now = Timestamp(1_000_000);
        let draw = || {
            let some = || ids.draw_some(now, 50, &entropy).collect::<Vec<_>>();
            (0..50).map(|_| some()).collect::<Vec<_>>()
        };
        let mut drawn = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        drawn.sort_unstable();
        assert!(drawn.iter().flatten().is_sorted());
        assert_eq!(drawn.iter().map(Vec::len).sum::<usize>(), 10_000);
        let before = ids.draw(now, &entropy);
        assert_eq!(ids.draw_some(now, 0, &entropy).count(), 0);
        assert!(before < ids.draw(now, &entropy));
    }
}
