//! The keys at hand, and where they are kept.
//!
//! Keys lie in the store sealed by the root key ([`super::sealed_keys`]); opening the vault's own proves that the root key
//! is the right one. A tenant's keys are opened once and held. [`super::rotation`] changes keys, [`super::erase`]
//! destroys a tenant's.
//!
//! Every commit passes its tenant's *gate*: what it seals is sealed with the tenant's newest key, and nothing is committed
//! for a tenant that was erased. Who changes a tenant's keys closes its gate for a moment, so that none of its commits is
//! under way then. Others go on: among theirs may be some that take seconds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::{Notify, OwnedRwLockReadGuard};

use super::apart::out_of_row;
use super::examine::{self, Look};
use super::record::kind;
use super::rotation::Resealed;
use super::sealed_keys::{
    KEYS_ID, NEXT_ID, OpenError, SYSTEM_TENANT, SealedKeys, open_record, open_system_keys,
};
use super::{Error, Vault};
use crate::crypto::entropy::Entropy;
use crate::crypto::hash::HashKey;
use crate::crypto::keys::{RootKey, SystemKeys, TenantKeys};
use crate::crypto::seal::{self, Place};
use crate::model::id::TenantId;
use crate::store::{Batch, Examiner, Expect, Put, Record, Removal, Store};

type Gate = tokio::sync::RwLock<()>;

/// The gates that a commit passed, open until this is dropped.
pub type Passed = Vec<OwnedRwLockReadGuard<()>>;

/// The keys at hand.
pub struct Keyring {
    /// The one that counts first, and the one before it while its work is taken over.
    pub(super) roots: RwLock<Vec<RootKey>>,
    pub(super) system: SystemKeys,
    pepper: HashKey,
    pub(super) tenants: RwLock<HashMap<TenantId, Arc<TenantKeys>>>,
    pub(super) erased: RwLock<HashSet<TenantId>>,
    /// Tenants with records that do not open, whose older keys therefore stay.
    pub(super) unopened: RwLock<HashSet<TenantId>>,
    pub(super) resealed: Resealed,
    /// Held by who seals anew.
    pub(super) walking: tokio::sync::Mutex<()>,
    /// Told when there is something to seal anew.
    pub(super) resealing: Notify,
    /// Told when a rotation has ended, and what its old keys were in is to leave the store's files.
    pub(super) old_keys: Notify,
    /// Each read by every commit of its tenant, written by who changes its keys.
    gates: RwLock<HashMap<TenantId, Arc<Gate>>>,
    /// Held by who makes tenants or changes keys.
    pub(super) operating: tokio::sync::Mutex<()>,
    /// Held by who removes what erased tenants and old keys left.
    pub(super) sweeping: tokio::sync::Mutex<()>,
}

impl Keyring {
    /// Opens the vault's own keys; makes them on an empty store.
    pub async fn open(
        store: &dyn Store,
        root: RootKey,
        entropy: &Arc<dyn Entropy>,
    ) -> Result<Self, OpenError> {
        let mut found = store.find(kind::SYSTEM, SYSTEM_TENANT, &[KEYS_ID]).await?;
        let found = found.pop().flatten();
        let system = match &found {
            Some(record) => open_system_keys(&root, record)?,
            None => SystemKeys::draw(entropy.as_ref()),
        };
        // Before anything is written.
        let protection = examine::protection(&system, Arc::clone(entropy));
        let mut look = Look::for_upgrade(root.clone());
        let is_old = found.is_some() && !system.protected;
        store.protect(protection, is_old.then_some(&mut look as &mut dyn Examiner))?;
        let system = SystemKeys { protected: true, ..system };
        if found.is_none() || is_old {
            // From here on nobody can say that it was never protected.
            let expect = found.as_ref().map_or(Expect::Absent, |old| Expect::Version(old.version));
            let sealed = SealedKeys { kind: kind::SYSTEM, tenant: SYSTEM_TENANT, id: KEYS_ID };
            let put = sealed.put(&root, &system.to_bytes(), expect, entropy.as_ref());
            let put = put.map_err(|_| OpenError::Damaged)?;
            store.commit(Batch { puts: vec![put], ..Batch::default() }).await?;
        }
        Ok(Self {
            roots: RwLock::new(vec![root]),
            pepper: HashKey::new(system.pepper.clone()),
            system,
            tenants: RwLock::default(),
            erased: RwLock::default(),
            unopened: RwLock::default(),
            resealed: Resealed::default(),
            walking: tokio::sync::Mutex::default(),
            resealing: Notify::new(),
            old_keys: Notify::new(),
            gates: RwLock::default(),
            operating: tokio::sync::Mutex::default(),
            sweeping: tokio::sync::Mutex::default(),
        })
    }

