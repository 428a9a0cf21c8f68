//! A store made of rows that were read from another one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::changes::Rows;
use super::failure::refused_at;
use super::folder::{lock, open_database, sync_settings};
use super::log::Log;
use crate::store::{Row, StoreError};

/// Bytes of rows that are written at once, about.
const PORTION_BYTES: usize = 256 << 10;
/// Bytes after which what was written is synced; see [`super::log`] for why not less often.
const SYNCED_BYTES: usize = 4 << 20;

/// A store that is being made, in a folder of its own.
pub struct Fresh {
    log: Log,
    folder: PathBuf,
    unsynced: usize,
    _database: sled::Db,
    _lock: File,
}

impl Fresh {
    /// Begins a store in a folder that is there and empty.
    pub fn begin(folder: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let lock = lock(folder)?;
        let database = open_database(folder, cache_bytes)?;
        let tree = (*database).clone();
        let rows = folder.join("db");
        let file = File::options().read(true).write(true).open(&rows);
        let log = Log::new(tree, file.map_err(refused_at(&rows))?);
        let folder = folder.to_owned();
        Ok(Self { log, folder, unsynced: 0, _database: database, _lock: lock })
    }

    /// Writes rows.
    pub fn put(&mut self, rows: Vec<Row>) -> Result<(), StoreError> {
        let (mut portion, mut bytes) = (Rows::default(), 0);
        for (key, value) in rows {
            bytes += key.len() + value.len();
            portion.insert(key, value);
            if bytes >= PORTION_BYTES {
                self.write(std::mem::take(&mut portion), bytes)?;
                bytes = 0;
            }
        }
        self.write(portion, bytes)
    }

    fn write(&mut self, rows: Rows, bytes: usize) -> Result<(), StoreError> {
        rows.apply(&self.log.tree)?;
        self.unsynced += bytes;
        if self.unsynced >= SYNCED_BYTES {
            self.unsynced = 0;
            self.log.sync()?;
        }
        Ok(())
    }

    /// Brings everything to the disk and closes the store.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.log.sync()?;
        sync_settings(&self.folder)
    }

    /// Brings whatever lies in a closed store's folder to the disk: looking into a store may have written to it.
    pub fn settle(folder: &Path) -> Result<(), StoreError> {
        sync_all(folder).map_err(refused_at(folder))
    }
}

fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}
