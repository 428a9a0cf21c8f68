//! The store's files: sled's folder, in generations.
//!
//! sled 0.34 gives no space back and overwrites what was removed only by chance. So [`super::compact`] writes what lives
//! into a folder of its own, `gen-<number>`, and marks that folder as whole with a last, synced file. The whole folder
//! of the highest number is the store; without one it is the folder itself, where every store begins. Whatever else is
//! there was left by a process that ended too early, and is removed when the store opens, once that is found to be whole.
//!
//! A write or a sync that fails leaves pages in the system's cache that it takes for written, and that are not on the disk. A
//! process that is started again would read those and build on them. So the failure is noted in the folder, and the next
//! opening has the cache forget the files first.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::fs::{Advice, fadvise};
use sled::Tree;
use tokio::sync::oneshot;

use super::failure::{FAILED, note_failure, refused, refused_at, unreadable};
use super::folder::{SNAPSHOT_PREFIX, open_database, sync_settings};
use super::journal::{self, Journal, Unsettled};
use super::live::Live;
use super::log::Log;
use super::rows::{FORMAT_KEY, Left, is_read};
use super::wanted::Wishes;
use crate::store::{Compacted, StoreError};

const GENERATION_PREFIX: &str = "gen-";
const WHOLE: &str = "whole";
/// What sled keeps in its folder.
const SLED_NAMES: [&str; 3] = ["db", "conf", "blobs"];
/// How long after its readers are looked for again.
const CLOSING_PAUSE: Duration = Duration::from_millis(10);
/// How long it may take, when the store is closed, until those that were replaced are gone.
const REMOVING_MAX: Duration = Duration::from_mins(1);
/// How long a reader of files that are replaced is waited for.
const READING_MAX: Duration = Duration::from_secs(10);

/// The files, and which of them are read and written.
pub struct Files {
    folder: PathBuf,
    cache_bytes: u64,
    live: RwLock<Arc<Live>>,
    /// Copies that are wanted.
    pub wishes: Wishes,
    /// Whether anything was removed or replaced since the files were made anew.
    pub has_removed: AtomicBool,
    replaced: Mutex<Vec<JoinHandle<()>>>,
}

impl Files {
    /// Opens the files in a folder, which no other process may use.
    pub fn open(
        folder: &Path,
        cache_bytes: u64,
    ) -> Result<(Arc<Self>, Log, Vec<Left>), StoreError> {
        let number = counting(folder)?;
        let failed = folder.join(FAILED);
        if failed.exists() {
            tracing::warn!("an earlier write failed: the files are read from the disk anew");
            forget(folder).and_then(|()| forget(&path(folder, number)))?;
        }
        let (live, file) = open(folder, number, cache_bytes)?;
        let mut log = Log::new(live.tree.clone(), file);
        // What was written by a process that was killed may be in the system's memory alone, and a sync tells of that once.
        let mut begin = || -> Result<Vec<Left>, StoreError> {
            journal::sync(folder)?;
            let mut unsettled = Unsettled::of_store(folder, &log.tree)?;
            // Not before it is known that nothing is missing in these.
            remove_others(folder, number, |other| other != number)?;
            if unsettled.is_cut_short {
                tracing::warn!(
                    "the last write is not whole: it was under way when the power failed, or was changed since"
                );
            }
            log.replay(&mut unsettled)?;
            sync_settings(&path(folder, number))?;
            log.journal = Some(Journal::begin(folder, &unsettled)?);
            log.clean_up()
        };
        let left = begin().inspect_err(|_| note_failure(folder))?;
        remove(&failed).and_then(|()| sync(folder))?;
        let files = Self {
            folder: folder.to_owned(),
            cache_bytes,
            live: RwLock::new(Arc::new(live)),
            wishes: Wishes::default(),
            // What an earlier process removed is not known.
            has_removed: AtomicBool::new(true),
            replaced: Mutex::default(),
        };
        Ok((Arc::new(files), log, left))
    }

