//! What the tree says of the journal: a number that the journal came to, so that a journal that is gone, emptied, cut off
//! or put back as it was earlier is told from one that never held more.
//!
//! The note is written with each sync of the tree that the journal has to wait for, and before the first group that a
//! process gives to the journal: so it costs a commit nothing. It never says more than what is in the journal on the disk,
//! as a group is there before it is in the tree. What the journal took since the note cannot be missed by it: that much
//! somebody who changes files can take away as a whole store put back to an earlier time, of which kept heads tell.
//!
//! A store that was closed needs nothing of its journal and says so: then the file may be gone, but be no older one.

use sled::Tree;

use super::changes::Rows;
use super::failure::unreadable;
use super::rows::{FORMAT, FORMAT_KEY};
use crate::crypto::integrity::digest;
use crate::store::StoreError;

/// The key of the note.
pub const NOTE_KEY: &[u8] = b"mjournal";

/// What the tree says of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The number of a record that the journal came to.
    pub number: u64,
    /// Whether nothing of the journal is needed.
    pub is_closed: bool,
}

impl Note {
    /// Reads it; a store that a server never wrote to by a journal has none.
    pub fn read(tree: &Tree) -> Result<Option<Self>, StoreError> {
        let Some(value) = tree.get(NOTE_KEY).map_err(unreadable)? else { return Ok(None) };
        let changed = || damaged("was changed");
        let (number, rest) = value.split_first_chunk().ok_or_else(changed)?;
        let (closed, _) = rest.split_first().ok_or_else(changed)?;
        let note = Self { number: u64::from_be_bytes(*number), is_closed: *closed == 1 };
        if note.value() == *value { Ok(Some(note)) } else { Err(changed()) }
    }

    /// It, to be written.
    pub fn rows(self) -> Rows {
        let mut rows = Rows::default();
        rows.insert(NOTE_KEY, self.value());
        rows
    }

    /// Its parts, and a digest over them.
    fn value(self) -> Vec<u8> {
        let mut value = self.number.to_be_bytes().to_vec();
        value.push(u8::from(self.is_closed));
        let kept = digest(&[&value]);
        value.extend_from_slice(&kept);
        value
    }

    /// The number that a journal goes on from which holds groups up to `last`, `needed` of which the tree may not have.
    pub fn number_after(tree: &Tree, last: u64, needed: usize) -> Result<u64, StoreError> {
        let Some(note) = Self::read(tree)? else {
            // Before the first group of this format there was a note.
            let format = tree.get(FORMAT_KEY).map_err(unreadable)?;
            return match format {
                Some(format) if format == FORMAT && needed > 0 => Err(damaged("is missing")),
                _ => Ok(last),
            };
        };
        match last {
            last if last >= note.number => Ok(last),
            0 if note.is_closed => Ok(note.number),
            _ => Err(StoreError::Damaged(
                "its journal is missing, cut off or of an earlier time: writes that it had taken are gone"
                    .to_owned(),
            )),
        }
    }
}

fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("what it says of its journal {what}"))
}
