//! Whether the writer gets on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::store::StoreError;

/// How long one group may take, or one portion of a copy, until nobody should begin anything more.
const LATE_AFTER: Duration =
    if cfg!(test) { Duration::from_secs(5) } else { Duration::from_mins(3) };
/// The same, until it is taken for something that will never end. What a group waits for in turn is given up long before
/// ([`super::syncing`]).
const STUCK_AFTER: Duration =
    if cfg!(test) { Duration::from_secs(10) } else { Duration::from_mins(10) };

/// What is told of a writer that does not get on; nothing of what was asked for was taken.
pub fn late() -> StoreError {
    StoreError::Unavailable("the store does not get on".to_owned())
}

/// Since when the writer is busy with one thing.
pub struct Progress {
    begun: Instant,
    /// Milliseconds from then on; 0 while there is nothing to do.
    busy_since_ms: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { begun: Instant::now(), busy_since_ms: AtomicU64::new(0) }
    }
}

impl Progress {
    /// It begins something.
    pub fn begin(&self) {
        self.busy_since_ms.store(self.now_ms(), Ordering::Release);
    }

    /// It waits for something to do.
    pub fn rest(&self) {
        self.busy_since_ms.store(0, Ordering::Release);
    }

    /// Refuses what would only wait behind it while it does not get on.
    pub fn check(&self) -> Result<(), StoreError> {
        match self.busy() {
            busy if busy > STUCK_AFTER => Err(StoreError::Failed),
            busy if busy > LATE_AFTER => Err(late()),
            _ => Ok(()),
        }
    }

    /// Whether it has been busy for too long.
    pub fn is_stuck(&self) -> bool {
        self.busy() > STUCK_AFTER
    }

    fn busy(&self) -> Duration {
        match self.busy_since_ms.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            since => Duration::from_millis(self.now_ms().saturating_sub(since)),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}