    /// Notes that a write failed. Where that cannot be noted either, the log tells.
    pub fn note_failure(&self) {
        note_failure(&self.folder);
    }

    /// What is read now.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read())
    }

    /// Makes the next generation, empty and not whole.
    pub fn begin(&self) -> Result<(Live, File), StoreError> {
        let number = self.live().number + 1;
        remove(&path(&self.folder, number))?;
        open(&self.folder, number, self.cache_bytes)
    }

    /// Marks a generation as whole: it is the store from here on, and nothing may be written to another. Everything in
    /// it must be on the disk.
    pub fn complete(&self, next: &Live) -> Result<(), StoreError> {
        let path = path(&self.folder, next.number);
        sync_settings(&path)?;
        let mark = path.join(WHOLE);
        // What copies files may leave out those in which there is nothing.
        let marked = File::create(&mark)
            .and_then(|mut file| file.write_all(WHOLE.as_bytes()).and_then(|()| file.sync_all()));
        marked.map_err(refused_at(&mark))?;
        sync(&path)
    }

    /// Takes back what [`Self::complete`] may have done before it failed.
    pub fn take_back(&self, next: &Live) -> Result<(), StoreError> {
        let path = path(&self.folder, next.number);
        remove(&path.join(WHOLE))?;
        sync(&path)
    }

    /// Removes a generation that did not become whole, or was never to be.
    pub fn discard(&self, next: Live) {
        let number = next.number;
        drop(next);
        self.remove_copy(number);
    }

    /// The same of one that is closed, or never will be.
    pub fn remove_copy(&self, number: u64) {
        if let Err(error) = remove(&path(&self.folder, number)) {
            tracing::warn!(%error, "files of a copy are left until the next start");
        }
    }

    /// Lets readers go on in the next generation, which is whole, and removes the one before once nobody reads it. Then
    /// `done` is told.
    pub fn replace(
        self: &Arc<Self>,
        next: Live,
        done: oneshot::Sender<Result<Compacted, StoreError>>,
    ) {
        let files = Arc::clone(self);
        let bytes_after = next.bytes().unwrap_or_default();
        let number = next.number;
        let before = std::mem::replace(&mut *self.live.write(), Arc::new(next));
        let remove = move || {
            let bytes_before = before.bytes().unwrap_or_default();
            let since = Instant::now();
            while Arc::strong_count(&before) > 1 && since.elapsed() < READING_MAX {
                std::thread::sleep(CLOSING_PAUSE);
            }
            drop(before);
            // A newer one may have been begun by now.
            let removed = remove_others(&files.folder, number, |other| other < number);
            if removed.is_err() {
                // What was removed from the store is still in them.
                files.has_removed.store(true, Ordering::Release);
            }
            let _ = done.send(removed.map(|()| Compacted { bytes_before, bytes_after }));
        };
        let thread = std::thread::Builder::new().name("store files".to_owned()).spawn(remove);
        match thread {
            Ok(thread) => self.replaced.lock().push(thread),
            Err(error) => {
                tracing::warn!(%error, "replaced files are left until the next start");
                self.has_removed.store(true, Ordering::Release);
            }
        }
    }

    /// Waits until replaced files are removed.
    pub fn close(&self) {
        self.wishes.forget();
        let since = Instant::now();
        for thread in std::mem::take(&mut *self.replaced.lock()) {
            while !thread.is_finished() && since.elapsed() < REMOVING_MAX {
                std::thread::sleep(CLOSING_PAUSE);
            }
            if !thread.is_finished() {
                tracing::warn!("replaced files are left until the next start");
            } else if thread.join().is_err() {
                tracing::error!("removing replaced files ended by a panic");
            }
        }
    }
}

/// The folder of the generation that counts.
pub fn newest(folder: &Path) -> Result<PathBuf, StoreError> {
    Ok(path(folder, counting(folder)?))
}

