//! `tokamak compact`: the store's files without what was removed; and that a server does so by itself.

use std::time::Duration;

use clap::Args;

use super::control::Server;
use super::output::telling;
use super::stopped::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::http::control::CompactedView;
use crate::limits::{COMPACT_FIRST_SECONDS_MAX, COMPACT_FULL_SECONDS};
use crate::vault::{Compacted, Vault};

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

/// Compacts the store every so many seconds, if anything was removed or replaced since.
pub async fn compact_forever(vault: Vault, seconds: u64) {
    if seconds == 0 {
        return;
    }
    let mut left = seconds.min(COMPACT_FIRST_SECONDS_MAX);
    loop {
        let step = left.min(COMPACT_FULL_SECONDS);
        tokio::time::sleep(Duration::from_secs(step)).await;
        left -= step;
        // What was removed is all that gives a full disk space.
        if left > 0 && !vault.is_full() {
            continue;
        }
        left = seconds;
        if !vault.has_removed() {
            continue;
        }
        match vault.compact().await {
            Ok(Compacted { bytes_before, bytes_after }) => {
                tracing::info!(bytes_before, bytes_after, "the store was compacted");
            }
            Err(error) => tracing::warn!(%error, "the store was not compacted"),
        }
    }
}