    /// The key that hashes API keys.
    pub fn pepper(&self) -> &HashKey {
        &self.pepper
    }

    /// The root key that counts.
    pub(super) fn root(&self) -> Result<RootKey, Error> {
        let root = self.roots.read().first().cloned();
        root.ok_or_else(|| Error::internal("there is no root key"))
    }

    /// Draws a tenant's keys and the record that keeps them.
    pub fn draw_tenant(
        &self,
        tenant: TenantId,
        entropy: &dyn Entropy,
    ) -> Result<(Arc<TenantKeys>, Put), Error> {
        let keys = TenantKeys::draw(entropy);
        let put = self.put_tenant(tenant, &keys, Expect::Absent, entropy)?;
        Ok((Arc::new(keys), put))
    }

    /// The record that keeps a tenant's keys.
    pub(super) fn put_tenant(
        &self,
        tenant: TenantId,
        keys: &TenantKeys,
        expect: Expect,
        entropy: &dyn Entropy,
    ) -> Result<Put, Error> {
        let sealed = SealedKeys { kind: kind::TENANT_KEYS, tenant, id: KEYS_ID };
        let put = sealed.put(&self.root()?, &keys.to_bytes(), expect, entropy);
        put.map_err(Error::internal)
    }

    /// Has what is sealed with the key of other keys of a tenant opened from here on.
    pub(super) fn open_with(&self, tenant: TenantId, others: &TenantKeys) {
        if let Some(keys) = self.tenants.write().get_mut(&tenant) {
            let (version, key) = others.sealing.clone();
            let mut more = (**keys).clone();
            more.retired.insert(version, key);
            *keys = Arc::new(more);
        }
    }

    /// A tenant's gate.
    pub(super) fn gate(&self, tenant: TenantId) -> Arc<Gate> {
        if let Some(gate) = self.gates.read().get(&tenant) {
            return Arc::clone(gate);
        }
        Arc::clone(self.gates.write().entry(tenant).or_default())
    }

    /// Opens the gates of all whose records a batch touches. Who closes one waits for no other, so no order is needed.
    async fn pass(&self, batch: &Batch) -> Passed {
        let puts = batch.puts.iter().map(|put| put.record.tenant);
        let mut tenants: Vec<TenantId> =
            puts.chain(batch.removals.iter().map(|gone| gone.tenant)).collect();
        // Each once: a gate that somebody waits to close is not passed a second time.
        tenants.sort_unstable_by_key(|tenant| tenant.0);
        tenants.dedup();
        let mut passed = Vec::with_capacity(tenants.len());
        for tenant in tenants {
            passed.push(self.gate(tenant).read_owned().await);
        }
        passed
    }

