//! The store on sled 0.34: one tree, one writer thread with group commit and a real sync, an index in memory.
//!
//! Reads go straight to sled, which answers from its cache or its mapped log; they block the calling task for
//! microseconds, or for one read of the disk.

mod index;
mod log;
mod numbers;
mod rows;
mod space;
mod term_hasher;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use parking_lot::{Mutex, RwLock};
use sled::Tree;
use tokio::sync::{mpsc, oneshot};

use self::index::{Found, Index};
use self::log::{Log, SEGMENT_BYTES};
use self::rows::{
    Address, FORMAT, FORMAT_KEY, Head, INDEX_PREFIX, IndexRow, read_unique, unique_key,
};
pub use self::space::Space;
use self::writer::{Waiting, Writer};
use super::{
    Batch, Filter, Kind, Position, Record, Slice, Start, Store, StoreError, StoreFuture, Unique,
};
use crate::model::id::TenantId;

/// Batches that may wait for the writer; more wait for room.
const QUEUE_BATCHES: usize = 1_024;

/// How often sled's lock is asked for again, and how long after.
const CLOSING_TRIES: usize = 500;
const CLOSING_PAUSE: Duration = Duration::from_millis(10);

/// A store in a folder.
pub struct SledStore {
    tree: Tree,
    index: Arc<RwLock<Index>>,
    failed: Arc<AtomicBool>,
    space: Arc<Space>,
    queue: Mutex<Option<mpsc::Sender<Waiting>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    // Released last: the folder is another process's to open once everything above is gone.
    _database: sled::Db,
    _lock: File,
}

impl SledStore {
    /// Opens the store in this folder, or makes it. `cache_bytes` bounds sled's cache, not the index.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        make(folder)?;
        Self::open_within(folder, cache_bytes, Space::of(folder)?)
    }

    /// The same, with this measure of the space that there is.
    pub fn open_within(folder: &Path, cache_bytes: u64, space: Space) -> Result<Self, StoreError> {
        make(folder)?;
        let lock = lock(folder)?;
        let began = Instant::now();
        // sled ends in a panic over some files that are damaged.
        let opened = AssertUnwindSafe(|| open_database(folder, cache_bytes));
        let database = catch_unwind(opened).unwrap_or_else(|_| {
            let damaged = format!("{} cannot be read: restore a backup", folder.display());
            Err(StoreError::Damaged(damaged))
        })?;
        let tree: Tree = (*database).clone();
        let file = File::options().read(true).write(true).open(folder.join("db"));
        let log = Log { tree: tree.clone(), file: file.map_err(unavailable)? };
        check_format(&tree)?;
        log.sync()?;
        sync_settings(folder)?;
        log.clean_up()?;
        let recovered = began.elapsed();
        let index = Arc::new(RwLock::new(read_index(&tree)?));
        let indexed = began.elapsed().saturating_sub(recovered);
        tracing::info!(?recovered, ?indexed, "the store is open");
        let (failed, space) = (Arc::new(AtomicBool::new(false)), Arc::new(space));
        let (queue, waiting) = mpsc::channel(QUEUE_BATCHES);
        let writer = Writer {
            log,
            index: Arc::clone(&index),
            failed: Arc::clone(&failed),
            space: Arc::clone(&space),
        };
        let thread = std::thread::Builder::new().name("store writer".to_owned());
        let thread = thread.spawn(move || writer.run(waiting)).map_err(unavailable)?;
        Ok(Self {
            tree,
            index,
            failed,
            space,
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(Some(thread)),
            _database: database,
            _lock: lock,
        })
    }

    fn head(&self, address: &Address) -> Result<Option<(Head, Vec<u8>)>, StoreError> {
        let Some(value) = self.tree.get(address.head_key()).map_err(unavailable)? else {
            return Ok(None);
        };
        let (head, body) = Head::read(&value)?;
        Ok(Some((head, body.to_vec())))
    }

    fn read(&self, kind: Kind, tenant: TenantId, id: &str) -> Result<Option<Record>, StoreError> {
        let address = Address { kind, tenant, id: id.to_owned() };
        let Some((head, mut body)) = self.head(&address)? else { return Ok(None) };
        for number in 0..head.pieces {
            match self.tree.get(address.piece_key(head.version, number)).map_err(unavailable)? {
                Some(piece) => body.extend_from_slice(&piece),
                // Replaced between the two reads: the record as it is now is the answer.
                None => return self.read_again(&address, head.version),
            }
        }
        if head.pieces > 0
            && self.head(&address)?.is_none_or(|(now, _)| now.version != head.version)
        {
            return self.read_again(&address, head.version);
        }
        let Head { version, order_ms, terms, numbers, uniques, .. } = head;
        let id = address.id;
        Ok(Some(Record { kind, tenant, id, version, order_ms, body, terms, numbers, uniques }))
    }

    fn read_again(&self, address: &Address, seen: u64) -> Result<Option<Record>, StoreError> {
        match self.head(address)? {
            Some((head, _)) if head.version == seen => {
                Err(StoreError::Damaged("a piece of a record is missing".to_owned()))
            }
            _ => self.read(address.kind, address.tenant, &address.id),
        }
    }

    fn find_page(
        &self,
        (kind, tenant): (Kind, TenantId),
        filter: &Filter,
        start: &Start,
        size: usize,
    ) -> Result<Slice, StoreError> {
        let mut wanted = Vec::new();
        named_ids(filter, &mut wanted);
        let mut ids = HashMap::with_capacity(wanted.len());
        for id in wanted {
            let address = Address { kind, tenant, id: id.to_owned() };
            if let Some((head, _)) = self.head(&address)? {
                ids.insert(address.id, head.order_ms);
            }
        }
        let Found { total, page, more } =
            self.index.read().page((kind, tenant), filter, start, size, &ids);
        let next = page.last().filter(|_| more).cloned();
        let mut records = Vec::with_capacity(page.len());
        for Position { id, .. } in &page {
            // One that was removed since the index was asked is left out.
            records.extend(self.read(kind, tenant, id)?);
        }
        Ok(Slice { total, records, next })
    }
}

