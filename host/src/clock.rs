//! Time as a value.
//!
//! The one place that reads the time of day. Everything else is given a [`Clock`], so that a test moves time
//! by hand and never sleeps. It knows nothing of formats; see `model::time`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Nanoseconds since some moment in the past, for measuring: never goes back, whatever is done to the time of day.
    fn elapsed_ns(&self) -> u64;

    /// Milliseconds since some moment in the past, those included for which the machine slept.
    fn passed_ms(&self) -> u64 {
        self.elapsed_ns() / 1_000_000
    }
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }

    fn elapsed_ns(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    #[cfg(target_os = "linux")]
    fn passed_ms(&self) -> u64 {
        let passed = clock_gettime(ClockId::Boottime);
        let whole = u64::try_from(passed.tv_sec).unwrap_or_default().saturating_mul(1_000);
        whole.saturating_add(u64::try_from(passed.tv_nsec / 1_000_000).unwrap_or_default())
    }
}

/// A clock that stands still until it is moved. Clones share the hands.
#[derive(Debug, Clone)]
pub struct ManualClock {
    passed_ms: Arc<AtomicU64>,
    /// By how much the time of day was set, modulo 2⁶⁴.
    set_ms: Arc<AtomicU64>,
}

impl ManualClock {
    /// Starts at `now_ms` milliseconds since the Unix epoch.
    pub fn new(now_ms: u64) -> Self {
        Self { passed_ms: Arc::new(AtomicU64::new(now_ms)), set_ms: Arc::default() }
    }

    /// Lets time pass.
    pub fn advance_ms(&self, by_ms: u64) {
        self.passed_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Sets the time of day forward or back, while no time passes.
    pub fn set_by_ms(&self, by_ms: i64) {
        self.set_ms.fetch_add(by_ms.cast_unsigned(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst).wrapping_add(self.set_ms.load(Ordering::SeqCst))
    }

    fn elapsed_ns(&self) -> u64 {
        self.passed_ms.load(Ordering::SeqCst) * 1_000_000
    }
}
