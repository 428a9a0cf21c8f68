//! Changing the root key.
//!
//! First every tenant's keys are wrapped by the new root key too, beside the old wrapping. Then one commit wraps the
//! vault's own keys by the new one: from there on it counts, and the old one opens nothing. Then the old wrappings are
//! replaced, and [`super::old_keys`] has them leave the files. Compiled code goes by the key that counts too: what was
//! kept under the old one is compiled anew. A process that ends before that commit leaves a vault of the old root key,
//! one that ends after it a vault of the new one; a note in the store lets the next start finish or undo the rest. So
//! neither key is ever kept under the other.

use crate::crypto::keys::RootKey;
use crate::store::{Batch, Expect, Kind, Removal};

use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::vault::audit::{Actor, Event};
use crate::vault::record::kind;
use crate::vault::sealed_keys::{KEYS_ID, NEXT_ID, SYSTEM_TENANT, SealedKeys};
use crate::vault::{Error, Vault};

/// Tenants whose keys are wrapped in one commit.
const WRAPPED_AT_ONCE: usize = 100;
/// The note that wrappings of two root keys may lie in the store.
pub const NOTE_ID: &str = "root key rotation";

impl Vault {
    /// Changes the root key; gives how many keys are wrapped by it: those of tenants, and that of what belongs to none.
    pub async fn rotate_root_key(&self, next: RootKey) -> Result<usize, Error> {
        let keyring = &self.0.keyring;
        let _one = keyring.operating.lock().await;
        let last = keyring.root()?;
        if last.id() == next.id() {
            return Err(Error::Conflict("This is the root key already."));
        }
        // Also what an earlier rotation in this process left undone.
        self.settle_root_key().await?;
        let tenants = self.keys_owners().await?;
        let note = self.sealed(SYSTEM_TENANT, (kind::SYSTEM, NOTE_ID), &next, b"begun")?;
        self.0.store.commit(note).await?;
        for some in tenants.chunks(WRAPPED_AT_ONCE) {
            let mut batch = Batch::default();
            for tenant in some {
                let Some((_, keys)) = self.stored_keys(*tenant).await? else { continue };
                let at = (kind::TENANT_KEYS, NEXT_ID);
                let next = self.sealed(*tenant, at, &next, &keys.to_bytes())?;
                batch.puts.extend(next.puts);
            }
            self.0.store.commit(batch).await?;
        }
        let own = keyring.system.to_bytes();
        let own = self.sealed(SYSTEM_TENANT, (kind::SYSTEM, KEYS_ID), &next, &own)?;
        let mut change = self.change(SYSTEM_TENANT).await?;
        change.batch = own;
        let owner = SYSTEM_TENANT.to_string();
        let event = Event::done(EntityType::Tenant, owner, Operation::Update, "Root key rotated");
        change.enter(Actor::OPERATOR, vec![event])?;
        // Nobody who reads keys in between must know only the one root key or the other.
        keyring.roots.write().push(next.clone());
        if let Err(error) = self.0.store.commit(change.batch).await {
            // Whether it is in the store nobody knows; both keys stay at hand until the next start.
            return Err(error.into());
        }
        keyring.roots.write().rotate_right(1);
        self.0.runtime.follow_root_key(&last, &next);
        // From here on the new key counts, whatever becomes of the rest.
        match self.settle_root_key().await {
            Ok(()) => keyring.roots.write().truncate(1),
            Err(error) => {
                tracing::warn!(%error, "the next start finishes the rotation of the root key");
            }
        }
        tracing::info!(keys = tenants.len(), "the root key was rotated");
        Ok(tenants.len())
    }

    /// Finishes or undoes what a rotation of the root key left when its process ended.
    pub(in crate::vault) async fn settle_root_key(&self) -> Result<(), Error> {
        let found = self.0.store.find(kind::SYSTEM, SYSTEM_TENANT, &[NOTE_ID]).await?;
        if found.into_iter().flatten().next().is_none() {
            return Ok(());
        }
        for some in self.keys_owners().await?.chunks(WRAPPED_AT_ONCE) {
            // A disk without space for anything new must not keep the vault from opening.
            let mut batch = Batch { urgent: true, ..Batch::default() };
            for tenant in some {
                let Some((_, keys)) = self.stored_keys(*tenant).await? else { continue };
                let at = (kind::TENANT_KEYS, KEYS_ID);
                let root = self.0.keyring.root()?;
                batch.puts.extend(self.sealed(*tenant, at, &root, &keys.to_bytes())?.puts);
                batch.removals.push(removal(kind::TENANT_KEYS, *tenant, NEXT_ID));
            }
            self.0.store.commit(batch).await?;
        }
        let removals = vec![removal(kind::SYSTEM, SYSTEM_TENANT, NOTE_ID)];
        let puts = vec![self.note_old_keys()?];
        self.0.store.commit(Batch { puts, removals, urgent: true, ..Batch::default() }).await?;
        self.0.keyring.old_keys.notify_one();
        Ok(())
    }

    /// Everybody who has keys.
    pub(in crate::vault) async fn keys_owners(&self) -> Result<Vec<TenantId>, Error> {
        let mut owners = vec![SYSTEM_TENANT];
        owners.extend(self.tenants().await?.into_iter().map(|tenant| tenant.id));
        Ok(owners)
    }

    fn sealed(
        &self,
        tenant: TenantId,
        (kind, id): (Kind, &'static str),
        root: &RootKey,
        text: &[u8],
    ) -> Result<Batch, Error> {
        let sealed = SealedKeys { kind, tenant, id };
        let put = sealed.put(root, text, Expect::Any, self.0.entropy.as_ref());
        Ok(Batch { puts: vec![put.map_err(Error::internal)?], ..Batch::default() })
    }
}

pub(super) fn removal(kind: Kind, tenant: TenantId, id: &str) -> Removal {
    Removal { kind, tenant, id: id.to_owned(), expect: Expect::Any }
}
