//! The journal: a file beside sled's, where a group is made durable by one sync of a few pages.
//!
//! sled's own log takes two syncs, and costs as much for one row as for a thousand. So a group goes to the journal first,
//! and to the tree without a sync; the tree is synced beside the writer, a little at a time ([`super::log`]). What the tree
//! may have lost is put into it again when the store opens.
//!
//! The file has two halves of fixed length, so that writing to it changes no metadata. A record begins at a page's
//! beginning and is over the group's rows, its number, the number up to which the tree had everything, synced, when it
//! was written, and how many notes the tree had ([`super::note`]). Which record is the last tells its number; all from
//! the one behind the number that it names up to itself must be there, or somebody changed the file. A last one that is
//! not whole is a write that was cut short, or was changed: no file can tell which. When a half is full, the other one
//! is written over, but only once a record on the disk says that the tree has what it held: so nothing that is still
//! needed is ever written over, and a write that was cut short harms nothing but itself.
//!
//! Rows in a record are as they are in the tree: sealed, tagged, or opaque.

mod found;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use sled::Tree;

use self::found::{DIGEST, Found, HEADER, MAGIC, MAGIC_1, begins, checked, records};
use super::changes::Rows;
use super::failure::{refused, refused_at, unavailable};
use super::folder::SEGMENT_BYTES;
use super::note::Note;
use crate::figures::figures;
use crate::store::StoreError;

/// The journal's name in the store's folder.
pub const NAME: &str = "journal";
/// Bytes of a half.
const HALF: usize = 2 << 20;
/// Bytes of what a disk writes at once, at least; records begin at multiples of it.
const PAGE: usize = 4 << 10;
/// Bytes of a group that is taken, at most.
const GROUP_BYTES: usize = 256 << 10;
/// Rows of a group that is taken, at most.
const GROUP_ROWS: usize = 125;
/// Bytes that are taken before the tree is to be synced, about. sled makes some four times as many of them, and while these
/// are written the disk has no time for the journal: so it is little at a time, if the disk keeps up.
const SETTLED_BYTES: usize = 64 << 10;
/// Bytes and rows that are taken until it is waited for, a group more at most: what is being synced, and as much again that
/// was taken meanwhile, must be less than a segment.
const UNSETTLED_BYTES: usize = 256 << 10;
const UNSETTLED_ROWS: usize = 125;
/// Bytes of a row, its key with it, at most: a piece, or what a token is found by, under the longest id that there may be.
/// Few are longer: of reactors and formulas with very long names, and of tokens that were made when containers could be
/// deeper.
pub const ROW_BYTES_MAX: usize = 5_840;
/// Bytes of a leaf of sled's at most: 17 rows.
const LEAF_BYTES: usize = 17 * ROW_BYTES_MAX;
/// sled writes a row as it comes, its leaf at every tenth row and in two halves at every eighth, and half as much again of
/// other leaves when it makes room in old segments. So that is at most, about, for rows that are as long as their neighbours,
const WRITTEN_PER_BYTE: usize = 8;
/// and for a short row among long ones.
const WRITTEN_PER_ROW: usize = LEAF_BYTES * 9 / 40 * 3 / 2;
const _: () = assert!(2 * (UNSETTLED_BYTES + GROUP_BYTES) * WRITTEN_PER_BYTE <= SEGMENT_BYTES / 2);
const _: () = assert!(2 * (UNSETTLED_ROWS + GROUP_ROWS) * WRITTEN_PER_ROW <= SEGMENT_BYTES);

/// Brings to the disk what a process that was killed wrote: what is read here must not be gone when it is in the tree.
pub fn sync(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(NAME);
    match File::open(&path).and_then(|file| file.sync_data()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(refused(&path, &error)),
        _ => Ok(()),
    }
}

/// The journal of a store that is written to.
pub struct Journal {
    /// The store's folder.
    pub folder: PathBuf,
    file: File,
    /// The number of the last record.
    last: u64,
    /// All records up to this one are in the tree, synced.
    settled: u64,
    /// Up to which one the last record says so.
    said: u64,
    /// How many notes the tree has, and how many of them synced.
    notes: u64,
    noted: u64,
    /// The last record of the other half.
    other: u64,
    /// Which half is written to, and how much of it is taken.
    half: usize,
    taken: usize,
    /// How much of each half may hold something.
    used: [usize; 2],
    /// Bytes and rows since the tree was last about to be synced.
    unsettled: (usize, usize),
    /// Used again for each record.
    buffer: Vec<u8>,
}

