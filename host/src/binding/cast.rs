//! Casting a value to a declared type (interface §4.5 rule 8).
//!
//! | From, to | string | number | boolean | object, array |
//! |---|---|---|---|---|
//! | string | itself | a JSON number, zeros in front, spaces around | `true`, `false` in any case, spaces around | JSON text of one |
//! | number | as in JSON | itself | - | - |
//! | boolean | `true`, `false` | - | itself | - |
//!
//! Everything else is a fault, `null` included. No cast changes what was meant: numbers of more digits
//! than one can hold are a fault, because they would come out rounded.

#[cfg(test)]
mod tests;

use serde_json::{Number, Value};
use thiserror::Error;

use crate::limits::JSON_DEPTH_MAX;
use crate::model::depth::{is_too_deep, is_within};
use crate::model::exact::{self, Inexact};
use crate::model::parameter::ParameterType;
use crate::model::plaintext::wipe;

/// Why a value cannot be cast, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Uncastable {
    #[error("cannot be cast to string: must be a string, a number or a boolean")]
    String,
    #[error("cannot be cast to number: must be a number or the text of one")]
    Number,
    #[error("cannot be cast to number: has more digits than a number can hold")]
    Precision,
    #[error("cannot be cast to number: is too large a number")]
    TooLarge,
    #[error("cannot be cast to number: is too small a number")]
    TooSmall,
    #[error("cannot be cast: holds a number of more digits than one can hold, or too small a one")]
    PrecisionWithin,
    #[error("cannot be cast: holds a number that is too large")]
    TooLargeWithin,
    #[error("cannot be cast to boolean: must be true or false")]
    Boolean,
    #[error("cannot be cast to object: must be an object or the JSON text of one")]
    Object,
    #[error("cannot be cast to array: must be an array or the JSON text of one")]
    Array,
    #[error("must not be nested more than {JSON_DEPTH_MAX} levels deep")]
    Depth,
}

/// Casts `value`. A value that already has the type comes back as it is; one that is not returned
/// is wiped.
pub(super) fn cast(mut value: Value, to: ParameterType) -> Result<Value, Uncastable> {
    let is_typed = match to {
        ParameterType::String => value.is_string(),
        ParameterType::Number => value.is_number(),
        ParameterType::Boolean => value.is_boolean(),
        ParameterType::Object => value.is_object(),
        ParameterType::Array => value.is_array(),
    };
    if is_typed {
        return Ok(value);
    }
    let result = match to {
        ParameterType::String => text(&value),
        ParameterType::Number => value.as_str().ok_or(Uncastable::Number).and_then(number),
        ParameterType::Boolean => value.as_str().ok_or(Uncastable::Boolean).and_then(boolean),
        ParameterType::Object => json(&value, Value::is_object, Uncastable::Object),
        ParameterType::Array => json(&value, Value::is_array, Uncastable::Array),
    };
    wipe(&mut value);
    result
}

fn text(value: &Value) -> Result<Value, Uncastable> {
    match value {
        Value::Number(number) => Ok(Value::String(number.to_string())),
        Value::Bool(boolean) => Ok(Value::String(boolean.to_string())),
        _ => Err(Uncastable::String),
    }
}

/// JSON's own grammar but for zeros in front and white space around, as forms and templates leave it: no plus signs,
/// hexadecimals, infinities.
fn number(text: &str) -> Result<Value, Uncastable> {
    let text = exact::without_leading_zeros(text.trim_ascii());
    let unread =
        || if exact::is_too_large(&text) { Uncastable::TooLarge } else { Uncastable::Number };
    let number: Number = text.parse().map_err(|_| unread())?;
    match exact::inexact(&text) {
        None => Ok(Value::Number(number)),
        Some(Inexact::Rounded) => Err(Uncastable::Precision),
        Some(Inexact::TooLarge) => Err(Uncastable::TooLarge),
        Some(Inexact::TooSmall) => Err(Uncastable::TooSmall),
    }
}

fn boolean(text: &str) -> Result<Value, Uncastable> {
    let text = text.trim_ascii();
    [("true", true), ("false", false)]
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
        .map(|(_, boolean)| Value::Bool(boolean))
        .ok_or(Uncastable::Boolean)
}

fn json(value: &Value, wanted: fn(&Value) -> bool, or: Uncastable) -> Result<Value, Uncastable> {
    let text = value.as_str().ok_or(or)?;
    let mut parsed: Value = serde_json::from_str(text).map_err(|error| match error {
        error if exact::is_out_of_range(&error) => Uncastable::TooLargeWithin,
        error if is_too_deep(&error) => Uncastable::Depth,
        _ => or,
    })?;
    let verdict = if !wanted(&parsed) {
        Err(or)
    } else if !is_within(&parsed, JSON_DEPTH_MAX) {
        Err(Uncastable::Depth)
    } else if exact::check(text.as_bytes(), |_| true).is_err() {
        Err(Uncastable::PrecisionWithin)
    } else {
        return Ok(parsed);
    };
    wipe(&mut parsed);
    verdict
}
