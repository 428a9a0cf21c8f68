//! The time, asked for when a script wants it and not before.

use std::time::{SystemTime, UNIX_EPOCH};

use boa_engine::context::Clock;
use boa_engine::context::time::JsInstant;

use crate::natives::host::since_start;

/// The clocks of the host.
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> JsInstant {
        let elapsed = since_start();
        JsInstant::new(elapsed.as_secs(), elapsed.subsec_nanos())
    }

    #[expect(clippy::disallowed_methods, reason = "this is where a script's time comes from")]
    fn system_time_millis(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
