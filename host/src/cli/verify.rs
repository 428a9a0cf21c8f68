//! `tokamak verify`: whether everything stored is as it was stored.
//!
//! It looks at a copy, since opening a store may write to it; the folder itself is only read. Exit codes: 0 when all is
//! well, 1 when something is damaged, 2 when it could not be looked at or was told to end.

mod scratch;

use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use rustix::fs::statvfs;
use serde_json::json;

use self::scratch::Copy;
use super::ends::hold_back;
use super::{Failure, counted, logging, open, root_key, say, say_error, shown};
use crate::config::Options;
use crate::crypto::entropy::SystemEntropy;
use crate::runtime::close_to_others;
use crate::store::StoreError;
use crate::store::sled::Inspection;
use crate::vault::{Damaged, ExportedHead, OpenError, Verified, verify};

/// Damages that `--json` lists one by one.
const LISTED_MAX: usize = 10_000;
/// Room below which a disk counts as full: the least that the copy of a store may still be written.
const ROOM_BYTES_MIN: u64 = 16 << 20;
/// Exit code when something is damaged.
pub const DAMAGED: u8 = 1;
/// Exit code when it could not be looked at.
pub const NOT_LOOKED_AT: u8 = 2;

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct VerifyOptions {
    /// A file that `tokamak audit heads` printed earlier: the log must lead through these.
    #[arg(long, value_name = "FILE")]
    head: Option<PathBuf>,
    /// A folder with room for a copy of the store [default: the system's folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(options: VerifyOptions) -> ExitCode {
    let json = options.json;
    match walking(json, "the store cannot be looked at", |tell| look(options, tell)) {
        (Err(error), listed) => failed(json, &error, listed),
        (Ok(verified), listed) => {
            let sound = verified.damaged == 0;
            if json {
                say(json!({"sound": sound, "looked_at": verified, "damaged": listed}));
            } else {
                say(summary(&verified));
            }
            if sound { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) }
        }
    }
}

/// Tells of a store that was not looked through to its end; gives the exit code.
fn failed(json: bool, error: &Failure, mut listed: Vec<Damaged>) -> ExitCode {
    say_error(error);
    if !is_damage(error) {
        if json {
            say(json!({"sound": null, "error": error.to_string()}));
        }
        return ExitCode::from(NOT_LOOKED_AT);
    }
    if json {
        let what = error.to_string();
        listed.push(Damaged { kind: None, tenant: None, id: String::new(), what });
        let looked_at = Verified { damaged: listed.len() as u64, ..Verified::default() };
        say(json!({"sound": false, "looked_at": looked_at, "damaged": listed}));
    }
    ExitCode::from(DAMAGED)
}

/// Whether it is the store that is to blame, and not that it could not be looked at.
fn is_damage(error: &Failure) -> bool {
    let damaged = |error: &StoreError| matches!(error, StoreError::Damaged(_));
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Store(error)) => damaged(error),
        Some(error) => matches!(error, OpenError::Damaged),
        None => error.downcast_ref::<StoreError>().is_some_and(damaged),
    }
}

/// Walks through a store on a thread of its own, since the store's engine may panic: then it is `broken`. Gives what came
/// of it, and what is damaged, which is told line by line unless it is for JSON.
pub fn walking<T: Send>(
    json: bool,
    broken: impl Into<Failure>,
    walk: impl FnOnce(&mut dyn FnMut(Damaged)) -> Result<T, Failure> + Send,
) -> (Result<T, Failure>, Vec<Damaged>) {
    let mut listed = Vec::new();
    let mut tell = |damaged: Damaged| {
        hold_back();
        if !json {
            say(line(&damaged));
        } else if listed.len() < LISTED_MAX {
            listed.push(damaged);
        }
    };
    let walked = std::thread::scope(|scope| scope.spawn(|| walk(&mut tell)).join());
    hold_back();
    (walked.unwrap_or_else(|_| Err(broken.into())), listed)
}

/// A damage as a line. Whoever changed what is damaged may have chosen its id.
fn line(damaged: &Damaged) -> String {
    let Damaged { kind, tenant, id, what } = damaged;
    let tenant = tenant.map_or_else(|| "-".to_owned(), |tenant| tenant.to_string());
    let id = if id.is_empty() { "-".to_owned() } else { shown(id) };
    format!("damaged: {}  tenant {tenant}  id {id}: {what}", kind.unwrap_or("store"))
}

