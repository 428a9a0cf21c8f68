//! Writing so that it is on the disk: the journal, sled's tree, and a second handle on sled's log.
//!
//! A group of rows goes to the [`Journal`], which takes one sync, and to the tree. The tree is synced beside the writer.
//! Nothing that the journal does not have is written to the tree as long as the journal has something that the tree may
//! lose: it would be put into it again over what is newer.
//!
//! Two things of sled 0.34 are to be got round, both found by simulated power cuts.
//!
//! Its `flush` ends in `sync_file_range` on Linux, which does not survive a power cut; so the log is synced here. But sled
//! takes what it flushed for safe, says so in the header of the next segment, and at the next opening trusts that header
//! more than what it reads. As long as one sync covers less than a segment, no header on the disk says more than what is
//! on the disk. Hence large segments, and [`Log::write`] must be given little at a time, as the journal must take little
//! before the tree is synced: sled writes several times as much, since it rewrites whole leaves.
//!
//! And a leaf of over a quarter of a segment goes to a file of its own, which nobody syncs. A leaf has some twenty rows;
//! rows are short enough that it never comes to that.

use std::fs::File;
use std::sync::Arc;

use parking_lot::RwLock;
use sled::Tree;

use super::changes::Rows;
use super::copy::Copy;
use super::failure::{note_failure, unavailable, unreadable};
use super::journal::{Journal, ROW_BYTES_MAX, Unsettled};
use super::packs;
use super::progress::Progress;
use super::rows::{FORMAT, FORMAT_KEY, Head, LEFT_PREFIX, Left, PIECE_BYTES, PIECES_MAX};
use super::syncing::{Syncer, Syncing};
use crate::store::{Record, StoreError};

/// Groups that one sync covers when they are put into the tree again: each is a small part of a segment at most.
const REPLAYED_GROUPS: usize = 2;
/// Bytes of a head's row beside its record's id and body and what the record is found by: the rest of the key, of the
/// value, a tag and a place in a chain.
const HEAD_BYTES: usize = 18 + 26 + 33 + 40;

/// Pieces of a record's body: none where it follows the head, in a row that is short enough even so.
pub fn pieces_of(record: &Record) -> usize {
    let Record { id, body, .. } = record;
    let row = HEAD_BYTES + id.len() + found_by_bytes(record) + body.len();
    let is_short = body.len() <= PIECE_BYTES && row <= ROW_BYTES_MAX;
    if is_short { 0 } else { body.len().div_ceil(PIECE_BYTES) }
}

/// Bytes of a record's rows, about: its body, and what it is found by, which stands in two of them.
pub fn bytes_of(record: &Record) -> usize {
    record.body.len() + 2 * found_by_bytes(record)
}

fn found_by_bytes(record: &Record) -> usize {
    let Record { terms, numbers, uniques, .. } = record;
    terms.len() * 16 + numbers.len() * 9 + uniques.len() * 32
}

/// The tree, and its log.
pub struct Log {
    /// sled's tree.
    pub tree: Tree,
    /// The second handle on sled's log.
    pub file: Arc<File>,
    /// Where everything is written too while the store is compacted.
    pub copy: Option<Copy>,
    /// Where groups are made durable, if not in the tree.
    pub journal: Option<Journal>,
    /// The tree is being synced beside the writer.
    settling: Option<Settling>,
    syncer: Syncer,
    /// Syncs of copies that were given up and may still go on.
    left: Vec<Syncing>,
    /// Whether the tree says that there is a journal: other software must find there that it cannot read this store.
    is_current: bool,
    /// Whether it says so of this process's journal ([`super::note`]).
    is_noted: bool,
    /// Told that one portion after the other gets on.
    pub progress: Arc<Progress>,
    /// Held while a group goes to the tree row by row, by whoever must not see a part of it.
    pub applying: Arc<RwLock<()>>,
}

/// The tree is being synced, with all up to this number in the journal, and so many notes.
struct Settling {
    number: u64,
    notes: u64,
    syncing: Syncing,
}

impl Settling {
    fn begin(syncer: &mut Syncer, tree: &Tree, file: &Arc<File>, journal: &Journal) -> Self {
        let folder = journal.folder.clone();
        let syncing = syncer.begin(tree, Some(file), move |_| note_failure(&folder));
        Self { number: journal.last(), notes: journal.notes(), syncing }
    }

    /// Waits until it is synced, and tells the journal.
    fn wait(self, journal: Option<&mut Journal>) -> Result<(), StoreError> {
        let Self { number, notes, syncing } = self;
        syncing.wait()?;
        if let Some(journal) = journal {
            journal.settle(number);
            journal.noted(notes);
        }
        Ok(())
    }
}

impl Log {
    /// A log without a journal.
    pub fn new(tree: Tree, file: File) -> Self {
        let (file, applying, progress) = (Arc::new(file), Arc::default(), Arc::default());
        let syncer = Syncer::default();
        Self {
            tree,
            file,
            copy: None,
            journal: None,
            settling: None,
            syncer,
            left: Vec::new(),
            is_current: false,
            is_noted: false,
            progress,
            applying,
        }
    }

