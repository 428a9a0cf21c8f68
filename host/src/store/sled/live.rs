//! The files of a generation, open.

use sled::Tree;

use super::failure::unavailable;
use crate::store::StoreError;

/// A generation that is open.
pub struct Live {
    /// What is kept.
    pub tree: Tree,
    /// Its number.
    pub number: u64,
    /// Released last, with the tree's last reader.
    pub database: sled::Db,
}

impl Live {
    /// Bytes of its files.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        self.database.size_on_disk().map_err(unavailable)
    }
}
