//! Moments: what is read in several steps is to be of one.
//!
//! A group goes to the tree row by row, and to the index after that. A page is read from both, so that one that is read
//! meanwhile could tell of records that are not on it, or show some that do not match. Readers do not hold the writer up:
//! they look whether it came in between, and read anew.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what is seen: odd while a group is seen in part.
#[derive(Default)]
pub struct Moments(AtomicU64);

impl Moments {
    /// A group begins to be seen. There is one writer.
    pub fn begin(&self) {
        self.0.fetch_or(1, Ordering::AcqRel);
    }

    /// It is seen as a whole, or will never be.
    pub fn end(&self) {
        if self.0.load(Ordering::Relaxed) & 1 == 1 {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The present one; none while a group is seen in part.
    pub fn now(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|moment| moment & 1 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Moments;

    #[test]
    fn a_moment_lasts_until_a_group_begins_to_be_seen() {
        let moments = Moments::default();
        let first = moments.now().unwrap();
        moments.end();
        assert_eq!(moments.now(), Some(first));
        moments.begin();
        moments.begin();
        assert_eq!(moments.now(), None);
        moments.end();
        assert!(moments.now().is_some_and(|later| later != first));
    }
}
