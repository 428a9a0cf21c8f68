//! Which numbers come out rounded, and where they are.

use serde_json::{Value, json};

use super::{Kept, first, is_exact, pointer};

#[test]
fn numbers_are_exact_as_far_as_64_bits_hold_them() {
    for exact in [
        "0",
        "-0.0",
        "0e999",
        "12.50",
        "18446744073709551615",
        "-9223372036854775808",
        "9007199254740992.0",
        "0.1000000000000000",
        "1e23",
        "1E+2",
        "1.7976931348623157e308",
        "123456789012.345",
    ] {
        assert!(is_exact(exact), "{exact}");
    }
    for wrong in [
        "18446744073709551616",
        "-9223372036854775809",
        "4242424242424242424242",
        "9007199254740993.0",
        "0.12345678901234567890",
        "1e-400",
        "1e400",
        "123456789012345678e3",
        "123456789012345.678",
    ] {
        assert!(!is_exact(wrong), "{wrong}");
    }
}

/// Where the first one is that comes out rounded.
fn place(text: &[u8], part: &str, kept: Kept) -> Option<String> {
    first(text, part, kept).map(|at| pointer(text, at))
}

#[test]
fn the_first_of_a_part_is_told_as_a_pointer() {
    let text = r#" { "a" : [ 1, {"b/c~d": -18446744073709551617 , "\"{": "0.12345678901234567890"}, [ ] ,
        true,1e400, 1e401], "é\u0041":{"x":null,"y":0.12345678901234567890},"z":{ } , "": {"": 1e-400} } "#;
    for (part, expected) in [
        ("", Some("/a/1/b~1c~0d")),
        ("/a", Some("/a/1/b~1c~0d")),
        ("/a/1/b~1c~0d", Some("/a/1/b~1c~0d")),
        ("/a/4", Some("/a/4")),
        ("/éA", Some("/éA/y")),
        ("/", Some("//")),
        ("/a/0", None),
        ("/a/01", None),
        ("/a/+1", None),
        ("/a/1/b~1c~0d/0", None),
        ("/a/1/\"{", None),
        ("/z", None),
        ("/gone", None),
        ("a", None),
    ] {
        assert_eq!(place(text.as_bytes(), part, Kept::All).as_deref(), expected, "{part}");
    }
    let whole = place(b" 18446744073709551616 ", "", Kept::All);
    assert_eq!(whole.as_deref(), Some(""));
    assert_eq!(place(b"[[],[-1.50,18446744073709551615]]", "", Kept::All), None);
    let value: Value = json!({ "a": { "b": [18_446_744_073_709_551_615_u64, 1.5e300] } });
    assert_eq!(place(value.to_string().as_bytes(), "", Kept::All), None);
}

#[test]
fn what_is_not_kept_does_not_count() {
    let text = r#"{"a": {"n": 1e400, "m": 0}, "l": [1e400, {"n": 1e401}], "t": 1e402}"#;
    let whole = json!({ "a": { "n": 1, "m": 0 }, "l": [1, { "n": 1 }], "t": 1 });
    for (gone, left, expected) in [
        ("/a/m", None, Some("/a/n")),
        ("/a/n", None, Some("/l/0")),
        ("/a", None, Some("/l/0")),
        ("/a", Some("/l/0"), Some("/l/1/n")),
        ("/a", Some("/l"), Some("/t")),
    ] {
        let mut kept = whole.clone();
        for path in [Some(gone), left].into_iter().flatten() {
            *kept.pointer_mut(path).unwrap() = Value::Null;
        }
        let found = place(text.as_bytes(), "", Kept::Only(&kept));
        assert_eq!(found.as_deref(), expected, "{gone} {left:?}");
    }
    let mut fewer = whole;
    fewer["a"].as_object_mut().unwrap().remove("n");
    assert_eq!(place(text.as_bytes(), "/a", Kept::Only(&fewer)), None);
    let text = Value::from("1e400 cards");
    assert_eq!(place(b"1e400 cards", "", Kept::Only(&text)), None);
}

#[test]
fn of_members_with_one_name_the_last_counts() {
    for (text, expected) in [
        (r#"{"a": 1e400, "a": 1}"#, None),
        (r#"{"a": 1, "a": 1e400}"#, Some("/a")),
        (r#"{"a": 1e400, "b": 1e400, "a": 1}"#, Some("/b")),
        (r#"{"a": 1e400, "\u0061": 1}"#, None),
        (r#"{"a": {"n": 1e400}, "a": {"m": 1}}"#, None),
        (r#"{"a": [{"n": 1e400, "n": 1}, {"n": 1e400, "n": {}}]}"#, None),
    ] {
        assert_eq!(place(text.as_bytes(), "", Kept::All).as_deref(), expected, "{text}");
        assert_eq!(place(text.as_bytes(), "/a/n", Kept::All), None, "{text}");
    }
}

#[test]
fn what_is_no_json_is_gone_through_all_the_same() {
    let deep = [b"[".repeat(20_000), b"{\"a\":".repeat(20_000)].concat();
    let closed = [b"[1,".repeat(20_000), b"]".repeat(20_000)].concat();
    let texts: [&[u8]; 11] = [
        &deep,
        &closed,
        b"",
        b"{",
        b"[1",
        b"{\"a",
        b"{a:1,}",
        b"]]",
        b"\"\\",
        b"[\0",
        b"{\"a\"]1e400",
    ];
    for text in texts {
        assert_eq!(place(text, "", Kept::All), None);
        for target in [0, text.len() / 2, text.len()] {
            drop(pointer(text, target));
        }
    }
}
