//! Filters on card numbers and card objects.

use rand::rngs::StdRng;
use serde_json::Value;

use super::reveal::pick;
use super::{Arguments, Refusal, single};
use crate::model::member::whole;

const LAST4: usize = 4;

/// The number of a card object, or the value itself, with how many digits it has; between these, what it says may stand.
fn spaced(value: &Value, between: impl Fn(char) -> bool) -> Result<(String, usize), Refusal> {
    let number = match value {
        Value::Object(members) => single(members.get("number").ok_or("takes a card")?)?,
        value => single(value)?,
    };
    let digits = number.chars().filter(char::is_ascii_digit).count();
    let is_one = number.chars().all(|c| c.is_ascii_digit() || between(c));
    if is_one && (12..=19).contains(&digits) {
        Ok((number, digits))
    } else {
        Err("takes a card number of 12 to 19 digits")
    }
}

/// The same, of digits alone.
fn number(value: &Value) -> Result<String, Refusal> {
    spaced(value, |_| false).map(|(number, _)| number)
}

/// Digits of the issuer, of so many: 8 for numbers of 16 or more, else 6.
fn bin_length(digits: usize) -> usize {
    if digits >= 16 { 8 } else { 6 }
}

/// How many of so many digits `bin` and `last4` keep at the ends.
fn ends(digits: usize, arguments: &Arguments<'_>) -> Result<(usize, usize), Refusal> {
    let first = if arguments.flag(0)? { bin_length(digits) } else { 0 };
    let last = if arguments.flag(1)? { LAST4 } else { 0 };
    Ok((first, last))
}

/// Masks a card number, but for BIN and last four where they are asked for. Digits may stand in groups: what separates
/// these is masked too, unless it is to be kept.
pub(crate) fn card_mask(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (mask, keep) = (arguments.char(2, 'X')?, arguments.text(3, ""));
    if keep.contains(|c: char| c.is_ascii_digit()) {
        return Err("keeps no digits");
    }
    let (number, digits) = spaced(value, |c| matches!(c, ' ' | '-') || keep.contains(c))?;
    let (first, last) = ends(digits, arguments)?;
    let mut before = 0;
    let shown = number.chars().map(|c| {
        let is_shown = if c.is_ascii_digit() {
            before += 1;
            before <= first || digits - before < last
        } else {
            keep.contains(c)
        };
        if is_shown { c } else { mask }
    });
    Ok(shown.collect::<String>().into())
}

/// The BIN, with the separator after every four digits.
pub(crate) fn card_bin(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let number = number(value)?;
    let (bin, _) = number.split_at(bin_length(number.len()));
    let separator = arguments.text(0, "");
    let (first, second) = bin.split_at(4);
    Ok(format!("{first}{separator}{second}").into())
}

/// The formats of an expiry.
const EXPIRY_FORMATS: [&str; 9] =
    ["MM", "MMYY", "MM/YY", "MM/YYYY", "MM-YYYY", "MM_YYYY", "YYYY", "YYYY-MM", "YYYY/MM"];

/// The expiry of a card object in one of the known formats; what the format does not name need not be there.
pub(crate) fn card_exp(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let mut text = arguments.text(0, "");
    if !EXPIRY_FORMATS.contains(&text.as_str()) {
        return Err("takes a format such as MM/YY or YYYY-MM");
    }
    let part = |name| value.get(name).and_then(whole).ok_or("takes a card with its expiry");
    if text.contains("MM") {
        text = text.replace("MM", &format!("{:02}", part("expiration_month")?));
    }
    if text.contains("YYYY") {
        text = text.replace("YYYY", &format!("{:04}", part("expiration_year")?));
    } else if text.contains("YY") {
        text = text.replace("YY", &format!("{:02}", part("expiration_year")? % 100));
    }
    Ok(text.into())
}

/// A pseudonym of the same shape that is nobody's card number, since it fails the Luhn check.
pub(crate) fn alias_card(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let number = number(value)?;
    let length = number.len();
    let (first, last) = ends(length, arguments)?;
    let drawn = |random: &mut StdRng| {
        let mut alias: Vec<u8> = number
            .bytes()
            .enumerate()
            .map(|(index, digit)| {
                let kept = index < first || length - index <= last;
                if kept { digit } else { pick(b"0123456789", random) as u8 }
            })
            .collect();
        if luhn_valid(&alias) {
            // Another digit in a place that is not kept: one step up always breaks the check.
            let place = first;
            alias[place] = b'0' + (alias[place] - b'0' + 1) % 10;
        }
        String::from_utf8_lossy(&alias).into_owned()
    };
    arguments.draw(|random| {
        loop {
            let alias = drawn(random);
            // A number that fails the check may be drawn itself, and would be shown. Two digits at least are drawn.
            if alias != number {
                return alias.into();
            }
        }
    })
}

/// Whether digits pass the Luhn check.
fn luhn_valid(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0');
            let doubled = if index % 2 == 1 { digit * 2 } else { digit };
            doubled / 10 + doubled % 10
        })
        .sum();
    sum.is_multiple_of(10)
}
