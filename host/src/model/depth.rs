//! How deep JSON from outside may be nested.

use serde_json::Value;

/// Whether arrays and objects are nested at most `levels` deep. The parser's own limit bounds the recursion.
pub fn is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_within(item, levels - 1)),
        Value::Object(members) => members.values().all(|member| is_within(member, levels - 1)),
        _ => true,
    }
}
