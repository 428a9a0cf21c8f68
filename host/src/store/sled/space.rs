//! Free space on the disk, looked at before each write.
//!
//! sled does not get over a disk that is full: what its log could not take is lost to it until the next start. So it
//! never comes to that. Below one bound nothing new is taken; below a lower one nothing at all, so that what was stored
//! can meanwhile be read, logged and deleted. Space that returns is noticed by the next write.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::{DISK_LAST_MB, DISK_RESERVE_MB};
use crate::store::{Batch, StoreError};

/// Bytes that go to the disk for each byte of a body, about: sled rewrites whole leaves.
const WRITTEN_PER_BYTE: u64 = 4;

/// Tells how many bytes are free; `None` when it cannot.
type Measure = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// The space that a store has.
pub struct Space {
    measure: Measure,
    /// Whether something was refused, and nothing new taken since.
    full: AtomicBool,
}

impl Space {
    /// What is free where this folder lies.
    pub fn of(folder: &Path) -> Result<Self, StoreError> {
        let folder = File::open(folder).map_err(super::unavailable)?;
        Ok(Self::measured(move || {
            let disk = rustix::fs::fstatvfs(&folder).ok()?;
            Some(disk.f_bavail.saturating_mul(disk.f_frsize))
        }))
    }

    /// What this measure says.
    pub fn measured(measure: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { measure: Box::new(measure), full: AtomicBool::new(false) }
    }

    /// Whether anything new is taken now.
    pub fn check(&self) -> Result<(), StoreError> {
        self.has_room_for(0)
    }

    /// Whether so many bytes leave what is kept free.
    pub fn has_room_for(&self, bytes: u64) -> Result<(), StoreError> {
        let kept = DISK_RESERVE_MB << 20;
        if (self.measure)().is_none_or(|free| free >= kept.saturating_add(bytes)) {
            Ok(())
        } else {
            Err(StoreError::Full)
        }
    }

    /// What is free for a group of batches.
    pub fn look(&self) -> Left<'_> {
        // A disk that does not tell may have any space.
        Left { space: self, bytes: (self.measure)().unwrap_or(u64::MAX) }
    }

    fn note(&self, full: bool) {
        if self.full.swap(full, Ordering::AcqRel) == full {
            return;
        }
        if full {
            tracing::error!("the disk is full: nothing new is stored until there is space again");
        } else {
            tracing::info!("there is space on the disk again");
        }
    }
}

/// What is left for a group.
pub struct Left<'a> {
    space: &'a Space,
    bytes: u64,
}

impl Left<'_> {
    /// Takes the space for a batch, if there is enough.
    pub fn take(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let bodies = batch.puts.iter().map(|put| put.record.body.len() as u64);
        let wanted = bodies.sum::<u64>().saturating_mul(WRITTEN_PER_BYTE);
        let kept = if batch.urgent { DISK_LAST_MB << 20 } else { DISK_RESERVE_MB << 20 };
        if self.bytes < kept.saturating_add(wanted) {
            self.space.note(true);
            return Err(StoreError::Full);
        }
        self.bytes -= wanted;
        if !batch.urgent {
            self.space.note(false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Space;
    use crate::store::conformance::{self, record};
    use crate::store::sled::SledStore;
    use crate::store::{Batch, Expect, Put, Store as _, StoreError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

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
            assert_eq!(space.check().is_ok(), free >= 128 * MIB);
            assert_eq!(space.has_room_for(3 * MIB).is_ok(), free >= 131 * MIB);
        }
        // A group shares what there is.
        let space = Space::measured(|| Some(137 * MIB));
        let mut left = space.look();
        let large = batch("a", 1 << 20, false);
        assert!(left.take(&large).is_ok() && left.take(&large).is_ok());
        assert_eq!(left.take(&large), Err(StoreError::Full));
        // A disk that does not tell is not full.
        assert!(Space::measured(|| None).look().take(&large).is_ok());
        assert!(Space::measured(|| None).check().is_ok());
    }

    #[test]
    fn the_disk_tells() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::of(folder.path()).unwrap();
        assert!((space.measure)().is_some_and(|free| free > 0));
        assert!(Space::of(&folder.path().join("none")).is_err());
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
}
