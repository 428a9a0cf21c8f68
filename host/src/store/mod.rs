//! The store: where records are kept.
//!
//! A record is a sealed body with opaque index values. The store knows neither keys nor meanings; it finds, pages and
//! commits. Few methods, one implementation so far ([`sled`]), and one conformance suite for every implementation.
//!
//! A new kind of entity needs nothing here: kinds are numbers that the vault hands out.

#[cfg(test)]
mod conformance;
mod filter;
mod record;
pub mod sled;

use futures::future::BoxFuture;
use thiserror::Error;

pub use filter::{Filter, Position, Slice, Start};
pub use record::{Batch, Expect, Field, Kind, Put, Record, Removal, Term, Unique};

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
    /// There is too little space left to store anything new.
    #[error("the disk is full")]
    Full,
    /// What is stored cannot be understood.
    #[error("the storage is damaged: {0}")]
    Damaged(String),
}

/// A place to keep records.
pub trait Store: Send + Sync + 'static {
    /// Records by id, in one round trip; `None` for each that is not there.
    fn find<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
    ) -> StoreFuture<'a, Vec<Option<Record>>>;

    /// The record of any tenant that has this unique value.
    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>>;

    /// Records that match, newest first: by `order_ms`, then by id, both descending. The total is exact. Everything
    /// acknowledged before the call is seen.
    fn page<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        start: Start,
        size: usize,
    ) -> StoreFuture<'a, Slice>;

    /// Stores and removes all of a batch or nothing; durable on return.
    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()>;

    /// Whether writes are taken.
    fn health(&self) -> Result<(), StoreError>;

    /// Finishes what was begun; later commits are refused.
    fn close(&self);
}
