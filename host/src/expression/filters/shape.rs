//! Filters that change a value's shape or type.

use serde_json::{Number, Value};
use serde_json_path::JsonPath;

use super::{Arguments, MADE_BYTES_MAX, Refusal, single};
use crate::expression::value::{canonical, to_text};

/// Characters a value may be padded to.
const PADDED_CHARS_MAX: usize = 4_096;
/// Characters of a path; each step may visit all that is below it.
const PATH_CHARS_MAX: usize = 256;

/// The one value that a JSONPath (RFC 9535) finds.
pub(crate) fn json(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let path = arguments.text(0, "");
    // Each `..` visits everything below what the one before it found.
    if path.len() > PATH_CHARS_MAX || path.matches("..").count() > 1 || path.contains('?') {
        return Err("takes a path without filters and with at most one ..");
    }
    let path = JsonPath::parse(&path).map_err(|_| "takes a JSONPath")?;
    let found = path.query(value);
    match found.at_most_one() {
        Ok(Some(found)) => Ok(found.clone()),
        Ok(None) => Err("found nothing at its path"),
        Err(_) => Err("found several values at its path"),
    }
}

/// Canonical JSON; a string stays itself.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table, where filters may refuse")]
pub(crate) fn stringify(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    Ok(match value {
        Value::Null => Value::from("null"),
        value => to_text(value).into(),
    })
}

/// Canonical JSON, of a string too.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table, where filters may refuse")]
pub(crate) fn json_stringify(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    Ok(canonical(value).into())
}

/// Fills up on the left.
pub(crate) fn pad_left(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (text, padding) = padding(value, arguments)?;
    Ok((padding + &text).into())
}

/// Fills up on the right.
pub(crate) fn pad_right(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (text, padding) = padding(value, arguments)?;
    Ok((text + &padding).into())
}

fn padding(value: &Value, arguments: &Arguments<'_>) -> Result<(String, String), Refusal> {
    let text = single(value)?;
    let (length, with) = (arguments.count(0, 0)?, arguments.char(1, ' ')?);
    if length > PADDED_CHARS_MAX {
        return Err("pads to at most 4096 characters");
    }
    let missing = length.saturating_sub(text.chars().count());
    Ok((text, std::iter::repeat_n(with, missing).collect()))
}

/// The value as text.
pub(crate) fn to_string(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    match value {
        Value::Null => Err("takes a value"),
        value => Ok(to_text(value).into()),
    }
}

/// The value as a number.
pub(crate) fn to_number(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    match value {
        Value::Number(_) => Ok(value.clone()),
        Value::String(text) => {
            // A JSON number, and nothing else: no hexadecimal, no infinity.
            let number: Result<Number, _> = serde_json::from_str(text.trim());
            number.map(Value::Number).map_err(|_| "takes a number")
        }
        _ => Err("takes a number"),
    }
}

/// The value as a boolean.
pub(crate) fn to_boolean(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true.into()),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false.into()),
        _ => Err("takes true or false"),
    }
}

/// Replaces every occurrence; by nothing unless told otherwise.
pub(crate) fn replace(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let text = single(value)?;
    let (from, to) = (arguments.text(0, ""), arguments.text(1, ""));
    if from.is_empty() {
        return Ok(text.into());
    }
    let count = text.matches(&from).count();
    if count.saturating_mul(to.len()).saturating_add(text.len()) > MADE_BYTES_MAX {
        return Err("would make too much text");
    }
    Ok(text.replace(&from, &to).into())
}

/// Joins the items of an array.
pub(crate) fn join(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let Value::Array(items) = value else { return Err("takes an array") };
    let separator = arguments.text(0, " ");
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push_str(&separator);
        }
        text.push_str(&to_text(item));
        if text.len() > MADE_BYTES_MAX {
            return Err("would make too much text");
        }
    }
    Ok(text.into())
}