/// What the journal of a store holds that its tree may not have: in order. Without a journal, nothing.
pub struct Unsettled {
    /// Rows, group by group.
    pub groups: Vec<Rows>,
    /// Whether another group begins behind the last one and is not whole: it was being written when the process or the
    /// power ended, and then nobody was told of it, or somebody changed it since.
    pub is_cut_short: bool,
    last: u64,
    /// How many notes its last record has seen in the tree, or, held against that, how many the tree has.
    noted: u64,
    end: usize,
    used: [usize; 2],
}

impl Unsettled {
    /// Reads the journal of a store, and holds it against what the tree says of it.
    pub fn of_store(folder: &Path, tree: &Tree) -> Result<Self, StoreError> {
        let found = Self::read(folder)?;
        let needed = (found.last, found.groups.len());
        let (note, last) = Note::held_against(tree, needed, found.noted)?;
        Ok(Self { last, noted: note.map_or(0, |note| note.count), ..found })
    }

    /// Notes in the tree that it has all of this, synced, before the journal forgets it. Gives what is to be written.
    pub fn note(&mut self) -> Rows {
        self.noted += 1;
        Note { number: self.last, is_closed: false, count: self.noted }.rows()
    }

    /// Reads the journal in a store's folder.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(NAME);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            bytes => bytes.map_err(refused_at(&path))?,
        };
        let used = |half: &[u8]| half.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let (one, other) = bytes.split_at(bytes.len().min(HALF));
        let used = [used(one), used(&other[..other.len().min(HALF)])];
        let mut found = records(&bytes);
        found.sort_by_key(|record| record.number);
        let Some(Found { number: last, settled, noted, end, .. }) = found.last() else {
            let is_cut_short = begins(&bytes, 1);
            let (groups, last, noted, end) = (Vec::new(), 0, 0, 0);
            return Ok(Self { groups, is_cut_short, last, noted, end, used });
        };
        let (last, settled, noted, end) = (*last, *settled, *noted, *end);
        found.retain(|record| record.number > settled);
        let is_whole = settled <= last && last < u64::MAX;
        let numbers = found.iter().map(|record| record.number);
        if !is_whole || !numbers.eq(settled + 1..=last) {
            let what = "its journal was changed: groups that it had taken are missing";
            return Err(StoreError::Damaged(what.to_owned()));
        }
        let next = [end, HALF * usize::from(end <= HALF)];
        let is_cut_short =
            next.iter().any(|at| bytes.get(*at..).is_some_and(|rest| begins(rest, last + 1)));
        let groups = found.into_iter().map(|record| record.rows).collect();
        Ok(Self { groups, is_cut_short, last, noted, end, used })
    }
}

impl Journal {
    /// Begins anew what was read from this folder. All of that must lie in the tree by now, synced.
    pub fn begin(folder: &Path, before: &Unsettled) -> Result<Self, StoreError> {
        let path = folder.join(NAME);
        let open = || -> io::Result<File> {
            let file =
                File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
            let length = file.metadata()?.len();
            let whole = 2 * HALF as u64;
            if length < whole {
                // The place on the disk is taken now, as far as the file system can do that.
                let taken = fallocate(&file, FallocateFlags::empty(), 0, whole);
                taken.or_else(|_| file.set_len(whole))?;
                file.sync_all()?;
                File::open(folder)?.sync_all()?;
            }
            Ok(file)
        };
        let file = open().map_err(refused_at(&path))?;
        let Unsettled { last, noted, end, .. } = *before;
        // What ends with a half ends at its end, and not at the other's beginning.
        let half = usize::from(end > HALF);
        let mut journal = Self {
            folder: folder.to_owned(),
            file,
            last,
            settled: last,
            said: last,
            notes: noted,
            noted,
            other: 0,
            half,
            taken: end - half * HALF,
            used: before.used,
            unsettled: (0, 0),
            buffer: Vec::new(),
        };
        if !before.groups.is_empty() {
            journal.wipe()?;
        }
        Ok(journal)
    }

    /// Whether it takes so many rows at all: more are as well written to the tree at once.
    pub fn takes(rows: &Rows) -> bool {
        rows.len() <= GROUP_ROWS && HEADER + rows.bytes() <= GROUP_BYTES
    }

    /// Whether the half that is written to has room for them. One page is left for what [`Self::turn`] may have to say.
    pub fn has_room(&self, rows: &Rows) -> bool {
        let length = (HEADER + rows.bytes()).next_multiple_of(PAGE);
        self.taken + length + PAGE <= HALF
    }

    /// The number of the last record.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether it holds what the tree may lose.
    pub fn is_ahead(&self) -> bool {
        self.last > self.settled
    }

