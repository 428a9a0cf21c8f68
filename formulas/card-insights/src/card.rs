//! A card as it arrives: an object or a bare number, its numbers perhaps as text.
//!
//! Reads and checks; every fault is named by its member and never shows a value.

use std::ops::RangeInclusive;

use tokamak_sdk::{Error, Faults, Map, Value, number};

/// Fewest and most digits of a card number (ISO/IEC 7812, as far as it is in use).
const DIGITS: RangeInclusive<usize> = 12..=19;

/// A card number of 12 to 19 digits and, perhaps, when it expires.
pub(crate) struct Card {
    /// Digits alone.
    pub(crate) number: String,
    /// Year and month, the last in which the card is valid.
    pub(crate) expiry: Option<(u32, u32)>,
}

impl Card {
    /// Reads `args.card`; tells all that is wrong at once.
    pub(crate) fn read(card: &Value) -> Result<Self, Error> {
        let mut faults = Faults::default();
        let (number, expiry) = match card {
            Value::String(number) => {
                (faults.expect(digits(number), "args.card", "must have 12 to 19 digits"), None)
            }
            Value::Object(members) => {
                (read_number(members, &mut faults), read_expiry(members, &mut faults))
            }
            _ => (faults.expect(None, "args.card", "must be a card or a card number"), None),
        };
        match number {
            Some(number) if faults.is_empty() => Ok(Self { number, expiry }),
            _ => Err(faults.into_error("the card cannot be read")),
        }
    }
}

fn read_number(card: &Map<String, Value>, faults: &mut Faults) -> Option<String> {
    let (number, expected) = match card.get("number") {
        Some(Value::String(number)) => (digits(number), "must have 12 to 19 digits"),
        Some(_) => (None, "must be a string"),
        None => (None, "is required"),
    };
    faults.expect(number, "args.card.number", expected)
}

fn read_expiry(card: &Map<String, Value>, faults: &mut Faults) -> Option<(u32, u32)> {
    let month = whole(card.get("expiration_month"), &(1..=12));
    let year = whole(card.get("expiration_year"), &(1000..=9999));
    let month = faults.expect(month, "args.card.expiration_month", "must be a month, 1 to 12");
    let year = faults.expect(year, "args.card.expiration_year", "must be a year of four digits");
    Some((year??, month??))
}

fn digits(number: &str) -> Option<String> {
    let digits: String = number.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let right = digits.bytes().all(|byte| byte.is_ascii_digit()) && DIGITS.contains(&digits.len());
    right.then_some(digits)
}

/// A whole number within `range`, as a number or as text; the inner none when it is absent or null.
#[expect(clippy::option_option, reason = "absent is right, and not the same as wrong")]
fn whole(value: Option<&Value>, range: &RangeInclusive<u32>) -> Option<Option<u32>> {
    let number = match value {
        None | Some(Value::Null) => return Some(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => number::whole(value).and_then(|number| u32::try_from(number).ok()),
    };
    number.filter(|number| range.contains(number)).map(Some)
}
