//! How much memory formulas may hold: while they run, and their code.

use super::Options;
use crate::limits::{PROGRAMS_MEMORY_MB_DEFAULT, REACTOR_MEMORY_MB_MIN, REACTOR_MEMORY_MB_UNKNOWN};

/// What the kernel tells of the machine, and of the container if there is one.
const MACHINE: &str = "/proc/meminfo";
const CONTAINER: &str = "/sys/fs/cgroup/memory.max";

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
            reactors_mb: reactors_mb.unwrap_or_else(|| {
                let told = |path| std::fs::read_to_string(path).ok();
                let machine_kb = told(MACHINE).as_deref().and_then(total_kb).or_else(asked_kb);
                usual(machine_kb, told(CONTAINER).as_deref())
            }),
            programs_mb: programs_mb.unwrap_or(PROGRAMS_MEMORY_MB_DEFAULT),
        }
    }
}

/// The machine's memory, as the kernel writes it down.
fn total_kb(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The same as it answers when asked: a service may see no more of `/proc` than processes.
fn asked_kb() -> Option<u64> {
    let told = rustix::system::sysinfo();
    let bytes = told.totalram.checked_mul(u64::from(told.mem_unit))?;
    Some(bytes >> 10).filter(|kb| *kb > 0)
}

/// A quarter of what there is, in MiB.
fn usual(machine_kb: Option<u64>, container: Option<&str>) -> u64 {
    // Without a bound it holds a word.
    let container_kb =
        container.and_then(|text| text.trim().parse::<u64>().ok()).map(|bytes| bytes >> 10);
    let quarter_mb = |kb: u64| (kb >> 12).max(REACTOR_MEMORY_MB_MIN);
    machine_kb.into_iter().chain(container_kb).min().map_or(REACTOR_MEMORY_MB_UNKNOWN, quarter_mb)
}

#[cfg(test)]
mod tests {
    use super::{MACHINE, asked_kb, total_kb, usual};

    #[test]
    fn a_quarter_of_what_there_is() {
        let gib = 1 << 20;
        for (machine_kb, container, expected) in [
            (Some(16 * gib), None, 4_096),
            (Some(16 * gib), Some("max\n"), 4_096),
            (Some(16 * gib), Some("4294967296\n"), 1_024),
            (Some(16 * gib), Some("68719476736\n"), 4_096),
            (Some(gib), None, 512),
            (None, Some("8589934592\n"), 2_048),
            (None, None, 4_096),
        ] {
            assert_eq!(usual(machine_kb, container), expected, "{machine_kb:?} {container:?}");
        }
    }

    #[test]
    fn the_machine_tells_its_memory_in_two_ways() {
        assert_eq!(total_kb("Buffers: 7 kB\nMemTotal:    16 kB\nMemFree:  1 kB\n"), Some(16));
        assert_eq!(total_kb("MemTotal: much\n"), None);
        let asked = asked_kb().unwrap();
        // A container may be told less in the file than the machine has.
        let written = std::fs::read_to_string(MACHINE).ok();
        assert!(written.as_deref().and_then(total_kb).is_none_or(|kb| kb <= asked), "{asked}");
    }
}
