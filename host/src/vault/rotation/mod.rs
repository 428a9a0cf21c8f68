//! Changing keys while the vault is used (decisions §9, `tokamak keys`).
//!
//! The root key wraps each tenant's keys: [`root`] wraps them anew. Each record's key is derived from its tenant's:
//! [`tenant`] draws a new one for whatever is written from then on, and [`reseal`] seals in the background what was
//! written before. Both survive the end of the process at any moment. [`old_keys`] sees to it that nothing of the old keys
//! stays in the store's files. Index and fingerprint keys stay;
//! `crypto::keys` says why.

mod old_keys;
mod reseal;
mod resealed;
mod root;
mod tenant;

use serde::{Deserialize, Serialize};

pub use old_keys::OLD_KEYS_ID;
pub use reseal::Resealing;
pub use resealed::Resealed;
pub use root::NOTE_ID as ROTATION_NOTE_ID;

use super::erase::ErasedTenant;
use super::sealed_keys::SYSTEM_TENANT;
use super::{Error, Vault};
use crate::model::id::TenantId;
use crate::store::Filter;

/// Where the keys stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysStatus {
    /// Tells the root key from others, in hexadecimal.
    pub root_key_id: String,
    /// Whether the store's files hold what old keys were in: they are made anew without it.
    #[serde(default)]
    pub old_keys_in_files: bool,
    /// Tenants that were erased, but may still be in the store's files, with their keys as the root key wraps them: these
    /// are made anew without them.
    #[serde(default)]
    pub erased_in_files: Vec<TenantId>,
    /// The keys of what belongs to no tenant, such as the list of tenants.
    pub system: KeyStatus,
    /// The keys of each tenant, newest tenant first.
    pub tenants: Vec<KeyStatus>,
}

/// Where the keys of one tenant stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatus {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// The version of the key that seals.
    pub version: u32,
    /// Versions that something may still be sealed with.
    pub older_versions: Vec<u32>,
    /// How far sealing anew is, while it goes on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resealing: Option<Progress>,
}

/// How far sealing anew is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Records looked at, and sealed anew where that was needed; of those that came after it began, none beyond the total.
    pub resealed: u64,
    /// Records there were when it began.
    pub total: u64,
}

impl Vault {
    /// Where all keys stand.
    pub async fn keys_status(&self) -> Result<KeysStatus, Error> {
        let root = self.0.keyring.root()?.id();
        let mut tenants = Vec::new();
        for tenant in self.tenants().await? {
            match self.key_status(tenant.id, tenant.name).await {
                // Erased meanwhile.
                Err(Error::TenantGone) => {}
                status => tenants.push(status?),
            }
        }
        let erased = self.all::<ErasedTenant>(SYSTEM_TENANT, &Filter::All).await?;
        Ok(KeysStatus {
            root_key_id: uuid::Uuid::from_bytes(root).simple().to_string(),
            old_keys_in_files: self.noted_old_keys().await?.is_some(),
            erased_in_files: erased.into_iter().map(|erased| erased.id).collect(),
            system: self.key_status(SYSTEM_TENANT, "system".to_owned()).await?,
            tenants,
        })
    }

    async fn key_status(&self, tenant: TenantId, name: String) -> Result<KeyStatus, Error> {
        let keys = self.keys(tenant).await?;
        let resealing = if keys.older.is_empty() { None } else { self.resealing(tenant).await? };
        Ok(KeyStatus {
            tenant_id: tenant,
            name,
            version: keys.sealing_key().0,
            older_versions: keys.older.keys().copied().collect(),
            resealing: resealing.map(|stored| stored.entity.progress()),
        })
    }
}