/// What was looked at, in a sentence.
pub fn summary(verified: &Verified) -> String {
    let Verified { records, log_entries, heads, heads_removed, damaged, cut_short } = verified;
    let mut text = format!(
        "looked at {}, {} of the log; ",
        counted(*records, "record", "records"),
        counted(*log_entries, "entry", "entries")
    );
    if heads + heads_removed > 0 {
        let exported = counted(*heads, "exported head", "exported heads");
        let _ = write!(text, "the log leads through {exported}");
        if *heads_removed > 0 {
            let others = counted(*heads_removed, "other is", "others are");
            let _ = write!(text, ", {others} of a time that is kept no more");
        }
        text += "; ";
    }
    if *cut_short {
        text += "the last write is not whole: it was under way when the power failed, or was changed since; ";
    }
    match damaged {
        0 => text + "nothing is damaged",
        some => text + &counted(*some, "thing is damaged", "things are damaged"),
    }
}

fn look(options: VerifyOptions, tell: &mut dyn FnMut(Damaged)) -> Result<Verified, Failure> {
    let VerifyOptions { head, scratch, options, .. } = options;
    let settings = options.settle()?;
    logging::start("error", settings.log_format)?;
    close_to_others()?;
    open::refuse_without_store(&settings.data_dir)?;
    let root_key = root_key::read(&settings.root_key_source()?)?;
    let heads = head.as_deref().map_or_else(|| Ok(Vec::new()), read_heads)?;
    let scratch = scratch.unwrap_or_else(std::env::temp_dir);
    let copy = Copy::of(&settings, &scratch)?;
    let looked = catch_unwind(AssertUnwindSafe(|| {
        let store = Inspection::open(copy.folder(), settings.cache_mb << 20);
        let store = store.map_err(|error| copy.unnamed(error, &settings.data_dir))?;
        Ok(verify(&store, &root_key, Arc::new(SystemEntropy::new()?), &heads, tell)?)
    }));
    // The store's engine may panic over files that make no sense to it, and over a disk that is full: it writes to its copy.
    let senseless = || StoreError::Damaged("its files make no sense: restore a backup".to_owned());
    let looked = looked.unwrap_or_else(|_| Err(senseless().into()));
    looked.map_err(|error| {
        if is_damage(&error) && is_full(&scratch) {
            return format!("{} is full: name another folder with --scratch", scratch.display())
                .into();
        }
        error
    })
}

/// Whether a disk has next to no room left, as far as it tells.
pub fn is_full(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM_BYTES_MIN)
}

fn read_heads(file: &Path) -> Result<Vec<ExportedHead>, Failure> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let head = |(number, line): (usize, &str)| {
        let head = serde_json::from_str::<ExportedHead>(line).ok();
        head.filter(|head| head.to_head().is_some())
            .ok_or_else(|| format!("{}: line {} is no head", file.display(), number + 1).into())
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let heads = lines.map(head).collect::<Result<Vec<_>, Failure>>()?;
    if heads.is_empty() {
        return Err(
            format!("there is no head in {}: nothing is held against it", file.display()).into()
        );
    }
    Ok(heads)
}

#[cfg(test)]
mod tests {
    use super::{Damaged, Failure, OpenError, StoreError, is_damage, line, walking};

    #[test]
    fn a_store_that_cannot_be_read_is_damaged_and_one_that_is_not_there_is_not() {
        let damaged = || StoreError::Damaged("a".to_owned());
        let unavailable = || StoreError::Unavailable("a".to_owned());
        let table: [(Failure, bool); 6] = [
            (damaged().into(), true),
            (OpenError::Store(damaged()).into(), true),
            (OpenError::Damaged.into(), true),
            (unavailable().into(), false),
            (OpenError::Store(unavailable()).into(), false),
            (OpenError::WrongRootKey.into(), false),
        ];
        for (error, expected) in table {
            assert_eq!(is_damage(&error), expected, "{error}");
        }
        assert!(!is_damage(&"there is no store".into()));
        let (walked, _) = walking::<()>(true, "not looked at", |_| panic!("over anything"));
        assert!(!is_damage(&walked.unwrap_err()));
    }

    #[test]
    fn a_damage_is_one_line_whatever_stands_in_its_id() {
        let told = |id: &str| {
            let id = id.to_owned();
            line(&Damaged { kind: Some("token"), tenant: None, id, what: "was changed".to_owned() })
        };
        assert_eq!(told("a token, é"), "damaged: token  tenant -  id a token, é: was changed");
        assert_eq!(told(""), "damaged: token  tenant -  id -: was changed");
        let forged = "\r\x1b[2Jnothing is damaged\n";
        assert_eq!(
            told(forged),
            "damaged: token  tenant -  id \\r\\u{1b}[2Jnothing is damaged\\n: was changed"
        );
    }
}
