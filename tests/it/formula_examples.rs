//! The formulas of `examples/`, each with the cases of its project. What those in JavaScript do with other servers is in
//! `script_examples.rs`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::operator::copy;
use crate::support::workshop::{is_there, root, told};

/// A copy of an example's project, so that nothing is built in the repository.
fn project(example: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&root().join("examples").join(example), folder.path());
    folder
}

fn passes(project: &Path) {
    let cases = fs::read_dir(project.join("cases")).unwrap().count();
    assert!(cases >= 2, "{}", project.display());
    let tested = told(project, 0, &["test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(cases), &json!(0)), "{tested}");
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

#[test]
fn the_examples_in_javascript_pass_their_cases() {
    let examples = root().join("examples/formulas-javascript");
    let mut names: Vec<String> = fs::read_dir(examples)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["bank-file", "charge-card", "fan-out"]);
    for name in names {
        let project = project(&format!("formulas-javascript/{name}"));
        let manifest = fs::read(project.path().join("formula.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(
            (&manifest["name"], &manifest["language"]),
            (&json!(name), &json!("javascript"))
        );
        // The sample is one of the arguments that it takes.
        let sample = fs::read(project.path().join("sample.json")).unwrap();
        let sample: serde_json::Value = serde_json::from_slice(&sample).unwrap();
        for parameter in manifest["request_parameters"].as_array().unwrap() {
            let place = parameter["name"].as_str().unwrap().replace('.', "/");
            assert!(sample.pointer(&format!("/{place}")).is_some(), "{name}: {parameter}");
        }
        passes(project.path());
    }
}
