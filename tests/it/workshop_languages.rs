//! `tokamak formula` in languages other than Rust, and without what builds them.

use std::fs;

use serde_json::json;

use crate::support::workshop::{expect, formula, is_there, root, run, told};

/// The command in the README's table of languages that installs what builds a language.
fn installs(language: &str) -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let row = readme.lines().find(|line| line.starts_with(&format!("| {language} | `"))).unwrap();
    row.split('`').nth(1).unwrap().to_owned()
}

#[test]
fn a_python_project_runs() {
    if !is_there("componentize-py") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    expect(folder.path(), 0, &["new", "snake", "--lang", "python"]);
    let project = folder.path().join("snake");
    let tested = told(&project, 0, &["test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(2), &json!(0)), "{tested}");
    assert!(project.join(".tokamak/bindings/wit_world").is_dir());
}

#[test]
fn tools_that_are_missing_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let python = installs("Python");
    assert!(python.contains("=="), "{python}: the tests build with one version");
    for (language, parts) in [
        ("python", ["componentize-py is not installed", &python]),
        ("go", ["go is not installed", "wasm-tools"]),
        ("rust", ["rustc did not start", "https://rustup.rs"]),
    ] {
        let name = format!("in-{language}");
        let sdk = root().join("sdk-guest");
        let options = ["new", &name, "--lang", language, "--sdk", sdk.to_str().unwrap()];
        expect(folder.path(), 0, &options);
        let mut build = formula(&folder.path().join(&name), &["build"]);
        build.env("PATH", "/nowhere");
        let (code, _, stderr) = run(build);
        assert_eq!(code, 2, "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{language}: {stderr}");
    }
}

#[test]
fn a_javascript_project_passes_its_cases() {
    let folder = tempfile::tempdir().unwrap();
    expect(folder.path(), 0, &["new", "script", "--lang", "javascript"]);
    let project = folder.path().join("script");
    told(&project, 0, &["check"]);
    let tested = told(&project, 0, &["test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(2), &json!(0)), "{tested}");
    for amount in ["-500", "0.5", "1001"] {
        let args = format!(r#"{{"card": {{"number": "4242424242424242"}}, "amount": {amount}}}"#);
        let run = told(&project, 1, &["run", "--args", &args, "--config", "limit=1000"]);
        assert!(run["error"]["errors"].get("args.amount").is_some(), "{run}");
    }
}
