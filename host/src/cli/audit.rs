//! `tokamak audit`: the audit log, for those who keep it or its heads elsewhere.

use std::io::Write as _;

use clap::Subcommand;

use super::tenant::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::model::id::TenantId;
use crate::model::time::{Timestamp, parse_rfc3339};
use crate::vault::{ExportFilter, ExportedEntry};

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Print where the log of each tenant ends, a JSON object on each line: for `tokamak verify --head`.
    Heads {
        #[command(flatten)]
        options: Options,
    },
    /// Print entries, each tenant's oldest first, a JSON object on each line.
    Export {
        /// Of this tenant alone.
        #[arg(long, value_name = "ID")]
        tenant: Option<TenantId>,
        /// From this time on (RFC 3339).
        #[arg(long, value_name = "TIME", value_parser = time)]
        from: Option<Timestamp>,
        /// Before this time (RFC 3339).
        #[arg(long, value_name = "TIME", value_parser = time)]
        to: Option<Timestamp>,
        #[command(flatten)]
        options: Options,
    },
}

/// Runs the command.
pub fn run(command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Heads { options } => with_vault(options, async |vault| {
            for head in vault.log_heads()? {
                say(serde_json::to_string(&head)?);
            }
            Ok(())
        }),
        AuditCommand::Export { tenant, from, to, options } => {
            let filter = ExportFilter { tenant, from, to };
            with_vault(options, async |vault| {
                // The lock of the output is one thread's, and this may go on on another one.
                let mut out = std::io::BufWriter::new(std::io::stdout());
                let mut give = |entry: &ExportedEntry| {
                    serde_json::to_writer(&mut out, entry)?;
                    out.write_all(b"\n")
                };
                vault.export_log(filter, &mut give).await?;
                Ok(out.flush()?)
            })
        }
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    parse_rfc3339(text).map_err(|error| error.to_string())
}
