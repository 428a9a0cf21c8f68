//! What a card number says of itself, without the number.
//!
//! # In
//! `args.card`: the data of a token of type `card`, or a bare number, the data of one of type `card_number`.
//!
//! ```json
//! { "args": { "card": "{{ <token id> }}" } }
//! ```
//!
//! # Out
//! In `raw`, for `4242424242424242`, 12/2030:
//!
//! ```json
//! { "brand": "Visa", "bin": "42424242", "last4": "4242", "length": 16, "luhn_valid": true, "expiry": "valid" }
//! ```
//!
//! - `brand` by the ranges in [`brand`]; `unknown` when none holds the number.
//! - `bin` has 8 digits for numbers of 16 or more, else 6.
//! - `expiry` is `valid` through the last day of the month (UTC), then `expired`; `unknown` without a date.
//!
//! Spaces and hyphens in the number are ignored. Anything else that is wrong is a bad request that names
//! the member and does not repeat its value.

pub mod brand;
mod card;

use serde::{Deserialize, Serialize};
use tokamak_sdk::clock::Minute;
use tokamak_sdk::{Error, Request, Response, Value, formula};

use crate::brand::Brand;
use crate::card::Card;

/// The arguments; `card` is read by hand, since it is an object or a string.
#[derive(Deserialize)]
struct Args {
    card: Value,
}

/// What is known of a card.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Insights {
    brand: Brand,
    bin: String,
    last4: String,
    length: usize,
    luhn_valid: bool,
    expiry: Expiry,
}

/// Whether a card may still be used.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Expiry {
    Valid,
    Expired,
    Unknown,
}

#[formula]
fn react(request: Request<Args>) -> Result<Response, Error> {
    let card = Card::read(&request.args.card)?;
    Ok(Response::raw(insights(&card, Minute::now())))
}

fn insights(card: &Card, now: Minute) -> Insights {
    let number = card.number.as_str();
    let bin_digits = if number.len() >= 16 { 8 } else { 6 };
    Insights {
        brand: Brand::of(number),
        bin: number.chars().take(bin_digits).collect(),
        last4: number.chars().skip(number.len().saturating_sub(4)).collect(),
        length: number.len(),
        luhn_valid: luhn(number),
        expiry: match card.expiry {
            None => Expiry::Unknown,
            Some(last_month) if last_month < (now.year, now.month) => Expiry::Expired,
            Some(_) => Expiry::Valid,
        },
    }
}

/// The checksum of ISO/IEC 7812: every second digit from the right counts double, digits summed.
fn luhn(number: &str) -> bool {
    let sum: u32 = number
        .chars()
        .rev()
        .filter_map(|digit| digit.to_digit(10))
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, double) => double / 10 + double % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests;
