//! The store: where records are kept.
//!
//! A record is a sealed body with opaque index values. The store knows neither keys nor meanings; it finds, pages and
//! commits. Few methods, one implementation so far ([`sled`]), and one conformance suite for every implementation.
//!
//! A new kind of entity needs nothing here: kinds are numbers that the vault hands out.

#[cfg(test)]
mod conformance;
mod filter;
mod protection;
mod record;
pub mod sled;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use thiserror::Error;

pub use filter::{Filter, Position, Slice, Start};
pub use protection::{
    ChainHead, Damage, Examined, Examiner, Inspect, Protection, TextDigest, Walked,
};
pub use record::{Batch, Expect, Field, Kind, Put, Record, Removal, Term, Unique};

use crate::crypto::integrity::Hash;
use crate::figures::Disk;
use crate::model::id::TenantId;

/// What a call of the store gives.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Why the store refuses or fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// A put that expected nothing found a record.
    #[error("a record of kind {} with this id exists", kind.0)]
    Exists {
        /// The record's kind.
        kind: Kind,
        /// The record's id.
        id: String,
    },
    /// The record is not at the expected version, or not there.
    #[error("a record of kind {} was changed meanwhile", kind.0)]
    Conflict {
        /// The record's kind.
        kind: Kind,
        /// The record's id.
        id: String,
    },
    /// Another record has this unique value.
    #[error("another record of kind {} has this value", kind.0)]
    Taken {
        /// The record's kind.
        kind: Kind,
        /// The value.
        unique: Unique,
        /// Tenant and id of the record that has it.
        by: (TenantId, String),
    },
    /// The store takes no writes, or cannot be read; the cause is for the operator.
    #[error("the storage is unavailable: {0}")]
    Unavailable(String),
    /// The store was closed: the process ends.
    #[error("the store is closed")]
    Closed,
    /// There is too little space left to store anything new.
    #[error("the disk is full")]
    Full,
    /// There is too little space left for a copy of the files, which takes so many MiB; all else goes on.
    #[error("the disk has no room for a copy of the store, which takes about {0} MiB")]
    NoRoomToCopy(u64),
    /// The disk is mounted so that nothing can be written to it; nothing was tried.
    #[error("the disk takes no writes")]
    ReadOnly,
    /// A write failed. What it left is not known, and no write is taken until the store is opened anew.
    #[error("an earlier write failed")]
    Failed,
    /// What is stored cannot be understood.
    #[error("the storage is damaged: {0}")]
    Damaged(String),
}

/// What compacting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the store's files before.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
}

/// A key and a value, as a store keeps them.
pub type Row = (Vec<u8>, Vec<u8>);

/// Everything in a store as it was at one moment, for a backup. It takes space on the disk until it is dropped, and the
/// store is not compacted meanwhile.
pub trait Snapshot: Send {
    /// The rows behind this key, or the first ones, of about so many bytes; none at the end.
    fn rows(&self, behind: Option<&[u8]>, bytes: usize) -> Result<Vec<Row>, StoreError>;

    /// A record, as it was.
    fn find(&self, kind: Kind, tenant: TenantId, id: &str) -> Result<Option<Record>, StoreError>;
}

/// A place to keep records.
pub trait Store: Send + Sync + 'static {
    /// Records by id, in one round trip; `None` for each that is not there. If their long bodies have more bytes than that,
    /// then how many, and none of these is read.
    fn find_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Vec<Option<Record>>, usize>>;

    /// The same, however long they are.
    fn find<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
    ) -> StoreFuture<'a, Vec<Option<Record>>> {
        self.find_at_most(kind, tenant, ids, usize::MAX).map(any_length).boxed()
    }

    /// The record of any tenant that has this unique value.
    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>>;

    /// Records that match, newest first: by `order_ms`, then by id, both descending; so many from a place on. The total is
    /// exact, and of the moment that the records are of. Everything acknowledged before the call is seen. If their long
    /// bodies have more bytes than that, then how many, and none of these is read.
    fn page_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        from: (Start, usize),
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Slice, usize>>;

    /// The same, however long they are.
    fn page<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        start: Start,
        size: usize,
    ) -> StoreFuture<'a, Slice> {
        self.page_at_most(kind, tenant, filter, (start, size), usize::MAX).map(any_length).boxed()
    }

    /// Stores and removes all of a batch or nothing; durable on return.
    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()>;

    /// Rewrites what is kept, so that nothing of what was removed or replaced before the call is left in the store's
    /// files on return. Reads and writes go on meanwhile.
    fn compact(&self) -> StoreFuture<'_, Compacted>;

    /// Everything as it is between two commits, none acknowledged before the call being left out. Reads and writes go on
    /// meanwhile.
    fn snapshot(&self) -> StoreFuture<'_, Box<dyn Snapshot>>;

    /// Whether anything was removed or replaced since the store was last compacted, as far as is known.
    fn has_removed(&self) -> bool;

    /// Protects what is stored from here on, so that changes by others are noticed; refuses commits before. A store of a
    /// time before there was protection is brought under it first, with what `upgrade` knows of its records; `None` when
    /// it is known to have been under it, and what says otherwise is damage.
    fn protect(
        &self,
        protection: Protection,
        upgrade: Option<&mut dyn Examiner>,
    ) -> Result<(), StoreError>;

    /// Where the log of each tenant ends.
    fn chain_heads(&self) -> Result<Vec<ChainHead>, StoreError>;

    /// The number of the first entry that each tenant's log has, or is to have next if it has none.
    fn log_starts(&self) -> Result<HashMap<TenantId, u64>, StoreError>;

    /// Numbers and hashes of log entries in their tenant's chain; `None` for what is none.
    fn places(
        &self,
        kind: Kind,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<Vec<Option<(u64, Hash)>>, StoreError>;

    /// Removals of a tenant's first log entries, as long as they were made before the times that are kept, and at most so
    /// many. The log can be removed from its beginning only, in this order. One that is said to be made after those times is
    /// of a clock that was ahead, and as old as the next one that is not.
    fn oldest_entries(
        &self,
        kind: Kind,
        tenant: TenantId,
        kept_ms: RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<Removal>, StoreError>;

    /// Whether writes are taken.
    fn health(&self) -> Result<(), StoreError>;

    /// What is taken of the disk, and what is left of it.
    fn disk(&self) -> Disk;

    /// Finishes what was begun; later commits are refused.
    fn close(&self);
}

fn any_length<T>(read: Result<Result<T, usize>, StoreError>) -> Result<T, StoreError> {
    read?.map_err(|bytes| StoreError::Damaged(format!("a record of {bytes} bytes")))
}
