//! `tokamak formula`, as tests run it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::binary::command;
use super::skipped;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// `tokamak formula` in a folder; crates of projects share one target folder and are not optimised.
pub fn formula(folder: &Path, arguments: &[&str]) -> Command {
    let mut formula = command();
    formula.current_dir(folder).arg("formula").args(arguments);
    formula.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("workshop"));
    formula.env("CARGO_HOME", cargo_home());
    formula.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
    formula.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "8");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        formula.env_remove(name);
    }
    formula
}

/// Cargo's home with everything of the usual one but copies of repositories: those of tests go with the target folder.
/// One home for all, since what is built is built again for another.
fn cargo_home() -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workshop-home");
    fs::create_dir_all(&home).unwrap();
    let usual = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = usual.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cargo"));
    for entry in fs::read_dir(usual).unwrap().map(Result::unwrap) {
        if entry.file_name() != "git" {
            // Another test may have done so.
            let _ = symlink(entry.path(), home.join(entry.file_name()));
        }
    }
    home
}

/// Runs a command; gives its status and what it printed.
pub fn run(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command that must end so; gives what it printed.
pub fn expect(folder: &Path, code: i32, arguments: &[&str]) -> String {
    let (found, stdout, stderr) = run(formula(folder, arguments));
    assert_eq!(found, code, "{arguments:?}\n{stdout}\n{stderr}");
    stdout
}

/// The same with `--json`.
pub fn told(folder: &Path, code: i32, arguments: &[&str]) -> Value {
    let (command, rest) = arguments.split_first().unwrap();
    let printed = expect(folder, code, &[&[*command, "--json"], rest].concat());
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// A project of a component that is there already, with these cases.
pub fn project_of(component: &[u8], cases: &[(&str, Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("built.wasm"), component).unwrap();
    let manifest = json!({ "name": "tried", "language": "rust" });
    fs::write(folder.path().join("formula.json"), manifest.to_string()).unwrap();
    fs::create_dir(folder.path().join("cases")).unwrap();
    for (name, case) in cases {
        fs::write(folder.path().join(format!("cases/{name}.json")), case.to_string()).unwrap();
    }
    folder
}

/// Options for a project that was made so.
pub const BUILT: [&str; 2] = ["--component", "built.wasm"];

/// Whether a program is there; a test that needs it says so and is left out. With `COMPONENTIZE_PY_REQUIRED` or the like
/// set, as where everything must be tested, its absence fails the test.
pub fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    if found.is_ok() {
        return true;
    }
    let required = format!("{}_REQUIRED", program.to_uppercase().replace('-', "_"));
    assert!(std::env::var_os(&required).is_none(), "{program} is not installed");
    skipped(&format!("{program} is not installed"));
    false
}
