//! What an operator does to a data folder: commands of the binary, copies, looks into the store.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use tokamak::crypto::integrity::Hash;
use tokamak::crypto::keys::{RootKey, TenantKeys};
use tokamak::crypto::seal::{self, Place};
use tokamak::model::id::TenantId;
use tokamak::store::sled::SledStore;
use tokamak::store::{
    Batch, ChainHead, Compacted, Examiner, Filter, Kind, Protection, Record, Removal, Slice,
    Snapshot, Start, Store, StoreError, StoreFuture, Unique,
};
use uuid::Uuid;

use super::binary::command;

/// Kinds of records that tests look at.
pub const SYSTEM: Kind = Kind(0);
pub const TENANT_KEYS: Kind = Kind(2);
pub const TOKEN: Kind = Kind(4);
/// The tenant of what belongs to no tenant.
pub const NOBODY: TenantId = TenantId(Uuid::nil());

/// Runs a command on a folder; gives its exit code and what it printed.
pub fn operate(folder: &Path, root_key: Option<&str>, arguments: &[&str]) -> (i32, String, String) {
    let mut command = command();
    command.args(arguments).args(["--log", "warn", "--data-dir"]).arg(folder);
    if let Some(key) = root_key {
        command.env("TOKAMAK_ROOT_KEY", key);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command that must succeed; gives what it printed.
#[track_caller]
pub fn done(folder: &Path, root_key: Option<&str>, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = operate(folder, root_key, arguments);
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
    stdout
}

/// Copies a folder with all that is in it, but for sockets.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, into) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &into);
        } else if kind.is_file() {
            fs::copy(entry.path(), into).unwrap();
        }
    }
}

/// How often these bytes lie in any file of a folder. Files may go while it looks.
pub fn occurrences(folder: &Path, bytes: &[u8]) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            count += occurrences(&entry.path(), bytes);
        } else if kind.is_file() {
            let text = fs::read(entry.path()).unwrap_or_default();
            // The first byte alone rules most places out.
            let at = |(at, _): (usize, &u8)| text[at..].starts_with(bytes);
            count +=
                text.iter().enumerate().filter(|(_, b)| **b == bytes[0]).filter(|b| at(*b)).count();
        }
    }
    count
}

/// A record, as the store has it.
pub async fn record(store: &dyn Store, kind: Kind, tenant: TenantId, id: &str) -> Option<Record> {
    store.find(kind, tenant, &[id]).await.unwrap().pop().flatten()
}

/// All records of a tenant.
pub async fn records(store: &dyn Store, tenant: TenantId) -> Vec<Record> {
    let mut all = Vec::new();
    for kind in 0..=u8::MAX {
        let (filter, start) = (Filter::All, Start::Offset(0));
        let size = usize::MAX;
        all.extend(store.page(Kind(kind), tenant, &filter, start, size).await.unwrap().records);
    }
    all
}

/// A tenant's keys, if this root key opens them.
pub async fn tenant_keys(
    store: &dyn Store,
    tenant: TenantId,
    root: &RootKey,
) -> Option<TenantKeys> {
    let record = record(store, TENANT_KEYS, tenant, "keys").await?;
    let place = Place { kind: TENANT_KEYS.0, tenant: tenant.0.as_bytes(), id: "keys" };
    let text = seal::open(root.as_key(), place, &record.body).ok()?;
    Some(TenantKeys::from_bytes(&text).unwrap())
}

/// A store that takes so many more commits and compactions, and then none: what is on the disk is what a process leaves
/// that ends there.
pub struct Ending {
    store: SledStore,
    left: AtomicUsize,
}

impl Ending {
    pub fn new(store: SledStore) -> Arc<Self> {
        Arc::new(Self { store, left: AtomicUsize::new(usize::MAX) })
    }

    /// Ends after so many.
    pub fn end_after(&self, commits: usize) {
        self.left.store(commits, Ordering::SeqCst);
    }

    fn go_on(&self) -> Result<(), StoreError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            usize::MAX => Some(left),
            left => left.checked_sub(1),
        });
        left.map(drop).map_err(|_| StoreError::Unavailable("it ended".to_owned()))
    }
}

impl Store for Ending {
    fn find<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
    ) -> StoreFuture<'a, Vec<Option<Record>>> {
        self.store.find(kind, tenant, ids)
    }

    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>> {
        self.store.find_unique(kind, unique)
    }

    fn page<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        start: Start,
        size: usize,
    ) -> StoreFuture<'a, Slice> {
        self.store.page(kind, tenant, filter, start, size)
    }

    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()> {
        // One that writes nothing leaves nothing.
        if batch != Batch::default()
            && let Err(error) = self.go_on()
        {
            return async { Err(error) }.boxed();
        }
        self.store.commit(batch)
    }

    fn compact(&self) -> StoreFuture<'_, Compacted> {
        match self.go_on() {
            Ok(()) => self.store.compact(),
            Err(error) => async { Err(error) }.boxed(),
        }
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
        before_ms: u64,
        max: usize,
    ) -> Result<Vec<Removal>, StoreError> {
        self.store.oldest_entries(kind, tenant, before_ms, max)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()
    }

    fn close(&self) {
        self.store.close();
    }
}
