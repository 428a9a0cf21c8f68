//! The command line.
//!
//! To add a command: a variant of [`Command`], a file, and an arm in [`carry_out`].

mod announce;
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
mod disk;
mod ends;
mod folder;
mod formula;
mod keys;
mod logging;
mod open;
mod output;
mod restore;
mod root_key;
mod serve;
mod shell;
mod stop;
mod stopped;
mod system_calls;
mod tenant;
mod verify;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::output::{counted, say, say_error};
use self::tenant::TenantCommand;
use crate::config::{Options, is_empty_variable};

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
    /// Serve, for production
    ///
    /// The first start makes a tenant with a management application, whose key is that in `TOKAMAK_BOOTSTRAP_KEY`, or is
    /// printed once.
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

/// What is said when a new management key could not be printed.
const KEY_LOST: &str = "the management key that was made is lost, since it is kept nowhere: find the tenant with `tokamak \
    tenant list`, and make another key for it with `tokamak tenant key ID`";

/// What ends a command early: a sentence for the operator.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The command line as it is told of. What only a server can be told is shown by `serve` alone; other commands take it too,
/// since they read the same variables and the same file.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "serve" => discreet(command),
        _ => without_servers(discreet(command)),
    })
}

/// A command whose help tells no value of the environment, which may be a secret's, which takes a variable without a value
/// for none, and which names what is given a wrong number.
fn discreet(command: clap::Command) -> clap::Command {
    command.mut_subcommands(discreet).mut_args(|option| {
        let is_empty = option.get_env().is_some_and(is_empty_variable);
        let option = if is_empty { option.env(None::<&'static str>) } else { option };
        // One that cannot be negative is then told of by its name.
        let takes_values = option.get_action().takes_values();
        option.hide_env_values(true).allow_negative_numbers(takes_values)
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

/// What is to be done; or the exit code, once what was asked for instead, or what is wrong, is told.
fn parse() -> Result<Command, ExitCode> {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map(|cli| cli.command).map_err(|told| {
        let printed = told.print().and_then(|()| std::io::stdout().flush());
        match printed {
            Err(error) if !told.use_stderr() => output::lose(&error),
            _ => {}
        }
        let code = u8::try_from(told.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        output::settled(code)
    })
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let command = match parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let is_server = matches!(command, Command::Serve(_) | Command::Dev(_));
    let makes_key = matches!(
        command,
        Command::Tenant { command: TenantCommand::Create { .. } | TenantCommand::Key { .. } }
    );
    let code = carry_out(command);
    if is_server {
        logging::settle();
        // It has served, whoever read what it said.
        return code;
    }
    if makes_key && output::is_lost() {
        output::warn(KEY_LOST);
    }
    output::settled(code)
}

fn carry_out(command: Command) -> ExitCode {
    let tell = match command {
        Command::Serve(_) | Command::Dev(_) => announce::failed,
        _ => say_error,
    };
    let done = match command {
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
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

/// A name as it is shown in a terminal: who gave it may have put in what a terminal obeys.
fn shown(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    // Which turns the order of what is beside it.
    let turns = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    for c in name.chars() {
        if c.is_control() || turns(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_name_forges_no_line_and_moves_no_cursor() {
        let forged = "a\nb\r\u{1b}[2J\u{7f}\u{9b}1m\t\u{202e}x";
        assert_eq!(shown(forged), "a\\nb\\r\\u{1b}[2J\\u{7f}\\u{9b}1m\\t\\u{202e}x");
        let plain = "Läden & Söhne \"日本\" \\ 😀";
        assert_eq!(shown(plain), plain);
    }
}
