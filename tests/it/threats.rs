//! The README's threat model names tests: they are there, and they are run.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The rows of the table behind a heading, as attacker and mechanism, or fault and outcome, and tests.
fn rows(readme: &str, heading: &str) -> Vec<[String; 3]> {
    let section = readme.split(heading).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    lines.map(|line| cells(line).try_into().unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Whether `module::test` is a test of a file of that name, or of the tests beside it.
fn is_there(name: &str, sources: &[PathBuf]) -> bool {
    let Some((module, test)) = name.split_once("::") else { return false };
    let files = [format!("{module}.rs"), format!("{module}/tests.rs")];
    let mut named = sources.iter().filter(|path| files.iter().any(|file| path.ends_with(file)));
    named.any(|path| {
        let text = fs::read_to_string(path).unwrap();
        let Some((before, _)) = text.split_once(&format!("fn {test}()")) else { return false };
        // The attribute stands above the function, with nothing but other attributes between.
        let above = before.rsplit('}').next().unwrap_or_default();
        above.contains("#[test]") || above.contains("#[tokio::test")
    })
}

#[test]
fn every_test_that_the_threat_model_names_is_there() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut sources = Vec::new();
    files(&root().join("tests/it"), &mut sources);
    files(&root().join("host/src"), &mut sources);
    let mut rows: Vec<_> = rows(&readme, "\n## Threat model\n");
    assert!(rows.len() >= 15, "{} rows", rows.len());
    let faults = self::rows(&readme, "\n**Faults**");
    assert!(faults.len() >= 12, "{} rows", faults.len());
    rows.extend(faults);
    for [attacker, mechanism, tests] in &rows {
        assert!(!attacker.is_empty() && !mechanism.is_empty(), "{attacker} {mechanism}");
        let named = tests.split('`').skip(1).step_by(2);
        let names: Vec<_> = named.filter(|name| !name.starts_with("cargo ")).collect();
        assert!(!names.is_empty(), "nothing shows what is said of who {attacker}");
        for name in names {
            assert!(is_there(name, &sources), "{name} is no test");
        }
    }
    // The check can fail.
    for name in
        ["none", "storm::none", "none::bad_requests_in_great_number_do_no_harm", "storm::worsen"]
    {
        assert!(!is_there(name, &sources), "{name}");
    }
}

#[test]
fn every_exception_of_the_supply_chain_has_its_reason() {
    let text = fs::read_to_string(root().join(".deny.toml")).unwrap();
    let ignored = text.split("ignore = [").nth(1).unwrap().split("\n]").next().unwrap();
    let mut exceptions = 0;
    for line in ignored.lines().filter(|line| line.contains("id = ")) {
        assert!(line.contains("reason = \""), "{line}");
        exceptions += 1;
    }
    assert!(exceptions > 0);
}
