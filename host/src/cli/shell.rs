//! What packagers and shells ask for: completions, manual pages, and the table of all options.
//!
//! All of it is made of the same definitions that parse the command line, so that none of it can be out of date.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::{Failure, command, say};
use crate::config::Options;

/// Which shell.
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell.
    shell: Shell,
}

/// Where manual pages go.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// A folder for one page a command; without it the main page goes to standard output.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

/// Prints a script that completes commands and options.
pub fn completions(options: &CompletionsOptions) {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut offered(&command()), "tokamak", &mut text);
    say(String::from_utf8_lossy(&text).trim_end());
}

/// A command without what is hidden of it, which completions would offer too.
fn offered(command: &Command) -> Command {
    // It is kept until the process ends, which it does once this is printed.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut offered = Command::new(name)
        .args(command.get_arguments().filter(|option| !option.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|one| !one.is_hide_set()).map(offered));
    if let Some(about) = command.get_about() {
        offered = offered.about(about.clone());
    }
    if command.get_version().is_some() {
        offered = offered.version(env!("CARGO_PKG_VERSION"));
    }
    offered
}

/// Writes manual pages: for the whole to standard output, or one for each command to a folder.
pub fn man(options: &ManOptions) -> Result<(), Failure> {
    if let Some(folder) = &options.to {
        let made =
            fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command(), folder));
        return made.map_err(|error| format!("{}: {error}", folder.display()).into());
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command()).render(&mut page)?;
    say(String::from_utf8_lossy(&page).trim_end());
    Ok(())
}

/// Prints every option of `serve` as a table in Markdown: flag, variable, what it does.
pub fn reference() {
    let command = Options::augment_args(Command::new("serve"));
    say("| Option | Variable | Meaning |\n|---|---|---|");
    for option in command.get_arguments() {
        let (Some(long), Some(variable)) = (option.get_long(), option.get_env()) else { continue };
        let value = option.get_value_names().and_then(|names| names.first());
        let is_joined = option.is_require_equals_set();
        let value =
            value.map(|name| if is_joined { format!("[={name}]") } else { format!(" {name}") });
        let value = value.unwrap_or_default().replace('|', "\\|");
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.replace('\n', " ").replace('|', "\\|");
        say(format_args!("| `--{long}{value}` | `{}` | {help} |", variable.display()));
    }
}
