//! The disk of the model: what is left of a trace's steps when the power goes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::options::Dice;
use crate::trace::{Step, Trace};

const PAGE: usize = 4_096;
const SECTOR: usize = 512;

/// What becomes of what was not synced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing of it is there.
    Dropped,
    /// Some pages are.
    Reordered,
    /// All but the end of the last write.
    Torn,
    /// All but one page.
    Late,
    /// Nothing, and of names only what was done before some moment in each folder.
    Names,
}

/// Tells files apart: numbers of inodes are used again.
type File = u64;

#[derive(Default)]
struct Disk {
    contents: BTreeMap<File, Vec<u8>>,
    inodes: BTreeMap<u64, File>,
    /// As the process saw them.
    seen: BTreeMap<PathBuf, File>,
    /// As they are left.
    left: BTreeMap<PathBuf, File>,
    folders: Vec<PathBuf>,
    made: File,
}

/// From which step on names are forgotten in a folder.
struct Forgotten<'d> {
    dice: &'d mut Dice,
    durable: BTreeMap<PathBuf, usize>,
    from: BTreeMap<PathBuf, usize>,
    cut: usize,
    any: bool,
}

impl Forgotten<'_> {
    fn is(&mut self, path: &Path, number: usize) -> bool {
        if !self.any {
            return false;
        }
        let folder = path.parent().unwrap();
        if !self.from.contains_key(folder) {
            let durable = self.durable.get(folder).copied().unwrap_or(0);
            let from = durable + self.dice.below(self.cut - durable + 1);
            self.from.insert(folder.to_owned(), from);
        }
        number >= self.from[folder]
    }
}

impl Disk {
    /// The file of an inode that was opened under this name, which makes it if nobody has the name.
    fn open(&mut self, path: &Path, inode: u64) -> File {
        let known = self.inodes.get(&inode).copied();
        if let Some(file) = known.filter(|file| self.seen.values().any(|seen| seen == file)) {
            return file;
        }
        self.made += 1;
        self.inodes.insert(inode, self.made);
        self.contents.insert(self.made, Vec::new());
        self.seen.insert(path.to_owned(), self.made);
        self.made
    }

    fn content(&mut self, inode: u64) -> &mut Vec<u8> {
        let file = self.inodes.get(&inode).copied().unwrap_or_default();
        self.contents.entry(file).or_default()
    }

    fn name(&mut self, step: &Step, forgotten: bool) {
        match step {
            Step::Create { path, inode } => {
                let file = self.open(path, *inode);
                if !forgotten {
                    self.left.insert(path.clone(), file);
                }
            }
            Step::Rename { from, to } => {
                move_name(&mut self.seen, from, to);
                if !forgotten {
                    move_name(&mut self.left, from, to);
                }
            }
            Step::Unlink { path } => {
                self.seen.remove(path);
                if !forgotten {
                    self.left.remove(path);
                    self.folders.retain(|folder| folder != path);
                }
            }
            Step::Mkdir { path } if !forgotten => self.folders.push(path.clone()),
            _ => {}
        }
    }

    /// Writes what is left to a real folder.
    fn write(&self, from: &Path, to: &Path) {
        let place = |path: &Path| to.join(path.strip_prefix(from).unwrap());
        let there = |folder: &Path| self.folders.iter().any(|known| known == folder);
        let root = &self.folders[0];
        let whole = |path: &Path| path.ancestors().take_while(|one| one != root).all(there);
        for folder in self.folders.iter().filter(|folder| whole(folder)) {
            fs::create_dir_all(place(folder)).unwrap();
        }
        for (path, file) in &self.left {
            // A folder that was forgotten takes its files along.
            if whole(path.parent().unwrap()) {
                fs::write(place(path), &self.contents[file]).unwrap();
            }
        }
    }
}

/// Makes the files as a disk could have left them when the power went before step `cut`.
pub fn restore(
    trace: &Trace,
    cut: usize,
    (kind, dice): (Kind, &mut Dice),
    (from, to): (&Path, &Path),
) {
    let durable = trace.durable(cut);
    let unsynced = |number: usize, inode: &u64| number >= durable.get(inode).copied().unwrap_or(0);
    let is_unsynced = |(number, step): &(usize, &Step)| match step {
        Step::Write { inode, through, .. } => !through && unsynced(*number, inode),
        _ => false,
    };
    let steps = || trace.steps[..cut].iter().enumerate();
    let last = steps().filter(is_unsynced).map(|(number, _)| number).next_back();
    let mut pages = Dice(dice.throw());
    let mut forgotten = Forgotten {
        dice,
        durable: trace.durable_names(cut),
        from: BTreeMap::new(),
        cut,
        any: kind == Kind::Names,
    };
    let mut disk = Disk { folders: vec![from.join("store")], ..Disk::default() };
    for (number, step) in steps() {
        match step {
            Step::Create { path, .. }
            | Step::Unlink { path }
            | Step::Mkdir { path }
            | Step::Rename { to: path, .. } => disk.name(step, forgotten.is(path, number)),
            Step::Truncate { inode, len } => disk.content(*inode).resize(*len, 0),
            Step::Write { inode, at, data, through } => {
                let is_last = last == Some(number);
                let file = disk.content(*inode);
                let data = trace.data(data);
                if *through || !unsynced(number, inode) {
                    put(file, *at, data);
                } else {
                    put_some(file, *at, data, (kind, is_last, &mut pages));
                }
            }
            Step::SyncBegins { .. } | Step::SyncEnded { .. } | Step::Note { .. } => {}
        }
    }
    disk.write(from, to);
}

/// Puts what is left of a write that was not synced.
fn put_some(
    file: &mut Vec<u8>,
    at: usize,
    data: &[u8],
    (kind, is_last, dice): (Kind, bool, &mut Dice),
) {
    let lost = dice.below(data.len().div_ceil(PAGE));
    match kind {
        Kind::Dropped | Kind::Names => {}
        Kind::Torn if is_last => {
            let sectors = data.len() / SECTOR;
            put(file, at, &data[..dice.below(sectors + 1) * SECTOR]);
        }
        Kind::Torn => put(file, at, data),
        Kind::Reordered | Kind::Late => {
            for (page, bytes) in data.chunks(PAGE).enumerate() {
                let kept = match kind {
                    Kind::Late => !(is_last && page == lost),
                    _ => dice.below(2) == 0,
                };
                if kept {
                    put(file, at + page * PAGE, bytes);
                }
            }
        }
    }
}

/// A folder that was renamed takes its files along.
fn move_name(names: &mut BTreeMap<PathBuf, File>, from: &Path, to: &Path) {
    if let Some(file) = names.remove(from) {
        names.insert(to.to_owned(), file);
        return;
    }
    let below: Vec<PathBuf> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
    for path in below {
        if let Some(file) = names.remove(&path) {
            names.insert(to.join(path.strip_prefix(from).unwrap()), file);
        }
    }
}

fn put(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    if file.len() < at + data.len() {
        file.resize(at + data.len(), 0);
    }
    file[at..at + data.len()].copy_from_slice(data);
}
