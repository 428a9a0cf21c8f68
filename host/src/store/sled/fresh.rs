//! A store made of rows that were read from another one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::changes::Rows;
use super::copy::{PORTION_BYTES, SYNCED_BYTES, Unwritten};
use super::failure::refused_at;
use super::folder::{lock, open_database, sync_settings};
use super::log::Log;
use crate::store::{Row, StoreError};

/// A store that is being made, in a folder of its own.
pub struct Fresh {
    log: Log,
    folder: PathBuf,
    unsynced: usize,
    unwritten: Unwritten,
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
        let unwritten = Unwritten::default();
        Ok(Self { log, folder, unsynced: 0, unwritten, _database: database, _lock: lock })
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
        let size = (rows.bytes(), rows.len());
        rows.apply(&self.log.tree)?;
        self.unsynced += bytes;
        if self.unsynced >= SYNCED_BYTES {
            self.unsynced = 0;
            self.unwritten.forget();
            return self.log.sync();
        }
        if self.unwritten.count(size) { self.log.flush() } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::Fresh;
    use crate::store::sled::copy::tests::{ends, filling};
    use crate::store::sled::folder::open_database;

    #[test]
    fn rows_whose_log_would_fill_a_segment_are_written() {
        ends(|| {
            let folder = tempfile::tempdir().unwrap();
            let mut fresh = Fresh::begin(folder.path(), 256 << 20).unwrap();
            let rows: Vec<_> = filling().collect();
            fresh.put(rows.clone()).unwrap();
            fresh.finish().unwrap();
            let database = open_database(folder.path(), 256 << 20).unwrap();
            let read =
                database.iter().map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())));
            assert_eq!(read.collect::<Result<Vec<_>, _>>().unwrap(), rows);
        });
    }
}
