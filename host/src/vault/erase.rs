//! Erasing a tenant by destroying its keys.
//!
//! One commit removes the keys and the tenant, and leaves a note. From that moment nothing of the tenant opens, and its
//! requests are answered 401. What it leaves, rows that nobody can open, is removed in the background, or by the next
//! start, with the compiled code of its formulas; then the store is compacted, so that the wrapped keys are in none of its
//! files; then the note goes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::audit::{Actor, Event};
use super::record::kind::{self, some_at_once};
use super::record::{Entity, from_json_text, json_text};
use super::sealed_keys::{KEYS_ID, NEXT_ID, SYSTEM_TENANT};
use super::tenants::Tenant;
use super::{Error, Vault};
use crate::crypto::wiped::Wiped;
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::model::time::Timestamp;
use crate::store::{Batch, Expect, Filter, Kind, Removal, Start};

/// Records removed in one commit.
const REMOVED_AT_ONCE: usize = 100;

/// A tenant whose keys were destroyed, and whose records go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErasedTenant {
    pub(super) id: TenantId,
    erased_at: Timestamp,
}

impl Entity for ErasedTenant {
    const KIND: Kind = kind::ERASED;
    const NOUN: &'static str = "note on an erased tenant";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.erased_at.0
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Vault {
    /// Destroys a tenant's keys: durable on return. What else there is of it is removed by [`Self::sweep_erased`].
    pub async fn erase_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        let keyring = &self.0.keyring;
        let _one = keyring.operating.lock().await;
        self.get::<Tenant>(SYSTEM_TENANT, &tenant.to_string()).await?;
        // Whoever is at work for the tenant commits nothing any more, and finds no key.
        let closed = keyring.gate(tenant).write_owned().await;
        keyring.erased.write().insert(tenant);
        let keys = keyring.tenants.write().remove(&tenant);
        drop(closed);
        drop(keys);
        self.0.callers.forget_all();
        self.0.settings.write().remove(&tenant);
        self.0.queue.receivers.forget(tenant);
        let destroyed = self.destroy_keys(tenant).await;
        if destroyed.is_err() {
            keyring.erased.write().remove(&tenant);
        }
        destroyed
    }

    async fn destroy_keys(&self, tenant: TenantId) -> Result<(), Error> {
        let mut change = self.change(SYSTEM_TENANT).await?;
        change.put(&ErasedTenant { id: tenant, erased_at: self.now() }, Expect::Any)?;
        let removal = |kind, owner, id: &str| Removal {
            kind,
            tenant: owner,
            id: id.to_owned(),
            expect: Expect::Any,
        };
        // It frees space.
        change.batch.urgent = true;
        change.batch.removals.extend([
            removal(kind::TENANT_KEYS, tenant, KEYS_ID),
            removal(kind::TENANT_KEYS, tenant, NEXT_ID),
            removal(Tenant::KIND, SYSTEM_TENANT, &tenant.to_string()),
        ]);
        let event = Event::done(EntityType::Tenant, tenant, Operation::Delete, "Tenant erased");
        change.commit(Actor::OPERATOR, vec![event]).await?;
        tracing::warn!(%tenant, "a tenant was erased");
        Ok(())
    }

    /// Removes what tenants left that were erased, and compacts the store after it; gives how many records those were.
    /// Whoever comes meanwhile waits until that is done: the note of a tenant goes after all that it tells of, and what
    /// two of them removed at once they would take for changed by somebody else.
    pub async fn sweep_erased(&self) -> Result<usize, Error> {
        let _one = self.0.keyring.sweeping.lock().await;
        let (erased, removed) = self.remove_erased().await?;
        if erased.is_empty() {
            return Ok(0);
        }
        self.0.programs.unused.look();
        self.sweep_compiled().await;
        self.compact().await?;
        let mut change = self.change(SYSTEM_TENANT).await?;
        change.batch.removals.extend(erased.iter().map(|erased| Removal {
            kind: ErasedTenant::KIND,
            tenant: SYSTEM_TENANT,
            id: Entity::id(erased),
            expect: Expect::Any,
        }));
        change.commit(Actor::OPERATOR, Vec::new()).await?;
        Ok(removed)
    }

    /// Removes the records of erased tenants; the notes on them stay until the files are made anew.
    pub(super) async fn remove_erased(&self) -> Result<(Vec<ErasedTenant>, usize), Error> {
        let erased = self.all::<ErasedTenant>(SYSTEM_TENANT, &Filter::All).await?;
        let mut removed = 0;
        for erased in &erased {
            for kind in 0..=u8::MAX {
                removed += self.remove_all(Kind(kind), erased.id).await?;
            }
        }
        Ok((erased, removed))
    }

    async fn remove_all(&self, kind: Kind, tenant: TenantId) -> Result<usize, Error> {
        let mut removed = 0;
        loop {
            let store = Arc::clone(&self.0.store);
            // The log can be removed from its beginning only.
            let removals = if kind == super::record::kind::LOG {
                let look = move || {
                    store.oldest_entries(kind, tenant, u64::MAX..=u64::MAX, REMOVED_AT_ONCE)
                };
                tokio::task::spawn_blocking(look).await.map_err(Error::internal)??
            } else {
                let (filter, start) = (Filter::All, Start::Offset(0));
                let some = some_at_once(kind, REMOVED_AT_ONCE);
                let slice = store.page(kind, tenant, &filter, start, some).await?;
                let removal = |id: String| Removal { kind, tenant, id, expect: Expect::Any };
                slice.records.into_iter().map(|record| removal(record.id)).collect()
            };
            if removals.is_empty() {
                return Ok(removed);
            }
            removed += removals.len();
            self.0.store.commit(Batch { removals, urgent: true, ..Batch::default() }).await?;
        }
    }
}
