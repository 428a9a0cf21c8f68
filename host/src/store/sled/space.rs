//! Free space on the disk, looked at before each write.
//!
//! sled does not get over a disk that is full: what its log could not take is lost to it until the next start. So it
//! never comes to that. Below one bound nothing new is taken; below a lower one nothing at all, so that what was stored
//! can meanwhile be read, logged and deleted. Space that returns is noticed by the next write. The same holds for a disk
//! that is mounted read-only while the store is open: it is not written to until it can be. And where the folder was
//! removed, what is written to the files that are still open is gone with the process: nothing is acknowledged then.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::StatVfsMountFlags;

use super::failure::refused_at;
use super::log::bytes_of;
use crate::limits::{DISK_LAST_MB, DISK_RESERVE_MB};
use crate::store::{Batch, StoreError};

/// Bytes that go to the disk for each byte of a record, about: sled rewrites whole leaves.
const WRITTEN_PER_BYTE: u64 = 4;

/// What the disk says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// So many bytes are free.
    Free(u64),
    /// It is mounted so that nothing can be written to it.
    ReadOnly,
    /// The folder is not on it any more.
    Removed,
    /// It does not tell; it may have any space.
    Untold,
}

type Measure = Box<dyn Fn() -> Room + Send + Sync>;

/// The space that a store has.
pub struct Space {
    measure: Measure,
    /// The folder, for the operator; empty for what lies nowhere.
    folder: String,
    /// Whether something was refused, and nothing new taken since.
    refused: AtomicBool,
}

impl Space {
    /// What is free where this folder lies.
    pub fn of(folder: &Path) -> Result<Self, StoreError> {
        let opened = File::open(folder).map_err(refused_at(folder))?;
        let no_name = |folder: &File| folder.metadata().is_ok_and(|found| found.nlink() == 0);
        // Some file systems count no names of folders.
        let are_counted = !no_name(&opened);
        let is_removed = move |folder: &File| are_counted && no_name(folder);
        let space = Self::told(move || match rustix::fs::fstatvfs(&opened) {
            _ if is_removed(&opened) => Room::Removed,
            Ok(disk) if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => Room::ReadOnly,
            Ok(disk) => Room::Free(disk.f_bavail.saturating_mul(disk.f_frsize)),
            Err(_) => Room::Untold,
        });
        Ok(Self { folder: folder.display().to_string(), ..space })
    }

    /// What this measure says of free bytes; `None` when it cannot tell.
    pub fn measured(measure: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self::told(move || measure().map_or(Room::Untold, Room::Free))
    }

    /// What this says.
    pub fn told(measure: impl Fn() -> Room + Send + Sync + 'static) -> Self {
        Self { measure: Box::new(measure), folder: String::new(), refused: AtomicBool::new(false) }
    }

    /// How many bytes are free, as far as the disk tells.
    pub fn free(&self) -> Option<u64> {
        match (self.measure)() {
            Room::Free(free) => Some(free),
            Room::ReadOnly | Room::Removed | Room::Untold => None,
        }
    }

    /// Whether anything new is taken now.
    pub fn check(&self) -> Result<(), StoreError> {
        self.has_room_for(0)
    }

    /// Whether so many bytes leave what is kept free.
    pub fn has_room_for(&self, bytes: u64) -> Result<(), StoreError> {
        self.has_room_beside(DISK_RESERVE_MB, bytes)
    }

    /// The same of what gives space back, which leaves as much as what is urgent does.
    pub fn has_last_room_for(&self, bytes: u64) -> Result<(), StoreError> {
        self.has_room_beside(DISK_LAST_MB, bytes)
    }

    fn has_room_beside(&self, kept_mb: u64, bytes: u64) -> Result<(), StoreError> {
        let wanted = (kept_mb << 20).saturating_add(bytes);
        match (self.measure)() {
            Room::Free(free) if free < wanted => Err(StoreError::Full),
            Room::ReadOnly => Err(StoreError::ReadOnly),
            Room::Removed => Err(removed()),
            Room::Free(_) | Room::Untold => Ok(()),
        }
    }

    /// What is free for a group of batches.
    pub fn look(&self) -> Left<'_> {
        Left { space: self, room: (self.measure)() }
    }

    fn refuse(&self, why: StoreError) -> StoreError {
        if !self.refused.swap(true, Ordering::AcqRel) {
            let folder = self.folder.as_str();
            tracing::error!(%why, folder, "nothing new is stored until the disk takes it again");
        }
        why
    }

    fn taken(&self) {
        if self.refused.swap(false, Ordering::AcqRel) {
            tracing::info!("the disk takes what is new again");
        }
    }
}

fn removed() -> StoreError {
    StoreError::Unavailable("its folder was removed while it was open".to_owned())
}

