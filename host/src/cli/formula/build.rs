//! From a project's source to what a server takes. Each language is built by its own tools; a tool that is missing is
//! named with the command that installs it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::Failure;
use super::project::{Code, Language, Project};
use super::report::Progress;

/// What Rust builds components for.
const TARGET: &str = "wasm32-wasip2";
/// The contract with formulas, for toolchains that read it.
pub const WIT: &str = include_str!("../../../../wit/formula.wit");
/// How to get what builds Python, of the version that the tests build with.
const PYTHON_ADVICE: &str = "Install it with\n\n    pip install componentize-py==0.25.1";
/// What builds Go.
const GO_ADVICE: &str = "Install Go 1.24 from https://go.dev/dl, TinyGo 0.36 or later from \
    https://tinygo.org/getting-started/install and wasm-tools from \
    https://github.com/bytecodealliance/wasm-tools/releases, then run `go mod tidy` in the project";
/// What is known of projects in Go.
pub const GO_CAUTION: &str = "no test builds this template: it is a start, not a project that is known to work. It \
    needs Go 1.24, TinyGo 0.36 and wasm-tools, and `go mod tidy` first. TinyGo asks for interfaces of WASI that the \
    world of formulas does not have, and a server refuses a component that imports files or sockets";

/// What a build made, and where it lies.
#[derive(Debug, Clone)]
pub struct Built {
    /// The code.
    pub code: Code,
    /// Its file.
    pub path: PathBuf,
}

/// Builds a project, or reads a component that is built already.
pub fn build(project: &Project, component: Option<&Path>) -> Result<Built, Failure> {
    let path = match component {
        Some(path) => path.to_owned(),
        None => match project.language_of_source()? {
            Language::Javascript => {
                let path = project.root.join(Language::Javascript.source());
                let source = fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                return Ok(Built { code: Code::Javascript(source), path });
            }
            Language::Rust => rust(&project.root)?,
            Language::Python => python(project)?,
            Language::Go => go(project)?,
        },
    };
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Built { code: Code::Component(bytes), path })
}

/// What is to be done where there is no Rust.
const INSTALL_RUST: &str = "Install Rust from https://rustup.rs";

/// Builds the crate; what cargo says goes to standard error as it says it. Gives the component's file.
fn rust(root: &Path) -> Result<PathBuf, Failure> {
    ensure_target(root)?;
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["build", "--release", "--lib", "--target", TARGET]);
    cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child =
        cargo.spawn().map_err(|error| format!("cargo did not start: {error}\n{INSTALL_RUST}"))?;
    let manifest = root.canonicalize()?.join("Cargo.toml");
    let mut made = None;
    let messages = child.stdout.take().map(BufReader::new);
    for line in messages.into_iter().flat_map(BufReader::lines).map_while(Result::ok) {
        made = component_of(&line, &manifest).or(made);
    }
    if !child.wait()?.success() {
        return Err("the project does not build; see above".into());
    }
    made.ok_or_else(|| {
        let text = "cargo built no component: Cargo.toml needs\n\n    [lib]\n    \
            crate-type = [\"cdylib\", \"rlib\"]";
        text.into()
    })
}

/// The component that a message of cargo is about, if it is the package's own.
fn component_of(message: &str, manifest: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let own = message["reason"] == "compiler-artifact"
        && message["manifest_path"].as_str().map(Path::new) == Some(manifest);
    let files = message["filenames"].as_array().filter(|_| own)?.iter();
    let is_component = |file: &&str| Path::new(file).extension().is_some_and(|e| e == "wasm");
    files.filter_map(Value::as_str).find(is_component).map(PathBuf::from)
}

/// Adds the target to the toolchain of the folder when it is missing.
fn ensure_target(root: &Path) -> Result<(), Failure> {
    if has_target(root) {
        return Ok(());
    }
    if let Err(error) = Command::new("rustc").current_dir(root).arg("--version").output() {
        return Err(format!("rustc did not start: {error}\n{INSTALL_RUST}").into());
    }
    let added = {
        let _progress = Progress::of(format_args!("adding the target {TARGET}"));
        Command::new("rustup").current_dir(root).args(["target", "add", TARGET]).output()
    };
    if has_target(root) {
        return Ok(());
    }
    let tried = match added {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("rustup did not start: {error}"),
    };
    let message = format!(
        "formulas are built for {TARGET}, which this Rust toolchain does not have. Install it with\n\n    \
        rustup target add {TARGET}\n\nor, without rustup, install the standard library for {TARGET} of exactly this \
        version of Rust.\nThis was tried: {tried}"
    );
    Err(message.into())
}