    /// Whether the tree is to be synced.
    pub fn is_to_settle(&self) -> bool {
        self.unsettled.0 >= SETTLED_BYTES || self.must_settle()
    }

    /// Whether that cannot wait for anything else.
    pub fn must_settle(&self) -> bool {
        self.unsettled.0 >= UNSETTLED_BYTES || self.unsettled.1 >= UNSETTLED_ROWS
    }

    /// Notes that the tree is about to be synced.
    pub fn settling(&mut self) {
        self.unsettled = (0, 0);
    }

    /// Notes that the tree has everything up to this number, synced.
    pub fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number);
    }

    /// The next note for the tree.
    pub fn note(&mut self, is_closed: bool) -> Note {
        self.notes += 1;
        Note { number: self.last, is_closed, count: self.notes }
    }

    /// How many notes the tree has.
    pub fn notes(&self) -> u64 {
        self.notes
    }

    /// Notes that the tree has so many notes, synced.
    pub fn noted(&mut self, notes: u64) {
        self.noted = self.noted.max(notes);
    }

    /// Whether the tree has what the other half holds, synced.
    pub fn can_turn(&self) -> bool {
        self.settled >= self.other
    }

    /// Goes on in the other half, if [`Self::can_turn`] says so.
    pub fn turn(&mut self) -> Result<(), StoreError> {
        if self.said < self.other {
            let number = self.last + 1;
            self.append(number, self.settled, &Rows::default())?;
        }
        (self.other, self.half, self.taken) = (self.last, 1 - self.half, 0);
        Ok(())
    }

    /// Adds a group; it is on the disk on return.
    pub fn add(&mut self, rows: &Rows) -> Result<(), StoreError> {
        self.append(self.last + 1, self.settled, rows)?;
        self.unsettled.0 += HEADER + rows.bytes();
        self.unsettled.1 += rows.len();
        Ok(())
    }

    /// Says on the disk too that the tree has everything: from here on it may be written to past the journal.
    pub fn mark(&mut self) -> Result<(), StoreError> {
        if self.taken + PAGE > HALF {
            // The last page was taken by a record that says that nothing else is needed.
            self.turn()?;
        }
        let number = self.last + 1;
        self.append(number, number, &Rows::default())
    }

    /// Removes what it held. The tree must have everything, synced.
    pub fn wipe(&mut self) -> Result<(), StoreError> {
        // Until a record says that nothing else is needed, everything is.
        self.mark()?;
        let mark = self.taken - PAGE..self.taken;
        let (own, other) = (self.used[self.half], self.used[1 - self.half]);
        let zeros = vec![0; HALF];
        let wipe = || {
            self.file.write_all_at(&zeros[..other], place(1 - self.half, 0))?;
            self.file.write_all_at(&zeros[..mark.start], place(self.half, 0))?;
            self.file
                .write_all_at(&zeros[mark.end..own.max(mark.end)], place(self.half, mark.end))?;
            self.file.sync_data()
        };
        wipe().map_err(unavailable)?;
        self.used = [0; 2];
        self.used[self.half] = self.taken;
        Ok(())
    }

    fn append(&mut self, number: u64, settled: u64, rows: &Rows) -> Result<(), StoreError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(DIGEST, 0);
        // Software that knows no counted notes may go on with a store that has none.
        let counts = self.notes > 0;
        buffer.extend_from_slice(if counts { &MAGIC } else { &MAGIC_1 });
        buffer.extend_from_slice(&number.to_be_bytes());
        buffer.extend_from_slice(&settled.to_be_bytes());
        if counts {
            buffer.extend_from_slice(&self.noted.to_be_bytes());
        }
        // A group is far shorter.
        buffer.extend_from_slice(&u32::try_from(rows.bytes()).unwrap_or(u32::MAX).to_be_bytes());
        rows.write_to(&mut buffer);
        let kept = checked(&buffer[DIGEST..]);
        buffer[..DIGEST].copy_from_slice(&kept);
        let place = place(self.half, self.taken);
        let written = self.file.write_all_at(&buffer, place).and_then(|()| self.file.sync_data());
        self.taken += buffer.len().next_multiple_of(PAGE);
        self.used[self.half] = self.used[self.half].max(self.taken);
        self.buffer = buffer;
        written.map_err(unavailable)?;
        figures().synced();
        (self.last, self.said) = (number, settled);
        self.settled = self.settled.max(settled);
        Ok(())
    }
}

fn place(half: usize, at: usize) -> u64 {
    (half * HALF + at) as u64
}
