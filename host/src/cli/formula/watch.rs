//! `--watch`: does something again whenever a file of the project changes.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use rustix::fs::fstat;

use super::project::{Language, Project};
use super::report::{DIM, warn};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// Folders of tools, wherever they are: no author writes in them.
const OF_TOOLS: &[&str] = &["node_modules", "__pycache__"];
/// What lies in every virtual environment of Python, whatever its folder is called.
const ENVIRONMENT: &str = "pyvenv.cfg";
/// Files that are looked at, most.
const FILES_MAX: usize = 10_000;

type Seen = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Does it once, or again after every change until the process is ended.
pub fn repeat(root: &Path, watch: bool, mut act: impl FnMut() -> ExitCode) -> ExitCode {
    if !watch {
        return act();
    }
    loop {
        let language = Project::open(root).ok().and_then(|project| project.language);
        // What changes while it is done counts as a change after it.
        let before = look(root, language);
        act();
        warn(format_args!("{DIM}waiting for a change; stop with Ctrl-C{DIM:#}"));
        while look(root, language) == before {
            sleep(INTERVAL);
        }
    }
}

/// The folder that builds write to, by its name in the project's own. Deeper it is the author's.
fn built_to(language: Option<Language>) -> Option<&'static str> {
    match language? {
        Language::Rust => Some("target"),
        Language::Go => Some("internal"),
        Language::Javascript | Language::Python => None,
    }
}

/// Whether a file is what is told to: each round would be the reason for the next one.
fn is_told_to(file: &Metadata) -> bool {
    let is_file = |output: rustix::io::Result<rustix::fs::Stat>| {
        output.is_ok_and(|output| (output.st_dev, output.st_ino) == (file.dev(), file.ino()))
    };
    is_file(fstat(std::io::stdout())) || is_file(fstat(std::io::stderr()))
}

/// The project's files with their times and sizes.
fn look(root: &Path, language: Option<Language>) -> Seen {
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
                let built = folder == root && built_to(language) == Some(&*name);
                let of_tools =
                    OF_TOOLS.contains(&&*name) || entry.path().join(ENVIRONMENT).is_file();
                if !built && !of_tools {
                    open.push(entry.path());
                }
            } else if name != "Cargo.lock" && name != "go.sum" && !is_told_to(&about) {
                seen.insert(entry.path(), (about.modified().ok(), about.len()));
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::{Language, look};
    use std::fs;

    #[test]
    fn changes_of_the_source_are_seen_and_those_of_builds_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let rust = Some(Language::Rust);
        for inner in ["src", "target", ".tokamak", ".cargo"] {
            fs::create_dir(root.join(inner)).unwrap();
        }
        let mut before = look(root, rust);
        for (path, seen) in [
            ("src/lib.rs", true),
            ("formula.json", true),
            (".cargo/config.toml", true),
            ("target/a.wasm", false),
            (".tokamak/a", false),
            ("Cargo.lock", false),
        ] {
            fs::write(root.join(path), "text").unwrap();
            let after = look(root, rust);
            assert_eq!(after != before, seen, "{path}");
            before = after;
        }
        fs::write(root.join("formula.json"), "longer").unwrap();
        assert_ne!(look(root, rust), before);
    }

    #[test]
    fn only_what_tools_write_is_left_out() {
        use Language::{Go, Javascript, Python, Rust};
        let every = [Rust, Javascript, Python, Go];
        for (path, seen_in) in [
            ("internal/a", &[Rust, Javascript, Python][..]),
            ("src/internal/a", &every),
            ("target/a", &[Javascript, Python, Go]),
            ("src/target/a", &every),
            ("cases/a", &every),
            ("node_modules/a/b", &[]),
            ("part/node_modules/a", &[]),
            ("part/__pycache__/a", &[]),
            ("env/lib/a", &[]),
            ("part/venv/lib/a", &[]),
            ("other/venv/a", &every),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            for environment in ["env", "part/venv"] {
                fs::create_dir_all(root.join(environment)).unwrap();
                fs::write(root.join(environment).join("pyvenv.cfg"), "").unwrap();
            }
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "").unwrap();
            for language in every {
                let seen = look(root, Some(language)).keys().any(|file| file.ends_with(path));
                assert_eq!(seen, seen_in.contains(&language), "{path} in {language:?}");
            }
        }
    }
}
