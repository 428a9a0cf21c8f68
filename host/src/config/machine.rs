//! How much memory the process may have: the machine's, or less where the kernel bounds it (a container, a service).

use std::path::Path;

/// What the kernel tells of the machine, and in which groups of processes this one is.
const MACHINE: &str = "/proc/meminfo";
const GROUPS: &str = "/proc/self/cgroup";
/// Where groups lie, and the file of each that bounds its memory: of the second version, whose groups have no name, and of
/// the first.
const BOUNDS: [(&str, &str, &str); 2] = [
    ("", "/sys/fs/cgroup", "memory.max"),
    ("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// In KiB, if the kernel tells.
pub fn memory_kb() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new(MACHINE)).as_deref().and_then(total_kb).or_else(asked_kb);
    let groups = read(Path::new(GROUPS)).and_then(|groups| bound_kb(&groups, read));
    machine.into_iter().chain(groups).min()
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

/// The least bound of the groups that a process is in, each within those above it. A container may see no more than its own
/// as the root of all.
fn bound_kb(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let bounds = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let of_memory =
            |(name, ..): &&(&str, &str, &str)| controllers.split(',').any(|c| c == *name);
        let (_, root, file) = BOUNDS.iter().find(of_memory)?;
        let within = Path::new(path.trim_start_matches('/')).ancestors();
        let told = within.filter_map(|at| read(&Path::new(root).join(at).join(file)));
        // Without a bound it holds a word, or a number past all memory.
        told.filter_map(|text| text.trim().parse::<u64>().ok()).min()
    });
    bounds.min().map(|bytes| bytes >> 10)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{MACHINE, asked_kb, bound_kb, total_kb};

    #[test]
    fn the_machine_tells_its_memory_in_two_ways() {
        assert_eq!(total_kb("Buffers: 7 kB\nMemTotal:    16 kB\nMemFree:  1 kB\n"), Some(16));
        assert_eq!(total_kb("MemTotal: much\n"), None);
        let asked = asked_kb().unwrap();
        // A container may be told less in the file than the machine has.
        let written = std::fs::read_to_string(MACHINE).ok();
        assert!(written.as_deref().and_then(total_kb).is_none_or(|kb| kb <= asked), "{asked}");
    }

    #[test]
    fn the_least_bound_of_all_groups_around_counts() {
        let files = |path: &Path| {
            let text = match path.to_str().unwrap() {
                "/sys/fs/cgroup/memory.max" => "8192\n",
                "/sys/fs/cgroup/system.slice/memory.max" => "max\n",
                "/sys/fs/cgroup/system.slice/vault.service/memory.max" => "4096\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "9223372036854771712\n",
                "/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes" => "2048\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        for (groups, expected) in [
            ("", None),
            ("0::/", Some(8)),
            ("0::/system.slice", Some(8)),
            ("0::/system.slice/vault.service\n", Some(4)),
            ("0::/not/seen/from/here", Some(8)),
            ("5:cpu,cpuacct:/a\n4:memory:/docker/a\n", Some(2)),
            ("4:hugetlb,memory:/docker\n", Some(9_223_372_036_854_771_712 >> 10)),
            ("4:memory:/docker/a\n0::/", Some(2)),
            ("nothing of all this", None),
        ] {
            assert_eq!(bound_kb(groups, files), expected, "{groups}");
        }
        assert_eq!(bound_kb("0::/", |_| Some("max\n".to_owned())), None);
    }
}
