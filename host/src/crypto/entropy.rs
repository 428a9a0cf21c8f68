//! Randomness as a value.
//!
//! Everything that draws is given an [`Entropy`], so that a test can repeat itself. The system's is a generator seeded
//! once by the operating system: a draw is no system call.

use parking_lot::Mutex;
use rand::rngs::{StdRng, SysRng};
use rand::{Rng as _, SeedableRng as _};
use thiserror::Error;

/// Where randomness comes from.
pub trait Entropy: Send + Sync + 'static {
    /// Fills the slice with bytes that nobody can predict.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system gave no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the operating system gives no randomness")]
pub struct NoEntropy;

/// A cryptographic generator, seeded by the operating system.
pub struct SystemEntropy(Mutex<StdRng>);

impl SystemEntropy {
    /// Seeds a generator.
    pub fn new() -> Result<Self, NoEntropy> {
        StdRng::try_from_rng(&mut SysRng).map(Mutex::new).map(Self).map_err(|_| NoEntropy)
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

/// The same bytes for the same seed: for tests, never for keys.
pub struct SeededEntropy(Mutex<StdRng>);

impl SeededEntropy {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{Entropy as _, SeededEntropy, SystemEntropy};

    #[test]
    fn seeds_repeat_and_the_system_does_not() {
        let draw = |entropy: &dyn super::Entropy| {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            bytes
        };
        assert_eq!(draw(&SeededEntropy::new(1)), draw(&SeededEntropy::new(1)));
        assert_ne!(draw(&SeededEntropy::new(1)), draw(&SeededEntropy::new(2)));
        let system = SystemEntropy::new().unwrap();
        assert_ne!(draw(&system), draw(&system));
        let mut none: [u8; 0] = [];
        system.fill(&mut none);
    }
}