    /// Lets a batch through: sealed with the newest keys, as of now and until the guard is dropped.
    pub(super) async fn admit(
        &self,
        batch: &mut Batch,
        entropy: &dyn Entropy,
    ) -> Result<Passed, Error> {
        let open = self.pass(batch).await;
        let mut last: Option<(TenantId, Option<Arc<TenantKeys>>)> = None;
        for Put { record, expect } in &mut batch.puts {
            let keys = match &last {
                Some((tenant, keys)) if *tenant == record.tenant => keys,
                _ => {
                    if self.erased.read().contains(&record.tenant) {
                        return Err(Error::TenantGone);
                    }
                    let keys = self.tenants.read().get(&record.tenant).cloned();
                    &last.insert((record.tenant, keys)).1
                }
            };
            if let Some(keys) = keys {
                seal_newest(record, keys, entropy)?;
            }
            self.resealed.follow((record.kind, record.tenant, &record.id), expect, false);
        }
        for gone in &mut batch.removals {
            let Removal { kind, tenant, id, expect } = gone;
            self.resealed.follow((*kind, *tenant, id), expect, true);
        }
        Ok(open)
    }
}

/// Seals a record with the newest of its tenant's keys, if it was sealed with another; gives whether it was.
pub fn seal_newest(
    record: &mut Record,
    keys: &TenantKeys,
    entropy: &dyn Entropy,
) -> Result<bool, Error> {
    let (newest, key) = keys.sealing_key();
    let sealed_with = seal::version_of(&record.body);
    if matches!(record.kind, kind::SYSTEM | kind::TENANT_KEYS)
        || sealed_with.is_none_or(|version| version == newest)
    {
        return Ok(false);
    }
    let place = Place { kind: record.kind.0, tenant: record.tenant.0.as_bytes(), id: &record.id };
    let text = seal::open_enveloped(|version| keys.opening_key(version), place, &record.body);
    let text = text.map_err(Error::internal)?;
    let body = seal::seal_enveloped((newest, key), place, &text, entropy);
    record.body = body.map_err(Error::internal)?;
    Ok(true)
}

impl Vault {
    /// A tenant's keys.
    pub(super) async fn keys(&self, tenant: TenantId) -> Result<Arc<TenantKeys>, Error> {
        let keyring = &self.0.keyring;
        if let Some(keys) = keyring.tenants.read().get(&tenant) {
            return Ok(Arc::clone(keys));
        }
        out_of_row(self.keys_into_ring(tenant)).await
    }

    async fn keys_into_ring(&self, tenant: TenantId) -> Result<Arc<TenantKeys>, Error> {
        let keyring = &self.0.keyring;
        // Keys are not to be put into the ring that are changed or destroyed meanwhile.
        let gate = keyring.gate(tenant);
        let _open = gate.read().await;
        if keyring.erased.read().contains(&tenant) {
            return Err(Error::TenantGone);
        }
        let Some((_, keys)) = self.stored_keys(tenant).await? else {
            // Whoever belongs to a tenant without keys is nobody any more.
            let system = tenant == SYSTEM_TENANT;
            return Err(if system { Error::NotFound("tenant") } else { Error::TenantGone });
        };
        Ok(Arc::clone(keyring.tenants.write().entry(tenant).or_insert_with(|| Arc::new(keys))))
    }

    /// A tenant's keys as they are stored, with their version.
    pub(super) async fn stored_keys(
        &self,
        tenant: TenantId,
    ) -> Result<Option<(u64, TenantKeys)>, Error> {
        let found = self.0.store.find(kind::TENANT_KEYS, tenant, &[KEYS_ID, NEXT_ID]).await?;
        let version = found.first().and_then(|own| own.as_ref().map(|own| own.version));
        let Some(version) = version else { return Ok(None) };
        // While root keys change, each opens one of the two.
        let roots = self.0.keyring.roots.read().clone();
        for root in &roots {
            for record in found.iter().flatten() {
                if let Ok(text) = open_record(root, record) {
                    let keys = TenantKeys::from_bytes(&text).map_err(Error::internal)?;
                    return Ok(Some((version, keys)));
                }
            }
        }
        Err(Error::internal("the keys of a tenant do not open"))
    }
}
