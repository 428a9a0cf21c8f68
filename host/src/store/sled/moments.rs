//! Moments: what is read in several steps is to be of one.
//!
//! A group goes to the tree row by row, and to the index after that. A page is read from both, so that one that is read
//! meanwhile could tell of records that are not on it, or show some that do not match. Readers do not hold the writer up:
//! they look whether it came in between, and read anew.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Times that something is read anew when a group came in between, and how often that is at once: only pages of long
/// records among many writes come to wait, and those alone may be of more than one moment in the end.
const TRIES_MAX: usize = 16;
const TRIES_AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_millis(1);

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

    /// Reads something of one moment.
    pub async fn read<T, E>(&self, mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        for tried in 0..TRIES_MAX {
            if let Some(moment) = self.now() {
                let found = read()?;
                if self.now() == Some(moment) {
                    return Ok(found);
                }
            }
            if tried < TRIES_AT_ONCE {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
        read()
    }

    /// The present one; none while a group is seen in part.
    fn now(&self) -> Option<u64> {
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

    #[tokio::test]
    async fn what_a_group_came_between_is_read_anew_and_not_for_ever() {
        let (moments, mut reads) = (Moments::default(), 0);
        let read = moments.read(|| {
            reads += 1;
            if reads < 3 {
                moments.begin();
                moments.end();
            }
            Ok::<_, ()>(reads)
        });
        assert_eq!(read.await, Ok(3));
        assert_eq!(moments.read(|| Err::<(), _>("unreadable")).await, Err("unreadable"));
        moments.begin();
        assert_eq!(moments.read(|| Ok::<_, ()>(5)).await, Ok(5));
    }
}
