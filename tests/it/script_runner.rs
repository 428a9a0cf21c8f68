//! What runs scripts lies built among its sources: that it is of these.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tokamak::crypto::hash::sha256_hex;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("formulas/script-runner")
}

/// What `script-runner.sum` says: digests by paths from its folder.
fn sums() -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder().join("script-runner.sum")).unwrap();
    let line = |line: &str| {
        let (digest, path) = line.split_once("  ").unwrap();
        (path.to_owned(), digest.to_owned())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// The files in a folder and below, as paths from the runner's.
fn files(below: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder().join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path);
        }
    }
    found
}

#[test]
fn what_is_built_is_of_the_sources_beside_it() {
    for (path, digest) in sums() {
        let found = sha256_hex(&fs::read(folder().join(&path)).unwrap());
        assert_eq!(found, digest, "{path} changed: run formulas/script-runner/build.sh");
    }
}

#[test]
fn nothing_that_it_is_built_of_is_left_out() {
    let sums = sums();
    let sources = [".cargo", "engine", "src", "wit", "../../wit"].into_iter().flat_map(files);
    for path in sources.filter(|path| path != "../../wit/README.md") {
        assert!(sums.contains_key(&path), "{path} is new: run formulas/script-runner/build.sh");
    }
    for path in ["Cargo.toml", "Cargo.lock", "build.sh", "script-runner.wasm"] {
        assert!(sums.contains_key(path), "{path}");
    }
}

#[test]
fn no_path_of_a_machine_is_in_it() {
    let component = fs::read(folder().join("script-runner.wasm")).unwrap();
    for path in ["/home/", "/root/", "/tmp/", "/work/", "/Users/"] {
        let found = component.windows(path.len()).any(|window| window == path.as_bytes());
        assert!(!found, "{path}");
    }
}
