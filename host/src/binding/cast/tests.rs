use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Uncastable, cast};
use crate::limits::JSON_DEPTH_MAX;
use crate::model::exact;
use crate::model::parameter::ParameterType::{self, Array, Boolean, Number, Object, String};

const ALL: [ParameterType; 5] = [String, Number, Boolean, Object, Array];

#[test]
fn casts() {
    for (from, to, expected) in [
        (json!(42), String, json!("42")),
        (json!(-7), String, json!("-7")),
        (json!(1.5), String, json!("1.5")),
        (json!(u64::MAX), String, json!("18446744073709551615")),
        (json!(true), String, json!("true")),
        (json!(false), String, json!("false")),
        (json!("0"), Number, json!(0)),
        (json!("42"), Number, json!(42)),
        (json!("-42"), Number, json!(-42)),
        (json!("42.0"), Number, json!(42.0)),
        (json!("1e3"), Number, json!(1000.0)),
        (json!("1.25E-2"), Number, json!(0.0125)),
        (json!("18446744073709551615"), Number, json!(u64::MAX)),
        (json!("-9223372036854775808"), Number, json!(i64::MIN)),
        (json!("true"), Boolean, json!(true)),
        (json!("false"), Boolean, json!(false)),
        (json!("True"), Boolean, json!(true)),
        (json!("FALSE"), Boolean, json!(false)),
        // As a template or a form leaves it around a value.
        (json!(" 12"), Number, json!(12)),
        (json!("12 "), Number, json!(12)),
        (json!("\t-1.5\r\n"), Number, json!(-1.5)),
        (json!(" true"), Boolean, json!(true)),
        (json!("False\n"), Boolean, json!(false)),
        (json!("{}"), Object, json!({})),
        (json!(" {\"a\": [1, \"x\"]} "), Object, json!({"a": [1, "x"]})),
        (json!("[]"), Array, json!([])),
        (json!("[{\"a\": null}, 1]"), Array, json!([{"a": null}, 1])),
    ] {
        assert_eq!(cast(from.clone(), to), Ok(expected), "{from} to {to}");
    }
}

#[test]
fn whole_numbers_stay_whole() {
    for (text, number) in [
        ("03", "3"),
        ("0012", "12"),
        ("00", "0"),
        ("00.50", "0.5"),
        ("-007", "-7"),
        ("-00.5", "-0.5"),
        ("0018446744073709551615", "18446744073709551615"),
    ] {
        assert_eq!(cast(json!(text), Number).unwrap().to_string(), number, "{text}");
    }
    for text in ["42", "0", "-1", "18446744073709551615"] {
        let number = cast(json!(text), Number).unwrap();
        assert_eq!(number.to_string(), text);
    }
    assert_eq!(cast(json!("42.0"), Number).unwrap().to_string(), "42.0");
    assert!(cast(json!("-0"), Number).is_ok_and(|zero| zero.as_f64() == Some(0.0)));
}

#[test]
fn text_that_is_no_number() {
    for text in [
        "", " ", "abc", "\u{a0}42", "+42", "- 42", "0 42", "0x42", "00x2a", ".5", "5.", "1e",
        "1e+", "0x2a", "1_000", "1,000", "NaN", "nan", "Infinity", "-inf", "--1", "-", "٤٢",
        "true", "null", "\"42\"", "[1]",
    ] {
        assert_eq!(cast(json!(text), Number), Err(Uncastable::Number), "{text:?}");
    }
    for text in [
        "18446744073709551616",
        "-9223372036854775809",
        "0.1234567890123456789012",
        &"9".repeat(40),
    ] {
        assert_eq!(cast(json!(text), Number), Err(Uncastable::Precision), "{text}");
    }
    for text in ["1e-400", " -1e-400", "0001e-999"] {
        assert_eq!(cast(json!(text), Number), Err(Uncastable::TooSmall), "{text}");
    }
    for text in ["1e400", "-1e400", "001e400", " 1e999 ", &"9".repeat(400)] {
        assert_eq!(cast(json!(text), Number), Err(Uncastable::TooLarge), "{text}");
    }
}

