//! The store on sled 0.34: one tree, one writer thread with group commit in a journal, an index in memory.
//!
//! Reads go straight to sled, which answers from its cache or its mapped log; they block the calling task for
//! microseconds, or for one read of the disk.

mod backlog;
mod changes;
mod compact;
mod copy;
mod failure;
mod files;
mod folder;
mod format;
mod fresh;
mod group;
mod guard;
mod index;
mod inspect;
mod journal;
mod large;
mod live;
mod load;
mod log;
mod moments;
mod note;
mod packs;
mod progress;
mod protect;
mod reads;
mod rows;
mod snapshot;
mod space;
mod syncing;
#[cfg(test)]
mod tests;
mod turns;
mod waiting;
mod wanted;
mod writer;

use std::collections::HashMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub use self::failure::remedy;
use self::failure::{unavailable, unreadable};
use self::files::Files;
pub use self::folder::patiently;
use self::folder::{lock, make};
pub use self::fresh::Fresh;
use self::guard::Guard;
use self::index::Index;
pub use self::inspect::Inspection;
use self::load::Later;
use self::log::Log;
use self::moments::Moments;
use self::progress::{Progress, late};
use self::rows::{read_unique, unique_key};
pub use self::space::Space;
use self::waiting::Waiting;
use self::writer::{Versions, Writer};
use super::{
    Batch, ChainHead, Compacted, Examiner, Filter, Kind, Protection, Record, Removal, Slice,
    Snapshot, Start, Store, StoreError, StoreFuture, Unique,
};
use crate::crypto::integrity::Hash;
use crate::figures::{Disk, figures};
use crate::model::id::TenantId;

/// Batches that may wait for the writer; more wait for room.
const QUEUE_BATCHES: usize = 1_024;
/// How long a batch waits for room.
const ROOM_MAX: Duration = Duration::from_mins(5);
/// How often it is looked whether the writer gets on, while a batch waits for its end.
const COMMIT_LOOK: Duration = Duration::from_secs(10);
/// How long closing waits for a note that may be written to what does not answer.
const NOTE_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether the writer has ended.
const CLOSING_LOOK: Duration = Duration::from_millis(1);

/// A store in a folder.
pub struct SledStore {
    files: Arc<Files>,
    index: Arc<RwLock<Index>>,
    failed: Arc<AtomicBool>,
    guard: Arc<Mutex<Option<Guard>>>,
    applying: Arc<RwLock<()>>,
    moments: Arc<Moments>,
    /// For what is written before the writer takes anything.
    before: Mutex<Option<Log>>,
    space: Arc<Space>,
    /// What is still being read.
    later: Arc<Later>,
    queue: Mutex<Option<mpsc::Sender<Waiting>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    progress: Arc<Progress>,
    /// Held by the one who compacts.
    compacting: Arc<tokio::sync::Mutex<()>>,
    // Released last: the folder is another process's to open once everything above is gone.
    lock: Arc<File>,
}

