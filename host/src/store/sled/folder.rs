//! The folder of a store: opened by one process at a time, its files durable under their names.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use super::log::SEGMENT_BYTES;
use super::unavailable;
use crate::store::StoreError;

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

/// A failure of sled's to read, for the operator: files that are not as they were written are damage.
pub fn unreadable(cause: sled::Error) -> StoreError {
    if is_damage(&cause) {
        return StoreError::Damaged("its files cannot be read: restore a backup".to_owned());
    }
    unavailable(cause)
}

/// Whether files are not as they were written: changed, or cut short.
fn is_damage(cause: &sled::Error) -> bool {
    match cause {
        sled::Error::Corruption { .. } => true,
        sled::Error::Io(error) => error.kind() == ErrorKind::UnexpectedEof,
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use super::{StoreError, unreadable};

    #[test]
    fn only_what_is_not_as_it_was_written_is_damage() {
        for cause in [
            sled::Error::Corruption { at: None, bt: () },
            sled::Error::Io(std::io::ErrorKind::UnexpectedEof.into()),
        ] {
            let damaged = unreadable(cause).to_string();
            assert!(damaged.starts_with("the storage is damaged: "), "{damaged}");
            assert!(damaged.ends_with("restore a backup"), "{damaged}");
        }
        for cause in [
            sled::Error::Io(std::io::ErrorKind::StorageFull.into()),
            sled::Error::Unsupported("later".to_owned()),
        ] {
            assert!(matches!(unreadable(cause), StoreError::Unavailable(_)));
        }
    }
}
