//! How many asynchronous runs go on, and how many wait.

use super::Options;
use crate::limits::{JOBS_RUNNING_DEFAULT, JOBS_WAITING_DEFAULT};

/// Bounds of asynchronous runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Runs that go on at the same time.
    pub running: usize,
    /// Of these, one tenant's.
    pub running_per_tenant: usize,
    /// Runs of one tenant that wait.
    pub waiting_per_tenant: u64,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self::new(None, None, None)
    }
}

impl JobLimits {
    /// What was said, and the usual where nothing was: half of all for one tenant.
    pub fn new(running: Option<u32>, per_tenant: Option<u32>, waiting: Option<u64>) -> Self {
        let running = running.unwrap_or(JOBS_RUNNING_DEFAULT).max(1) as usize;
        let running_per_tenant = match per_tenant {
            None => (running / 2).max(1),
            Some(0) => running,
            Some(given) => running.min(given as usize),
        };
        let waiting_per_tenant = waiting.unwrap_or(JOBS_WAITING_DEFAULT);
        Self { running, running_per_tenant, waiting_per_tenant }
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
    use super::JobLimits;

    #[test]
    fn a_tenant_has_half_unless_it_is_said() {
        for (running, per_tenant, expected) in [
            (None, None, (64, 32)),
            (Some(1), None, (1, 1)),
            (Some(0), None, (1, 1)),
            (Some(10), Some(0), (10, 10)),
            (Some(10), Some(3), (10, 3)),
            (Some(10), Some(30), (10, 10)),
        ] {
            let limits = JobLimits::new(running, per_tenant, Some(7));
            assert_eq!((limits.running, limits.running_per_tenant), expected);
            assert_eq!(limits.waiting_per_tenant, 7);
        }
    }
}