impl Store for SledStore {
    fn find<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
    ) -> StoreFuture<'a, Vec<Option<Record>>> {
        async move { ids.iter().map(|id| self.read(kind, tenant, id)).collect() }.boxed()
    }

    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>> {
        async move {
            let owner = self.tree.get(unique_key(kind, unique)).map_err(unavailable)?;
            let Some(owner) = owner else { return Ok(None) };
            let (tenant, id) = read_unique(&owner)?;
            let record = self.read(kind, tenant, &id)?;
            Ok(record.filter(|record| record.uniques.contains(&unique)))
        }
        .boxed()
    }

    fn page<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        start: Start,
        size: usize,
    ) -> StoreFuture<'a, Slice> {
        async move { self.find_page((kind, tenant), filter, &start, size) }.boxed()
    }

    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()> {
        let queue = self.queue.lock().clone();
        async move {
            let closed = || StoreError::Unavailable("the store is closed".to_owned());
            let (done, outcome) = oneshot::channel();
            let queue = queue.ok_or_else(closed)?;
            queue.send(Waiting { batch, done }).await.map_err(|_| closed())?;
            drop(queue);
            outcome.await.map_err(|_| closed())?
        }
        .boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("an earlier write failed".to_owned()));
        }
        match self.queue.lock().as_ref() {
            Some(_) => self.space.check(),
            None => Err(StoreError::Unavailable("the store is closed".to_owned())),
        }
    }

    fn close(&self) {
        drop(self.queue.lock().take());
        if let Some(writer) = self.writer.lock().take()
            && writer.join().is_err()
        {
            self.failed.store(true, Ordering::Release);
            tracing::error!("the store's writer ended by a panic");
        }
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.close();
    }
}

fn make(folder: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(folder)
        .map_err(|cause| unavailable(format_args!("{} cannot be made: {cause}", folder.display())))
}

