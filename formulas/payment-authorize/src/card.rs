//! A card that is to be charged, checked as far as that needs no processor.

use std::ops::RangeInclusive;

use tokamak_sdk::clock::Minute;
use tokamak_sdk::{Faults, Value, number};

/// Fewest and most digits of a card number (ISO/IEC 7812, as far as it is in use).
const NUMBER_DIGITS: RangeInclusive<usize> = 12..=19;
const CVC_DIGITS: RangeInclusive<usize> = 3..=4;

/// A card.
pub(crate) struct Card {
    /// Digits alone.
    pub(crate) number: String,
    /// 1 to 12.
    pub(crate) month: u32,
    /// Four digits.
    pub(crate) year: u32,
    /// Digits alone.
    pub(crate) cvc: Option<String>,
}

impl Card {
    /// Reads `args.card`; notes all that is wrong with it. Without a time it may have expired.
    pub(crate) fn read(card: &Value, now: Option<Minute>, faults: &mut Faults) -> Option<Self> {
        faults.expect(card.as_object(), "args.card", "must be a card, an object")?;
        let number = card["number"].as_str().and_then(|text| digits(text, &NUMBER_DIGITS));
        let number =
            faults.expect(number, "args.card.number", "must be a string of 12 to 19 digits");
        let month = whole(&card["expiration_month"]).filter(|month| (1..=12).contains(month));
        let month = faults.expect(month, "args.card.expiration_month", "must be a month, 1 to 12");
        let year = whole(&card["expiration_year"]).filter(|year| (1000..=9999).contains(year));
        let year =
            faults.expect(year, "args.card.expiration_year", "must be a year of four digits");
        let cvc = match &card["cvc"] {
            Value::Null => Some(None),
            cvc => cvc.as_str().and_then(|text| digits(text, &CVC_DIGITS)).map(Some),
        };
        let cvc = faults.expect(cvc, "args.card.cvc", "must be a string of three or four digits");
        if let (Some(month), Some(year), Some(now)) = (month, year, now)
            && (year, month) < (now.year, now.month)
        {
            faults.add("args.card.expiration_year", "is past: the card has expired");
        }
        Some(Self { number: number?, month: month?, year: year?, cvc: cvc? })
    }
}

/// The digits of a text that has nothing else but blanks and hyphens.
fn digits(text: &str, count: &RangeInclusive<usize>) -> Option<String> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let right = digits.bytes().all(|byte| byte.is_ascii_digit()) && count.contains(&digits.len());
    right.then_some(digits)
}

/// A whole number, as a number or as text.
fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => u32::try_from(number::whole(value)?).ok(),
    }
}