    /// Writes all of these rows or none; they are on the disk on return.
    pub fn write(&mut self, rows: Rows) -> Result<(), StoreError> {
        self.write_seen(rows, || {})
    }

    /// The same, with this done before any of them is seen in the tree.
    pub fn write_seen(&mut self, rows: Rows, seen: impl FnOnce()) -> Result<(), StoreError> {
        let is_current = self.is_current()?;
        if is_current && !self.is_noted {
            self.note_journal()?;
        }
        match &mut self.journal {
            Some(journal) if is_current && Journal::takes(&rows) => {
                let full = !journal.has_room(&rows);
                let waits = journal.must_settle() || full && !journal.can_turn();
                if waits && let Some(settling) = self.settling.take() {
                    settling.wait(Some(journal))?;
                } else if let Some(Settling { number, notes, syncing }) = &self.settling
                    && let Some(outcome) = syncing.ended()
                {
                    outcome?;
                    journal.settle(*number);
                    journal.noted(*notes);
                    self.settling = None;
                }
                if full && !journal.can_turn() {
                    note(journal, false, &self.tree, self.copy.as_mut())?;
                    sync_noted((&mut self.syncer, &self.tree, &self.file), journal)?;
                    journal.settle(journal.last());
                }
                if full {
                    journal.turn()?;
                }
                if self.settling.is_none() && journal.is_to_settle() {
                    journal.settling();
                    let (tree, file) = (&self.tree, &self.file);
                    note(journal, false, tree, self.copy.as_mut())?;
                    self.settling = Some(Settling::begin(&mut self.syncer, tree, file, journal));
                }
                journal.add(&rows)?;
            }
            _ => return self.write_through(rows, seen),
        }
        self.copy_too(&rows);
        seen();
        let _applying = self.applying.write();
        rows.apply(&self.tree)
    }

    fn is_current(&mut self) -> Result<bool, StoreError> {
        if !self.is_current {
            let format = self.tree.get(FORMAT_KEY).map_err(unreadable)?;
            self.is_current = format.is_some_and(|format| format == FORMAT);
        }
        Ok(self.is_current)
    }

    /// Says in the tree that there is a journal, before it takes anything that the tree may lose.
    fn note_journal(&mut self) -> Result<(), StoreError> {
        if let Some(journal) = &mut self.journal {
            // There may be no record yet that the tree could name.
            journal.mark()?;
            note(journal, false, &self.tree, self.copy.as_mut())?;
            sync_noted((&mut self.syncer, &self.tree, &self.file), journal)?;
            self.is_noted = true;
        }
        Ok(())
    }

    /// Writes the last for this process: nothing of the journal is needed then, and it holds nothing.
    pub fn close(&mut self) -> Result<(), StoreError> {
        self.settle_and_wipe()?;
        let is_current = self.is_current()?;
        match &mut self.journal {
            Some(journal) if is_current => {
                note(journal, true, &self.tree, None)?;
                sync_noted((&mut self.syncer, &self.tree, &self.file), journal)?;
                // What the tree has now it must have from here on.
                journal.mark()
            }
            _ => Ok(()),
        }
    }

    /// The same, with the rows in the tree and synced, whatever there is of a journal.
    fn write_through(&mut self, mut rows: Rows, seen: impl FnOnce()) -> Result<(), StoreError> {
        if self.journal.as_ref().is_some_and(Journal::is_ahead) {
            self.settle()?;
            self.journal.as_mut().map_or(Ok(()), Journal::mark)?;
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| self.is_current) {
            rows.append(journal.note(false).rows());
        }
        self.wait_for_copies()?;
        self.copy_too(&rows);
        seen();
        self.tree.apply_batch(rows.into_batch()).map_err(unavailable)?;
        self.sync()?;
        if let Some(journal) = self.journal.as_mut().filter(|_| self.is_current) {
            // The journal has nothing of it, and is to know that it is there.
            journal.noted(journal.notes());
            journal.mark()?;
        }
        Ok(())
    }

    /// Waits for the syncs of copies. A batch of sled's waits for every sync that goes on in the process, whatever tree it is
    /// of, and whoever reads waits for the batch: beside one that does not end none may be begun.
    fn wait_for_copies(&mut self) -> Result<(), StoreError> {
        if let Some(copy) = &mut self.copy {
            copy.wait_until_synced();
        }
        self.left.retain(|syncing| {
            let _ = syncing.wait();
            !syncing.is_over()
        });
        let is_under_way = self.copy.as_ref().is_some_and(|copy| copy.syncing.is_some());
        if is_under_way || !self.left.is_empty() {
            return Err(unavailable("a sync that does not end is in the way"));
        }
        Ok(())
    }

