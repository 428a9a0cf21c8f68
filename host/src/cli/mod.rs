//! The command line.
//!
//! To add a command: a variant of [`Command`], a file, and an arm in [`run`].

mod audit;
mod backup;
mod benchmark;
mod certificate;
mod compact;
mod compile;
mod confine;
mod control;
mod descriptors;
mod dev;
mod formula;
mod keys;
mod logging;
mod restore;
mod root_key;
mod serve;
mod shell;
mod system_calls;
mod tenant;
mod verify;

use std::process::ExitCode;

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

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
    /// Write everything in the vault to a folder, sealed, while it serves or not.
    Backup(backup::BackupOptions),
    /// Make a vault from a backup, in a folder that has nothing.
    Restore(restore::RestoreOptions),
    /// Measure a server on this machine, beside what its floor is made of.
    Benchmark(benchmark::BenchmarkOptions),
    /// Rewrite the store's files without what was removed.
    Compact(compact::CompactOptions),
    /// Change keys, and show where they stand.
    Keys {
        #[command(subcommand)]
        command: keys::KeysCommand,
    },
    /// Compile a component for the server that started this.
    #[command(name = crate::runtime::COMPILE_COMMAND, hide = true)]
    CompileComponent(compile::CompileOptions),
    /// Print a script that completes commands and options in a shell.
    Completions(shell::CompletionsOptions),
    /// What can be set.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Try everything out on one machine; data and keys are kept in a folder.
    Dev(dev::DevOptions),
    /// Write, build, try out and publish formulas.
    Formula {
        #[command(subcommand)]
        command: formula::FormulaCommand,
    },
    /// Write manual pages.
    Man(shell::ManOptions),
    /// Serve, for production.
    Serve(Options),
    /// Make, list and erase tenants; a server that runs on the folder is asked to.
    Tenant {
        #[command(subcommand)]
        command: tenant::TenantCommand,
    },
    /// Export the audit log or where it ends; a server that runs on the folder is asked.
    Audit {
        #[command(subcommand)]
        command: audit::AuditCommand,
    },
    /// Look whether everything stored is as it was stored; the server must not be running on the folder.
    Verify(verify::VerifyOptions),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every option of `serve` with its variable, as a table in Markdown.
    Reference,
}

/// Options of `serve` that mean something to commands that work on its folder.
const OF_THE_STORE: [&str; 8] = [
    "config",
    "data_dir",
    "root_key_file",
    "root_key_command",
    "root_key_command_seconds",
    "cache_mb",
    "log_format",
    "log",
];

/// What ends a command early: a sentence for the operator.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The command line as it is told of. What only a server can be told is shown by `serve` alone; other commands take it too,
/// since they read the same variables and the same file.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "serve" => command,
        _ => without_servers(command),
    })
}

fn without_servers(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(without_servers);
    if !command.get_arguments().any(|option| option.get_id() == "rate_limit_read") {
        return command;
    }
    let servers = Options::augment_args(clap::Command::new("serve"));
    let is_servers = |id: &clap::Id| {
        servers.get_arguments().any(|option| option.get_id() == id)
            && !OF_THE_STORE.contains(&id.as_str())
    };
    command.mut_args(|option| {
        let hidden = option.is_hide_set() || is_servers(option.get_id());
        option.hide(hidden)
    })
}

fn parse() -> Cli {
    Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit())
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let done = match parse().command {
        Command::Backup(options) => backup::run(options),
        Command::Restore(options) => return restore::run(options),
        Command::Benchmark(options) => benchmark::run(&options),
        Command::CompileComponent(options) => return compile::run(&options),
        Command::Completions(options) => {
            shell::completions(&options);
            Ok(())
        }
        Command::Config { command: ConfigCommand::Reference } => {
            shell::reference();
            Ok(())
        }
        Command::Compact(options) => compact::run(options),
        Command::Keys { command } => keys::run(command),
        Command::Dev(options) => dev::run(&options),
        Command::Formula { command } => return formula::run(command),
        Command::Man(options) => shell::man(&options),
        Command::Serve(options) => serve::run(options),
        Command::Tenant { command } => tenant::run(command),
        Command::Audit { command } => audit::run(command),
        Command::Verify(options) => return verify::run(options),
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

/// A name as it is shown in a terminal: who gave it may have put in what a terminal obeys.
fn shown(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Prints a line for the operator. A reader that is gone is no failure of the server.
fn say(line: impl std::fmt::Display) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_name_forges_no_line_and_moves_no_cursor() {
        let forged = "a\nb\r\u{1b}[2J\u{7f}\u{9b}1m\t";
        assert_eq!(shown(forged), "a\\nb\\r\\u{1b}[2J\\u{7f}\\u{9b}1m\\t");
        let plain = "Läden & Söhne \"日本\" \\ 😀";
        assert_eq!(shown(plain), plain);
    }
}