#[test]
fn what_cannot_be_cast() {
    for (from, to, fault) in [
        (json!(null), String, Uncastable::String),
        (json!([]), String, Uncastable::String),
        (json!({"a": 1}), String, Uncastable::String),
        (json!(true), Number, Uncastable::Number),
        (json!(null), Number, Uncastable::Number),
        (json!(["1"]), Number, Uncastable::Number),
        (json!(1), Boolean, Uncastable::Boolean),
        (json!("1"), Boolean, Uncastable::Boolean),
        (json!("yes"), Boolean, Uncastable::Boolean),
        (json!("\u{a0}true"), Boolean, Uncastable::Boolean),
        (json!("1e400"), Number, Uncastable::TooLarge),
        (json!(null), Boolean, Uncastable::Boolean),
        (json!([]), Object, Uncastable::Object),
        (json!("[]"), Object, Uncastable::Object),
        (json!("{"), Object, Uncastable::Object),
        (json!("{} {}"), Object, Uncastable::Object),
        (json!("\"{}\""), Object, Uncastable::Object),
        (json!(1), Object, Uncastable::Object),
        (json!(null), Object, Uncastable::Object),
        (json!({}), Array, Uncastable::Array),
        (json!("{}"), Array, Uncastable::Array),
        (json!("a,b"), Array, Uncastable::Array),
        (json!(false), Array, Uncastable::Array),
    ] {
        assert_eq!(cast(from.clone(), to), Err(fault), "{from} to {to}");
        let name = format!("cannot be cast to {to}: ");
        assert!(fault.to_string().starts_with(&name), "{fault}");
    }
}

#[test]
fn numbers_within_json_text_stay_what_they_are() {
    let text = |number: &str| json!(format!("[{{\"a\": {number}}}]"));
    assert_eq!(cast(text("0.1"), Array), Ok(json!([{"a": 0.1}])));
    assert_eq!(cast(text("12345678901234567890123"), Array), Err(Uncastable::PrecisionWithin));
    assert_eq!(cast(text("1e400"), Array), Err(Uncastable::TooLargeWithin));
    assert_eq!(cast(json!("{\"a\": -1E999}"), Object), Err(Uncastable::TooLargeWithin));
    assert_eq!(cast(json!("[1e400"), Array), Err(Uncastable::TooLargeWithin));
    assert_eq!(cast(json!("[1e300"), Array), Err(Uncastable::Array));
}

#[test]
fn json_text_has_a_depth() {
    let nested = |levels: usize| json!("[".repeat(levels) + &"]".repeat(levels));
    assert!(cast(nested(JSON_DEPTH_MAX), Array).is_ok());
    assert_eq!(cast(nested(JSON_DEPTH_MAX + 1), Array), Err(Uncastable::Depth));
    // Beyond what the parser itself follows.
    assert_eq!(cast(nested(100_000), Array), Err(Uncastable::Depth));
    let objects = "{\"a\":".repeat(JSON_DEPTH_MAX) + "[]" + &"}".repeat(JSON_DEPTH_MAX);
    assert_eq!(cast(json!(objects), Object), Err(Uncastable::Depth));
}

proptest! {
    #[test]
    fn integers_survive_the_way_through_text(number: i64) {
        let text = cast(json!(number), String).unwrap();
        prop_assert_eq!(cast(text, Number), Ok(json!(number)));
    }

    #[test]
    fn floats_survive_the_way_through_text(number in prop::num::f64::NORMAL) {
        let text = cast(json!(number), String).unwrap();
        prop_assert_eq!(cast(text, Number), Ok(json!(number)));
    }

    #[test]
    fn any_text_is_answered(text in "\\PC*", near in "[0-9eE+.\\[\\]{}\":truefals -]{0,12}") {
        for text in [text, near] {
            for to in ALL {
                let Ok(value) = cast(json!(text), to) else { continue };
                // What came out has the type, so that casting once more changes nothing.
                prop_assert_eq!(cast(value.clone(), to), Ok(value));
            }
        }
    }

    #[test]
    fn numbers_are_what_json_takes_for_numbers(
        zeros in 0..3_usize,
        text in "[-+]?([1-9][0-9]{0,11}|0)?([.][0-9]{0,6})?([eE][-+]?[0-9]{0,2})?",
    ) {
        // Zeros in front change nothing, where a digit follows.
        let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
        let zeros = zeros * usize::from(digits.starts_with(|c: char| c.is_ascii_digit()));
        let ours = cast(json!(format!("{sign}{}{digits}", "0".repeat(zeros))), Number);
        let json: Option<Value> = serde_json::from_str(&text).ok();
        match ours {
            // It is one, and would come out as another.
            Err(Uncastable::Precision) => {
                prop_assert!(json.is_some() && !exact::is_exact(&text));
            }
            ours => prop_assert_eq!(ours.ok(), json),
        }
    }
}
