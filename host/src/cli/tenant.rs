//! `tokamak tenant`: tenants are made and erased here, never over the public interface. A running server does it; without
//! one, this process.

use std::path::Path;

use clap::Subcommand;
use serde_json::json;

use super::control::Server;
use super::{Failure, logging, root_key, say, serve, shown};
use crate::config::Options;
use crate::http::control::{CreateTenant, CreatedTenant};
use crate::model::id::TenantId;
use crate::runtime::close_to_others;
use crate::vault::{Tenant, Vault, check_tenant_name};

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
        TenantCommand::Create { name, json, options } => create(name, json, options),
        TenantCommand::Erase { tenant, options } => erase(tenant, options),
        TenantCommand::List { json, options } => list(json, options),
    }
}

fn create(name: String, json: bool, options: Options) -> Result<(), Failure> {
    // Before a vault is made for it.
    check_tenant_name(&name)?;
    let show = |made: &CreatedTenant| {
        let CreatedTenant { id, name, management_key } = made;
        if json {
            say(json!({"id": id, "name": name, "management_key": **management_key}));
        } else {
            say(format_args!("tenant: {id}"));
            say(format_args!("management key, shown once: {}", **management_key));
        }
    };
    if let Some(server) = Server::find(&options.clone().settle()?.data_dir)? {
        show(&server.ask("POST", "/tenants", &CreateTenant { name })?);
        return Ok(());
    }
    with_new_vault(options, async |vault| {
        show(&vault.create_tenant(&name, None).await?.into());
        Ok(())
    })
}

fn list(json: bool, options: Options) -> Result<(), Failure> {
    let show = |tenants: &[Tenant]| -> Result<(), Failure> {
        if json {
            say(serde_json::to_string(tenants)?);
            return Ok(());
        }
        for tenant in tenants {
            say(format_args!("{}  {}  {}", tenant.id, tenant.created_at, shown(&tenant.name)));
        }
        Ok(())
    };
    match Server::find(&options.clone().settle()?.data_dir)? {
        Some(server) => show(&server.ask::<Vec<Tenant>>("GET", "/tenants", &())?),
        None => with_vault(options, async |vault| show(&vault.tenants().await?)),
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

/// Does something with the vault of a stopped server; refuses a folder in which there is none.
pub fn with_vault(
    options: Options,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_one(options, serve::refuse_without_store, work)
}

/// The same, and makes the vault if there is none.
fn with_new_vault(
    options: Options,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_one(options, |_| Ok(()), work)
}

fn with_one(
    options: Options,
    check: impl FnOnce(&Path) -> Result<(), Failure>,
    work: impl AsyncFnOnce(&Vault) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let settings = options.settle()?;
    logging::start(&settings.log, settings.log_format)?;
    close_to_others()?;
    let root_key = root_key::read(&settings.root_key_source()?)?;
    check(&settings.data_dir)?;
    serve::block_on(async {
        let vault = serve::open(&settings, root_key).await?;
        let done = work(&vault).await;
        vault.close();
        done
    })
}
