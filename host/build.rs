//! Puts the official formulas into the binary.
//!
//! Every folder of `formulas/` is one: a crate whose package is named as the folder, with its manifest
//! `formula.json` beside. They are built as components and written as a table, `$OUT_DIR/official.rs`, which
//! `vault::official` includes. To add a formula, add a folder.
//!
//! `formulas/script-runner` is none: it runs the scripts of others and lies beside the table, for `runtime::script`.

#[path = "build/guests.rs"]
mod guests;
#[path = "build/image.rs"]
mod image;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The folder in `formulas/`, and the package, of what runs scripts.
const SCRIPT_RUNNER: &str = "script-runner";

/// The generated file up to its first row.
const TABLE_START: &str = "\
/// A formula as it lies in the binary.
pub struct ShippedFormula {
    /// The name of its folder.
    pub folder: &'static str,
    /// Its `formula.json`.
    pub manifest: &'static str,
    /// Its component.
    pub component: &'static [u8],
}

/// All formulas in the binary, by folder.
pub static SHIPPED_FORMULAS: &[ShippedFormula] = &[
";

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Each line of its own, so that cargo shows them all in the order of reading.
            for line in error.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), String> {
    let manifest_dir = folder("CARGO_MANIFEST_DIR")?;
    let out_dir = folder("OUT_DIR")?;
    let root = manifest_dir.parent().ok_or("the host has no folder above it")?;

    // A folder stands for everything in it; nothing else that the components are made of can change.
    for source in [
        "formulas",
        "sdk-guest",
        "wit",
        "Cargo.toml",
        "Cargo.lock",
        ".cargo/config.toml",
        "host/build",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    println!("cargo::rerun-if-changed=build.rs");

    let names = official(&root.join("formulas"))?;
    let target_dir = guests::shared_target_dir(&out_dir);
    let built = guests::Project { root, packages: &names, target_dir: &target_dir }.build()?;

    let mut table = String::from(TABLE_START);
    for name in &names {
        // Copies, so that the binary does not depend on a folder that others build in.
        let component = out_dir.join(guests::component_file(name));
        let manifest = out_dir.join(format!("{name}.json"));
        copy(&built.join(guests::component_file(name)), &component)?;
        copy(&root.join("formulas").join(name).join("formula.json"), &manifest)?;
        writeln!(
            table,
            "    ShippedFormula {{ folder: {name:?}, manifest: include_str!({}), \
             component: include_bytes!({}) }},",
            literal(&manifest)?,
            literal(&component)?
        )
        .map_err(|error| error.to_string())?;
    }
    table.push_str("];\n");
    write(&out_dir.join("official.rs"), &table)?;
    embed_script_runner(root, &out_dir)
}

/// Keeps what runs scripts as it is once it is set up. It lies built among its sources, whose `build.sh` makes it: its engine
/// is C, which nobody should need a compiler of to build the server.
fn embed_script_runner(root: &Path, out_dir: &Path) -> Result<(), String> {
    let file = root.join("formulas").join(SCRIPT_RUNNER).join("script-runner.wasm");
    let component = fs::read(&file).map_err(|error| told(&file, &error))?;
    let image = image::taken(&component).map_err(|error| format!("{}: {error}", file.display()))?;
    let kept = out_dir.join("script-runner.wasm");
    // An image that is the same leaves the time of its file, and with it what was compiled of it.
    if fs::read(&kept).is_ok_and(|known| known == image) {
        return Ok(());
    }
    fs::write(&kept, image).map_err(|error| told(&kept, &error))
}

/// A path as a Rust string literal.
fn literal(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or_else(|| format!("{} is no UTF-8", path.display()))?;
    Ok(format!("{text:?}"))
}

/// The names of the folders that are formulas, in order.
fn official(formulas: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(formulas).map_err(|error| told(formulas, &error))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("formula.json").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

#[expect(clippy::disallowed_methods, reason = "cargo tells build scripts by these")]
fn folder(variable: &str) -> Result<PathBuf, String> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| format!("cargo did not set {variable}"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| told(from, &error))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| told(path, &error))
}

fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
