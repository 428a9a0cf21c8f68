//! `tokamak tenant`: tenants are made and erased here, never over the public interface.

use clap::Subcommand;
use serde_json::json;

use super::control::Server;
use super::{Failure, logging, root_key, say, serve};
use crate::config::Options;
use crate::model::id::TenantId;
use crate::runtime::close_to_others;
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
    /// Erase a tenant: its keys are destroyed at once, and nothing of it can be read again by anybody.
    Erase {
        /// The tenant.
        #[arg(value_name = "ID")]
        tenant: TenantId,
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
        TenantCommand::Erase { tenant, options } => erase(tenant, options),
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

fn erase(tenant: TenantId, options: Options) -> Result<(), Failure> {
    if let Some(server) = Server::find(&options.clone().settle()?.data_dir)? {
        server.ask::<()>("DELETE", &format!("/tenants/{tenant}"), &())?;
        say("The tenant's keys are destroyed; what is left of it is being removed.");
        return Ok(());
    }
    with_vault(options, async |vault| {
        vault.erase_tenant(tenant).await?;
        vault.sweep_erased().await?;
        say("The tenant's keys are destroyed, and what was left of it is removed.");
        Ok(())
    })
}

/// Does something with the vault of a stopped server.
pub fn with_vault(
    options: Options,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let settings = options.settle()?;
    logging::start(&settings.log, settings.log_format)?;
    close_to_others()?;
    let root_key = root_key::read(&settings.root_key_source()?)?;
    serve::block_on(async {
        let vault = serve::open(&settings, root_key).await?;
        let done = work(&vault).await;
        vault.close();
        done
    })
}
