//! `tokamak tenant`: tenants are made and erased here, never over the public interface. A running server does it; without
//! one, this process.

use std::io::{self, BufRead, IsTerminal as _, Read as _};

use clap::Subcommand;
use serde_json::json;

use super::control::Server;
use super::output::telling;
use super::stopped::{with_new_vault, with_vault};
use super::{Failure, say, shown};
use crate::config::Options;
use crate::http::control::{CreateTenant, CreatedKey, CreatedTenant};
use crate::model::id::TenantId;
use crate::vault::{Tenant, check_tenant_name};

/// Most that is read of an operator's answer.
const ANSWER_BYTES_MAX: u64 = 64;

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
        /// Do not ask whether it is meant; a script has to say so.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Make another management application of a tenant whose keys are lost; its key is shown once.
    Key {
        /// The tenant.
        #[arg(value_name = "ID")]
        tenant: TenantId,
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
        TenantCommand::Create { name, json, options } => telling(json, create(name, json, options)),
        TenantCommand::Erase { tenant, yes, options } => erase(tenant, yes, options),
        TenantCommand::Key { tenant, json, options } => telling(json, key(tenant, json, options)),
        TenantCommand::List { json, options } => telling(json, list(json, options)),
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

fn key(tenant: TenantId, json: bool, options: Options) -> Result<(), Failure> {
    let show = |made: &CreatedKey| {
        let CreatedKey { application_id, management_key } = made;
        if json {
            say(json!({"application_id": application_id, "management_key": **management_key}));
        } else {
            say(format_args!("application: {application_id}"));
            say(format_args!("management key, shown once: {}", **management_key));
        }
    };
    if let Some(server) = Server::find(&options.clone().settle()?.data_dir)? {
        show(&server.ask("POST", &format!("/tenants/{tenant}/key"), &())?);
        return Ok(());
    }
    with_vault(options, async |vault| {
        show(&vault.issue_management_key(tenant).await?.into());
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

fn erase(tenant: TenantId, yes: bool, options: Options) -> Result<(), Failure> {
    if !yes && !io::stdin().is_terminal() {
        return Err("what is erased is gone for good: say that it is meant with --yes".into());
    }
    let folder = options.clone().settle()?.data_dir;
    if let Some(server) = Server::find(&folder)? {
        let server = if yes {
            server
        } else {
            let tenants = server.ask::<Vec<Tenant>>("GET", "/tenants", &())?;
            confirm(tenant, &tenants, &mut io::stdin().lock())?;
            Server::find(&folder)?.ok_or("the server has stopped meanwhile")?
        };
        server.ask::<()>("DELETE", &format!("/tenants/{tenant}"), &())?;
        say("The tenant's keys are destroyed; what is left of it is being removed.");
        return Ok(());
    }
    with_vault(options, async |vault| {
        if !yes {
            confirm(tenant, &vault.tenants().await?, &mut io::stdin().lock())?;
        }
        vault.erase_tenant(tenant).await?;
        // The erasure stands whatever becomes of the rest.
        say(match vault.sweep_erased().await {
            Ok(_) => {
                "The tenant's keys are destroyed, and what was left of it is removed.".to_owned()
            }
            Err(error) => format!(
                "The tenant's keys are destroyed. What is left of it could not be removed yet: {error} The server does so \
                once it runs and can."
            ),
        });
        Ok(())
    })
}

/// Asks the operator, who pasted an id, whether the tenant of this name is meant. One that is not there is told of later.
fn confirm(tenant: TenantId, tenants: &[Tenant], answers: &mut dyn BufRead) -> Result<(), Failure> {
    let Some(found) = tenants.iter().find(|found| found.id == tenant) else { return Ok(()) };
    say(format_args!("Tenant {tenant}, made {}: {}", found.created_at, shown(&found.name)));
    say("Its keys are destroyed, and nothing of it can be read again. Write yes to erase it:");
    let mut answer = String::new();
    answers.take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err("nothing was erased".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tenant, TenantId, confirm, json};

    #[test]
    fn a_tenant_is_erased_only_if_the_operator_says_yes() {
        let tenant = |id: &str| -> Tenant {
            let at = "2030-08-26T19:23:57.000+00:00";
            serde_json::from_value(json!({"id": id, "name": "a", "created_at": at})).unwrap()
        };
        let id = "01930000-0000-7000-8000-000000000001";
        let tenants = [tenant("01930000-0000-7000-8000-000000000002"), tenant(id)];
        let id: TenantId = id.parse().unwrap();
        for (answer, erased) in
            [("yes\n", true), (" yes", true), ("", false), ("y\n", false), ("no\nyes\n", false)]
        {
            let confirmed = confirm(id, &tenants, &mut answer.as_bytes());
            assert_eq!(confirmed.is_ok(), erased, "{answer:?}");
        }
        // Whether there is one is told by who erases it.
        assert!(confirm(id, &tenants[..1], &mut "".as_bytes()).is_ok());
    }
}
