//! The corpus of the fuzz targets: every input that is kept, and some changed at random, is checked as a target checks it,
//! without libFuzzer; and the corpus covers the interface.
//!
//! `TOKAMAK_CHANGED_INPUTS=1000 cargo test --test it corpus` makes so many of each input, `TOKAMAK_CHANGED_SEED` begins
//! elsewhere. What fails prints its input.

#[path = "../fuzz/checks/mod.rs"]
#[allow(dead_code, reason = "the targets alone set a hook for panics")]
mod checks;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak::http::description;

use crate::storm::Dice;

/// Changed inputs that are made of each.
const CHANGED: u64 = 5;
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

/// The words of a target's dictionary, in the notation of libFuzzer.
fn words(target: &str) -> Vec<Vec<u8>> {
    let file = fuzz().join("dictionaries").join(format!("{target}.dict"));
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| word(line).unwrap_or_else(|| panic!("{target}: {line} is no word"))).collect()
}

fn word(line: &str) -> Option<Vec<u8>> {
    let mut rest = line.strip_prefix('"')?.strip_suffix('"')?.bytes();
    let mut word = Vec::new();
    while let Some(byte) = rest.next() {
        word.push(match byte {
            b'"' => return None,
            b'\\' => match rest.next()? {
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                escaped @ (b'"' | b'\\') => escaped,
                _ => return None,
            },
            plain => plain,
        });
    }
    (!word.is_empty()).then_some(word)
}

/// The input with a few places that are not as they were.
fn changed(input: &[u8], all: &[Vec<u8>], words: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + 1 + dice.below(8)).min(bytes.len());
        match dice.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, *dice.pick(b"{}[]()\",:\\|'&=%*/ 09\r\n\0\xff")),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 => {
                let other = dice.pick(all);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[dice.below(other.len() + 1)..]);
            }
            5 if !words.is_empty() => drop(bytes.splice(at..end, dice.pick(words).clone())),
            _ if !words.is_empty() => drop(bytes.splice(at..at, dice.pick(words).clone())),
            _ => {}
        }
    }
    bytes
}

/// What an environment variable says.
fn told(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Checks all inputs of a target, and each changed in some ways.
fn replay(target: &str) {
    checks::CALL_MAX_SAID.get_or_init(|| CALL_MAX);
    let (_, check) = checks::CHECKS.iter().find(|(name, _)| *name == target).unwrap();
    let files = files(&fuzz().join("corpus").join(target));
    assert!(!files.is_empty());
    let all: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let words = words(target);
    for (file, input) in files.iter().zip(&all) {
        println!("{}", file.display());
        check(input);
    }
    let mut dice = Dice(told("TOKAMAK_CHANGED_SEED", 1));
    for _ in 0..told("TOKAMAK_CHANGED_INPUTS", CHANGED) {
        for input in &all {
            let input = changed(input, &all, &words, &mut dice);
            let held = catch_unwind(|| check(&input));
            assert!(held.is_ok(), "{target} fails for {}", input.escape_ascii());
        }
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
