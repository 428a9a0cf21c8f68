//! The corpus of the fuzz targets: every input that is kept is checked as a target checks it, without libFuzzer; and the
//! corpus covers the interface.

#[path = "../fuzz/checks/mod.rs"]
#[allow(dead_code, reason = "the targets alone set a hook for panics")]
mod checks;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak::http::description;

/// How long one check may compute, in any build and on any machine.
const CALL_MAX: Duration = Duration::from_mins(2);

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz")
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn names(folder: &Path) -> BTreeSet<String> {
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files(folder).into_iter().map(stem).collect()
}

/// Checks all inputs of a target.
fn replay(target: &str) {
    checks::CALL_MAX_SAID.get_or_init(|| CALL_MAX);
    let (_, check) = checks::CHECKS.iter().find(|(name, _)| *name == target).unwrap();
    let inputs = files(&fuzz().join("corpus").join(target));
    assert!(!inputs.is_empty());
    for input in inputs {
        // What fails prints the input last printed.
        println!("{}", input.display());
        check(&fs::read(input).unwrap());
    }
}

macro_rules! replayed {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target));
        })*

        #[test]
        fn every_target_has_a_check_and_a_corpus() {
            let targets: BTreeSet<_> = [$(stringify!($target).to_owned()),*].into();
            assert_eq!(targets, checks::CHECKS.iter().map(|(name, _)| (*name).to_owned()).collect());
            assert_eq!(targets, names(&fuzz().join("targets")));
            assert_eq!(targets, names(&fuzz().join("corpus")));
            let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
            for target in &targets {
                assert!(manifest.contains(&format!("name = \"{target}\"\n")), "{target}");
            }
        }
    };
}

replayed! {
    binding component cursor expression json query reference request time update wire
}

/// Whether a path is one of this pattern.
fn is_of(path: &str, pattern: &str) -> bool {
    let (path, pattern): (Vec<_>, Vec<_>) =
        (path.split('/').collect(), pattern.split('/').collect());
    let fits = |(given, wanted): (&&str, &&str)| given == wanted || wanted.starts_with('{');
    path.len() == pattern.len() && path.iter().zip(&pattern).all(fits)
}

#[test]
fn every_operation_has_a_request_in_the_corpus() {
    let requests: Vec<_> = files(&fuzz().join("corpus/request"))
        .into_iter()
        .map(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned())
        .collect();
    let description = serde_json::to_value(description()).unwrap();
    let mut missing = Vec::new();
    for (pattern, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let known =
                requests.iter().filter_map(|request| request.lines().next()?.split_once(' '));
            let mut known = known.map(|(method, address)| {
                (method.to_lowercase(), address.split('?').next().unwrap_or_default())
            });
            if !known.any(|(given, path)| given == *method && is_of(path, pattern)) {
                missing.push(format!("{method} {pattern}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