/// What is left for a group.
pub struct Left<'a> {
    space: &'a Space,
    room: Room,
}

impl Left<'_> {
    /// Takes the space for a batch, if there is enough.
    pub fn take(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let records = batch.puts.iter().map(|put| bytes_of(&put.record) as u64);
        let wanted = records.sum::<u64>().saturating_mul(WRITTEN_PER_BYTE);
        let kept = if batch.urgent { DISK_LAST_MB << 20 } else { DISK_RESERVE_MB << 20 };
        match &mut self.room {
            Room::ReadOnly => return Err(self.space.refuse(StoreError::ReadOnly)),
            Room::Removed => return Err(self.space.refuse(removed())),
            Room::Free(free) if *free < kept.saturating_add(wanted) => {
                return Err(self.space.refuse(StoreError::Full));
            }
            Room::Free(free) => *free -= wanted,
            Room::Untold => {}
        }
        if !batch.urgent {
            self.space.taken();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Room, Space};
    use crate::store::conformance::{self, record};
    use crate::store::sled::SledStore;
    use crate::store::{Batch, Expect, Put, Store as _, StoreError, Term};
    use std::ffi::OsStr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    const MIB: u64 = 1 << 20;

    fn batch(id: &str, bytes: usize, urgent: bool) -> Batch {
        let mut record = record(id, 1);
        record.body = vec![1; bytes];
        let puts = vec![Put { record, expect: Expect::Absent }];
        Batch { puts, urgent, ..Batch::default() }
    }

    #[test]
    fn what_is_new_leaves_more_than_what_is_urgent() {
        for (free, bytes, new, urgent) in [
            (1 << 40, 1 << 20, true, true),
            (129 * MIB, 1, true, true),
            (128 * MIB, 0, true, true),
            (128 * MIB, 1, false, true),
            (131 * MIB, 1 << 20, false, true),
            (132 * MIB, 1 << 20, true, true),
            (100 * MIB, 10, false, true),
            (64 * MIB, 10, false, false),
            (0, 0, false, false),
        ] {
            let space = Space::measured(move || Some(free));
            for (urgent, expected) in [(false, new), (true, urgent)] {
                let taken = space.look().take(&batch("a", bytes, urgent));
                assert_eq!(taken.is_ok(), expected, "{free} {bytes} {urgent}");
            }
            assert_eq!((space.check().is_ok(), space.free()), (free >= 128 * MIB, Some(free)));
            assert_eq!(space.has_room_for(3 * MIB).is_ok(), free >= 131 * MIB);
            assert_eq!(space.has_last_room_for(3 * MIB).is_ok(), free >= 67 * MIB);
        }
        // A group shares what there is.
        let space = Space::measured(|| Some(137 * MIB));
        let mut left = space.look();
        let large = batch("a", 1 << 20, false);
        assert!(left.take(&large).is_ok() && left.take(&large).is_ok());
        assert_eq!(left.take(&large), Err(StoreError::Full));
        // What a record is found by is written too.
        let mut found_by_much = batch("a", 0, false);
        found_by_much.puts[0].record.terms = vec![Term([7; 16]); 40_000];
        assert_eq!(
            Space::measured(|| Some(131 * MIB)).look().take(&found_by_much),
            Err(StoreError::Full)
        );
        // A disk that does not tell is not full.
        assert!(Space::measured(|| None).look().take(&large).is_ok());
        assert!(Space::measured(|| None).check().is_ok());
    }

    #[test]
    fn the_disk_tells() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::of(folder.path()).unwrap();
        assert!(matches!((space.measure)(), Room::Free(free) if free > 0));
        assert!(Space::of(&folder.path().join("none")).is_err());
        folder.close().unwrap();
        assert_eq!((space.measure)(), Room::Removed);
        assert!(matches!(space.check(), Err(StoreError::Unavailable(_))));
    }

    #[tokio::test]
    async fn a_store_whose_folder_is_gone_acknowledges_nothing_more() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::of(folder.path()).unwrap();
        let store = SledStore::open_within(folder.path(), 8 << 20, space).unwrap();
        store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
        store.commit(batch("a", 10, false)).await.unwrap();
        folder.close().unwrap();
        for urgent in [false, true] {
            let refused = store.commit(batch("b", 10, urgent)).await;
            assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        }
        assert!(matches!(store.health(), Err(StoreError::Unavailable(_))));
    }

    #[tokio::test]
    async fn a_store_takes_again_what_it_refused() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(1 << 40));
        let measure = Arc::clone(&free);
        let space = Space::measured(move || Some(measure.load(Ordering::SeqCst)));
        let store = SledStore::open_within(folder.path(), 8 << 20, space).unwrap();
        store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
        store.commit(batch("a", 10, false)).await.unwrap();
        free.store(100 * MIB, Ordering::SeqCst);
        assert_eq!(store.commit(batch("b", 10, false)).await, Err(StoreError::Full));
        assert_eq!(store.health(), Err(StoreError::Full));
        store.commit(batch("c", 10, true)).await.unwrap();
        let first = batch("a", 10, false).puts.remove(0).record;
        let found = store.find(first.kind, first.tenant, &["a", "b", "c"]).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        free.store(10 * MIB, Ordering::SeqCst);
        assert_eq!(store.commit(batch("d", 10, true)).await, Err(StoreError::Full));
        free.store(1 << 40, Ordering::SeqCst);
        store.commit(batch("b", 10, false)).await.unwrap();
        assert_eq!(store.health(), Ok(()));
    }

    #[tokio::test]
    async fn a_store_on_a_disk_that_takes_no_writes_goes_on_when_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let read_only = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&read_only);
        let space =
            Space::told(
                move || {
                    if told.load(Ordering::SeqCst) { Room::ReadOnly } else { Room::Untold }
                },
            );
        let store = SledStore::open_within(folder.path(), 8 << 20, space).unwrap();
        store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
        store.commit(batch("a", 10, false)).await.unwrap();
        read_only.store(true, Ordering::SeqCst);
        for urgent in [false, true] {
            let refused = store.commit(batch("b", 10, urgent)).await;
            assert_eq!(refused, Err(StoreError::ReadOnly));
        }
        assert_eq!(store.health(), Err(StoreError::ReadOnly));
        assert_eq!(store.compact().await, Err(StoreError::ReadOnly));
        let first = batch("a", 10, false).puts.remove(0).record;
        let found = store.find(first.kind, first.tenant, &["a", "b"]).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        read_only.store(false, Ordering::SeqCst);
        store.commit(batch("b", 10, false)).await.unwrap();
        assert_eq!(store.health(), Ok(()));
        assert!(store.compact().await.is_ok());
    }

    /// A store with more than a portion of what is copied at once.
    async fn filled(space: Space) -> (SledStore, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = SledStore::open_within(folder.path(), 8 << 20, space).unwrap();
        store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
        for number in 0..30 {
            store.commit(batch(&number.to_string(), 60_000, false)).await.unwrap();
        }
        (store, folder)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_disk_that_fills_while_the_store_is_copied_ends_the_copy_and_nothing_else() {
        // So many more questions are answered with much space before there is little; the first asks whether to begin.
        for questions in 1..5 {
            let left = Arc::new(AtomicU64::new(u64::MAX));
            let asked = Arc::clone(&left);
            let space = Space::measured(move || {
                let left = asked.fetch_sub(1, Ordering::SeqCst);
                Some(if left > 1 << 40 { 1 << 40 } else { 10 * MIB })
            });
            let (store, folder) = filled(space).await;
            // The commit by which a copy is asked for looks at the disk too.
            left.store((1 << 40) + questions, Ordering::SeqCst);
            // Full is what the disk is by then.
            let is_for_room = |error: &StoreError| {
                matches!(error, StoreError::Full | StoreError::NoRoomToCopy(_))
            };
            let refused = store.compact().await;
            assert!(refused.as_ref().is_err_and(is_for_room), "{questions} {refused:?}");
            left.store((1 << 40) + questions, Ordering::SeqCst);
            let copied = store.snapshot().await;
            assert!(copied.err().as_ref().is_some_and(is_for_room), "{questions}");
            left.store(u64::MAX, Ordering::SeqCst);
            // Nothing is left of either, once a sync of it is over that goes on, and the store is as it was.
            let left_over = || {
                let names = std::fs::read_dir(folder.path()).unwrap().flatten();
                let is_copy = |name: &OsStr| name.to_string_lossy().starts_with("gen");
                names.filter(|entry| is_copy(&entry.file_name())).count()
            };
            let began = Instant::now();
            // Whoever is refused may be too late to keep the writer from it, which then goes on in what it made.
            while left_over() > usize::from(store.files.live().number > 0) {
                assert!(began.elapsed() < Duration::from_secs(30), "{questions}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // What is to be compacted still is, unless it was.
            assert!(store.has_removed() || store.files.live().number > 0);
            store.commit(batch("after", 10, false)).await.unwrap();
            let one = batch("0", 10, false).puts.remove(0).record;
            let found = store.find(one.kind, one.tenant, &["0", "29", "after"]).await.unwrap();
            assert!(found.iter().all(Option::is_some));
            assert!(store.compact().await.is_ok());
            assert!(store.snapshot().await.is_ok());
        }
    }
}