/// The number of the generation that counts. Where none is marked, that is the folder itself, which has files of sled's then
/// from the very beginning: without them, it is the mark that is missing, and nothing may be taken for new, or removed.
fn counting(folder: &Path) -> Result<u64, StoreError> {
    let number = newest_whole(folder)?;
    if number > 0 || folder.join(SLED_NAMES[0]).exists() {
        return Ok(number);
    }
    let has_files = |number: &u64| path(folder, *number).join(SLED_NAMES[0]).exists();
    match generations(folder)?.into_iter().filter(has_files).max() {
        Some(number) => Err(StoreError::Damaged(format!(
            "the mark {} is missing: if the files beside it are whole, an empty file of this name is one",
            path(folder, number).join(WHOLE).display()
        ))),
        None => Ok(number),
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    match number {
        0 => folder.to_owned(),
        number => folder.join(format!("{GENERATION_PREFIX}{number}")),
    }
}

/// The numbers of generations that have a folder of their own.
fn generations(folder: &Path) -> Result<Vec<u64>, StoreError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused_at(folder))? {
        let name = entry.map_err(refused_at(folder))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(GENERATION_PREFIX));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(found)
}

fn newest_whole(folder: &Path) -> Result<u64, StoreError> {
    let mut newest = 0;
    for number in generations(folder)? {
        let mark = path(folder, number).join(WHOLE);
        match fs::metadata(&mark) {
            Ok(_) => newest = newest.max(number),
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
            // One that may not be looked into is not one that is not whole, which would be removed.
            Err(error) => return Err(refused(&mark, &error)),
        }
    }
    Ok(newest)
}

/// Removes generations beside the one that is kept.
fn remove_others(folder: &Path, kept: u64, goes: impl Fn(u64) -> bool) -> Result<(), StoreError> {
    // All that can go goes: of files that cannot there would be one more each time.
    let others = generations(folder)?.into_iter().filter(|number| goes(*number));
    let removed: Vec<_> = others.map(|number| remove(&path(folder, number))).collect();
    if kept > 0 {
        for entry in fs::read_dir(folder).map_err(refused_at(folder))? {
            let entry = entry.map_err(refused_at(folder))?;
            let name = entry.file_name();
            let sleds = SLED_NAMES.iter().any(|own| name == *own)
                || name.to_str().is_some_and(|name| name.starts_with(SNAPSHOT_PREFIX));
            if sleds {
                remove(&entry.path())?;
            }
        }
    }
    removed.into_iter().collect::<Result<(), _>>()?;
    sync(folder)
}

/// Removes a file, or a folder with all in it; one that is not there is removed already.
fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(refused_at(path)),
    }
}

fn open(folder: &Path, number: u64, cache_bytes: u64) -> Result<(Live, File), StoreError> {
    let path = path(folder, number);
    let database = open_database(&path, cache_bytes)?;
    let tree: Tree = (*database).clone();
    let rows = path.join("db");
    let file = File::options().read(true).write(true).open(&rows).map_err(refused_at(&rows))?;
    check_format(&tree)?;
    Ok((Live { tree, number, database }, file))
}

fn check_format(tree: &Tree) -> Result<(), StoreError> {
    match tree.get(FORMAT_KEY).map_err(unreadable)? {
        Some(format) if is_read(&format) => Ok(()),
        Some(_) => Err(StoreError::Unavailable(
            "it was written by a later version of this software, which opens it".to_owned(),
        )),
        // Written together with the first ledger.
        None => Ok(()),
    }
}

/// Has the system's cache forget the files in a folder.
fn forget(folder: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).map_err(refused_at(folder))? {
        let entry = entry.map_err(refused_at(folder))?;
        let path = entry.path();
        if entry.file_type().map_err(refused_at(&path))?.is_file() {
            let file = File::open(&path).map_err(refused_at(&path))?;
            // Only what is written can be forgotten. That it cannot be is what the note is about.
            let _ = file.sync_all();
            let forgotten = fadvise(&file, 0, None, Advice::DontNeed);
            forgotten.map_err(|error| refused(&path, &error.into()))?;
        }
    }
    Ok(())
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(refused_at(path))
}
