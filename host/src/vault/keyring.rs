//! The keys at hand, and where they are kept.
//!
//! Keys lie in the store as records sealed directly by the root key; opening the vault's own proves that the root key
//! is the right one. A tenant's keys are opened once and held.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use thiserror::Error as ThisError;
use uuid::Uuid;

use super::record::kind;
use super::{Error, Vault};
use crate::crypto::entropy::Entropy;
use crate::crypto::keys::{RootKey, SystemKeys, TenantKeys};
use crate::crypto::seal::{self, Place};
use crate::model::id::TenantId;
use crate::store::{Batch, Expect, Kind, Put, Record, Store, StoreError};

/// The tenant that owns what belongs to no tenant.
pub const SYSTEM_TENANT: TenantId = TenantId(Uuid::nil());
const KEYS_ID: &str = "keys";

/// Why the vault does not open.
#[derive(Debug, ThisError)]
pub enum OpenError {
    /// The store was made with another root key.
    #[error("the root key does not open this store: it is not the key the store was made with")]
    WrongRootKey,
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    /// The keys in the store cannot be read.
    #[error("the keys in the store are damaged")]
    Damaged,
}

/// The keys at hand.
pub struct Keyring {
    root: RootKey,
    system: SystemKeys,
    tenants: RwLock<HashMap<TenantId, Arc<TenantKeys>>>,
}

impl Keyring {
    /// Opens the vault's own keys; makes them on an empty store.
    pub async fn open(
        store: &dyn Store,
        root: RootKey,
        entropy: &dyn Entropy,
    ) -> Result<Self, OpenError> {
        let mut found = store.find(kind::SYSTEM, SYSTEM_TENANT, &[KEYS_ID]).await?;
        let system = if let Some(record) = found.pop().flatten() {
            let text = open_record(&root, &record).map_err(|_| OpenError::WrongRootKey)?;
            SystemKeys::from_bytes(&text).map_err(|_| OpenError::Damaged)?
        } else {
            let keys = SystemKeys::draw(entropy);
            let sealed = SealedKeys { kind: kind::SYSTEM, tenant: SYSTEM_TENANT };
            let put = sealed.put(&root, &keys.to_bytes(), entropy);
            let put = put.map_err(|_| OpenError::Damaged)?;
            store.commit(Batch { puts: vec![put], ..Batch::default() }).await?;
            keys
        };
        Ok(Self { root, system, tenants: RwLock::default() })
    }

    /// The key that hashes API keys.
    pub fn pepper(&self) -> &seal::Key {
        &self.system.pepper
    }

    /// Draws a tenant's keys and the record that keeps them.
    pub fn draw_tenant(
        &self,
        tenant: TenantId,
        entropy: &dyn Entropy,
    ) -> Result<(Arc<TenantKeys>, Put), Error> {
        let keys = TenantKeys::draw(entropy);
        let sealed = SealedKeys { kind: kind::TENANT_KEYS, tenant };
        let put = sealed.put(&self.root, &keys.to_bytes(), entropy).map_err(Error::internal)?;
        Ok((Arc::new(keys), put))
    }
}

impl Vault {
    /// A tenant's keys.
    pub(super) async fn keys(&self, tenant: TenantId) -> Result<Arc<TenantKeys>, Error> {
        let keyring = &self.0.keyring;
        if let Some(keys) = keyring.tenants.read().get(&tenant) {
            return Ok(Arc::clone(keys));
        }
        let mut found = self.0.store.find(kind::TENANT_KEYS, tenant, &[KEYS_ID]).await?;
        let record = found.pop().flatten().ok_or(Error::NotFound("tenant"))?;
        let text = open_record(&keyring.root, &record).map_err(Error::internal)?;
        let keys = Arc::new(TenantKeys::from_bytes(&text).map_err(Error::internal)?);
        keyring.tenants.write().insert(tenant, Arc::clone(&keys));
        Ok(keys)
    }
}

struct SealedKeys {
    kind: Kind,
    tenant: TenantId,
}

impl SealedKeys {
    fn put(
        &self,
        root: &RootKey,
        text: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<Put, seal::SealError> {
        let place = Place { kind: self.kind.0, tenant: self.tenant.0.as_bytes(), id: KEYS_ID };
        let record = Record {
            kind: self.kind,
            tenant: self.tenant,
            id: KEYS_ID.to_owned(),
            version: 0,
            order_ms: 0,
            body: seal::seal(root.as_key(), place, text, entropy)?,
            terms: Vec::new(),
            numbers: Vec::new(),
            uniques: Vec::new(),
        };
        Ok(Put { record, expect: Expect::Absent })
    }
}

fn open_record(
    root: &RootKey,
    record: &Record,
) -> Result<zeroize::Zeroizing<Vec<u8>>, seal::SealError> {
    let place = Place { kind: record.kind.0, tenant: record.tenant.0.as_bytes(), id: &record.id };
    seal::open(root.as_key(), place, &record.body)
}
