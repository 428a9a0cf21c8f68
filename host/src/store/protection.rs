//! What notices that stored rows were changed by somebody else than this software.
//!
//! Every record is kept with a *tag*, a keyed hash over all of it. The log entries of a tenant form a *chain*: each is
//! numbered and holds a keyed hash over itself and the hash of the one before. A *ledger* for each tenant, and one for
//! all, counts the live records and sums up keyed hashes of their tags; the tenant's also says where its chain begins
//! and ends. Ledgers change in the commit that changes what they tell of.
//!
//! **Noticed**, when everything is walked through: any changed byte of a record, an index row or a log entry; a row that
//! was removed, moved, or put back as it was at an earlier time; a log that was cut short at either end; one tenant's
//! rows, ledger included, put back to an earlier time. **Not noticed**: a whole store that was put back to an earlier
//! time as one. For that, heads of the chains are exported and kept elsewhere; a chain that does not lead through an
//! exported head is not the one it was exported from. Who has the root key can make everything anew, and is found out
//! by exported heads only.

use std::sync::Arc;

use super::{Kind, Record};
use crate::crypto::entropy::Entropy;
use crate::crypto::integrity::{Hash, IntegrityKey};
use crate::model::id::TenantId;

/// With what a store protects its rows.
#[derive(Clone)]
pub struct Protection {
    /// The keys.
    pub key: IntegrityKey,
    /// Where randomness comes from.
    pub entropy: Arc<dyn Entropy>,
}

/// The digest of a log entry's text. It is hashed into the chain and kept nowhere, so that an entry may be sealed anew
/// without breaking the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextDigest(pub Hash);

/// Where a tenant's log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    /// The tenant.
    pub tenant: TenantId,
    /// The number of the last entry; the first one ever has 1. 0 when there never was any.
    pub sequence: u64,
    /// Its hash.
    pub hash: Hash,
    /// When it was made, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// What the layer above knows of a record, and the store does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Examined {
    /// That it is a log entry, with the digest of its text.
    pub chained: Option<TextDigest>,
    /// What is wrong with it.
    pub fault: Option<&'static str>,
    /// That its keys were destroyed with its tenant: nothing of it opens for anybody, and it is about to be removed. What
    /// the digest of its text was cannot be known any more; its tag still says that it is as it was stored.
    pub erased: bool,
}

/// Looks into records for the store, which cannot open them.
pub trait Examiner {
    /// Looks into a record; `find` gives others, such as those that keep keys.
    fn examine(
        &mut self,
        record: &Record,
        find: &dyn Fn(Kind, TenantId, &str) -> Option<Record>,
    ) -> Examined;
}

/// Something that is not as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The kind of record, if it is about records of one.
    pub kind: Option<Kind>,
    /// The tenant, if it is about one's.
    pub tenant: Option<TenantId>,
    /// The record's id; empty when it is about none.
    pub id: String,
    /// What is wrong, without any value.
    pub what: String,
}

/// What was walked through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// Records.
    pub records: u64,
    /// Of these, log entries.
    pub entries: u64,
    /// Exported heads that the chains lead through.
    pub heads: u64,
    /// Exported heads in a part of the log that was removed since, at the end of its time.
    pub heads_removed: u64,
    /// Damages found.
    pub damages: u64,
    /// Whether the last write is not whole: it was under way when the power failed, or it was changed since.
    pub is_cut_short: bool,
}

/// A store that is only looked at.
pub trait Inspect {
    /// A record.
    fn find(&self, kind: Kind, tenant: TenantId, id: &str) -> Option<Record>;

    /// Whether it has no record at all.
    fn is_empty(&self) -> Result<bool, super::StoreError>;

    /// Walks through everything there is and tells `damaged` of all that is wrong. `heads` were exported before.
    fn walk(
        &self,
        protection: &Protection,
        examiner: &mut dyn Examiner,
        heads: &[ChainHead],
        damaged: &mut dyn FnMut(Damage),
    ) -> Result<Walked, super::StoreError>;
}
