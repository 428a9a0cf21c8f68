//! `tokamak keys`: changing keys, and where they stand. A running server does it; without one, this process.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::control::{Server, Unanswered};
use super::disk::Unstored;
use super::output::telling;
use super::stopped::with_vault;
use super::{Failure, counted, root_key, say, shown};
use crate::config::{Options, new_root_key};
use crate::http::control::{RotateRoot, RotateTenants, Rotated};
use crate::model::id::TenantId;
use crate::runtime::close_to_others;
use crate::vault::{KeyStatus, KeysStatus, Vault};

/// What becomes of a root key that a server let go of.
const LEAVING: &str = "The old one leaves the store's files now; see `tokamak keys status`.";

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Change the root key, or the keys of tenants.
    Rotate(RotateOptions),
    /// Show the versions of all keys, and how far sealing anew is.
    Status {
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        options: Options,
    },
}

/// Which keys, and what to.
#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = false, args = ["root", "tenant", "all_tenants"])]
pub struct RotateOptions {
    /// Change the root key, to the one in `TOKAMAK_NEW_ROOT_KEY` or named by an option.
    #[arg(long)]
    root: bool,
    /// Draw a new key for this tenant, and seal everything of it anew.
    #[arg(long, value_name = "ID")]
    tenant: Option<TenantId>,
    /// The same for every tenant.
    #[arg(long)]
    all_tenants: bool,
    /// A file with the new root key, that only its owner may read.
    #[arg(long, value_name = "FILE", requires = "root",
        conflicts_with_all = ["tenant", "all_tenants"])]
    new_root_key_file: Option<PathBuf>,
    /// A command that prints the new root key.
    #[arg(long, value_name = "COMMAND", requires = "root",
        conflicts_with_all = ["tenant", "all_tenants"])]
    new_root_key_command: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(command: KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Status { json, options } => telling(json, status(json, options)),
        KeysCommand::Rotate(rotate) => telling(
            rotate.json,
            if rotate.root { rotate_root(rotate) } else { rotate_tenants(rotate) },
        ),
    }
}

fn status(json: bool, options: Options) -> Result<(), Failure> {
    let folder = options.clone().settle()?.data_dir;
    let show = |status: &KeysStatus| -> Result<(), Failure> {
        if json {
            say(serde_json::to_string(status)?);
            return Ok(());
        }
        say(format_args!("root key  {}", status.root_key_id));
        if status.old_keys_in_files {
            say("What old keys were in is in the store's files still; a server makes them anew.");
        }
        for tenant in &status.erased_in_files {
            say(format_args!(
                "What tenant {tenant} left when it was erased is in the store's files still; a server makes them anew."
            ));
        }
        for key in std::iter::once(&status.system).chain(&status.tenants) {
            say(line(key));
        }
        Ok(())
    };
    match Server::find(&folder)? {
        Some(server) => show(&server.ask("GET", "/keys", &())?),
        None => with_vault(options, async |vault| show(&vault.keys_status().await?)),
    }
}

fn line(key: &KeyStatus) -> String {
    let KeyStatus { tenant_id, name, version, older_versions, resealing } = key;
    let older = match (older_versions.as_slice(), resealing) {
        ([], _) => String::new(),
        (older, None) => format!("  still needed: {older:?}"),
        (older, Some(progress)) => format!(
            "  still needed: {older:?}, {} of {} done",
            progress.resealed,
            counted(progress.total, "record", "records")
        ),
    };
    format!("{tenant_id}  version {version}{older}  {}", shown(name))
}

fn rotate_root(rotate: RotateOptions) -> Result<(), Failure> {
    close_to_others()?;
    let RotateOptions { options, json, .. } = rotate;
    let settings = options.clone().settle()?;
    let seconds = settings.root_key_command_seconds;
    let source = new_root_key(rotate.new_root_key_file, rotate.new_root_key_command, seconds)?;
    let source = source.ok_or(
        "there is no new root key: set TOKAMAK_NEW_ROOT_KEY (32 bytes in base64), \
        --new-root-key-file or --new-root-key-command",
    )?;
    let new = root_key::read(&source)?;
    let done = |rotated: &Rotated, after: &str| -> Result<(), Failure> {
        if json {
            say(serde_json::to_string(rotated)?);
        } else {
            let tenants = counted(rotated.keys.saturating_sub(1), "tenant", "tenants");
            say(format_args!(
                "The root key was rotated; it wraps the keys of {tenants} and those of what belongs \
                to none. From now on the vault starts with the new one only. {after}"
            ));
        }
        Ok(())
    };
    if let Some(server) = Server::find(&settings.data_dir)? {
        let body = RotateRoot { root_key: new.to_base64() };
        let rotated = server.ask("POST", "/keys/rotate-root", &body);
        return done(&rotated.map_err(either)?, LEAVING);
    }
    let rotated = with_vault(options, async |vault| {
        let tenants = vault.rotate_root_key(new).await?;
        done(&Rotated::all(tenants), left(vault).await)
    });
    rotated.map_err(either)
}

/// Of a server that did not answer, or whose store failed, nobody knows how far it came.
fn either(error: Failure) -> Failure {
    if !error.is::<Unanswered>() && !error.is::<Unstored>() {
        return error;
    }
    format!("{error}: the old root key counts or the new one; start with either: the server says if it does not fit")
        .into()
}

fn rotate_tenants(rotate: RotateOptions) -> Result<(), Failure> {
    let RotateOptions { options, json, tenant, .. } = rotate;
    let done = |rotated: &Rotated, after: &str| -> Result<(), Failure> {
        if json {
            say(serde_json::to_string(rotated)?);
        } else {
            let drawn = counted(rotated.keys, "key was drawn", "keys were drawn");
            say(format_args!("{drawn}. {after}"));
            if !rotated.skipped.is_empty() {
                say(about_skipped(&rotated.skipped));
            }
        }
        Ok(())
    };
    match Server::find(&options.clone().settle()?.data_dir)? {
        Some(server) => {
            let rotated =
                server.ask("POST", "/keys/rotate", &RotateTenants { tenant_id: tenant })?;
            let after = "What older keys sealed is sealed anew, and then they leave the store's \
                files; see `tokamak keys status`.";
            done(&rotated, after)
        }
        None => with_vault(options, async |vault| {
            let rotated = match tenant {
                Some(tenant) => vault.rotate_tenant_key(tenant).await.map(|_| Rotated::all(1))?,
                None => vault.rotate_all_tenant_keys().await?.into(),
            };
            vault.reseal().await?;
            let left = left(vault).await;
            done(&rotated, &format!("Everything is sealed with the newest ones. {left}"))
        }),
    }
}

fn about_skipped(skipped: &[TenantId]) -> String {
    let ids: Vec<_> = skipped.iter().map(ToString::to_string).collect();
    format!(
        "Left as they were, since their last rotation was still under way: {}. Rotate their keys once `tokamak keys \
        status` shows no older version of them.",
        ids.join(", ")
    )
}

/// Makes the store's files anew without what old keys were in, and says what came of it. A rotation that is over is over
/// whatever comes of that.
async fn left(vault: &Vault) -> &'static str {
    match vault.sweep_old_keys().await {
        Ok(()) => "Nothing of the old ones is in the store's files.",
        Err(error) => {
            tracing::warn!(%error, "the store was not compacted");
            "The old ones are in the store's files still: they leave with the next start of a \
                server, or with `tokamak compact`."
        }
    }
}