impl SledStore {
    /// Opens the store in this folder, or makes it. `cache_bytes` bounds sled's cache, not the index.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        Self::open_reading_later(folder, cache_bytes, &[])
    }

    /// The same, but what records of some kinds are found by is read once the store is open: who asks for a page of them
    /// waits until it was.
    pub fn open_reading_later(
        folder: &Path,
        cache_bytes: u64,
        later: &[Kind],
    ) -> Result<Self, StoreError> {
        make(folder)?;
        Self::open_with(folder, cache_bytes, Space::of(folder)?, later)
    }

    /// The same as [`Self::open`], with this measure of the space that there is.
    pub fn open_within(folder: &Path, cache_bytes: u64, space: Space) -> Result<Self, StoreError> {
        make(folder)?;
        Self::open_with(folder, cache_bytes, space, &[])
    }

    fn open_with(
        folder: &Path,
        cache_bytes: u64,
        space: Space,
        later: &[Kind],
    ) -> Result<Self, StoreError> {
        let lock = lock(folder)?;
        let began = Instant::now();
        let (files, log, left) = Files::open(folder, cache_bytes)?;
        let recovered = began.elapsed();
        let index = Arc::new(RwLock::new(load::read(&log.tree, later)?));
        let later = Later::begin(later, &files, &index)?;
        let indexed = began.elapsed().saturating_sub(recovered);
        tracing::info!(?recovered, ?indexed, "the store is open");
        let (failed, space) = (Arc::new(AtomicBool::new(false)), Arc::new(space));
        let (queue, waiting) = mpsc::channel(QUEUE_BATCHES);
        let guard = Arc::default();
        let file = log.file.try_clone().map_err(unavailable)?;
        let before = Log::new(log.tree.clone(), file);
        let (applying, progress) = (Arc::clone(&log.applying), Arc::clone(&log.progress));
        let moments = Arc::<Moments>::default();
        let writer = Writer {
            log,
            moments: Arc::clone(&moments),
            index: Arc::clone(&index),
            failed: Arc::clone(&failed),
            files: Arc::clone(&files),
            guard: Arc::clone(&guard),
            space: Arc::clone(&space),
            versions: Versions::begin(),
            progress: Arc::clone(&progress),
            backlog: backlog::Backlog::of(left),
            may_copy: false,
        };
        let thread = std::thread::Builder::new().name("store writer".to_owned());
        let thread =
            thread.spawn(move || writer.run(turns::Turns::of(waiting))).map_err(unavailable)?;
        Ok(Self {
            files,
            index,
            failed,
            guard,
            applying,
            moments,
            before: Mutex::new(Some(before)),
            space,
            later,
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(Some(thread)),
            progress,
            compacting: Arc::default(),
            lock: Arc::new(lock),
        })
    }
}

impl SledStore {
    /// Notes that what was written is not known, if that is not noted yet: nothing is acknowledged any more. A thread of its
    /// own does it, since the note is written to what may not answer.
    fn fail_beside(&self) -> Option<JoinHandle<()>> {
        if self.failed.swap(true, Ordering::AcqRel) {
            return None;
        }
        tracing::error!("the store does not get on: nothing is acknowledged any more");
        let files = Arc::clone(&self.files);
        let thread = std::thread::Builder::new().name("store note".to_owned());
        let thread = thread.spawn(move || files.note_failure());
        let told = "that a write failed cannot be noted for the next start";
        thread.inspect_err(|error| tracing::warn!(%error, "{told}")).ok()
    }
}

