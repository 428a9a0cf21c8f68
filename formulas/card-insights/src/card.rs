//! A card as it arrives: an object or a bare number, its numbers perhaps as text.
//!
//! Reads and checks; every fault is named by its member and never shows a value.

use tokamak_sdk::{Error, Value};

/// Fewest and most digits of a card number (ISO/IEC 7812, as far as it is in use).
const DIGITS: std::ops::RangeInclusive<usize> = 12..=19;

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
        let mut faults: Vec<(&str, &str)> = Vec::new();
        let (number, expiry) = match card {
            Value::String(number) => (digits(number, "args.card", &mut faults), None),
            Value::Object(members) => {
                let number = match members.get("number") {
                    Some(Value::String(number)) => digits(number, "args.card.number", &mut faults),
                    Some(_) => fault(&mut faults, "args.card.number", "must be a string"),
                    None => fault(&mut faults, "args.card.number", "is required"),
                };
                let month = whole(members.get("expiration_month"), &(1..=12)).unwrap_or_else(|()| {
                    fault(&mut faults, "args.card.expiration_month", "must be a month, 1 to 12")
                });
                let year = whole(members.get("expiration_year"), &(1000..=9999)).unwrap_or_else(|()| {
                    fault(&mut faults, "args.card.expiration_year", "must be a year of four digits")
                });
                (number, year.zip(month))
            }
            _ => (fault(&mut faults, "args.card", "must be a card or a card number"), None),
        };
        match number {
            Some(number) if faults.is_empty() => Ok(Self { number, expiry }),
            _ => Err(faults.into_iter().fold(
                Error::bad_request("the card cannot be read"),
                |error, (member, message)| error.at(member, message),
            )),
        }
    }
}

/// Notes a fault; there is no value then.
fn fault<'a, T>(
    faults: &mut Vec<(&'a str, &'a str)>,
    member: &'a str,
    message: &'a str,
) -> Option<T> {
    faults.push((member, message));
    None
}

fn digits<'a>(
    number: &str,
    member: &'a str,
    faults: &mut Vec<(&'a str, &'a str)>,
) -> Option<String> {
    let digits: String = number.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && DIGITS.contains(&digits.len()) {
        Some(digits)
    } else {
        fault(faults, member, "must have 12 to 19 digits")
    }
}

/// A whole number within `range`, as a number or as text; none when absent or null.
fn whole(value: Option<&Value>, range: &std::ops::RangeInclusive<u32>) -> Result<Option<u32>, ()> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        // A cast to `number` may have made 12 into 12.0.
        Some(Value::Number(number)) => number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .or_else(|| range.clone().find(|n| number.as_f64() == Some(f64::from(*n)))),
        Some(_) => None,
    };
    number.filter(|number| range.contains(number)).map(Some).ok_or(())
}
