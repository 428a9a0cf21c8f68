//! What the tree says of the journal, and what the journal says of the tree by it, so that either is held against the other.
//!
//! *A number that the journal came to*: a journal that is gone, emptied, cut off or put back as it was earlier is told
//! from one that never held more. The note is written with what goes past the journal, with each other sync of the tree
//! that the journal has to wait for, and before the first group that a process gives to the journal: so it costs a
//! commit nothing. It never says more than what is in the journal on the disk, as a group is there before it is in the
//! tree. What the journal took since the note cannot be missed by it: that much somebody who changes files can take away
//! as a whole store put back to an earlier time, of which kept heads tell.
//!
//! *How many notes there were*: each record of the journal says how many of them were in the tree, synced, when it was
//! written. Where sled cannot read a part of its log's end, it takes the log for torn there, and leaves out all behind
//! it without a word, as if it had never been written: a tree that has fewer notes than its journal has seen lost what
//! it had. The last record of a store that was closed says so of its very last note. What sled leaves out further ahead
//! only `verify` notices, by the ledgers ([`super::inspect`]).
//!
//! A store that was closed needs nothing of its journal and says so: then the file may be gone, but be no older one.

use sled::Tree;

use super::changes::Rows;
use super::failure::unreadable;
use super::format::has_note;
use super::rows::FORMAT_KEY;
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
    /// Which note of the store's it is.
    pub count: u64,
}

impl Note {
    /// Reads it; a store that a server never wrote to by a journal has none.
    pub fn read(tree: &Tree) -> Result<Option<Self>, StoreError> {
        let Some(value) = tree.get(NOTE_KEY).map_err(unreadable)? else { return Ok(None) };
        let changed = || damaged("was changed");
        let (number, rest) = value.split_first_chunk().ok_or_else(changed)?;
        let (closed, rest) = rest.split_first().ok_or_else(changed)?;
        let (number, is_closed) = (u64::from_be_bytes(*number), *closed == 1);
        let uncounted = Self { number, is_closed, count: 0 };
        if uncounted.value_before_counts() == *value {
            return Ok(Some(uncounted));
        }
        let (count, _) = rest.split_first_chunk().ok_or_else(changed)?;
        let note = Self { count: u64::from_be_bytes(*count), ..uncounted };
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
        value.extend_from_slice(&self.count.to_be_bytes());
        with_digest(value)
    }

    /// The same, as it was in format 8.
    fn value_before_counts(self) -> Vec<u8> {
        let mut value = self.number.to_be_bytes().to_vec();
        value.push(u8::from(self.is_closed));
        with_digest(value)
    }

    /// The note that a store goes on from, if there is one, and the number that its journal does: one that holds groups up
    /// to `last`, `needed` of which the tree may not have, and which has seen so many notes in the tree.
    pub fn held_against(
        tree: &Tree,
        (last, needed): (u64, usize),
        seen: u64,
    ) -> Result<(Option<Self>, u64), StoreError> {
        let gone = || {
            StoreError::Damaged(
                "writes that its journal had seen in it are gone: restore a backup".to_owned(),
            )
        };
        let Some(note) = Self::read(tree)? else {
            return match tree.get(FORMAT_KEY).map_err(unreadable)? {
                // Nothing is given to a journal before the tree has a format.
                None if seen > 0 || needed > 0 => Err(gone()),
                // Earlier versions wrote to the journal of a store that was closed before its first write, too.
                None if last > 0 => Err(StoreError::Damaged(
                    "it is empty, and its journal is not: restore a backup, or remove the folder if nothing was ever \
                    kept in it"
                        .to_owned(),
                )),
                // Before the first group of these formats there was a note.
                Some(format) if seen > 0 || has_note(&format) && needed > 0 => {
                    Err(damaged("is missing"))
                }
                _ => Ok((None, last)),
            };
        };
        match last {
            _ if note.count < seen => Err(gone()),
            last if last >= note.number => Ok((Some(note), last)),
            0 if note.is_closed => Ok((Some(note), note.number)),
            _ => Err(StoreError::Damaged(
                "its journal is missing, cut off or of an earlier time: writes that it had taken are gone"
                    .to_owned(),
            )),
        }
    }
}

fn with_digest(mut value: Vec<u8>) -> Vec<u8> {
    let kept = digest(&[&value]);
    value.extend_from_slice(&kept);
    value
}

fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("what it says of its journal {what}"))
}