    /// Takes the sync of a copy that is given up.
    pub fn leave(&mut self, syncing: Option<Syncing>) {
        self.left.extend(syncing);
    }

    fn copy_too(&mut self, rows: &Rows) {
        if let Some(copy) = &mut self.copy {
            copy.write(rows.clone());
        }
    }

    /// Puts what the tree may have lost into it again.
    pub fn replay(&mut self, unsettled: &mut Unsettled) -> Result<(), StoreError> {
        self.sync()?;
        for groups in unsettled.groups.chunks(REPLAYED_GROUPS) {
            groups.iter().try_for_each(|rows| rows.clone().apply(&self.tree))?;
            self.sync()?;
        }
        if !unsettled.groups.is_empty() && self.is_current()? {
            unsettled.note().apply(&self.tree)?;
            self.sync()?;
        }
        Ok(())
    }

    /// Syncs the tree, so that nothing in the journal is needed.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        self.wait_until_settled()?;
        let is_current = self.is_current()?;
        let Some(journal) = &mut self.journal else { return self.sync() };
        if is_current {
            note(journal, false, &self.tree, self.copy.as_mut())?;
        }
        sync_noted((&mut self.syncer, &self.tree, &self.file), journal)?;
        journal.settle(journal.last());
        Ok(())
    }

    fn wait_until_settled(&mut self) -> Result<(), StoreError> {
        let settling = self.settling.take();
        settling.map_or(Ok(()), |settling| settling.wait(self.journal.as_mut()))
    }

    /// Goes on in other files, where everything is on the disk. What was removed is not in the journal either, then.
    pub fn go_on_in(&mut self, tree: Tree, file: Arc<File>) -> Result<(), StoreError> {
        self.wait_until_settled()?;
        (self.tree, self.file) = (tree, file);
        self.settle_and_wipe()
    }

    /// The same, and has the journal forget what it held. Before the tree has a format it held nothing.
    pub fn settle_and_wipe(&mut self) -> Result<(), StoreError> {
        self.settle()?;
        let is_new = !self.is_current && self.tree.get(FORMAT_KEY).map_err(unreadable)?.is_none();
        self.journal.as_mut().filter(|_| !is_new).map_or(Ok(()), Journal::wipe)
    }

    /// Has what was written to the tree be written to its log.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.syncer.begin(&self.tree, None, |_| {}).wait()
    }

    /// Brings to the disk what was written to the tree.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.syncer.sync(&self.tree, &self.file)
    }

    /// Writes pieces of long bodies ahead of the heads that make them part of a record.
    pub fn write_ahead(&mut self, pieces: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        for portion in pieces.chunks(PIECES_MAX) {
            let mut rows = Rows::default();
            for (key, piece) in portion {
                rows.insert(key.as_slice(), piece.as_slice());
            }
            self.progress.begin();
            self.write(rows)?;
        }
        Ok(())
    }

    /// Removes pieces that no record has any more, and after them the notes that they are left.
    pub fn remove_left(&mut self, left: &[Left]) -> Result<(), StoreError> {
        let mut keys = left.iter().flat_map(|left| left.keys(0)).peekable();
        while keys.peek().is_some() {
            self.remove_keys(keys.by_ref().take(PIECES_MAX))?;
        }
        Ok(())
    }

    /// Removes these of them.
    pub fn remove_keys(&mut self, keys: impl Iterator<Item = Vec<u8>>) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        for key in keys {
            rows.remove(key);
        }
        self.progress.begin();
        self.write(rows)
    }

    /// Gives the pieces that were left when the process ended between two portions, and removes those now that the next
    /// version of their record would have under the same keys.
    pub fn clean_up(&mut self) -> Result<Vec<Left>, StoreError> {
        let mut all = Vec::new();
        for row in self.tree.scan_prefix(LEFT_PREFIX) {
            let (key, value) = row.map_err(unreadable)?;
            let left = Left::read(&key, &value)?;
            let found = packs::look_up(&self.tree, &left.address)?;
            // One that cannot be read has no next version.
            let version = found.and_then(|(value, _)| Some(Head::read(&value).ok()?.0.version));
            match version {
                Some(version) if version < left.version => self.remove_left(&[left])?,
                _ => all.push(left),
            }
        }
        Ok(all)
    }
}

/// Notes in the tree, and in a copy of it, what the journal came to.
fn note(
    journal: &mut Journal,
    is_closed: bool,
    tree: &Tree,
    copy: Option<&mut Copy>,
) -> Result<(), StoreError> {
    let rows = journal.note(is_closed).rows();
    if let Some(copy) = copy {
        copy.write(rows.clone());
    }
    rows.apply(tree)
}

/// Syncs the tree with the notes that it has.
fn sync_noted(
    (syncer, tree, file): (&mut Syncer, &Tree, &Arc<File>),
    journal: &mut Journal,
) -> Result<(), StoreError> {
    syncer.sync(tree, file)?;
    journal.noted(journal.notes());
    Ok(())
}
