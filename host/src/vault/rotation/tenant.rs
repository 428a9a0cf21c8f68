//! Changing a tenant's key: a new one seals whatever is written from then on.

use std::sync::Arc;

use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::store::Expect;
use crate::vault::audit::{Actor, Event};
use crate::vault::sealed_keys::SYSTEM_TENANT;
use crate::vault::{Error, Vault};

impl Vault {
    /// Draws a new key for a tenant; gives its version. What was sealed before is sealed anew by [`Vault::reseal`].
    pub async fn rotate_tenant_key(&self, tenant: TenantId) -> Result<u32, Error> {
        let _one = self.0.keyring.operating.lock().await;
        if tenant != SYSTEM_TENANT && !self.keys_owners().await?.contains(&tenant) {
            return Err(Error::NotFound("tenant"));
        }
        let under_way = Error::Conflict("The tenant's last rotation is still under way.");
        self.rotate_one(tenant).await?.ok_or(under_way)
    }

    /// The same for every tenant, and for what belongs to none; gives how many keys were drawn, and for whom none was, since
    /// the last rotation is still under way.
    pub async fn rotate_all_tenant_keys(&self) -> Result<(usize, Vec<TenantId>), Error> {
        let _one = self.0.keyring.operating.lock().await;
        let (mut drawn, mut skipped) = (0, Vec::new());
        for tenant in self.keys_owners().await? {
            match self.rotate_one(tenant).await? {
                Some(_) => drawn += 1,
                None => skipped.push(tenant),
            }
        }
        Ok((drawn, skipped))
    }

    /// `None` while the tenant's last rotation is still under way.
    async fn rotate_one(&self, tenant: TenantId) -> Result<Option<u32>, Error> {
        let (keyring, entropy) = (&self.0.keyring, self.0.entropy.as_ref());
        self.keys(tenant).await?;
        let gate = keyring.gate(tenant).write_owned().await;
        let stored = self.stored_keys(tenant).await?;
        let (version, keys) = stored.ok_or(Error::NotFound("tenant"))?;
        if !keys.older.is_empty() {
            return Ok(None);
        }
        let mut rotated = keys.rotated(entropy);
        let put = keyring.put_tenant(tenant, &rotated, Expect::Version(version), entropy)?;
        let mut change = self.change(tenant).await?;
        // Whoever reads that entry in between must be able to open it. Nothing is sealed with the new key before it is stored.
        keyring.open_with(tenant, &rotated);
        // Not by `Change::commit`, which waits at the gate; what the new key is to seal begins with the entry that tells of it.
        (change.keys, change.batch.puts) = (Arc::new(rotated.clone()), vec![put]);
        let owner = tenant.to_string();
        let event = Event::done(EntityType::Tenant, owner, Operation::Update, "Key rotated");
        change.enter(Actor::OPERATOR, vec![event])?;
        self.0.store.commit(change.batch).await?;
        let newest = rotated.sealing_key().0;
        {
            // Nobody forgets one in between, or it would come back.
            let mut known = keyring.tenants.write();
            let retired = known.get(&tenant).map(|keys| keys.retired.clone());
            rotated.retired = retired.unwrap_or_default();
            rotated.retired.remove(&newest);
            known.insert(tenant, Arc::new(rotated));
        }
        // What is asked for from now on is sealed with the new key, and waits for nobody.
        drop(gate);
        tracing::info!(%tenant, version = newest, "a tenant's key was rotated");
        self.0.keyring.resealing.notify_one();
        Ok(Some(newest))
    }
}
