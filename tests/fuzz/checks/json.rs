//! Bodies as JSON: a text of which every number can be held is read, written and read again to the same; one that holds a
//! number of more digits is refused, wherever it stands.
//!
//! An input is the body.

use serde_json::Value;
use tokamak::limits::JSON_DEPTH_MAX;
use tokamak::model::depth::is_within;
use tokamak::model::exact;

use super::timely;

/// Checks one input.
pub fn check(input: &[u8]) {
    let checked = timely("checking numbers", || exact::check(input, |_| true));
    let Ok(value) = timely("reading", || serde_json::from_slice::<Value>(input)) else { return };
    let text = std::str::from_utf8(input).expect("JSON is text");
    let numbers = numbers(text);
    let inexact = numbers.iter().find(|number| !exact::is_exact(number));
    assert_eq!(checked.is_err(), inexact.is_some(), "{inexact:?} in {text}");
    for number in &numbers {
        // Whole numbers of 64 bits are held as they are.
        let whole = number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok();
        assert!(!whole || exact::is_exact(number), "{number}");
    }
    if let Err(faults) = checked {
        let named = faults.into_map();
        assert!((1..=numbers.len()).contains(&named.len()), "{named:?}");
    }
    assert_eq!(is_within(&value, JSON_DEPTH_MAX), depth(&value) <= JSON_DEPTH_MAX);
    let written = value.to_string();
    assert_eq!(serde_json::from_str::<Value>(&written).as_ref().ok(), Some(&value), "{written}");
    assert!(exact::check(written.as_bytes(), |_| true).is_ok(), "{written}");
    // What is not read may be anything.
    if value.is_object() {
        assert!(exact::check(input, |_| false).is_ok(), "{text}");
    }
}

/// Every number that stands outside of strings.
fn numbers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        let end = if let Some(inner) = rest.strip_prefix('"') {
            1 + string_end(inner)
        } else {
            let part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            found.push(&rest[..end]);
            end
        };
        rest = &rest[end..];
    }
    found
}

/// The bytes of a string after its first quote, the last one included.
fn string_end(inner: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    inner.len()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
