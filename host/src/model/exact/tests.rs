//! Which numbers are kept as they were written, and what is said of the others.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{check, is_exact, is_too_large, parse, place_of, without_leading_zeros};

fn paths(text: &str) -> Vec<String> {
    parse(text.as_bytes()).unwrap();
    let Err(faults) = check(text.as_bytes(), |name| name != "ignored") else {
        return Vec::new();
    };
    faults.into_map().into_keys().collect()
}

#[test]
fn no_member_is_read_as_anything_but_itself() {
    // Two that the parser has for its own use, where some feature of it is on.
    for name in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
        for value in [r#""1""#, r#""nope""#, r#""123456789012345678901""#, r#"{"a":1}"#, "1"] {
            let text = format!(r#"{{"{name}":{value},"b":2}}"#);
            let parsed = parse(text.as_bytes()).unwrap();
            assert_eq!(parsed.as_object().unwrap().len(), 2, "{text}");
            assert_eq!(parsed.to_string(), text);
            let text = format!(r#"{{"{name}":{value}}}"#);
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }
}

#[test]
fn places_are_counted_in_characters() {
    for (text, place) in [
        (r#"{"abc":x}"#, (1, 8)),
        (r#"{"ééé":x}"#, (1, 8)),
        ("{\"é\": 1,\n\"\u{1f600}\u{1f600}\": [1,}", (2, 10)),
        ("{\"é\": ", (1, 6)),
        ("{\n", (2, 0)),
        ("", (1, 0)),
        ("[1,\r\n\"é", (2, 2)),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert_eq!(place_of(&error, text.as_bytes()), place, "{text}: {error}");
    }
    let error = parse(b"[\"\xff\", x]").unwrap_err();
    assert!(place_of(&error, b"[\"\xff\", x]").1 > 0);
}

#[test]
fn numbers_that_are_kept_as_they_are() {
    for text in [
        "0",
        "-0",
        "0.0",
        "-0.0e7",
        "0e999",
        "1",
        "1.0",
        "1.50",
        "1e2",
        "1E+2",
        "12.5e-3",
        "18446744073709551615",
        "-9223372036854775808",
        "9007199254740993",
        "0.1",
        "0.30000000000000004",
        "1.7976931348623157e308",
        "5e-324",
        "123456789012345.6",
        "1000000000000000000000000",
        "1e300",
        "100000000000000000000.000",
        "-123456789012345e+99",
        "0.1234567890123e-99",
        "999999999999999e99",
    ] {
        assert!(is_exact(text), "{text}");
    }
}

#[test]
fn zeros_in_front_are_dropped_behind_a_sign_too() {
    for (text, expected) in [
        ("007", "7"),
        ("-007", "-7"),
        ("00.5", "0.5"),
        ("-00.5", "-0.5"),
        ("000", "0"),
        ("-000", "-0"),
        ("-7", "-7"),
        ("700", "700"),
        // No number before, and none after.
        ("-", "-"),
        ("--07", "--07"),
        ("+07", "+07"),
        ("", ""),
    ] {
        assert_eq!(without_leading_zeros(text), expected, "{text}");
    }
}

#[test]
fn numbers_that_are_larger_than_any_double() {
    let long = "9".repeat(400);
    for text in ["1e400", "-1e400", "2E+308", long.as_str()] {
        assert!(is_too_large(text), "{text}");
    }
    for text in ["1e308", "-1", "0e999", "1e-400", "inf", "-infinity", "NaN", "1e", "1.e400", ""] {
        assert!(!is_too_large(text), "{text}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (text, told) in [
        ("1e400", "is too large"),
        ("-1e-400", "is too small"),
        ("4e-324", "has more digits"),
        ("9007199254740993.5", "has more digits"),
    ] {
        let faults = check(format!("[{text}]").as_bytes(), |_| true).unwrap_err().into_map();
        assert!(faults["[0]"][0].starts_with(told), "{text}: {faults:?}");
    }
}

#[test]
fn numbers_that_would_be_rounded() {
    for text in [
        "12345678901234567890123",
        "18446744073709551616.5",
        "18446744073709551617",
        "-9223372036854775809",
        "0.1234567890123456789012",
        "9007199254740993.0",
        "9007199254740993e0",
        "0.1000000000000000055511151231257827",
        "1e-400",
        "4e-324",
        "1.00000000000000000001",
        "-123456789.0123456789",
    ] {
        assert!(!is_exact(text), "{text}");
    }
}

#[test]
fn each_is_named_by_its_path() {
    let long = "12345678901234567890123";
    for (text, expected) in [
        (long.to_owned(), vec![""]),
        (format!(" [ 1 , {long} , [ {long} ] ] "), vec!["[1]", "[2][0]"]),
        (format!(r#"{{"a":{{"b":[0,{long}]}},"c":1e-999}}"#), vec!["a.b[1]", "c"]),
        (format!(r#"{{"ignored":{long},"a":{{"ignored":{long}}}}}"#), vec!["a.ignored"]),
        (format!(r#"{{"\"a\\":{long},"é":{long}}}"#), vec![r#""a\"#, "é"]),
        (format!(r#"{{"{long}":"{long}","{long}e5":[true,null,false,{{}},[],""]}}"#), vec![]),
        (format!(r#"["\"{long}","\\",{long}]"#), vec!["[2]"]),
        ("[]".to_owned(), vec![]),
    ] {
        assert_eq!(paths(&text), expected, "{text}");
    }
}

#[test]
fn what_is_too_large_hides_nothing_else() {
    let digits = "9".repeat(400);
    for (text, expected) in [
        ("1e400", vec![""]),
        (r#"{"a":[1e309,-1E+999,2],"ignored":1e400}"#, vec!["a[0]", "a[1]"]),
        (r#"{"a\"":"1e400","b":DIGITS,"c":-DIGITS.5}"#, vec!["b", "c"]),
    ] {
        assert_eq!(paths(&text.replace("DIGITS", &digits)), expected, "{text}");
    }
    // Beyond what is named nothing is looked at any more.
    let many = format!("[{}1]", "1e400,".repeat(1_000));
    assert_eq!(check(many.as_bytes(), |_| true).unwrap_err().into_map().len(), 101);
    assert_eq!(parse(br#"["1e400", -1e400]"#).unwrap(), json!(["1e400", -1e308]));
    // What is no JSON is told where it is, and never taken.
    for text in ["[1e400,\n 1e400,\n x]", "[1e400,\n 2,\n  ]"] {
        assert_eq!(parse(text.as_bytes()).unwrap_err().line(), 3, "{text}");
    }
    for text in
        ["1e400e5", "1e400.", "[1e400, 01e400]", "[1e400, 1.e400]", "+1e400", "1e400\"", "1e400-"]
    {
        parse(text.as_bytes()).unwrap_err();
    }
    parse(format!("[1e400,{}", "[".repeat(1_000_000)).as_bytes()).unwrap_err();
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "[\\x00-\\x7f]{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[\\x00-\\x7f]{0,4}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_we_write_ourselves_is_exact(value in any_json()) {
        prop_assert_eq!(paths(&value.to_string()), Vec::<String>::new());
        prop_assert_eq!(paths(&format!("{value:#}")), Vec::<String>::new());
    }

    #[test]
    fn a_digit_more_is_found(value in any_json(), whole in 1_u64..u64::MAX) {
        let long = format!("{whole}00000000000000000001");
        let text = format!(r#"{{"a":[{value},{long}],"b":{value}}}"#);
        prop_assert_eq!(paths(&text), ["a[1]"]);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}\",:0-9eE.+-]{0,40}") {
        let _ = check(text.as_bytes(), |_| true);
        let _ = parse(text.as_bytes());
    }
}
