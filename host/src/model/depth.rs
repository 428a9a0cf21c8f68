//! How deep JSON from outside may be nested.

use serde_json::Value;

/// How the parser begins to tell of a text that is nested deeper than it reads.
const TOO_DEEP: &str = "recursion limit exceeded";

/// Whether a text was not parsed for how deep it is nested: the parser has a bound of its own, beyond any of ours.
pub fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with(TOO_DEEP)
}

/// Whether arrays and objects are nested at most `levels` deep. The parser's own limit bounds the recursion.
pub fn is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_within(item, levels - 1)),
        Value::Object(members) => members.values().all(|member| is_within(member, levels - 1)),
        _ => true,
    }
}
