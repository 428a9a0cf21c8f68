//! A copy of the store under way: a portion at a time, and whatever is written meanwhile.

use std::cell::Cell;
use std::fs::File;
use std::ops::Bound;

use super::changes::Rows;
use super::failure::{unavailable, unreadable};
use super::live::Live;
use super::wanted::Wanted;
use crate::store::StoreError;

/// Bytes of rows that are copied between two groups, about.
const PORTION_BYTES: usize = 256 << 10;
/// Bytes after which the copy is synced, so that the last sync finds little to do.
const SYNCED_BYTES: usize = 4 << 20;

/// A copy under way.
pub struct Copy {
    /// Where it is written.
    pub next: Live,
    /// The second handle on its log.
    pub file: File,
    /// Copied so far, in the order of keys.
    last: Option<Vec<u8>>,
    unsynced: usize,
    broken: Cell<Option<StoreError>>,
    /// What it is for.
    pub done: Wanted,
}

impl Copy {
    /// A copy of which nothing is written yet.
    pub fn begin((next, file): (Live, File), done: Wanted) -> Self {
        Self { next, file, last: None, unsynced: 0, broken: Cell::default(), done }
    }

    /// Writes what the store writes. A copy that cannot be written is given up; the store goes on.
    pub fn write(&self, rows: Rows) {
        if let Err(error) = rows.apply(&self.next.tree) {
            self.broken.set(Some(error));
        }
    }

    /// Copies a portion; gives whether it was the last.
    pub fn copy_some(&mut self, log: &sled::Tree) -> Result<bool, StoreError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let from = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut rows, mut bytes, mut last) = (Rows::default(), 0, None);
        for row in log.range::<&[u8], _>((from, Bound::Unbounded)) {
            let (key, value) = row.map_err(unreadable)?;
            bytes += key.len() + value.len();
            last = Some(key.to_vec());
            rows.insert(key, value);
            if bytes >= PORTION_BYTES {
                break;
            }
        }
        let Some(last) = last else { return Ok(true) };
        self.last = Some(last);
        rows.apply(&self.next.tree)?;
        self.unsynced += bytes;
        if self.unsynced >= SYNCED_BYTES {
            self.unsynced = 0;
            self.sync()?;
        }
        Ok(false)
    }

    /// Brings to the disk what was copied.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.next.tree.flush().map_err(unavailable)?;
        self.file.sync_data().map_err(unavailable)
    }
}
