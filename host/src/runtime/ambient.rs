//! What formulas are told of the world without a context of their own: the time of day, and a seed for their hash tables.
//!
//! Nearly every formula asks for the one or the other, and most for nothing else of WASI. wasmtime answers from a context
//! with two generators of random numbers and much else, which took longer to make than anything else that a small
//! formula had its host do; these two answers take nothing. The clock counts in milliseconds, which is what dates need.

use std::hash::{BuildHasher as _, RandomState};

use wasmtime::Result;
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::{self, Datetime};
use wasmtime_wasi::p2::bindings::random::insecure_seed;

use super::state::State;
use crate::clock::{Clock as _, SystemClock};

/// Whoever asks, in its run's state: whether anything was told that is another thing each time.
struct Asked<'s>(&'s mut bool);

/// Where [`Asked`] is found.
struct InState;

impl HasData for InState {
    type Data<'s> = Asked<'s>;
}

/// `wasi:clocks/wall-clock`.
impl wall_clock::Host for Asked<'_> {
    fn now(&mut self) -> Result<Datetime> {
        *self.0 = true;
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

/// `wasi:random/insecure-seed`: 16 bytes against those who choose keys that collide, and no secret.
impl insecure_seed::Host for Asked<'_> {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        *self.0 = true;
        // Each has keys that no other has, drawn from what the system gave this thread.
        let drawn = RandomState::new();
        Ok((drawn.hash_one(0_u8), drawn.hash_one(1_u8)))
    }
}

/// Puts the clock in the place of wasmtime's, and adds the seed.
pub fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    linker.allow_shadowing(true);
    let added = wall_clock::add_to_linker::<State, InState>(linker, asked);
    linker.allow_shadowing(false);
    added?;
    insecure_seed::add_to_linker::<State, InState>(linker, asked)
}

fn asked(state: &mut State) -> Asked<'_> {
    Asked(&mut state.was_told)
}

#[cfg(test)]
mod tests {
    use super::{Asked, datetime};
    use crate::clock::{Clock as _, SystemClock};
    use std::collections::HashSet;
    use wasmtime_wasi::p2::bindings::clocks::wall_clock::Host as _;
    use wasmtime_wasi::p2::bindings::random::insecure_seed::Host as _;

    #[test]
    fn no_two_seeds_are_the_same() {
        let mut told = false;
        let seeds = (0..1_000).map(|_| Asked(&mut told).insecure_seed().unwrap());
        let halves: HashSet<u64> = seeds.flat_map(|(first, second)| [first, second]).collect();
        assert_eq!(halves.len(), 2_000);
        assert!(told);
    }

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
        let mut asked = false;
        assert_eq!(Asked(&mut asked).resolution().unwrap().nanoseconds, 1_000_000);
        assert!(!asked);
        let before = SystemClock.now_ms();
        let now = Asked(&mut asked).now().unwrap();
        assert!(asked);
        let told = now.seconds * 1_000 + u64::from(now.nanoseconds) / 1_000_000;
        assert!((before..=SystemClock.now_ms()).contains(&told), "{before} {told}");
    }
}
