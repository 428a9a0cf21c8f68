//! The time, asked for when a script wants it and not before.

use core::ffi::{c_int, c_longlong, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether there is a host to ask: not while the engine is set up.
static IS_SET_UP: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// When somebody asked for the time first.
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on there is a host.
pub fn start() {
    IS_SET_UP.store(true, Ordering::Relaxed);
}

/// The time since it was first asked for.
pub fn since_start() -> Duration {
    let start = START.get().unwrap_or_else(Instant::now);
    START.set(Some(start));
    start.elapsed()
}

/// `struct timeval` of the C library.
#[repr(C)]
struct Timeval {
    seconds: c_longlong,
    microseconds: c_longlong,
}

/// The time of day, in the C library's place: the engine asks for it when it is set up, to seed its `Math.random`, of which
/// `natives::random` makes another, and for `Date`.
#[expect(unsafe_code, reason = "the name and shape that C has it by")]
#[expect(clippy::disallowed_methods, reason = "this is where a script's time comes from")]
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(at: *mut Timeval, _: *mut c_void) -> c_int {
    let since = if IS_SET_UP.load(Ordering::Relaxed) {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    } else {
        Duration::ZERO
    };
    let time = Timeval {
        seconds: c_longlong::try_from(since.as_secs()).unwrap_or(c_longlong::MAX),
        microseconds: since.subsec_micros().into(),
    };
    // SAFETY: who asks gives room for it.
    unsafe { at.write(time) };
    0
}
