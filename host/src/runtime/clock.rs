//! The time of day, as formulas are told it.
//!
//! Many a formula asks for today's date and for nothing else of WASI. wasmtime's own clock is a part of a context with
//! two generators of random numbers and much else, which took longer to make than such a formula runs; this one takes
//! nothing. It counts in milliseconds, which is what dates need and little to measure others' work by.

use wasmtime::Result;
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::{self, Datetime};

use super::state::State;
use crate::clock::{Clock as _, SystemClock};

/// `wasi:clocks/wall-clock`.
struct WallClock;

impl HasData for WallClock {
    type Data<'a> = Self;
}

impl wall_clock::Host for WallClock {
    fn now(&mut self) -> Result<Datetime> {
        Ok(datetime(SystemClock.now_ms()))
    }

    fn resolution(&mut self) -> Result<Datetime> {
        Ok(datetime(1))
    }
}

fn datetime(ms: u64) -> Datetime {
    let nanoseconds = u32::try_from(ms % 1_000 * 1_000_000).unwrap_or_default();
    Datetime { seconds: ms / 1_000, nanoseconds }
}

/// Puts it in the place of wasmtime's.
pub fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    linker.allow_shadowing(true);
    let added = wall_clock::add_to_linker::<State, WallClock>(linker, |_| WallClock);
    linker.allow_shadowing(false);
    added
}

#[cfg(test)]
mod tests {
    use super::{WallClock, datetime};
    use crate::clock::{Clock as _, SystemClock};
    use wasmtime_wasi::p2::bindings::clocks::wall_clock::Host as _;

    #[test]
    fn milliseconds_become_seconds_and_nanoseconds() {
        for (ms, expected) in [(0, (0, 0)), (999, (0, 999_000_000)), (1_001, (1, 1_000_000))] {
            let told = datetime(ms);
            assert_eq!((told.seconds, told.nanoseconds), expected, "{ms}");
        }
        assert_eq!(datetime(u64::MAX).seconds, u64::MAX / 1_000);
    }

    #[test]
    fn it_tells_the_time_to_the_millisecond() {
        let before = SystemClock.now_ms();
        let now = WallClock.now().unwrap();
        let told = now.seconds * 1_000 + u64::from(now.nanoseconds) / 1_000_000;
        assert!((before..=SystemClock.now_ms()).contains(&told), "{before} {told}");
        assert_eq!(WallClock.resolution().unwrap().nanoseconds, 1_000_000);
    }
}
