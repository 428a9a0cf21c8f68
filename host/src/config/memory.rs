//! How much memory formulas may hold: while they run, and their code.

use super::{Options, machine};
use crate::limits::{PROGRAMS_MEMORY_MB_DEFAULT, REACTOR_MEMORY_MB_MIN, REACTOR_MEMORY_MB_UNKNOWN};

/// Bounds of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// What all invocations together may hold, in MiB; one tenant's hold half of it.
    pub reactors_mb: u64,
    /// Machine code of formulas that is kept, in MiB; one tenant's takes half of it.
    pub programs_mb: u64,
}

impl MemoryLimits {
    /// What flags say, or else a file, or else what fits the machine.
    pub(super) fn of(flags: &Options, file: &Options) -> Self {
        let reactors_mb = flags.reactor_memory_mb.or(file.reactor_memory_mb);
        let programs_mb = flags.programs_memory_mb.or(file.programs_memory_mb);
        Self {
            reactors_mb: reactors_mb.unwrap_or_else(|| usual(machine::memory_kb())),
            programs_mb: programs_mb.unwrap_or(PROGRAMS_MEMORY_MB_DEFAULT),
        }
    }
}

/// A quarter of what there is, in MiB.
fn usual(memory_kb: Option<u64>) -> u64 {
    memory_kb.map_or(REACTOR_MEMORY_MB_UNKNOWN, |kb| (kb >> 12).max(REACTOR_MEMORY_MB_MIN))
}

#[cfg(test)]
mod tests {
    use super::usual;

    #[test]
    fn a_quarter_of_what_there_is() {
        let gib = 1 << 20;
        for (memory_kb, expected) in
            [(Some(16 * gib), 4_096), (Some(4 * gib), 1_024), (Some(gib), 512), (None, 4_096)]
        {
            assert_eq!(usual(memory_kb), expected, "{memory_kb:?}");
        }
    }
}
