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
//! - `tokens.file`: the file as a token in `/bank/high/`, since it holds account numbers; the configuration
//!   `container` names another place. With `return_file: "raw"` it is `raw.file` instead.
//!
//! A file has one batch; the service class follows from its entries. Names are written in capitals, without
//! accents, and cut to their fields; numbers and identifications that do not fit are refused, never cut, and so are
//! identifications with other characters than printable ASCII, never altered but for the case of letters. Every fault
//! of a request is told at once, by its member and without its value.

mod date;
mod entry;
mod field;
mod file;
mod member;
mod settings;

use serde::Serialize;
use tokamak_sdk::clock::Minute;
use tokamak_sdk::{Error, Faults, NewToken, Request, Response, Value, formula, log};

use crate::date::{Date, read_date, read_minute};
use crate::entry::{Entry, read_entries};
use crate::file::{File, Summary};
use crate::member::Members;
use crate::settings::{ReturnFile, Settings};

/// The arguments, checked.
struct Args {
    entries: Vec<Entry>,
    effective_entry_date: Date,
    id_modifier: char,
    created: Minute,
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
fn react(request: Request<Value, Value>) -> Result<Response, Error> {
    let file = read(&request.args, &request.configuration, Minute::now())?;
    let (text, file_summary) = file.write();
    log::info(format_args!(
        "{} entries in {} blocks",
        file_summary.entry_count, file_summary.block_count
    ));
    Ok(match file.settings.return_file {
        ReturnFile::Raw => Response::raw(Raw { file_summary, file: Some(text) }),
        ReturnFile::Token => {
            let kept = NewToken::new("token", text).container(file.settings.container);
            Response::raw(Raw { file_summary, file: None }).and_tokenize(Tokens { file: kept })
        }
    })
}

/// Checks configuration and arguments, all of both.
fn read(args: &Value, configuration: &Value, now: Minute) -> Result<File, Error> {
    let mut faults = Faults::default();
    let settings = Settings::read(configuration, &mut faults);
    let args = Args::read(args, now, &mut faults);
    match settings.zip(args) {
        Some((settings, args)) if faults.is_empty() => {
            let Args { entries, effective_entry_date, id_modifier, created } = args;
            Ok(File { settings, entries, effective_entry_date, id_modifier, created })
        }
        _ => Err(faults.into_error("the payment file cannot be made")),
    }
}

impl Args {
    /// Checks the arguments; notes all that is wrong with them.
    fn read(args: &Value, now: Minute, faults: &mut Faults) -> Option<Self> {
        let mut given = Members::of(args, "args".to_owned(), faults)?;
        let effective_entry_date =
            given.text("effective_entry_date", read_date, "must be a date, YYYY-MM-DD");
        let id_modifier = given.text_or(
            "file_id_modifier",
            'A',
            read_modifier,
            "must be one of A to Z and 0 to 9",
        );
        let created = given.text_or(
            "file_creation",
            now,
            read_minute,
            "must be a date and time, YYYY-MM-DDTHH:MM",
        );
        if let (Some(date), Some(created)) = (effective_entry_date, created) {
            let right = (date >= Date::of(created)).then_some(());
            given.expect("effective_entry_date", right, "must not be before the file is made");
        }
        // Entries come last: theirs may be more faults than are told.
        let entries = given.array("entries").and_then(|given| read_entries(given, faults));
        Some(Self {
            entries: entries?,
            effective_entry_date: effective_entry_date?,
            id_modifier: id_modifier?,
            created: created?,
        })
    }
}

fn read_modifier(text: &str) -> Option<char> {
    let mut characters = text.chars();
    let modifier = characters.next().filter(|c| c.is_ascii_uppercase() || c.is_ascii_digit())?;
    characters.next().is_none().then_some(modifier)
}

#[cfg(test)]
mod tests;
