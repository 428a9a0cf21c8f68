//! What an owner's runs have had of the threads that everything runs on, and of turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What an owner's runs have had.
#[derive(Debug, Default)]
pub struct Account {
    /// Time that those under way have used in slices that were not their last.
    pub(super) used_ns: AtomicU64,
    /// How many of the next slices are looked into, since one seemed overlong. What seems so may have waited for others, and
    /// to ask the system costs more than it takes: it uses the occasion to let others compute.
    pub(super) looks: AtomicU64,
    /// When its overlong slices are made up for, in nanoseconds since the start of the lane.
    pub(super) even_at_ns: AtomicU64,
    /// The time that its turns have taken, with what it lost.
    pub(super) turns_ns: AtomicU64,
}

/// How long a slice may be that is nothing out of the ordinary: of most runs the last one is, and nobody looks at it twice.
pub(super) const OVERLONG: Duration = Duration::from_millis(2);
/// How many slices are looked into after one that seems overlong, at most, and after one that is.
pub(super) const LOOKS_AT_FIRST: u64 = 8;
const LOOKS: u64 = 1_000;
/// How many times as long it takes to make up for one.
const MADE_UP_FOR: u64 = 10;

impl Account {
    /// Adds to it; gives the sum.
    pub(super) fn charge(&self, ns: u64) -> u64 {
        self.used_ns.fetch_add(ns, Ordering::Relaxed) + ns
    }

    pub(super) fn refund(&self, ns: u64) {
        self.used_ns.fetch_sub(ns, Ordering::Relaxed);
    }

    /// Looks into a slice that took so long, if it is known what its thread had computed before.
    pub(super) fn look_into(&self, took: Duration, before: Option<Duration>, now_ns: u64) {
        let Some(before) = before else {
            // So many that nobody can tell which slice is the last one.
            self.looks.fetch_max(1 + now_ns % LOOKS_AT_FIRST, Ordering::Relaxed);
            return;
        };
        if took > OVERLONG {
            let computed = computed_by_this_thread().saturating_sub(before);
            if computed > OVERLONG {
                self.owe(nanoseconds(computed), now_ns);
                self.looks.store(LOOKS, Ordering::Relaxed);
                return;
            }
        }
        let fewer = |looks: u64| looks.checked_sub(1);
        let _ = self.looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    /// Notes a slice that was overlong.
    pub(super) fn owe(&self, ns: u64, now_ns: u64) {
        let later = |even_at: u64| Some(even_at.max(now_ns).saturating_add(ns * MADE_UP_FOR));
        let _ = self.even_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Whether there was one ever.
    pub fn has_owed(&self) -> bool {
        self.even_at_ns.load(Ordering::Relaxed) > 0
    }

    /// What of that is not made up for.
    pub(super) fn owes(&self, now_ns: u64) -> u64 {
        self.even_at_ns.load(Ordering::Relaxed).saturating_sub(now_ns) / MADE_UP_FOR
    }
}

/// Computing time that this thread has had.
pub(super) fn computed_by_this_thread() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// So many nanoseconds.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
