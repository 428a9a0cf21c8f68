//! An ACH payment file in the NACHA format, from bank accounts and amounts.
//!
//! # In
//! The sender is the reactor's configuration (see `formula.json`), what to pay the arguments:
//!
//! ```json
//! {
//!   "args": {
//!     "entries": [
//!       { "bank": "{{ <token id> }}", "amount_cents": 125000, "name": "Ada Lovelace",
//!         "individual_id": "E-1", "account_type": "checking", "kind": "credit" }
//!     ],
//!     "effective_entry_date": "2026-12-01"
//!   }
//! }
//! ```
//!
//! `prenote: true` makes an entry that only tries the account; its amount is 0.
//! `file_id_modifier` (`A`) and `file_creation` (now, UTC) may be given.
//!
//! # Out
//! - `raw.file_summary`: `entry_count`, `total_debit_cents`, `total_credit_cents`, `entry_hash`,
//!   `batch_count`, `block_count`, as the file's control record has them.
//! - `tokens.file`: the file as a token, since it holds account numbers. With the configuration
//!   `return_file: "raw"` it is `raw.file` instead.
//!
//! A file has one batch; the service class follows from its entries. Names are written in capitals, without
//! accents, and cut to their fields; numbers that do not fit are refused, never cut. Every fault of a request
//! is told at once, by its member and without its value.

mod date;
mod entry;
mod field;
mod file;
mod settings;

use serde::{Deserialize, Serialize};
use tokamak_sdk::clock::Minute;
use tokamak_sdk::{Error, Faults, NewToken, Request, Response, formula, log};

use crate::date::{Date, read_date, read_minute};
use crate::entry::{EntryArgs, read_entries};
use crate::file::{File, Summary};
use crate::settings::{Configuration, ReturnFile, Settings};

/// The arguments, as the caller writes them.
#[derive(Deserialize)]
struct Args {
    entries: Vec<EntryArgs>,
    effective_entry_date: String,
    file_id_modifier: Option<String>,
    file_creation: Option<String>,
}

/// What is returned as it is.
#[derive(Serialize)]
struct Raw {
    file_summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// What is returned as tokens.
#[derive(Serialize)]
struct Tokens {
    file: NewToken,
}

#[formula]
fn react(request: Request<Args, Configuration>) -> Result<Response, Error> {
    let return_file = request.configuration.return_file;
    let file = read(request.args, &request.configuration, Minute::now())?;
    let (text, file_summary) = file.write();
    log::info(format_args!(
        "{} entries in {} blocks",
        file_summary.entry_count, file_summary.block_count
    ));
    Ok(match return_file {
        ReturnFile::Raw => Response::raw(Raw { file_summary, file: Some(text) }),
        ReturnFile::Token => Response::raw(Raw { file_summary, file: None })
            .and_tokenize(Tokens { file: NewToken::new("token", text) }),
    })
}

/// Checks configuration and arguments, all of both.
fn read(args: Args, configuration: &Configuration, now: Minute) -> Result<File, Error> {
    let mut faults = Faults::default();
    let settings = Settings::read(configuration, &mut faults);
    let entries = read_entries(args.entries, &mut faults);
    let effective_entry_date = faults.expect(
        read_date(&args.effective_entry_date),
        "args.effective_entry_date",
        "must be a date, YYYY-MM-DD",
    );
    let id_modifier = faults.expect(
        read_modifier(args.file_id_modifier.as_deref().unwrap_or("A")),
        "args.file_id_modifier",
        "must be one of A to Z and 0 to 9",
    );
    let created = faults.expect(
        args.file_creation.map_or(Some(now), |text| read_minute(&text)),
        "args.file_creation",
        "must be a date and time, YYYY-MM-DDTHH:MM",
    );
    if let (Some(date), Some(created)) = (effective_entry_date, created)
        && date < Date::of(created)
    {
        faults.add("args.effective_entry_date", "must not be before the file is made");
    }
    let read = settings.zip(entries).zip(effective_entry_date).zip(id_modifier.zip(created));
    match read {
        Some((((settings, entries), effective_entry_date), (id_modifier, created)))
            if faults.is_empty() =>
        {
            Ok(File { settings, entries, effective_entry_date, id_modifier, created })
        }
        _ => Err(faults.into_error("the payment file cannot be made")),
    }
}

fn read_modifier(text: &str) -> Option<char> {
    let mut characters = text.chars();
    let modifier = characters.next().filter(|c| c.is_ascii_uppercase() || c.is_ascii_digit())?;
    characters.next().is_none().then_some(modifier)
}

#[cfg(test)]
mod tests;
