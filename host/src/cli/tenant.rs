//! `tokamak tenant`: tenants are made here, never over HTTP.

use clap::Subcommand;
use serde_json::json;

use super::{Failure, logging, say, serve};
use crate::config::Options;
use crate::crypto::keys::RootKey;
use crate::vault::{NewTenant, Vault};

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Make a tenant and a management application; its key is shown once.
    Create {
        /// A name for people.
        name: String,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        options: Options,
    },
    /// List all tenants.
    List {
        /// Print one JSON array instead of text.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        options: Options,
    },
}

/// Runs the command.
pub fn run(command: TenantCommand) -> Result<(), Failure> {
    match command {
        TenantCommand::Create { name, json, options } => with_vault(options, async |vault| {
            let NewTenant { tenant, management_key } = vault.create_tenant(&name, None).await?;
            if json {
                let key = management_key.expose();
                say(json!({"id": tenant.id, "name": tenant.name, "management_key": key}));
            } else {
                say(format_args!("tenant: {}", tenant.id));
                say(format_args!("management key, shown once: {}", management_key.expose()));
            }
            Ok(())
        }),
        TenantCommand::List { json, options } => with_vault(options, async |vault| {
            let tenants = vault.tenants().await?;
            if json {
                say(serde_json::to_string(&tenants)?);
            } else {
                for tenant in tenants {
                    say(format_args!("{}  {}  {}", tenant.id, tenant.created_at, tenant.name));
                }
            }
            Ok(())
        }),
    }
}

/// Does something with the vault of a stopped server.
pub fn with_vault(
    options: Options,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let settings = options.settle()?;
    logging::start(&settings.log, settings.log_format)?;
    let root_key = RootKey::parse(&settings.root_key_text()?)?;
    serve::block_on(async {
        let vault = serve::open(&settings, root_key).await?;
        let done = work(&vault).await;
        vault.close();
        done
    })
}
