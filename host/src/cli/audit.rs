//! `tokamak audit`: the audit log, for those who keep it or its heads elsewhere. A running server gives it; without one,
//! this process reads it.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::exit;

use clap::Subcommand;
use tokio::sync::mpsc::channel;

use super::control::Server;
use super::output::{Output, is_lost, warn};
use super::stopped::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::crypto::integrity::Hash;
use crate::http::control::copy_lines;
use crate::model::id::TenantId;
use crate::model::time::{Timestamp, parse_rfc3339};
use crate::vault::{ExportFilter, ExportedHead, Removed, parse_hash};

/// Exit code of an export without entries that were to be in it, and that were removed before.
const REMOVED: i32 = 4;

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
    /// of the first one. Times do not adjoin so: entries may be committed a little after the time that they carry. If entries
    /// between the two were removed at the end of their time, the numbers of these are told, and the exit code is 4.
    Export {
        /// Of this tenant alone.
        #[arg(long, value_name = "ID")]
        tenant: Option<TenantId>,
        /// Behind the entry with this number: the `sequence` in the last line of the tenant's last export. With a colon and
        /// the `hash` of that line behind it, the export is refused if the entry is another one by now, as it is in a log
        /// that was restored and went on.
        #[arg(long, value_name = "SEQUENCE[:HASH]", requires = "tenant", value_parser = after)]
        after: Option<After>,
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
            let (after, after_hash) = after.unzip();
            let after_hash = after_hash.flatten();
            export(ExportFilter { tenant, after, after_hash, from, to }, options)
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
    let mut out = Lines { out: BufWriter::new(Output(io::stdout())), removed: Vec::new() };
    if let Some(server) = Server::find(&options.clone().settle()?.data_dir)? {
        let mut lines = server.stream("POST", "/audit/export", &filter)?;
        match copy_lines(&mut lines, &mut out) {
            // That is told already.
            Err(_) if is_lost() => return Ok(()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err("the export was cut short; see the server's log".into());
            }
            copied => copied?,
        }
        tell_removed(&out.removed);
        return Ok(());
    }
    let mut removed = Vec::new();
    with_vault(options, async |vault| {
        vault.check_export(&filter).await?;
        let (give, mut take) = channel(1);
        let give_all = async move { vault.export_log(filter, &give).await };
        let write = async move {
            while let Some(lines) = take.recv().await {
                out.write_all(&lines)?;
            }
            out.flush().map(|()| out.removed)
        };
        let (given, written) = tokio::join!(give_all, write);
        match written {
            // Who cannot write takes no more, so that the rest was not given. That is told already.
            Err(_) if is_lost() => Ok(()),
            written => {
                let told = written?;
                given?;
                removed = told;
                Ok(())
            }
        }
    })?;
    tell_removed(&removed);
    Ok(())
}

/// Where the lines of an export go, but for those that are no entries: these are kept.
struct Lines<W> {
    out: W,
    removed: Vec<Removed>,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Removed::read(bytes) {
            Some(removed) => self.removed.push(removed),
            None => self.out.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Ends the process, if entries were removed that were to be exported, with an exit code that says so. What there is was
/// printed: whoever keeps the log elsewhere is to have it before more of it goes, and to know of the gap.
fn tell_removed(removed: &[Removed]) {
    for Removed { tenant_id, removed_from, removed_to } in removed {
        warn(format_args!(
            "entries {removed_from} to {removed_to} of the log were removed before they could be exported; \
            what is left was exported (tenant {tenant_id})"
        ));
    }
    if !removed.is_empty() {
        exit(REMOVED);
    }
}

/// The number of an entry, and its hash if that is given.
type After = (u64, Option<Hash>);

fn after(text: &str) -> Result<After, &'static str> {
    let (number, hash) = match text.split_once(':') {
        Some((number, hash)) => {
            (number, Some(parse_hash(hash).ok_or("the hash must have 64 hexadecimal digits")?))
        }
        None => (text, None),
    };
    Ok((
        number.parse().map_err(|_| "must be a number, or one with a colon and a hash behind it")?,
        hash,
    ))
}

fn time(text: &str) -> Result<Timestamp, String> {
    parse_rfc3339(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{Lines, Removed, TenantId};

    #[test]
    fn what_is_told_of_removed_entries_is_not_among_the_entries() {
        let mut lines = Lines { out: Vec::new(), removed: Vec::new() };
        lines.write_all(b"{\"sequence\":121}\n{\"sequence\":122}\n").unwrap();
        lines.write_all(b"{\"sequence\":123}\n").unwrap();
        assert!(lines.removed.is_empty());
        let tenant_id = TenantId(uuid::Uuid::from_u128(7));
        let removed = Removed { tenant_id, removed_from: 6, removed_to: 120 };
        let line = serde_json::to_string(&removed).unwrap() + "\n";
        lines.write_all(line.as_bytes()).unwrap();
        assert_eq!(lines.removed, [removed]);
        let entries = "{\"sequence\":121}\n{\"sequence\":122}\n{\"sequence\":123}\n";
        assert_eq!(lines.out, entries.as_bytes());
    }
}
