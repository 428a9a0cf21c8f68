//! Filters that change a value's shape or type.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Number, Value};

use super::number::is_whole;
use super::{Arguments, ITEMS_MAX, MADE_BYTES_MAX, Refusal, single};
use crate::expression::value::{canonical, to_text};
use crate::model::exact::{Inexact, inexact, is_too_large, without_leading_zeros};

/// Characters a value may be padded to.
const PADDED_CHARS_MAX: usize = 4_096;

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
            let text = text.trim();
            let fits = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
            // Read as a fraction it would be another number.
            if is_whole(text) && !fits {
                return Err("takes a whole number only if it fits in 64 bits");
            }
            let text = without_leading_zeros(text);
            if is_too_large(&text) {
                return Err("takes a number only if it is not too large");
            }
            // A JSON number but for that, and nothing else: no hexadecimal, no infinity.
            let number: Number = serde_json::from_str(&text).map_err(|_| "takes a number")?;
            match inexact(&text) {
                None => Ok(Value::Number(number)),
                Some(Inexact::TooSmall) => Err("takes a number only if it is not too small"),
                Some(_) => Err("takes a number only of as many digits as a number can hold"),
            }
        }
        _ => Err("takes a number"),
    }
}

/// The value as a boolean.
pub(crate) fn to_boolean(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        // As arguments are cast.
        Value::String(text) => match text.trim_ascii() {
            text if text.eq_ignore_ascii_case("true") => Ok(true.into()),
            text if text.eq_ignore_ascii_case("false") => Ok(false.into()),
            _ => Err("takes true or false"),
        },
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

/// The parts of a text between separators; an empty separator stands between all characters.
pub(crate) fn split(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let separator = arguments.given(0).map(to_text).ok_or("takes a separator")?;
    let text = to_text(value);
    if text.is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    let parts: Vec<Value> = if separator.is_empty() {
        text.chars().take(ITEMS_MAX + 1).map(|c| c.to_string().into()).collect()
    } else {
        text.split(&separator).take(ITEMS_MAX + 1).map(Value::from).collect()
    };
    if parts.len() > ITEMS_MAX { Err("makes at most 10000 items") } else { Ok(parts.into()) }
}

/// Characters of a text or items of an array from an offset on, which counts from the end when it is negative.
pub(crate) fn slice(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (offset, length) = (arguments.integer(0)?, arguments.count(1, 1)?);
    let start = |count: usize| {
        let distance = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
        // What starts before the start is nothing.
        if offset >= 0 { distance.min(count) } else { count.checked_sub(distance).unwrap_or(count) }
    };
    if let Value::Array(items) = value {
        return Ok(items.iter().skip(start(items.len())).take(length).cloned().collect());
    }
    let text = single(value)?;
    let start = start(text.chars().count());
    Ok(text.chars().skip(start).take(length).collect::<String>().into())
}

/// The beginning of a text, with what tells that it goes on, in so many characters. What fits stays as it is.
pub(crate) fn truncate(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (text, ellipsis) = (to_text(value), arguments.text(1, "..."));
    let length = arguments.count(0, 50)?;
    if text.chars().count() <= length {
        return Ok(text.into());
    }
    let kept = length.saturating_sub(ellipsis.chars().count());
    Ok((text.chars().take(kept).collect::<String>() + &ellipsis).into())
}

/// How many characters a text has, how many items an array, or how many members an object; nothing has none.
#[expect(clippy::unnecessary_wraps, reason = "a row of the table, where filters may refuse")]
pub(crate) fn size(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    let size = match value {
        Value::Null => 0,
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        single => to_text(single).chars().count(),
    };
    Ok(size.into())
}

/// Drops the items of an array that it has had before.
pub(crate) fn uniq(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    let Value::Array(items) = value else { return Err("takes an array") };
    let mut seen = HashSet::with_capacity(items.len());
    Ok(items.iter().filter(|item| seen.insert(canonical(item))).cloned().collect())
}

/// Sorts the items of an array, or by a member; those without one come last. Liquid's own has no order for items of several
/// kinds, and may panic over them.
pub(crate) fn sort(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (mut items, property) = match value {
        Value::Array(_) => sortable(value, arguments)?,
        Value::Null => return Ok(Value::Array(Vec::new())),
        single => return Ok(Value::Array(vec![single.clone()])),
    };
    let key = property.as_ref();
    items.sort_by(|one, other| in_order(key_of(one, key), key_of(other, key)));
    Ok(Value::Array(items))
}

/// Nothing comes last; else kind by kind, and among numbers and texts the smaller one first.
fn in_order(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
        Some(Value::Bool(_)) => 0,
        Some(Value::Number(_)) => 1,
        Some(Value::String(_)) => 2,
        Some(_) => 3,
        None => 4,
    };
    let whole = |number: &Number| number.as_i128();
    let order = match (one, other) {
        (Some(Value::Bool(one)), Some(Value::Bool(other))) => one.cmp(other),
        // Whole numbers that are the same to a float are not the same.
        (Some(Value::Number(one)), Some(Value::Number(other))) => one
            .as_f64()
            .unwrap_or_default()
            .total_cmp(&other.as_f64().unwrap_or_default())
            .then_with(|| whole(one).cmp(&whole(other))),
        (Some(Value::String(one)), Some(Value::String(other))) => one.cmp(other),
        _ => Ordering::Equal,
    };
    rank(one).cmp(&rank(other)).then(order)
}

/// The items of an array, and the member to sort them by.
fn sortable(
    value: &Value,
    arguments: &Arguments<'_>,
) -> Result<(Vec<Value>, Option<String>), Refusal> {
    let Value::Array(items) = value else { return Err("takes an array") };
    if items.len() > ITEMS_MAX {
        return Err("takes at most 10000 items");
    }
    let property = arguments.given(0).map(to_text);
    if property.is_some() && !items.iter().all(Value::is_object) {
        return Err("takes an array of objects to sort by a member");
    }
    Ok((items.clone(), property))
}

/// What an item is sorted by.
fn key_of<'v>(item: &'v Value, property: Option<&String>) -> Option<&'v Value> {
    property.map_or(Some(item), |name| item.get(name)).filter(|key| !key.is_null())
}

/// Sorts the items of an array by their text, or by that of a member, in any case; those without
/// one come last.
pub(crate) fn sort_natural(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let (mut items, property) = sortable(value, arguments)?;
    items.sort_by_cached_key(|item| {
        let key = key_of(item, property.as_ref());
        (key.is_none(), key.map(|key| to_text(key).to_lowercase()))
    });
    Ok(Value::Array(items))
}
