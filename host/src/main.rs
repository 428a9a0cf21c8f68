//! The `tokamak` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    tokamak::cli::run()
}
