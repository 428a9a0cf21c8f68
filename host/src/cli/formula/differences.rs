//! Where what came differs from what a case expects.

use serde_json::{Number, Value};

/// Stands for any value.
const ANY: &str = "*";
/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 200;

/// Notes where `found` is another value than `expected`. Members that are not expected count when the whole was asked for.
pub fn compare(
    at: &str,
    expected: &Value,
    found: &Value,
    whole: bool,
    differences: &mut Vec<String>,
) {
    match (expected, found) {
        (Value::String(any), _) if any == ANY => {}
        (Value::Object(expected), Value::Object(found)) => {
            for (name, value) in expected {
                let at = format!("{at}.{name}");
                match found.get(name) {
                    Some(found) => compare(&at, value, found, whole, differences),
                    None => differences.push(format!("{at}: expected {}, is absent", short(value))),
                }
            }
            let more = found.iter().filter(|(name, _)| whole && !expected.contains_key(*name));
            for (name, value) in more {
                differences.push(format!("{at}.{name}: is not expected, got {}", short(value)));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{at}[{index}]"), expected, found, whole, differences);
            }
        }
        (Value::Number(expected), Value::Number(found)) if is_same(expected, found) => {}
        _ if expected == found => {}
        _ => differences.push(format!("{at}: expected {}, got {}", short(expected), short(found))),
    }
}

/// Whether two numbers are the same, however they are written. As doubles whole ones of many digits would be, too.
fn is_same(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one == other,
        _ => one.as_f64() == other.as_f64(),
    }
}

/// A value, cut short.
pub fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::compare;
    use serde_json::{Value, json};

    fn differences(expected: &Value, found: &Value, whole: bool) -> Vec<String> {
        let mut differences = Vec::new();
        compare("x", expected, found, whole, &mut differences);
        differences
    }

    #[test]
    fn each_difference_is_told_where_it_is() {
        let expected = json!({ "a": { "b": [1, "*", 3] }, "c": 1, "d": null });
        let found = json!({ "a": { "b": [1, { "any": "thing" }, 4] }, "d": null, "e": "more" });
        assert_eq!(
            differences(&expected, &found, true),
            [
                "x.a.b[2]: expected 3, got 4",
                "x.c: expected 1, is absent",
                "x.e: is not expected, got \"more\"",
            ]
        );
        assert_eq!(differences(&expected, &found, false).len(), 2);
        assert!(differences(&json!(1), &json!(1.0), true).is_empty());
        let (odd, even) = (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64));
        assert!(differences(&odd, &odd, true).is_empty());
        assert_eq!(differences(&odd, &even, true).len(), 1);
        assert_eq!(differences(&json!([1]), &json!([1, 2]), true).len(), 1);
        assert!(differences(&json!("a".repeat(500)), &json!(1), true)[0].len() < 300);
    }
}
