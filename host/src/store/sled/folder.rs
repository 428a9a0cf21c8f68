//! The folder of a store: opened by one process at a time, its files durable under their names.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure::{is_damage, refused, refused_at, remedy, unavailable};
use crate::clock::{Clock as _, SystemClock};
use crate::store::StoreError;

/// The largest segment that sled can have.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// What the names of sled's snapshots of its page table begin with.
pub const SNAPSHOT_PREFIX: &str = "snap.";
/// And how that of one ends which is being written.
const UNFINISHED: &str = ".generating";
/// How often sled's lock is asked for again, and how long after.
const CLOSING_TRIES: usize = 500;
const CLOSING_PAUSE: Duration = Duration::from_millis(10);
/// How often ours is.
const LEFT_TRIES: usize = 30;

/// Makes a folder that only its owner may enter, whatever the modes are of the files that sled makes in it.
pub fn make(folder: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|cause| {
        let remedy = remedy(cause.kind());
        unavailable(format_args!("{} cannot be made: {cause}{remedy}", folder.display()))
    })
}

/// Opens sled's database. Threads of sled's may still hold its own lock for a moment after the store was closed in this
/// process; nobody else can, since ours was to be had.
pub fn open_database(folder: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    remove_unfinished(folder)?;
    // sled takes 1970 for the beginning of time, and so do times on the wire.
    if SystemClock.now_ms() == 0 {
        return Err(unavailable("this machine's clock stands before 1970: set it"));
    }
    // sled ends in a panic over some files that are damaged.
    let opened = catch_unwind(AssertUnwindSafe(|| try_open(folder, cache_bytes)));
    opened.unwrap_or_else(|_| Err(damaged(folder)))
}

/// Removes a snapshot that sled was writing when the process or the power ended, or the disk was full. sled writes one
/// whenever it opens, and takes what is left of it for the newest one and for damage; the one before and the log have
/// everything.
fn remove_unfinished(folder: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(refused_at(folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(refused_at(folder))?;
        let name = entry.file_name();
        let is_unfinished =
            |name: &str| name.starts_with(SNAPSHOT_PREFIX) && name.ends_with(UNFINISHED);
        if name.to_str().is_some_and(is_unfinished) {
            fs::remove_file(entry.path()).map_err(refused_at(&entry.path()))?;
        }
    }
    Ok(())
}

fn damaged(folder: &Path) -> StoreError {
    StoreError::Damaged(format!("{} cannot be read: restore a backup", folder.display()))
}

fn try_open(folder: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
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
            opened => return opened.map_err(|cause| not_opened(folder, cause)),
        }
    }
    config.open().map_err(|cause| not_opened(folder, cause))
}

/// sled says what failed, but not where.
fn not_opened(folder: &Path, cause: sled::Error) -> StoreError {
    if is_damage(&cause) {
        return damaged(folder);
    }
    match cause {
        sled::Error::Io(cause) if cause.kind() == ErrorKind::PermissionDenied => {
            refused(&closed(folder).unwrap_or_else(|| folder.to_owned()), &cause)
        }
        sled::Error::Io(cause) => refused(folder, &cause),
        // Its settings, of which it says so, are always the same: others are not what was written.
        sled::Error::Unsupported(_) => damaged(folder),
        cause => unavailable(format_args!("{}: {cause}", folder.display())),
    }
}

/// A file or folder in this folder that this process may not read and write.
fn closed(folder: &Path) -> Option<PathBuf> {
    let mut paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_closed = |path: &PathBuf| {
        let opened = if path.is_dir() {
            fs::read_dir(path).map(drop)
        } else {
            File::options().read(true).write(true).open(path).map(drop)
        };
        opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    paths.find(is_closed)
}

/// Sled locks its own file too, but says so only in terms of a file descriptor.
pub fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let lock = File::options().create(true).truncate(false).write(true).open(&path);
    let lock = lock.map_err(|cause| {
        let remedy = remedy(cause.kind());
        unavailable(format_args!("{} cannot be written to: {cause}{remedy}", folder.display()))
    })?;
    match patiently(|| lock.try_lock()) {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(unavailable(format_args!("another process uses {}", folder.display())))
        }
        Err(TryLockError::Error(cause)) => Err(refused(&path, &cause)),
    }
}

/// Asks for a lock again for a moment. What a process was just starting when it was killed has its locks too, until it runs a
/// program of its own.
pub fn patiently(mut lock: impl FnMut() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    for _ in 1..LEFT_TRIES {
        match lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(CLOSING_PAUSE),
            outcome => return outcome,
        }
    }
    lock()
}

/// sled syncs neither its settings nor the names of its files, and a folder that was there before may still be one that
/// a power cut left half made. A file's name is durable once its folder is synced.
pub fn sync_settings(folder: &Path) -> Result<(), StoreError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in [&folder.join("conf"), folder, parent.unwrap_or(Path::new("."))] {
        File::open(path).and_then(|file| file.sync_all()).map_err(refused_at(path))?;
    }
    Ok(())
}
