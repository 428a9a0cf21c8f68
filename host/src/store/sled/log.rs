//! Writing so that it is on the disk: sled's tree, and a second handle on sled's log.
//!
//! Two things of sled 0.34 are to be got round, both found by simulated power cuts.
//!
//! Its `flush` ends in `sync_file_range` on Linux, which does not survive a power cut; so the log is synced here. But sled
//! takes what it flushed for safe, says so in the header of the next segment, and at the next opening trusts that header
//! more than what it reads. As long as one sync covers less than a segment, no header on the disk says more than what is
//! on the disk. Hence large segments, and [`Log::write`] must be given little at a time: sled writes several times as
//! much, since it rewrites whole leaves.
//!
//! And a leaf of over a quarter of a segment goes to a file of its own, which nobody syncs. A leaf has some twenty rows;
//! rows are short enough that it never comes to that.

use std::fs::File;

use sled::{Batch as Rows, Tree};

use super::compact::Copy;
use super::rows::{LEFT_PREFIX, Left};
use super::unavailable;
use crate::figures::figures;
use crate::store::StoreError;

/// The largest segment that sled can have.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// Pieces of bodies that may be written or removed before a sync, about.
pub const PIECES_MAX: usize = 256;

/// The tree, and its log.
pub struct Log {
    /// sled's tree.
    pub tree: Tree,
    /// The second handle on sled's log.
    pub file: File,
    /// Where everything is written too while the store is compacted.
    pub copy: Option<Copy>,
}

impl Log {
    /// Writes all of these rows or none; they are on the disk on return.
    pub fn write(&self, rows: Rows) -> Result<(), StoreError> {
        if let Some(copy) = &self.copy {
            copy.write(rows.clone());
        }
        self.tree.apply_batch(rows).map_err(unavailable)?;
        self.sync()
    }

    /// Brings to the disk what was written to the tree.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.tree.flush().map_err(unavailable)?;
        self.file.sync_data().map_err(unavailable)?;
        figures().synced();
        Ok(())
    }

    /// Writes pieces of long bodies ahead of the heads that make them part of a record.
    pub fn write_ahead(&self, pieces: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        for portion in pieces.chunks(PIECES_MAX) {
            let mut rows = Rows::default();
            for (key, piece) in portion {
                rows.insert(key.as_slice(), piece.as_slice());
            }
            self.write(rows)?;
        }
        Ok(())
    }

    /// Removes pieces that no record has any more, and after them the notes that they are left.
    pub fn remove_left(&self, left: &[Left]) -> Result<(), StoreError> {
        let keys = |left: &Left| {
            let Left { address, version, pieces } = left.clone();
            let pieces = (0..pieces).map(move |number| address.piece_key(version, number));
            pieces.chain([left.key()])
        };
        let mut keys = left.iter().flat_map(keys).peekable();
        while keys.peek().is_some() {
            let mut rows = Rows::default();
            for key in keys.by_ref().take(PIECES_MAX) {
                rows.remove(key);
            }
            self.write(rows)?;
        }
        Ok(())
    }

    /// Removes the pieces that were left when the process ended between two portions.
    pub fn clean_up(&self) -> Result<(), StoreError> {
        for row in self.tree.scan_prefix(LEFT_PREFIX) {
            let (key, value) = row.map_err(unavailable)?;
            self.remove_left(&[Left::read(&key, &value)?])?;
        }
        Ok(())
    }
}
