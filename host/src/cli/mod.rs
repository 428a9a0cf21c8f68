//! The command line.
//!
//! To add a command: a variant of [`Command`], a file, and an arm in [`run`].

mod certificate;
mod compile;
mod confine;
mod descriptors;
mod dev;
mod logging;
mod serve;
mod tenant;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Options;

/// A token vault with programmable reactors.
#[derive(Debug, Parser)]
#[command(name = "tokamak", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a component for the server that started this.
    #[command(name = crate::runtime::COMPILE_COMMAND, hide = true)]
    CompileComponent(compile::CompileOptions),
    /// Try everything out on one machine; data and keys are kept in a folder.
    Dev(dev::DevOptions),
    /// Serve, for production.
    Serve(Options),
    /// Make and list tenants; the server must not be running on the folder.
    Tenant {
        #[command(subcommand)]
        command: tenant::TenantCommand,
    },
}

/// What ends a command early: a sentence for the operator.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::CompileComponent(options) => return compile::run(&options),
        Command::Dev(options) => dev::run(&options),
        Command::Serve(options) => serve::run(options),
        Command::Tenant { command } => tenant::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is the command line")]
fn say_error(error: &Failure) {
    eprintln!("tokamak: {error}");
}

/// Prints a line for the operator. A reader that is gone is no failure of the server.
fn say(line: impl std::fmt::Display) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
