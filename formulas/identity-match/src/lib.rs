//! Compares the data of a person or company with candidates: scores, never values.
//!
//! # In
//! ```json
//! {
//!   "args": {
//!     "identity": { "name": "Ada Lovelace", "birth_date": "1815-12-10", "ssn": "{{ <token id> }}" },
//!     "candidates": [ { "id": "c-1", "name": "LOVELACE, Ada", "ssn": "{{ <token id> }}" } ]
//!   }
//! }
//! ```
//!
//! The fields: `name`, or `first_name`, `middle_name` and `last_name`; `birth_date` (`YYYY-MM-DD`); `ssn`, `ein`,
//! `national_id`; `phone`; `email`; `address`, a text or an object with `line1`, `line2`, `city`, `state`,
//! `postal_code`, `country`. What is null, empty or unknown is left out. A whole number will do for a text, but not for
//! an `ssn` or `ein` of fewer than nine digits: it has lost the zeros it began with. A text of these must have nine digits
//! as well, since a part of a number, such as the last four digits, is that of many.
//!
//! # Out
//! In `raw`, one entry for each candidate in the order of the request:
//!
//! ```json
//! { "candidates": [ { "index": 0, "match": true, "score": 1.0, "fields": { "name": 1.0, "ssn": 1.0 } } ] }
//! ```
//!
//! - `fields` has what both have. Scores go from 0 to 1 in steps of a hundredth:
//!   names word by word (Jaro-Winkler), whatever their order, case, accents and punctuation, an initial for a name;
//!   dates by year, month and day; numbers 0 or 1, without what separates their digits; telephone numbers with and
//!   without their country's code; e-mail addresses with and without a `+tag`; addresses by their parts.
//! - `score` is the mean of the fields by their weights. `match` says that it is the threshold or more.
//! - With the configuration `answer: "match"` there are `index` and `match` alone; with `return_ids` there is `id` too.

mod date;
mod field;
mod identity;
mod settings;
mod text;

use serde::Serialize;
use tokamak_sdk::{Error, Faults, Map, Request, Response, Value, formula, log};

use crate::field::{FIELDS, Field};
use crate::identity::Identity;
use crate::settings::Settings;

/// Most candidates of one request.
const CANDIDATES_MAX: usize = 100;

/// What is told of a candidate.
#[derive(Serialize)]
struct Compared {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "match")]
    is_match: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Map<String, Value>>,
}

#[formula]
fn react(request: Request<Value, Value>) -> Result<Response, Error> {
    let mut faults = Faults::default();
    let settings = Settings::read(&request.configuration, &mut faults);
    let identity = read_identity(&request.args, &mut faults);
    let others = read_candidates(&request.args, &mut faults);
    let (settings, identity) = match settings.zip(identity) {
        Some(both) if faults.is_empty() => both,
        _ => return Err(faults.into_error("the identity cannot be compared")),
    };
    let compared: Vec<_> = others
        .iter()
        .enumerate()
        .map(|(index, other)| compare(&identity, other, &settings, index))
        .collect();
    let matches = compared.iter().filter(|candidate| candidate.is_match).count();
    log::info(format_args!("{matches} of {} candidates match", compared.len()));
    Ok(Response::raw(tokamak_sdk::json!({ "candidates": compared })))
}

/// Who the candidates are compared with; notes all that is wrong.
fn read_identity(args: &Value, faults: &mut Faults) -> Option<Identity> {
    let given = faults.expect(args.get("identity"), "args.identity", "is required")?;
    let identity = Identity::read(given, "args.identity", faults)?;
    if identity.is_empty() {
        faults.add("args.identity", "must have something to compare");
    }
    Some(identity)
}

/// The candidates that are right; notes all that is wrong with the others.
fn read_candidates(args: &Value, faults: &mut Faults) -> Vec<Identity> {
    let given = faults.expect(args.get("candidates"), "args.candidates", "is required");
    let items = given
        .and_then(|given| faults.expect(given.as_array(), "args.candidates", "must be an array"));
    let Some(items) = items else { return Vec::new() };
    if !(1..=CANDIDATES_MAX).contains(&items.len()) {
        faults.add("args.candidates", "must have 1 to 100 entries");
    }
    let read = |(index, candidate): (usize, &Value)| {
        Identity::read(candidate, &format!("args.candidates[{index}]"), faults)
    };
    items.iter().take(CANDIDATES_MAX).enumerate().filter_map(read).collect()
}

fn compare(identity: &Identity, other: &Identity, settings: &Settings, index: usize) -> Compared {
    let counts = |field: &&Field| settings.weight(field) > 0.0;
    let scores: Vec<(&Field, f64)> = FIELDS
        .iter()
        .filter(counts)
        .filter_map(|field| Some((field, hundredths((field.compare)(identity, other)?))))
        .collect();
    let weight: f64 = scores.iter().map(|(field, _)| settings.weight(field)).sum();
    let sum: f64 = scores.iter().map(|(field, score)| settings.weight(field) * score).sum();
    let score = if weight > 0.0 { hundredths(sum / weight) } else { 0.0 };
    let fields = scores.iter().map(|(field, score)| (field.name.to_owned(), (*score).into()));
    Compared {
        index,
        id: other.id.clone().filter(|_| settings.return_ids),
        is_match: scores.len() >= settings.minimum_fields && score >= settings.threshold,
        score: settings.scores.then_some(score),
        fields: settings.scores.then(|| fields.collect()),
    }
}

/// Finer steps would tell more of the values than of their likeness. Whatever is not the same is below 1.
fn hundredths(score: f64) -> f64 {
    if score >= 1.0 {
        return 1.0;
    }
    // Binary sums may miss a step by their last bits: 3 × 0.95 / 3 is a little less than 0.95.
    ((score.max(0.0) * 100.0 + 1e-6).floor() / 100.0).min(0.99)
}

#[cfg(test)]
mod tests;
