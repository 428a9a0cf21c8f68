//! What JSON takes of the memory once it is read, many times its text, and what headers do.

use std::mem::size_of;

use serde_json::Value;

/// Bytes that a name in an object takes beside the value, about.
const NAME_BYTES: usize = 48;
/// What a header of HTTP takes beside its name and value, about.
pub const HEADER_BYTES: usize = 64;
/// Bytes that an object takes beside its members, about: the least of them has room for several.
const OBJECT_BYTES: usize = 320;

/// About how many bytes this JSON takes, as text and once it is read.
pub fn of_json(text: &[u8]) -> usize {
    let (mut values, mut names, mut objects) = (0, 0, 0);
    // What stands within texts counts as well. In parts so short that their counts fit a byte: many are counted at once.
    for part in text.chunks(usize::from(u8::MAX)) {
        let (mut in_values, mut in_names, mut in_objects) = (0_u8, 0_u8, 0_u8);
        for byte in part {
            in_values += u8::from(matches!(byte, b',' | b'[' | b'{'));
            in_names += u8::from(*byte == b':');
            in_objects += u8::from(*byte == b'{');
        }
        values += usize::from(in_values);
        names += usize::from(in_names);
        objects += usize::from(in_objects);
    }
    text.len() + values * size_of::<Value>() + names * NAME_BYTES + objects * OBJECT_BYTES
}

/// About how many bytes this takes, beside the room that its owner has for it.
pub fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + of_value(item)).sum(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                size_of::<Value>() + NAME_BYTES + name.len() + of_value(value)
            };
            OBJECT_BYTES + members.iter().map(member).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OBJECT_BYTES, of_json, of_value, size_of};

    #[test]
    fn json_weighs_what_it_takes_once_it_is_read() {
        let value = size_of::<serde_json::Value>();
        let zeros = format!("[{}0]", "0,".repeat(999));
        assert_eq!(of_json(zeros.as_bytes()), zeros.len() + 1_000 * value);
        let text = "x".repeat(5_000);
        assert_eq!(of_json(text.as_bytes()), 5_000);
        assert!(of_json(br#"{"a":1,"b":2}"#) > 2 * value + OBJECT_BYTES);
    }

    #[test]
    fn a_value_weighs_about_what_its_text_does() {
        for text in [
            "null".to_owned(),
            format!("[{}0]", "0,".repeat(999)),
            format!("[{}{{}}]", r#"{"a":{"b":[1]}},"#.repeat(99)),
            format!(r#"{{"text":"{}"}}"#, "x".repeat(5_000)),
        ] {
            let (as_text, as_value) =
                (of_json(text.as_bytes()), of_value(&serde_json::from_str(&text).unwrap()));
            assert!(as_value <= as_text && as_text - as_value <= as_text / 10 + 80, "{text}");
        }
    }
}
