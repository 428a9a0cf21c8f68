//! `tokamak compact`: the store's files without what was removed.

use clap::Args;

use super::control::Server;
use super::output::telling;
use super::stopped::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::http::control::CompactedView;

/// Options of `compact`.
#[derive(Debug, Args)]
pub struct CompactOptions {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(command: CompactOptions) -> Result<(), Failure> {
    telling(command.json, compact(command))
}

fn compact(command: CompactOptions) -> Result<(), Failure> {
    let CompactOptions { json, options } = command;
    let done = |view: &CompactedView| -> Result<(), Failure> {
        if json {
            say(serde_json::to_string(view)?);
        } else {
            let CompactedView { bytes_before, bytes_after } = view;
            say(format_args!(
                "The store had {bytes_before} bytes and has {bytes_after}, beside its journal."
            ));
        }
        Ok(())
    };
    match Server::find(&options.clone().settle()?.data_dir)? {
        Some(server) => done(&server.ask("POST", "/compact", &())?),
        None => with_vault(options, async |vault| done(&vault.compact().await?.into())),
    }
}