/// Ids that a filter names, anywhere in it.
fn named_ids<'f>(filter: &'f Filter, found: &mut Vec<&'f str>) {
    match filter {
        Filter::Ids(ids) => found.extend(ids.iter().map(String::as_str)),
        Filter::And(parts) | Filter::Or(parts) => {
            for part in parts {
                named_ids(part, found);
            }
        }
        Filter::Not(part) => named_ids(part, found),
        Filter::All
        | Filter::Nothing
        | Filter::Term(_)
        | Filter::IdPrefix(_)
        | Filter::Order { .. }
        | Filter::Range { .. } => {}
    }
}

/// A cause of sled or the file system, for the operator.
fn unavailable(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(cause.to_string())
}

/// Opens sled's database. Threads of sled's may still hold its own lock for a moment after the store was closed in this
/// process; nobody else can, since ours was to be had.
fn open_database(folder: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(cache_bytes)
        .segment_size(SEGMENT_BYTES)
        // The writer flushes and syncs; a thread that does so now and then would only be in its way.
        .flush_every_ms(None);
    for _ in 0..CLOSING_TRIES {
        match config.open() {
            Err(sled::Error::Io(cause)) if cause.to_string().contains("acquire lock") => {
                std::thread::sleep(CLOSING_PAUSE);
            }
            opened => return opened.map_err(unavailable),
        }
    }
    config.open().map_err(unavailable)
}

/// Sled locks its own file too, but says so only in terms of a file descriptor.
fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let lock = File::options().create(true).truncate(false).write(true).open(path);
    let lock = lock.map_err(|cause| {
        unavailable(format_args!("{} cannot be written to: {cause}", folder.display()))
    })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(unavailable(format_args!("another process uses {}", folder.display())))
        }
        Err(TryLockError::Error(cause)) => Err(unavailable(cause)),
    }
}

fn check_format(tree: &Tree) -> Result<(), StoreError> {
    match tree.get(FORMAT_KEY).map_err(unavailable)? {
        Some(format) if format == FORMAT => Ok(()),
        Some(_) => Err(StoreError::Damaged(
            "it was written by another version of this software".to_owned(),
        )),
        None => tree.insert(FORMAT_KEY, FORMAT).map(drop).map_err(unavailable),
    }
}

/// sled syncs neither its settings nor the names of its files, and a folder that was there before may still be one that
/// a power cut left half made. A file's name is durable once its folder is synced.
fn sync_settings(folder: &Path) -> Result<(), StoreError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in [&folder.join("conf"), folder, parent.unwrap_or(Path::new("."))] {
        File::open(path).and_then(|file| file.sync_all()).map_err(unavailable)?;
    }
    Ok(())
}

/// Reads all index rows, the kinds side by side.
fn read_index(tree: &Tree) -> Result<Index, StoreError> {
    let kinds = Mutex::new(kinds(tree)?);
    let threads = available_parallelism().map_or(1, usize::from);
    let read_some = || {
        let mut index = Index::default();
        loop {
            let kind = kinds.lock().pop();
            let Some(kind) = kind else { return Ok(index) };
            for row in tree.scan_prefix(kind_prefix(kind)) {
                let (key, value) = row.map_err(unavailable)?;
                index.put(IndexRow::read(&key, &value)?);
            }
        }
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(read_some)).collect();
        let mut index = Index::default();
        for reader in readers {
            let read = reader.join().map_err(|_| unavailable("a reader of the index panicked"))?;
            index.merge(read?);
        }
        Ok(index)
    })
}

/// The kinds that have index rows, found by leaping from one to the next.
fn kinds(tree: &Tree) -> Result<Vec<u8>, StoreError> {
    let mut kinds = Vec::new();
    let mut next = Some(0);
    while let Some(kind) = next {
        let row = tree.range(kind_prefix(kind)..).next().transpose().map_err(unavailable)?;
        let found = row.and_then(|(key, _)| key.strip_prefix(INDEX_PREFIX)?.first().copied());
        kinds.extend(found);
        next = found.and_then(|kind| kind.checked_add(1));
    }
    Ok(kinds)
}

fn kind_prefix(kind: u8) -> Vec<u8> {
    [INDEX_PREFIX, &[kind]].concat()
}