fn has_target(root: &Path) -> bool {
    let asked = ["--print", "target-libdir", "--target", TARGET];
    let Ok(answer) = Command::new("rustc").current_dir(root).args(asked).output() else {
        return false;
    };
    let folder = String::from_utf8_lossy(&answer.stdout);
    let Ok(mut files) = fs::read_dir(folder.trim()) else { return false };
    files.any(|file| {
        file.is_ok_and(|file| file.file_name().as_encoded_bytes().starts_with(b"libstd-"))
    })
}

/// Builds the module by componentize-py. Its interpreter comes without the host's clocks and random numbers, and with no
/// import that a server would refuse.
fn python(project: &Project) -> Result<PathBuf, Failure> {
    let kept = contract(project)?;
    let made = kept.join("formula.wasm");
    // An environment of the project's own goes first.
    let own = project.root.join(".venv/bin/componentize-py");
    let tool = if own.is_file() { own.canonicalize()? } else { "componentize-py".into() };
    let start = || {
        let mut tool = Command::new(&tool);
        tool.current_dir(&project.root).arg("--quiet");
        tool.args(["-d", ".tokamak/wit", "-w", "formula"]);
        tool
    };
    let bindings = kept.join("bindings");
    if bindings.is_dir() {
        fs::remove_dir_all(&bindings)?;
    }
    let mut write_bindings = start();
    write_bindings.args(["bindings", ".tokamak/bindings"]);
    run(write_bindings, "componentize-py", PYTHON_ADVICE)?;
    let _progress = Progress::of("building the component");
    let mut componentize = start();
    componentize.args(["componentize", "formula", "--stub-wasi", "-p", "."]);
    componentize.args(["-o", ".tokamak/formula.wasm"]);
    run(componentize, "componentize-py", PYTHON_ADVICE)?;
    Ok(made)
}

/// Builds the module by `TinyGo`, which starts wasm-tools; see [`GO_CAUTION`].
fn go(project: &Project) -> Result<PathBuf, Failure> {
    let kept = contract(project)?;
    let mut generate = Command::new("go");
    generate.current_dir(&project.root).args(["tool", "wit-bindgen-go", "generate"]);
    generate.args(["--world", "formula", "--out", "internal", ".tokamak/wit"]);
    run(generate, "go", GO_ADVICE)?;
    let _progress = Progress::of("building the component");
    let mut tinygo = Command::new("tinygo");
    tinygo.current_dir(&project.root).args(["build", "-target=wasip2", "-no-debug"]);
    tinygo.args(["--wit-package", ".tokamak/wit", "--wit-world", "formula"]);
    tinygo.args(["-o", ".tokamak/formula.wasm", "."]);
    run(tinygo, "tinygo", GO_ADVICE)?;
    Ok(kept.join("formula.wasm"))
}

/// Writes the contract where the tools read it; gives the folder above.
fn contract(project: &Project) -> Result<PathBuf, Failure> {
    let kept = project.kept();
    let folder = kept.join("wit");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("formula.wit"), WIT)?;
    Ok(kept)
}

/// Runs a tool; what it said is shown when it fails.
fn run(mut command: Command, name: &str, advice: &str) -> Result<(), Failure> {
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{name} is not installed. {advice}"),
        _ => format!("{name} did not start: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let said = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    Err(format!("{name} failed:\n{}", said.trim()).into())
}

#[cfg(test)]
mod tests {
    use super::component_of;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn the_component_is_the_packages_own() {
        let message = |reason: &str, manifest: &str, files: &[&str]| {
            json!({ "reason": reason, "manifest_path": manifest, "filenames": files }).to_string()
        };
        let own = Path::new("/a/Cargo.toml");
        let artifact = "compiler-artifact";
        let both = message(artifact, "/a/Cargo.toml", &["/t/liba.rlib", "/t/a.wasm"]);
        assert_eq!(component_of(&both, own).as_deref(), Some(Path::new("/t/a.wasm")));
        for other in [
            message(artifact, "/b/Cargo.toml", &["/t/b.wasm"]),
            message("build-finished", "/a/Cargo.toml", &["/t/a.wasm"]),
            message(artifact, "/a/Cargo.toml", &["/t/liba.rlib"]),
            "no JSON".to_owned(),
        ] {
            assert_eq!(component_of(&other, own), None, "{other}");
        }
    }
}
