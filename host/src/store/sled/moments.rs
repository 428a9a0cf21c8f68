//! Moments: what is read in several steps is to be of one.
//!
//! A group goes to the tree row by row, and to the index after that. A page is read from both, so that one that is read
//! meanwhile could tell of records that are not on it, or show some that do not match. Readers do not hold the writer up:
//! they wait while a group is seen in part, look whether one came in between, and read anew.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Times that something is read when groups come in between: only pages of long records among many writes may be of more
/// than one moment in the end.
const READS_MAX: usize = 16;
/// How often who waits looks again at once, and how long it pauses from then on.
const LOOKS_AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_millis(1);
/// How long a group that is seen in part is waited for. It is synced meanwhile, if it is a large one; a disk that takes
/// longer for that is no reason to show nothing.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Counts what is seen: odd while a group is seen in part.
#[derive(Default)]
pub struct Moments(AtomicU64);

impl Moments {
    /// A group begins to be seen. There is one writer.
    pub fn begin(&self) {
        self.0.fetch_or(1, Ordering::Relaxed);
        // Nothing of the group is seen before that.
        fence(Ordering::Release);
    }

    /// It is seen as a whole, or will never be.
    pub fn end(&self) {
        if self.0.load(Ordering::Relaxed) & 1 == 1 {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Reads something of one moment.
    pub async fn read<T, E>(&self, mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        let mut reads = 0;
        loop {
            reads += 1;
            let moment = self.whole().await;
            let found = read()?;
            // What was read is not read after that.
            fence(Ordering::Acquire);
            if reads == READS_MAX || moment.is_none_or(|moment| self.now() == Some(moment)) {
                return Ok(found);
            }
            pause(reads).await;
        }
    }

    /// The present moment, once no group is seen in part; none if that does not come.
    async fn whole(&self) -> Option<u64> {
        let began = Instant::now();
        let mut looks = 0;
        loop {
            let moment = self.now();
            if moment.is_some() || began.elapsed() > WAIT_MAX {
                return moment;
            }
            looks += 1;
            pause(looks).await;
        }
    }

    /// The present one; none while a group is seen in part.
    fn now(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|moment| moment & 1 == 0)
    }
}

async fn pause(times: usize) {
    if times <= LOOKS_AT_ONCE {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Moments, PAUSE};

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
        let always = moments.read(|| {
            moments.begin();
            moments.end();
            Ok::<_, ()>(5)
        });
        assert_eq!(always.await, Ok(5));
    }

    #[tokio::test]
    async fn a_group_that_is_seen_in_part_is_waited_for() {
        let moments = Moments::default();
        moments.begin();
        let seen = std::cell::Cell::new(false);
        let group = async {
            tokio::time::sleep(20 * PAUSE).await;
            seen.set(true);
            moments.end();
        };
        let (read, ()) = tokio::join!(moments.read(|| Ok::<_, ()>(seen.get())), group);
        assert_eq!(read, Ok(true));
    }
}
