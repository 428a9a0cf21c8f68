//! Projects outside the repository that depend on the SDK: by git, and with mistakes that are told where they were made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::workshop::{expect, formula, root, run, told};

/// A new project in Rust, with the versions that are at hand here.
fn project(folder: &Path, sdk: &str) -> PathBuf {
    expect(folder, 0, &["new", "outside", "--sdk", sdk]);
    let project = folder.join("outside");
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    project
}

/// A repository of this tree as it lies here. Its commit is the same whenever and by whomever it is made.
fn repository(place: &Path) -> String {
    let path = place.join("tokamak");
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(root()).args(arguments);
        git.env("GIT_DIR", path.join(".git")).env("GIT_WORK_TREE", root());
        // A hook that runs the tests has them point into the tree's own repository.
        for name in ["GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"] {
            git.env_remove(name);
        }
        for name in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{name}_NAME"), "a").env(format!("GIT_{name}_EMAIL"), "a@b.c");
            git.env(format!("GIT_{name}_DATE"), "2030-01-01T00:00:00Z");
        }
        let output = git.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all", "."]);
    git(&["commit", "--quiet", "--no-gpg-sign", "--no-verify", "--message", "The tree"]);
    format!("file://{}", path.display())
}

#[test]
fn a_project_builds_against_the_sdk_by_git() {
    // At one place, so that what was built of an unchanged tree serves again.
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workshop-git");
    let address = repository(&place);
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &address);
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("tokamak-sdk = {{ git = \"{address}\" }}")), "{manifest}");
    let tested = told(&project, 0, &["test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(2), &json!(0)), "{tested}");
    let locked = fs::read_to_string(project.join("Cargo.lock")).unwrap();
    assert!(locked.contains(&format!("source = \"git+{address}#")), "{locked}");
}

/// The column of a text in a line of a source, both from 1, as the compiler counts them.
fn place_of(source: &str, line: &str, text: &str) -> String {
    let (number, found) =
        source.lines().enumerate().find(|(_, found)| found.contains(line)).unwrap();
    format!("src/lib.rs:{}:{}", number + 1, found.find(text).unwrap() + 1)
}

#[test]
fn a_mistake_is_told_where_the_author_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let sdk = root().join("sdk-guest");
    let project = project(folder.path(), sdk.to_str().unwrap());
    let head = "use tokamak_sdk::{Error, Parameters, Request, Response, formula};\n\n";
    let own = "#[derive(serde::Deserialize)]\nstruct Own;\n\n";
    let args = "#[derive(serde::Deserialize, Parameters)]\nstruct Args {\n    amount: u64,\n}\n\n";
    let react = |signature: &str| {
        format!("{head}{own}{args}#[formula]\n{signature} {{\n    loop {{}}\n}}\n")
    };
    let right = "fn react(_request: Request<Args>) -> Result<Response, Error>";
    let listed = "amount: u64,\n    list: Vec<u64>,\n}";
    let nested = "amount: Inner,\n}\n\n#[derive(serde::Deserialize, Parameters)]\nstruct Inner {\n    max: u64,\n}";
    for (source, line, text, told_of) in [
        (react(&format!("async {right}")), "async fn", "async", "a formula is not `async`"),
        (
            react("fn react(_amount: u64) -> Result<Response, Error>"),
            "fn react",
            "u64",
            "a formula takes one",
        ),
        (
            react("fn react(_request: Request<Args>) -> Option<Response>"),
            "fn react",
            "Option<Response>",
            "a formula returns",
        ),
        (react(right).replace("amount: u64", "amount: Own"), "amount: Own", "Own", "does not say"),
        (
            react(right).replace("    amount", "    #[serde(with = \"own\")]\n    amount"),
            "#[serde(with",
            "with",
            "parameter(type",
        ),
        // No reactor could be configured with the first, and no call pass the second.
        (
            react(&right.replace("<Args>", "<Args, Args>")).replace("amount: u64,\n}", nested),
            "fn react",
            "Request<",
            "a configuration is flat",
        ),
        (
            react(&right.replace("<Args>", "<Args, Args>")).replace("amount: u64,\n}", listed),
            "fn react",
            "Request<",
            "a configuration holds texts, numbers and booleans",
        ),
        (
            react(right).replace("    amount", "    #[serde(rename = \"a.b\")]\n    amount"),
            "fn react",
            "Request<",
            "a dot in the name of an argument",
        ),
    ] {
        fs::write(project.join("src/lib.rs"), &source).unwrap();
        let (code, stdout, stderr) = run(formula(&project, &["build", "--json"]));
        let told: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &told["status"]), (2, &json!("error")), "{told}");
        assert!(told["error"].as_str().unwrap().contains("does not build"), "{told}");
        // The first place after the message is the one that editors go to.
        let place = place_of(&source, line, text);
        let message = stderr.find(told_of).unwrap_or_else(|| panic!("no {told_of}: {stderr}"));
        let pointed = stderr[message..].split("--> ").nth(1).and_then(|rest| rest.lines().next());
        assert_eq!(pointed, Some(&*place), "{stderr}");
    }
    // The same project without a mistake builds.
    fs::write(project.join("src/lib.rs"), react(right)).unwrap();
    told(&project, 0, &["build"]);
}
