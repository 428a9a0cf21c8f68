//! A copy of the store under way: a portion at a time, and whatever is written meanwhile.
//!
//! sled 0.34 counts, in one number, how much of a segment is taken and how many write to it, with room for one byte less than
//! the largest segment has. A record that ends at the very end of one so comes to be a writer that never ends, and whoever
//! flushes waits for ever. That needs a whole segment that is filled without a flush. So a copy is flushed after each portion,
//! of which sled makes at most some thirty times as much, and after all that is written to it in between ([`Unwritten`]).

use std::fs::File;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::changes::Rows;
use super::failure::unreadable;
use super::live::Live;
use super::syncing::{Syncer, Syncing};
use super::wanted::Wanted;
use crate::store::StoreError;

/// Bytes of rows that are copied between two groups, about.
pub const PORTION_BYTES: usize = 128 << 10;
/// Bytes after which what was written is synced, so that the last sync finds little to do; see [`super::log`] for why
/// not less often.
pub const SYNCED_BYTES: usize = 4 << 20;
/// How long a sync is waited for between two looks at what else there is to do.
const SYNC_LOOK: Duration = Duration::from_millis(1);

/// A copy under way.
pub struct Copy {
    /// Where it is written.
    pub next: Live,
    /// The second handle on its log.
    pub file: Arc<File>,
    /// Copied so far, in the order of keys.
    last: Option<Vec<u8>>,
    unsynced: usize,
    unwritten: Unwritten,
    syncer: Syncer,
    /// A sync under way, also one that was waited for in vain.
    pub syncing: Option<Syncing>,
    broken: Option<StoreError>,
    /// What it is for.
    pub done: Wanted,
}

/// What a tree was given since it was last flushed.
#[derive(Default)]
pub struct Unwritten(usize, usize);

impl Unwritten {
    /// Bytes and rows that may come to one portion more without a whole segment being filled.
    const MAX: (usize, usize) = (PORTION_BYTES, 125);

    /// Counts rows that the tree was given; gives whether they are many, and it is to be flushed.
    pub fn count(&mut self, (bytes, rows): (usize, usize)) -> bool {
        *self = Self(self.0 + bytes, self.1 + rows);
        let is_full = self.0 >= Self::MAX.0 || self.1 >= Self::MAX.1;
        if is_full {
            self.forget();
        }
        is_full
    }

    /// It is flushed.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Copy {
    /// A copy of which nothing is written yet.
    pub fn begin((next, file): (Live, File), done: Wanted) -> Self {
        let (file, syncer) = (Arc::new(file), Syncer::default());
        let (unwritten, broken) = (Unwritten::default(), None);
        Self { next, file, last: None, unsynced: 0, unwritten, syncer, syncing: None, broken, done }
    }

    /// Writes what the store writes. A copy that cannot be written is given up; the store goes on.
    pub fn write(&mut self, rows: Rows) {
        if self.broken.is_none() {
            self.broken = self.try_write(rows).err();
        }
    }

    fn try_write(&mut self, rows: Rows) -> Result<(), StoreError> {
        let size = (rows.bytes(), rows.len());
        rows.apply(&self.next.tree)?;
        if self.unwritten.count(size) { self.bring_out(false) } else { Ok(()) }
    }

    /// Copies a portion, or waits a moment for what was copied to be synced; gives whether there is no more to copy.
    pub fn copy_some(&mut self, log: &sled::Tree) -> Result<bool, StoreError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if let Some(syncing) = &self.syncing {
            let Some(outcome) = syncing.within(SYNC_LOOK) else { return Ok(false) };
            outcome?;
            self.syncing = None;
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
        let is_much = self.unsynced >= SYNCED_BYTES;
        if is_much {
            self.unsynced = 0;
        }
        self.unwritten.forget();
        // Groups go on meanwhile, in both.
        let file = is_much.then_some(&self.file);
        self.syncing = Some(self.syncer.begin(&self.next.tree, file, |_| {}));
        Ok(false)
    }

