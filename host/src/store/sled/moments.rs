//! Moments: what is read in several steps is to be of one.
//!
//! A group goes to the tree row by row, and to the index after that. A page is read from both, so that one that is read
//! meanwhile could tell of records that are not on it, or show some that do not match. Readers do not hold the writer up:
//! they wait while a group is seen in part, look whether one came in between, and read anew. Nearly every group has log
//! entries and nothing else, so that each kind of each tenant has moments of its own, but for the few that share one by
//! chance.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use crate::model::id::TenantId;
use crate::store::Kind;

/// Times that something is read when groups come in between: only pages among very many writes of the same kind may be
/// of more than one moment in the end.
const READS_MAX: usize = 16;
/// How often who waits looks again at once, and how long it pauses from then on.
const LOOKS_AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_millis(1);
/// How long a group that is seen in part is waited for. It is synced meanwhile, if it is a large one; a disk that takes
/// longer for that is no reason to show nothing.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A kind of a tenant.
type Whose = (Kind, TenantId);

/// Counts what is seen: odd while a group is seen in part.
pub struct Moments([AtomicU64; 64]);

impl Default for Moments {
    fn default() -> Self {
        Self(from_fn(|_| AtomicU64::default()))
    }
}

/// The counts that a group changes, one bit each.
#[derive(Default, Clone, Copy)]
pub struct Changed(u64);

impl Changed {
    /// What changes these.
    pub fn of(changes: impl IntoIterator<Item = Whose>) -> Self {
        Self(changes.into_iter().fold(0, |bits, whose| bits | 1 << slot(whose)))
    }

    fn slots(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |slot| self.0 >> slot & 1 == 1)
    }
}

/// Which count it is. Ids of tenants are drawn.
fn slot((kind, tenant): Whose) -> usize {
    let [.., last] = *tenant.0.as_bytes();
    usize::from(last.wrapping_add(kind.0.wrapping_mul(11))) % 64
}

impl Moments {
    /// A group begins to be seen. There is one writer.
    pub fn begin(&self, changed: Changed) {
        for slot in changed.slots() {
            self.0[slot].fetch_or(1, Ordering::Relaxed);
        }
        // Nothing of the group is seen before that.
        fence(Ordering::Release);
    }

    /// It is seen as a whole, or will never be.
    pub fn end(&self, changed: Changed) {
        for count in changed.slots().map(|slot| &self.0[slot]) {
            if count.load(Ordering::Relaxed) & 1 == 1 {
                count.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Reads something of one moment.
    pub async fn read<T, E>(
        &self,
        whose: Whose,
        mut read: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let count = Count(&self.0[slot(whose)]);
        let mut reads = 0;
        loop {
            reads += 1;
            let moment = count.whole().await;
            let found = read()?;
            // What was read is not read after that.
            fence(Ordering::Acquire);
            if reads == READS_MAX || moment.is_none_or(|moment| count.now() == Some(moment)) {
                return Ok(found);
            }
            pause(reads).await;
        }
    }
}

struct Count<'a>(&'a AtomicU64);

impl Count<'_> {
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
    use super::{Changed, Count, Moments, PAUSE, Whose, slot};
    use crate::store::Kind;
    use crate::store::conformance::{KIND, TENANT};

    const WHOSE: Whose = (KIND, TENANT);
    const OTHER: Whose = (Kind(KIND.0 + 1), TENANT);

    fn changed() -> Changed {
        Changed::of([WHOSE])
    }

    #[test]
    fn a_moment_lasts_until_a_group_begins_to_be_seen() {
        let moments = Moments::default();
        let count = Count(&moments.0[slot(WHOSE)]);
        let first = count.now().unwrap();
        moments.end(changed());
        assert_eq!(count.now(), Some(first));
        moments.begin(changed());
        moments.begin(changed());
        assert_eq!(count.now(), None);
        moments.end(changed());
        assert!(count.now().is_some_and(|later| later != first));
    }

    #[tokio::test]
    async fn what_a_group_came_between_is_read_anew_and_not_for_ever() {
        let (moments, mut reads) = (Moments::default(), 0);
        let pass = || {
            moments.begin(changed());
            moments.end(changed());
        };
        let read = moments.read(WHOSE, || {
            reads += 1;
            if reads < 3 {
                pass();
            }
            Ok::<_, ()>(reads)
        });
        assert_eq!(read.await, Ok(3));
        assert_eq!(moments.read(WHOSE, || Err::<(), _>("unreadable")).await, Err("unreadable"));
        let always = moments.read(WHOSE, || {
            pass();
            Ok::<_, ()>(5)
        });
        assert_eq!(always.await, Ok(5));
    }

    #[tokio::test]
    async fn a_group_that_is_seen_in_part_is_waited_for() {
        let moments = Moments::default();
        moments.begin(changed());
        let seen = std::cell::Cell::new(false);
        let group = async {
            tokio::time::sleep(20 * PAUSE).await;
            seen.set(true);
            moments.end(changed());
        };
        let (read, ()) = tokio::join!(moments.read(WHOSE, || Ok::<_, ()>(seen.get())), group);
        assert_eq!(read, Ok(true));
    }

    #[tokio::test]
    async fn a_group_of_another_kind_holds_nobody_up() {
        let (moments, mut reads) = (Moments::default(), 0);
        moments.begin(Changed::of([OTHER]));
        let read = moments.read(WHOSE, || {
            moments.end(Changed::of([OTHER]));
            moments.begin(Changed::of([OTHER]));
            reads += 1;
            Ok::<_, ()>(reads)
        });
        assert_eq!(read.await, Ok(1));
    }
}
