//! `tokamak audit`: the audit log, for those who keep it or its heads elsewhere. A running server gives it; without one,
//! this process reads it.

use std::io::{BufWriter, ErrorKind, Write as _};

use clap::Subcommand;
use tokio::sync::mpsc::channel;

use super::control::Server;
use super::output::{Output, is_lost};
use super::tenant::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::http::control::copy_lines;
use crate::model::id::TenantId;
use crate::model::time::{Timestamp, parse_rfc3339};
use crate::vault::{ExportFilter, ExportedHead};

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Print where the log of each tenant ends, a JSON object on each line: for `tokamak verify --head`.
    Heads {
        #[command(flatten)]
        options: Options,
    },
    /// Print entries, those of each tenant in the order of their numbers, a JSON object on each line.
    ///
    /// Two exports of a tenant adjoin exactly where the second one is made with `--after` and the `sequence` in the last line
    /// of the first one. Times do not adjoin so: entries may be committed a little after the time that they carry.
    Export {
        /// Of this tenant alone.
        #[arg(long, value_name = "ID")]
        tenant: Option<TenantId>,
        /// Behind the entry with this number: the `sequence` in the last line of the tenant's last export.
        #[arg(long, value_name = "SEQUENCE", requires = "tenant")]
        after: Option<u64>,
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
        AuditCommand::Heads { options } => heads(options),
        AuditCommand::Export { tenant, after, from, to, options } => {
            export(ExportFilter { tenant, after, from, to }, options)
        }
    }
}

fn heads(options: Options) -> Result<(), Failure> {
    let show = |heads: &[ExportedHead]| -> Result<(), Failure> {
        for head in heads {
            say(serde_json::to_string(head)?);
        }
        Ok(())
    };
    match Server::find(&options.clone().settle()?.data_dir)? {
        Some(server) => show(&server.ask::<Vec<ExportedHead>>("GET", "/audit/heads", &())?),
        None => with_vault(options, async |vault| show(&vault.log_heads()?)),
    }
}

fn export(filter: ExportFilter, options: Options) -> Result<(), Failure> {
    // The lock of the output is one thread's, and this may go on on another one.
    let mut out = BufWriter::new(Output(std::io::stdout()));
    if let Some(server) = Server::find(&options.clone().settle()?.data_dir)? {
        let mut lines = server.stream("POST", "/audit/export", &filter)?;
        return match copy_lines(&mut lines, &mut out) {
            // That is told already.
            Err(_) if is_lost() => Ok(()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err("the export was cut short; see the server's log".into())
            }
            copied => Ok(copied?),
        };
    }
    with_vault(options, async |vault| {
        vault.check_export(&filter).await?;
        let (give, mut take) = channel(1);
        let give_all = async move { vault.export_log(filter, &give).await };
        let write = async move {
            while let Some(lines) = take.recv().await {
                out.write_all(&lines)?;
            }
            out.flush()
        };
        let (given, written) = tokio::join!(give_all, write);
        match written {
            // Who cannot write takes no more, so that the rest was not given. That is told already.
            Err(_) if is_lost() => Ok(()),
            written => Ok(written.map(|()| given)??),
        }
    })
}

fn time(text: &str) -> Result<Timestamp, String> {
    parse_rfc3339(text).map_err(|error| error.to_string())
}
