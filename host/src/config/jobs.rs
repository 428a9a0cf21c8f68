//! How many asynchronous runs go on, and how many wait.

use super::Options;
use crate::limits::{JOBS_RUNNING_DEFAULT, JOBS_WAITING_DEFAULT};

/// The part of the places that is for tenants which have none.
const LAST_PART: usize = 8;

/// Bounds of asynchronous runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Runs that go on at the same time.
    pub running: usize,
    /// Of these, one tenant's; `None` for half of as many as there are places for, the largest number for all of them.
    pub running_per_tenant: Option<usize>,
    /// Runs of one tenant that wait.
    pub waiting_per_tenant: u64,
}

/// Places for asynchronous runs, of which each takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// How many there are.
    pub all: usize,
    /// How many of them one tenant's runs take.
    pub per_tenant: usize,
    /// How many are left to tenants that have none: long runs of few tenants are not to be all that goes on.
    pub last: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self::new(None, None, None)
    }
}

impl JobLimits {
    /// What was said, and the usual where nothing was.
    pub fn new(running: Option<u32>, per_tenant: Option<u32>, waiting: Option<u64>) -> Self {
        let running = running.unwrap_or(JOBS_RUNNING_DEFAULT).max(1) as usize;
        let running_per_tenant = per_tenant.map(|given| match given {
            0 => usize::MAX,
            given => running.min(given as usize),
        });
        let waiting_per_tenant = waiting.unwrap_or(JOBS_WAITING_DEFAULT);
        Self { running, running_per_tenant, waiting_per_tenant }
    }

    /// The same, where there are slots for no more than so many.
    pub fn places(self, slots: usize) -> Places {
        let all = self.running.min(slots);
        let per_tenant = self.running_per_tenant.unwrap_or_else(|| (all / 2).max(1));
        let last = (all / LAST_PART).max(usize::from(all > 1));
        // Who says that one may have them all has no others to keep any for.
        Places { all, per_tenant, last: if per_tenant == usize::MAX { 0 } else { last } }
    }

    /// What flags say, or else a file.
    pub(super) fn of(flags: &Options, file: &Options) -> Self {
        Self::new(
            flags.reactor_jobs.or(file.reactor_jobs),
            flags.reactor_jobs_per_tenant.or(file.reactor_jobs_per_tenant),
            flags.reactor_jobs_waiting_per_tenant.or(file.reactor_jobs_waiting_per_tenant),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{JobLimits, Places};

    /// Places by `--reactor-jobs`, `--reactor-jobs-per-tenant` and slots: all, a tenant's, the last.
    #[test]
    fn a_tenant_has_half_of_the_places_unless_it_is_said() {
        for (running, per_tenant, slots, expected) in [
            (None, None, 96, (64, 32, 8)),
            (None, None, 12, (12, 6, 1)),
            (None, None, 3, (3, 1, 1)),
            (None, None, 1, (1, 1, 0)),
            (Some(1), None, 96, (1, 1, 0)),
            (Some(0), None, 96, (1, 1, 0)),
            (Some(2), None, 96, (2, 1, 1)),
            (Some(7), None, 96, (7, 3, 1)),
            (Some(10), Some(0), 96, (10, usize::MAX, 0)),
            (None, Some(0), 96, (64, usize::MAX, 0)),
            (Some(10), Some(3), 96, (10, 3, 1)),
            (Some(10), Some(30), 96, (10, 10, 1)),
        ] {
            let limits = JobLimits::new(running, per_tenant, Some(7));
            let Places { all, per_tenant, last } = limits.places(slots);
            assert_eq!((all, per_tenant, last), expected, "{limits:?}");
            assert_eq!(limits.waiting_per_tenant, 7);
        }
    }
}
