//! The formulas of `examples/`, each with the cases of its project. Those in JavaScript are in `script_examples.rs`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::operator::copy;
use crate::workshop::{is_there, root, told};

/// A copy of an example's project, so that nothing is built in the repository.
fn project(example: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("examples").join(example), folder.path());
    folder
}

fn passes(project: &Path) {
    let tested = told(project, 0, &["test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(2), &json!(0)), "{tested}");
}

#[test]
fn the_example_in_rust_passes_its_cases() {
    let project = project("formulas-rust/installments");
    let manifest = project.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let sdk = root().join("sdk-guest");
    let text = text.replace("../../../sdk-guest", sdk.to_str().unwrap());
    assert!(text.contains(sdk.to_str().unwrap()));
    fs::write(&manifest, text).unwrap();
    // The versions that are at hand here.
    fs::copy(root().join("Cargo.lock"), project.path().join("Cargo.lock")).unwrap();
    passes(project.path());
}

#[test]
fn the_example_in_python_passes_its_cases() {
    if is_there("componentize-py") {
        passes(project("formulas-python/iban").path());
    }
}