    /// Brings to the disk what was copied.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.bring_out(true)
    }

    /// Flushes what was written, or brings it to the disk: for as long as that may take, whoever waits.
    fn bring_out(&mut self, synced: bool) -> Result<(), StoreError> {
        if let Some(syncing) = &self.syncing {
            syncing.wait()?;
        }
        let file = synced.then_some(&self.file);
        let syncing = self.syncer.begin(&self.next.tree, file, |_| {});
        self.syncing.insert(syncing).wait()?;
        self.syncing = None;
        Ok(())
    }

    /// Closes one that is given up, which flushes it: beside whoever gives it up if a sync goes on, and after that. Gives
    /// that sync, and who is to be told.
    pub fn close(self) -> (Option<Syncing>, Wanted) {
        let Self { next, file, mut syncer, syncing, done, .. } = self;
        let syncing = syncing.filter(|syncing| !syncing.is_over());
        let close = move || drop((file, next));
        if syncing.is_some() {
            syncer.run(Box::new(close));
        } else {
            close();
        }
        (syncing, done)
    }

    /// Waits for a sync under way; how it ended is told when more is to be copied.
    pub fn wait_until_synced(&mut self) {
        if let Some(outcome) = self.syncing.as_ref().map(Syncing::wait) {
            if self.syncing.as_ref().is_some_and(Syncing::is_over) {
                self.syncing = None;
            }
            if let Err(error) = outcome {
                self.broken = Some(error);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::fs::File;
    use std::time::{Duration, Instant};

    use tempfile::TempDir;
    use tokio::sync::oneshot;

    use super::{Copy, PORTION_BYTES, Rows, SYNCED_BYTES, Syncer};
    use crate::store::sled::folder::open_database;
    use crate::store::sled::live::Live;
    use crate::store::sled::log::Log;
    use crate::store::sled::wanted::Wanted;

    /// How many rows of [`filling`] there are, and how long the value of the last is.
    const ROWS_THAT_FILL: u64 = 29_645;
    const LAST_THAT_FILLS: usize = 3_029;

    /// A tree with more than is copied without a sync, and a copy of it that is begun.
    fn begun() -> (sled::Db, Copy, [TempDir; 2]) {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [log, database] = folders.each_ref().map(|folder| sled::open(folder.path()).unwrap());
        for number in 0..=u64::try_from(SYNCED_BYTES >> 10).unwrap() {
            log.insert(number.to_be_bytes(), vec![7; 1 << 10]).unwrap();
        }
        let file = File::open(folders[1].path().join("db")).unwrap();
        let next = Live { tree: (*database).clone(), number: 1, database };
        let copy = Copy::begin((next, file), Wanted::ToReplace(oneshot::channel().0));
        (log, copy, folders)
    }

    #[test]
    fn a_sync_that_does_not_end_stops_the_copy_and_not_who_writes() {
        let (log, mut copy, _folders) = begun();
        let tree = copy.next.tree.clone();
        let max = Duration::from_secs(2);
        let holder;
        (copy.syncer, holder) = Syncer::stuck(max);
        let began = Instant::now();
        while copy.syncing.is_none() {
            assert!(!copy.copy_some(&log).unwrap());
        }
        let copied = tree.len();
        // Each look takes a moment, and what is written meanwhile is written here too.
        for number in 0..10_u8 {
            assert!(!copy.copy_some(&log).unwrap());
            let mut rows = Rows::default();
            rows.insert(&[number], b"new");
            copy.write(rows);
        }
        assert_eq!(tree.len(), copied + 10);
        let error = loop {
            match copy.copy_some(&log) {
                Ok(done) => assert!(!done),
                Err(error) => break error,
            }
        };
        assert!(began.elapsed() >= max, "{error}");
        drop(holder);
        // The same copy comes to its end when its syncs do.
        (copy.syncer, copy.syncing) = (Syncer::default(), None);
        while !copy.copy_some(&log).unwrap() {}
        copy.sync().unwrap();
        assert_eq!(tree.len(), log.len() + 10);
    }

    /// Rows of which sled makes a log that fills a segment to its last byte, when all are put without a flush.
    pub fn filling() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        (1..=ROWS_THAT_FILL).map(|number: u64| {
            let length = if number == ROWS_THAT_FILL { LAST_THAT_FILLS } else { 100 };
            (number.to_be_bytes().to_vec(), vec![7; length])
        })
    }

    /// Does what would never end if sled's log were filled to the end of a segment: so that it fails, and the tests go on.
    pub fn ends(test: impl FnOnce() + Send + 'static) {
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            test();
            done.send(()).unwrap();
        });
        ended.recv_timeout(Duration::from_mins(1)).expect("it comes to its end");
    }

    #[test]
    fn a_copy_whose_log_would_fill_a_segment_comes_to_its_end() {
        ends(|| {
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let log = sled::open(folders[0].path()).unwrap();
            for (key, value) in filling() {
                log.insert(key, value).unwrap();
            }
            let database = open_database(folders[1].path(), 256 << 20).unwrap();
            let file = File::open(folders[1].path().join("db")).unwrap();
            let next = Live { tree: (*database).clone(), number: 1, database };
            let mut copy = Copy::begin((next, file), Wanted::ToReplace(oneshot::channel().0));
            while !copy.copy_some(&log).unwrap() {}
            copy.sync().unwrap();
            assert!(copy.next.tree.iter().eq(log.iter()));
        });
    }

    #[test]
    fn what_is_written_meanwhile_is_flushed_before_it_fills_a_segment() {
        let (_log, mut copy, _folders) = begun();
        let mut written = |rows: usize, bytes: usize| {
            let mut some = Rows::default();
            for number in 0..rows {
                some.insert(number.to_be_bytes().to_vec(), vec![7; bytes]);
            }
            copy.write(some);
            copy.unwritten.1
        };
        assert_eq!([written(60, 10), written(60, 10), written(60, 10)], [60, 120, 0]);
        assert_eq!([written(1, PORTION_BYTES / 2), written(1, PORTION_BYTES / 2)], [1, 0]);
        assert!(copy.broken.is_none());
    }

    #[test]
    fn who_writes_waits_for_a_copy_that_hangs_once_and_no_longer_than_a_sync_may_take() {
        let (log, mut copy, folders) = begun();
        let max = Duration::from_millis(300);
        let holder;
        (copy.syncer, holder) = Syncer::stuck(max);
        let write = |copy: &mut Copy, number: usize| {
            let mut rows = Rows::default();
            rows.insert(number.to_be_bytes().to_vec(), b"row".as_slice());
            copy.write(rows);
        };
        let began = Instant::now();
        (0..1_000).for_each(|number| write(&mut copy, number));
        assert!(began.elapsed() >= max);
        // It is written to no more, so that nobody waits again, and given up.
        assert!(copy.next.tree.len() < 200);
        let told = copy.copy_some(&log).unwrap_err().to_string();
        assert!(told.contains("did not end"), "{told}");
        // What is left of it is closed once it gets on, and nobody waits for that.
        let kept = |folder: &TempDir| {
            let files = std::fs::read_dir("/proc/self/fd").unwrap();
            let paths = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
            paths.filter(|path| path.starts_with(folder.path())).count()
        };
        let before = kept(&folders[1]);
        let (syncing, _) = copy.close();
        assert!(syncing.is_some() && before > 0 && kept(&folders[1]) > 0);
        drop(holder);
        let began = Instant::now();
        while kept(&folders[1]) > 0 {
            assert!(began.elapsed() < Duration::from_mins(1));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn beside_a_sync_that_does_not_end_no_batch_is_begun() {
        let (tree, mut copy, folders) = begun();
        let holder;
        (copy.syncer, holder) = Syncer::stuck(Duration::from_millis(200));
        while copy.syncing.is_none() {
            copy.copy_some(&tree).unwrap();
        }
        let file = File::open(folders[0].path().join("db")).unwrap();
        // Without a journal everything is written as a batch.
        let mut log = Log::new((*tree).clone(), file);
        let write = |log: &mut Log| {
            let mut rows = Rows::default();
            rows.insert(b"new".as_slice(), b"row");
            log.write(rows)
        };
        log.copy = Some(copy);
        assert!(write(&mut log).unwrap_err().to_string().contains("does not end"));
        // Nor is one once the copy was given up, as long as the sync goes on.
        let syncing = log.copy.take().and_then(|copy| copy.syncing);
        assert!(syncing.is_some());
        log.leave(syncing);
        assert!(write(&mut log).is_err() && tree.get(b"new").unwrap().is_none());
        drop(holder);
        let began = Instant::now();
        while write(&mut log).is_err() {
            assert!(began.elapsed() < Duration::from_mins(1));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(tree.get(b"new").unwrap().unwrap(), b"row");
    }
}
