//! `--watch`: does something again whenever a file of the project changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use super::report::{DIM, warn};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// Folders that builds write to, and those of tools.
const LEFT_OUT: &[&str] = &["target", "internal", "node_modules", "__pycache__"];
/// Files that are looked at, most.
const FILES_MAX: usize = 10_000;

type Seen = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Does it once, or again after every change until the process is ended.
pub fn repeat(root: &Path, watch: bool, mut act: impl FnMut() -> ExitCode) -> ExitCode {
    if !watch {
        return act();
    }
    loop {
        // What changes while it is done counts as a change after it.
        let before = look(root);
        act();
        warn(format_args!("{DIM}waiting for a change; stop with Ctrl-C{DIM:#}"));
        while look(root) == before {
            sleep(INTERVAL);
        }
    }
}

/// The project's files with their times and sizes.
fn look(root: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().map_while(Result::ok) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let hidden = name.starts_with('.') && name != ".cargo";
            let Ok(about) = entry.metadata() else { continue };
            if hidden || seen.len() >= FILES_MAX {
                continue;
            }
            if about.is_dir() {
                if !LEFT_OUT.contains(&&*name) {
                    open.push(entry.path());
                }
            } else if name != "Cargo.lock" && name != "go.sum" {
                seen.insert(entry.path(), (about.modified().ok(), about.len()));
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::look;
    use std::fs;

    #[test]
    fn changes_of_the_source_are_seen_and_those_of_builds_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for inner in ["src", "target", ".tokamak", ".cargo"] {
            fs::create_dir(root.join(inner)).unwrap();
        }
        let mut before = look(root);
        for (path, seen) in [
            ("src/lib.rs", true),
            ("formula.json", true),
            (".cargo/config.toml", true),
            ("target/a.wasm", false),
            (".tokamak/a", false),
            ("Cargo.lock", false),
        ] {
            fs::write(root.join(path), "text").unwrap();
            let after = look(root);
            assert_eq!(after != before, seen, "{path}");
            before = after;
        }
        fs::write(root.join("formula.json"), "longer").unwrap();
        assert_ne!(look(root), before);
    }
}
