//! Keys as they lie in the store: sealed directly by the root key.

use thiserror::Error as ThisError;
use uuid::Uuid;

use super::Error;
use crate::crypto::entropy::Entropy;
use crate::crypto::keys::{RootKey, SystemKeys, TenantKeys};
use crate::crypto::seal::{self, Place};
use crate::crypto::wiped::Wiped;
use crate::model::id::TenantId;
use crate::store::{Expect, Kind, Put, Record, StoreError, Term};

/// The tenant that owns what belongs to no tenant.
pub const SYSTEM_TENANT: TenantId = TenantId(Uuid::nil());
/// The id of records that keep keys.
pub const KEYS_ID: &str = "keys";
/// Where they lie sealed by the next root key, until that one counts.
pub const NEXT_ID: &str = "keys by the next root key";

/// Why the vault does not open.
#[derive(Debug, ThisError)]
pub enum OpenError {
    /// The store was made with another root key.
    #[error(
        "the root key does not open this store: it is not the key the store was made with, or was \
        rotated to"
    )]
    WrongRootKey,
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    /// The store has nothing yet: the process that began it ended before it had made keys.
    #[error("no vault was begun in this store yet: a server begins one when it starts")]
    NotBegun,
    /// The keys in the store cannot be read.
    #[error("the keys in the store are damaged")]
    Damaged,
    /// What an earlier process left undone could not be done.
    #[error("a change of keys that was begun cannot be finished: {0}")]
    Unfinished(Error),
}

/// Where sealed keys are to lie.
pub struct SealedKeys {
    /// Whose.
    pub kind: Kind,
    /// The tenant.
    pub tenant: TenantId,
    /// The record's id.
    pub id: &'static str,
}

impl SealedKeys {
    /// The record that keeps keys, marked with the root key that seals it.
    pub fn put(
        &self,
        root: &RootKey,
        text: &[u8],
        expect: Expect,
        entropy: &dyn Entropy,
    ) -> Result<Put, seal::SealError> {
        let place = Place { kind: self.kind.0, tenant: self.tenant.0.as_bytes(), id: self.id };
        let record = Record {
            kind: self.kind,
            tenant: self.tenant,
            id: self.id.to_owned(),
            version: 0,
            order_ms: 0,
            body: seal::seal(root.as_key(), place, text, entropy)?,
            terms: vec![Term(root.id())],
            numbers: Vec::new(),
            uniques: Vec::new(),
        };
        Ok(Put { record, expect })
    }
}

/// Opens the vault's own keys.
pub fn open_system_keys(root: &RootKey, record: &Record) -> Result<SystemKeys, OpenError> {
    // The record says which key it is sealed with.
    let is_its_key = record.terms.contains(&Term(root.id()));
    let wrong = || if is_its_key { OpenError::Damaged } else { OpenError::WrongRootKey };
    let text = open_record(root, record).map_err(|_| wrong())?;
    SystemKeys::from_bytes(&text).map_err(|_| OpenError::Damaged)
}

/// Opens a tenant's keys.
pub fn open_tenant_keys(root: &RootKey, record: &Record) -> Result<TenantKeys, OpenError> {
    let text = open_record(root, record).map_err(|_| OpenError::Damaged)?;
    TenantKeys::from_bytes(&text).map_err(|_| OpenError::Damaged)
}

/// Opens what the root key sealed.
pub fn open_record(root: &RootKey, record: &Record) -> Result<Wiped, seal::SealError> {
    let place = Place { kind: record.kind.0, tenant: record.tenant.0.as_bytes(), id: &record.id };
    seal::open(root.as_key(), place, &record.body)
}
