//! Dates in other formats.
//!
//! What is shown or handed to a formula is read as RFC 3339 writes times, and as seconds since 1970. What is kept (ids,
//! fingerprints, search indexes) is read as liquid reads it: tokens are found and told apart by what was evaluated when
//! they were stored, and that must come out again whenever it is evaluated anew.

use std::borrow::Cow;

use liquid_core::model::{DateTime, Scalar};
use serde_json::{Number, Value};

use super::{Arguments, Refusal};
use crate::model::time::parse_span;

/// What is said of a format that is none.
const FORMAT: &str = "takes a format such as %Y-%m-%d";
/// Digits of a width in a date's format.
const DATE_WIDTH_DIGITS_MAX: usize = 2;
/// Bytes of a time of day with as fine a fraction of a second as liquid reads, `00:00:00.000000000`.
const CLOCK_BYTES_MAX: usize = 18;

/// A date in another format; what is no date stays itself. A whole number counts seconds since 1970, unless the value
/// is kept.
pub(crate) fn date(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let format = arguments.text(0, "");
    if has_wide_field(&format) {
        return Err("takes widths of at most two digits");
    }
    if has_unreadable_field(&format) {
        return Err(FORMAT);
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if !arguments.is_kept() => seconds(number),
        _ => return Ok(value.clone()),
    };
    // As liquid reads them.
    let moment = text.trim().to_lowercase();
    if matches!(moment.as_str(), "now" | "today") && !arguments.may_vary() {
        return Err("knows no present here");
    }
    let date = liquids(&text);
    let date = if arguments.is_kept() { date } else { date.or_else(|| rfc3339s(text.trim())) };
    match date {
        Some(date) if !format.is_empty() => {
            date.format(&format).map(Value::from).map_err(|_| FORMAT)
        }
        _ => Ok(value.clone()),
    }
}

/// A moment in one of the forms that liquid knows, or a day.
fn liquids(text: &str) -> Option<DateTime> {
    let scalar = Scalar::new(text.to_owned());
    let day = || scalar.to_date().map(|day| DateTime::from_ymd(day.year(), day.month(), day.day()));
    scalar.to_date_time().or_else(day)
}

/// A number as text, without the fraction of one that is whole.
fn seconds(number: &Number) -> String {
    let is_integer = number.is_i64() || number.is_u64();
    let whole = number.as_f64().filter(|float| !is_integer && float.fract() == 0.0);
    whole.map_or_else(|| number.to_string(), |float| format!("{float:.0}"))
}

/// A moment or a day as RFC 3339 writes it.
fn rfc3339s(text: &str) -> Option<DateTime> {
    liquids(&in_liquids_form(&without_leap_second(text))?)
}

/// A leap second as the second before it: no clock here has one.
fn without_leap_second(text: &str) -> Cow<'_, str> {
    let parts = text.split_at_checked("0000-00-00T00:00".len());
    match parts.and_then(|(minute, rest)| Some((minute, rest.strip_prefix(":60")?))) {
        Some((minute, rest)) => Cow::Owned(format!("{minute}:59{rest}")),
        None => Cow::Borrowed(text),
    }
}

/// What RFC 3339 writes, in a form that liquid knows: at the offset that it was written with.
fn in_liquids_form(text: &str) -> Option<String> {
    // From here on it is known to have all its parts, and nothing else.
    parse_span(text).ok()?;
    let (day, time) = text.split_at_checked("0000-00-00".len())?;
    let Some(time) = time.get("T".len()..) else { return Some(day.to_owned()) };
    let is_of_clock = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.');
    let (clock, offset) = time.split_at(time.find(|c: char| !is_of_clock(c)).unwrap_or(time.len()));
    let seconds = if clock.len() == "00:00".len() { ":00" } else { "" };
    let clock = &clock[..clock.len().min(CLOCK_BYTES_MAX)];
    let sign = if offset.starts_with('-') { '-' } else { '+' };
    // `Z` has none, and minutes may be missing.
    let digits: String = offset.chars().filter(char::is_ascii_digit).collect();
    Some(format!("{day} {clock}{seconds} {sign}{digits:0<4}"))
}

/// What may stand between the flags of a field and its name.
fn is_between(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, ':' | 'E' | 'O')
}

/// The fields of a date's format and what follows them, without their `%` and flags.
fn fields(format: &str) -> impl Iterator<Item = &str> {
    let mut rest = format;
    std::iter::from_fn(move || {
        let (_, field) = rest.split_once('%')?;
        let field = field.trim_start_matches(['-', '_', '0', '^', '#']);
        let name = field.trim_start_matches(is_between);
        rest = name.strip_prefix('%').unwrap_or(name);
        Some(field)
    })
}

/// Whether a date's format asks for a width of more digits than any date has use for.
fn has_wide_field(format: &str) -> bool {
    fields(format)
        .any(|field| field.bytes().take_while(u8::is_ascii_digit).count() > DATE_WIDTH_DIGITS_MAX)
}

/// Whether a date's format has a field that is named by something else than ASCII: liquid panics on these.
fn has_unreadable_field(format: &str) -> bool {
    fields(format)
        .any(|field| field.trim_start_matches(is_between).starts_with(|c: char| !c.is_ascii()))
}