impl Store for SledStore {
    fn find_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        ids: &'a [&'a str],
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Vec<Option<Record>>, usize>> {
        async move { self.read_at_most((kind, tenant), ids, bytes_max) }.boxed()
    }

    fn find_unique(&self, kind: Kind, unique: Unique) -> StoreFuture<'_, Option<Record>> {
        async move {
            // A value that goes from one record to another is at no moment nobody's.
            let _still = self.applying.read();
            let owner = self.files.live().tree.get(unique_key(kind, unique)).map_err(unreadable)?;
            let Some(owner) = owner else { return Ok(None) };
            let (tenant, id) = read_unique(&owner)?;
            let record = self.read(kind, tenant, &id)?;
            Ok(record.filter(|record| record.uniques.contains(&unique)))
        }
        .boxed()
    }

    fn page_at_most<'a>(
        &'a self,
        kind: Kind,
        tenant: TenantId,
        filter: &'a Filter,
        (start, size): (Start, usize),
        bytes_max: usize,
    ) -> StoreFuture<'a, Result<Slice, usize>> {
        async move {
            self.later.wait(kind).await?;
            self.read_page((kind, tenant), filter, (&start, size), bytes_max).await
        }
        .boxed()
    }

    fn commit(&self, batch: Batch) -> StoreFuture<'_, ()> {
        let queue = self.queue.lock().clone();
        async move {
            let (done, mut outcome) = oneshot::channel();
            let queue = queue.ok_or(StoreError::Closed)?;
            // While there is a queue the writer goes only by a panic.
            self.progress.check()?;
            let began = Instant::now();
            match queue.try_send(Waiting::new(batch, done)) {
                Ok(()) => {}
                Err(TrySendError::Full(waiting)) => {
                    let place = timeout(ROOM_MAX, queue.reserve()).await.map_err(|_| late())?;
                    place.map_err(|_| StoreError::Failed)?.send(waiting);
                }
                Err(TrySendError::Closed(_)) => return Err(StoreError::Failed),
            }
            drop(queue);
            let mut was_stuck = false;
            let outcome = loop {
                if let Ok(outcome) = timeout(COMMIT_LOOK, &mut outcome).await {
                    break outcome;
                }
                let is_stuck = self.progress.is_stuck();
                // The process may have been stopped for a while, and the writer with it: so it is looked twice.
                if is_stuck && (was_stuck || self.failed.load(Ordering::Acquire)) {
                    // What becomes of it is not known: as after a write that failed, nothing more may be built on it.
                    self.fail_beside();
                    return Err(StoreError::Failed);
                }
                was_stuck = is_stuck;
            };
            let outcome = outcome.map_err(|_| StoreError::Failed)?;
            figures().committed(began.elapsed());
            outcome
        }
        .boxed()
    }

    fn compact(&self) -> StoreFuture<'_, Compacted> {
        self.make_anew().boxed()
    }

    fn snapshot(&self) -> StoreFuture<'_, Box<dyn Snapshot>> {
        self.freeze().boxed()
    }

    fn has_removed(&self) -> bool {
        self.files.has_removed.load(Ordering::Acquire)
    }

    fn protect(
        &self,
        protection: Protection,
        upgrade: Option<&mut dyn Examiner>,
    ) -> Result<(), StoreError> {
        let mut guard = self.guard.lock();
        // Once: from then on the writer alone writes, and its files may be made anew.
        let mut before = self.before.lock();
        if let Some(log) = before.as_mut() {
            *guard = Some(protect::guard(log, protection, upgrade).inspect_err(|error| {
                // What it says of the store is no failure to write it.
                if matches!(error, StoreError::Unavailable(_)) {
                    self.files.note_failure();
                }
            })?);
            *before = None;
        }
        Ok(())
    }

    fn chain_heads(&self) -> Result<Vec<ChainHead>, StoreError> {
        self.of_guard(Guard::heads)
    }

    fn log_starts(&self) -> Result<HashMap<TenantId, u64>, StoreError> {
        self.of_guard(Guard::firsts)
    }

    fn places(
        &self,
        kind: Kind,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<Vec<Option<(u64, Hash)>>, StoreError> {
        ids.iter().map(|id| protect::place(&self.files.live().tree, kind, tenant, id)).collect()
    }

    fn oldest_entries(
        &self,
        kind: Kind,
        tenant: TenantId,
        kept_ms: RangeInclusive<u64>,
        max: usize,
    ) -> Result<Vec<Removal>, StoreError> {
        let first = self.guard.lock().as_ref().map_or(1, |guard| guard.first(tenant));
        protect::oldest(&self.files.live().tree, (kind, tenant), first, &kept_ms, max)
    }

    fn disk(&self) -> Disk {
        Disk { store_bytes: self.files.live().bytes().ok(), free_bytes: self.space.free() }
    }

    fn health(&self) -> Result<(), StoreError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(StoreError::Failed);
        }
        if let Some(fault) = self.later.fault() {
            return Err(fault);
        }
        match self.queue.lock().as_ref() {
            // The writer goes before the store is closed only by a panic.
            Some(queue) if queue.is_closed() => Err(StoreError::Failed),
            // Which starting anew may mend.
            Some(_) => self.progress.check().and_then(|()| self.space.check()),
            None => Err(StoreError::Closed),
        }
    }

    fn close(&self) {
        drop(self.queue.lock().take());
        self.later.end();
        if let Some(writer) = self.writer.lock().take() {
            while !writer.is_finished() && self.progress.check().is_ok() {
                std::thread::sleep(CLOSING_LOOK);
            }
            let broken = match writer.is_finished().then(|| writer.join()) {
                Some(Ok(())) => None,
                Some(Err(_)) => Some("it ended by a panic"),
                None => Some("it does not get on, and is left"),
            };
            if let Some(broken) = broken {
                tracing::error!("the store's writer is broken: {broken}");
                if let Some(noting) = self.fail_beside() {
                    let until = Instant::now() + NOTE_MAX;
                    while !noting.is_finished() && Instant::now() < until {
                        std::thread::sleep(CLOSING_LOOK);
                    }
                }
            }
        }
        self.files.close();
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.close();
    }
}
