//! Builds guests, that is formulas as components, with the cargo that is running.
//!
//! Used by the build script for the formulas that ship with the product and by the tests for their
//! fixtures; so it depends on the standard library alone and knows neither of them. What a project of guests
//! is built with (`--profile formula`, the flags of the target) stands in its manifest and in
//! `.cargo/config.toml`, not here.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What components are built for.
const TARGET: &str = "wasm32-wasip2";

/// The environment that a guest's build inherits of all that cargo and rustc read: where things are, how
/// to reach a registry, and how many jobs may run. Anything else there was meant for the host's build:
/// flags for its processor, a wrapper such as clippy's, a target folder whose lock it holds.
const INHERITED: &[&str] = &[
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "RUSTUP_",
];

/// A cargo workspace with packages that are guests.
pub(crate) struct Project<'a> {
    /// The folder of the workspace's manifest and lock file.
    pub(crate) root: &'a Path,
    /// The packages to build.
    pub(crate) packages: &'a [String],
    /// Where to build: a folder of its own, or cargo waits for the lock of the build that is running.
    pub(crate) target_dir: &'a Path,
}

impl Project<'_> {
    /// Builds the packages and returns the folder of the components, named as the packages are with `_`
    /// for `-`. What is fresh already costs a moment. The error is a text for whoever runs the build.
    #[expect(clippy::disallowed_methods, reason = "cargo tells build scripts and tests by these")]
    pub(crate) fn build(&self) -> Result<PathBuf, String> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        ensure_target(&rustc)?;

        let mut command = Command::new(&cargo);
        command
            // The flags of the target are found from here.
            .current_dir(self.root)
            .args(["build", "--locked", "--lib", "--target", TARGET, "--profile", "formula"])
            .arg("--target-dir")
            .arg(self.target_dir);
        for package in self.packages {
            command.args(["--package", package]);
        }
        for (name, _) in env::vars_os().filter(|(name, _)| !inherited(name)) {
            command.env_remove(name);
        }
        run(command.env("RUSTC", &rustc), "build the formulas")?;
        Ok(self.target_dir.join(TARGET).join("formula"))
    }
}

/// The file that cargo makes of a package's library.
pub(crate) fn component_file(package: &str) -> String {
    format!("{}.wasm", package.replace('-', "_"))
}

/// The folder that all builds of one target folder share for their guests, whatever their profile.
///
/// `inside` is any folder within the target folder, such as `OUT_DIR`.
pub(crate) fn shared_target_dir(inside: &Path) -> PathBuf {
    let marked = inside.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    // Cargo marks the folder when it makes it, so one that was there before has no mark.
    let below_profile =
        || inside.ancestors().find(|folder| folder.ends_with("build"))?.ancestors().nth(2);
    marked.or_else(below_profile).unwrap_or(inside).join("guests")
}

/// Adds the target to the toolchain when it is missing.
fn ensure_target(rustc: &OsStr) -> Result<(), String> {
    if has_target(rustc) {
        return Ok(());
    }
    let added = run(Command::new("rustup").args(["target", "add", TARGET]), "add the target");
    if has_target(rustc) {
        return Ok(());
    }
    let cause = added.err().unwrap_or_else(|| {
        format!("rustup added it, but not to the toolchain of {}", rustc.display())
    });
    Err(format!(
        "Formulas are built for {TARGET}, which this Rust toolchain does not have.\n\
         Install it with:\n\n    rustup target add {TARGET}\n\n\
         or, without rustup, install the standard library for {TARGET} of exactly this version of Rust.\n\
         This was tried: {cause}"
    ))
}

/// Whether the toolchain has a standard library for the target.
fn has_target(rustc: &OsStr) -> bool {
    let asked = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    let Ok(answer) = asked else { return false };
    let folder = String::from_utf8_lossy(&answer.stdout);
    let Ok(mut files) = fs::read_dir(folder.trim()) else { return false };
    files.any(|file| {
        file.is_ok_and(|file| file.file_name().as_encoded_bytes().starts_with(b"libstd-"))
    })
}

/// Whether a variable of the environment is passed on.
fn inherited(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    let of_the_build =
        ["CARGO", "RUST", "CLIPPY_", "__CARGO"].iter().any(|start| name.starts_with(start));
    !of_the_build || INHERITED.iter().any(|start| name.starts_with(start))
}

/// Runs a command quietly; when it fails, the error is all that it said.
fn run(command: &mut Command, purpose: &str) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| format!("could not {purpose}: {shown} did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("could not {purpose}: {} ended with {}\n{said}", shown, output.status))
}
