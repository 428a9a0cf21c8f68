//! The folder of a store: opened by one process at a time, its files durable under their names.

use std::fs::{File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use super::failure::{is_damage, unavailable};
use crate::store::StoreError;

/// The largest segment that sled can have.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// How often sled's lock is asked for again, and how long after.
const CLOSING_TRIES: usize = 500;
const CLOSING_PAUSE: Duration = Duration::from_millis(10);

/// Opens sled's database. Threads of sled's may still hold its own lock for a moment after the store was closed in this
/// process; nobody else can, since ours was to be had.
pub fn open_database(folder: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    // sled ends in a panic over some files that are damaged.
    let opened = catch_unwind(AssertUnwindSafe(|| try_open(folder, cache_bytes)));
    opened.unwrap_or_else(|_| Err(damaged(folder)))
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
    // Here it is known which folder it is.
    let failed = |cause| if is_damage(&cause) { damaged(folder) } else { unavailable(cause) };
    for _ in 0..CLOSING_TRIES {
        match config.open() {
            Err(sled::Error::Io(cause)) if cause.to_string().contains("acquire lock") => {
                std::thread::sleep(CLOSING_PAUSE);
            }
            opened => return opened.map_err(failed),
        }
    }
    config.open().map_err(failed)
}

/// Sled locks its own file too, but says so only in terms of a file descriptor.
pub fn lock(folder: &Path) -> Result<File, StoreError> {
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

/// sled syncs neither its settings nor the names of its files, and a folder that was there before may still be one that
/// a power cut left half made. A file's name is durable once its folder is synced.
pub fn sync_settings(folder: &Path) -> Result<(), StoreError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in [&folder.join("conf"), folder, parent.unwrap_or(Path::new("."))] {
        File::open(path).and_then(|file| file.sync_all()).map_err(unavailable)?;
    }
    Ok(())
}
