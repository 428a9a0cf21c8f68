//! A store that asks before it writes, and tells what it finds: a hook decides what is written, and when; and when what was
//! found is told.
//!
//! To have a store behave in another way: a type with a [`Hook`].

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokamak::crypto::integrity::Hash;
use tokamak::figures::Disk;
use tokamak::model::id::TenantId;
use tokamak::store::sled::SledStore;
use tokamak::store::{
    Batch, ChainHead, Compacted, Examiner, Filter, Kind, Protection, Record, Removal, Slice,
    Snapshot, Start, Store, StoreError, StoreFuture, Unique,
};

/// What decides about writes, and when what was found is read.
pub trait Hook: Send + Sync + 'static {
    /// Told which records a page found. If it waits for something, they are read anew after that.
    fn found(&self, _kind: Kind, _slice: &Slice) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Told that records of a kind were looked for by their ids. If it waits for something, what was found then is given
    /// after that.
    fn looked(&self, _kind: Kind) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Asked before each commit that writes something, and before each compaction, which has no batch. What it ends in is
    /// what they end in, unless it lets them go on.
    fn before<'a>(&'a self, batch: Option<&'a Batch>) -> StoreFuture<'a, ()>;
}

/// A store with a hook.
pub struct Wrapped<H> {
    store: SledStore,
    /// The hook.
    pub hook: H,
}

impl<H: Hook + Default> Wrapped<H> {
    pub fn new(store: SledStore) -> Arc<Self> {
        Arc::new(Self { store, hook: H::default() })
    }
}

/// Takes so many more commits and compactions, and then none: what is on the disk is what a process leaves that ends
/// there.
pub struct Ending {
    left: AtomicUsize,
}

impl Default for Ending {
    fn default() -> Self {
        Self { left: AtomicUsize::new(usize::MAX) }
    }
}

impl Ending {
    /// Ends after so many.
    pub fn end_after(&self, commits: usize) {
        self.left.store(commits, Ordering::SeqCst);
    }
}

impl Hook for Ending {
    fn before<'a>(&'a self, _: Option<&'a Batch>) -> StoreFuture<'a, ()> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            usize::MAX => Some(left),
            left => left.checked_sub(1),
        });
        let left = left.map(drop).map_err(|_| StoreError::Unavailable("it ended".to_owned()));
        async { left }.boxed()
    }
}

impl<H: Hook> Store for Wrapped<H> {
    fn find_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Vec<Option<Record>>, usize>> {
        async move {
            let found = self.store.find_at_most(kind, tenant, ids, bytes_max).await;
            if let Some(others) = self.hook.looked(kind) {
                others.await;
            }
            found
        }
        .boxed()
    }

    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>> {
        self.store.find_unique(kind, unique)
    }

    fn page_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        from: (Start, usize),
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Slice, usize>> {
        async move {
            let page = self.store.page_at_most(kind, tenant, filter, from, bytes_max);
            let mut slice = match page.await? {
                Ok(slice) => slice,
                long => return Ok(long),
            };
            if let Some(others) = self.hook.found(kind, &slice) {
                others.await;
                let ids: Vec<&str> =
                    slice.records.iter().map(|record| record.id.as_str()).collect();
                let read = self.store.find(kind, tenant, &ids).await?;
                slice.records = read.into_iter().flatten().collect();
            }
            Ok(Ok(slice))
        }
        .boxed()
    }

    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()> {
        async move {
            // One that writes nothing leaves nothing.
            if ![Batch::default(), Batch::nothing(), Batch::cleared()].contains(&batch) {
                self.hook.before(Some(&batch)).await?;
            }
            self.store.commit(batch).await
        }
        .boxed()
    }

    fn compact(&self) -> StoreFuture<'_, Compacted> {
        async move {
            self.hook.before(None).await?;
            self.store.compact().await
        }
        .boxed()
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
        self.store.health()
    }

    fn close(&self) {
        self.store.close();
    }
}
