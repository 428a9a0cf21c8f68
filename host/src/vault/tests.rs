//! What tests of the vault's inside stand on.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Foundation, Vault};
use crate::clock::ManualClock;
use crate::config::JobLimits;
use crate::crypto::entropy::SeededEntropy;
use crate::crypto::integrity::Hash;
use crate::crypto::keys::RootKey;
use crate::egress::{Egress, EgressConfig};
use crate::figures::Disk;
use crate::model::id::TenantId;
use crate::runtime::{Runtime, RuntimeConfig};
use crate::store::sled::SledStore;
use crate::store::{
    Batch, ChainHead, Compacted, Examiner, Filter, Kind, Protection, Record, Removal, Slice,
    Snapshot, Start, Store, StoreError, StoreFuture, Unique,
};

/// A vault on a folder, without a tenant.
pub(super) async fn vault(folder: &Path, programs_bytes_max: u64) -> Vault {
    vault_on(Arc::new(SledStore::open(folder, 1 << 20).unwrap()), programs_bytes_max).await
}

/// A vault on a store, without a tenant.
pub(super) async fn vault_on(store: Arc<dyn Store>, programs_bytes_max: u64) -> Vault {
    vault_at(0, store, programs_bytes_max).await
}

/// The same, at this time.
pub(super) async fn vault_at(now_ms: u64, store: Arc<dyn Store>, programs_bytes_max: u64) -> Vault {
    let foundation = Foundation {
        store,
        runtime: Runtime::new(RuntimeConfig::new(1)).unwrap(),
        egress: Egress::new(EgressConfig::default()).unwrap(),
        stand_in: None,
        clock: Arc::new(ManualClock::new(now_ms)),
        entropy: Arc::new(SeededEntropy::new(1)),
        root_key: RootKey::draw(&SeededEntropy::new(2)),
        fuel_per_ms: 1,
        react_timeout_ms: 1,
        allow_http_callbacks: false,
        jobs: JobLimits::default(),
        programs_bytes_max,
        opened_bytes_max: 1 << 30,
    };
    Vault::open(foundation).await.unwrap()
}

/// A store that fails as it is told to.
pub(super) struct Failing {
    store: SledStore,
    /// Records of this kind cannot be read.
    pub damaged: Mutex<Option<Kind>>,
    /// No writes are taken, and none is tried.
    pub is_full: Mutex<bool>,
    look: Mutex<Option<Look>>,
}

/// A look by a unique value, which is told once what it found may be given.
struct Look {
    found: oneshot::Sender<()>,
    goes: oneshot::Receiver<()>,
}

/// The next look by a unique value, as it is held back. When this is dropped, it goes on.
pub(super) struct HeldLook {
    /// Told when it has found what is there.
    pub found: oneshot::Receiver<()>,
    /// Lets it go on with that.
    pub go: oneshot::Sender<()>,
}

impl Failing {
    /// One on a folder, that does not fail yet.
    pub fn on(folder: &Path) -> Arc<Self> {
        let store = SledStore::open(folder, 1 << 20).unwrap();
        let (damaged, is_full, look) = (Mutex::new(None), Mutex::new(false), Mutex::new(None));
        Arc::new(Self { store, damaged, is_full, look })
    }

    /// Holds back what the next look by a unique value finds.
    pub fn hold_next_look(&self) -> HeldLook {
        let (tells, found) = oneshot::channel();
        let (go, goes) = oneshot::channel();
        *self.look.lock() = Some(Look { found: tells, goes });
        HeldLook { found, go }
    }
}

impl Store for Failing {
    fn find_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Vec<Option<Record>>, usize>> {
        if *self.damaged.lock() == Some(kind) {
            let damaged = StoreError::Damaged("as told".to_owned());
            return Box::pin(async move { Err(damaged) });
        }
        self.store.find_at_most(kind, tenant, ids, bytes_max)
    }

    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>> {
        let read = self.store.find_unique(kind, unique);
        let Some(Look { found, goes }) = self.look.lock().take() else { return read };
        Box::pin(async move {
            let record = read.await;
            // Nobody waits any more when the test has failed.
            let _ = found.send(());
            let _ = goes.await;
            record
        })
    }

    fn page_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        from: (Start, usize),
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Slice, usize>> {
        self.store.page_at_most(kind, tenant, filter, from, bytes_max)
    }

    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()> {
        if *self.is_full.lock() {
            return Box::pin(async { Err(StoreError::Full) });
        }
        self.store.commit(batch)
    }

    fn compact(&self) -> StoreFuture<'_, Compacted> {
        self.store.compact()
    }

    fn snapshot(&self) -> StoreFuture<'_, Box<dyn Snapshot>> {
        self.store.snapshot()
    }

    fn has_removed(&self) -> bool {
        self.store.has_removed()
    }

    fn protect(
        &self,
        protection: Protection,
        upgrade: Option<&mut dyn Examiner>,
    ) -> Result<(), StoreError> {
        self.store.protect(protection, upgrade)
    }

    fn chain_heads(&self) -> Result<Vec<ChainHead>, StoreError> {
        self.store.chain_heads()
    }

    fn log_starts(&self) -> Result<HashMap<TenantId, u64>, StoreError> {
        self.store.log_starts()
    }

    fn places(
        &self,
        kind: Kind,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<Vec<Option<(u64, Hash)>>, StoreError> {
        self.store.places(kind, tenant, ids)
    }

    fn oldest_entries(
        &self,
        kind: Kind,
        tenant: TenantId,
        kept_ms: RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<Removal>, StoreError> {
        self.store.oldest_entries(kind, tenant, kept_ms, max)
    }

    fn disk(&self) -> Disk {
        self.store.disk()
    }

    fn health(&self) -> Result<(), StoreError> {
        if *self.is_full.lock() { Err(StoreError::Full) } else { self.store.health() }
    }

    fn close(&self) {
        self.store.close();
    }
}
