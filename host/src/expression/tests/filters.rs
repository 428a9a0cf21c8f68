//! Filters by the table of decisions §4.

use serde_json::{Value, json};

use super::{evaluate, filtered};
use crate::crypto::entropy::SeededEntropy;
use crate::expression::{ExpressionError, Scope, Template};
use crate::token_type::luhn_valid;

const CARD: &str = "4242424242424242";
const AMEX: &str = "378282246310005";

fn check(table: &[(&str, Value, Value)]) {
    for (filters, data, expected) in table {
        assert_eq!(filtered(filters, data).as_ref(), Ok(expected), "{data} | {filters}");
    }
}

#[test]
fn showing_a_part() {
    check(&[
        ("last4", json!("123-45-6789"), json!("6789")),
        ("last4", json!("123"), json!("123")),
        ("last4", json!(123_456), json!("3456")),
        // The two examples of the specification.
        ("reveal_last: 4", json!("12-3456789"), json!("XX-XXX6789")),
        ("reveal_last: 4", json!("Sensitive Value"), json!("XXXXXXXXXXXalue")),
        ("reveal_last: 4, '*'", json!("123456"), json!("**3456")),
        ("reveal_last: 2, char: '#'", json!("1-2-3-4"), json!("#-#-#-4")),
        ("reveal_last: 6", json!("123456"), json!("XXXXXX")),
        ("reveal_last: 9", json!("12-34"), json!("XX-XX")),
        ("reveal_last: 0", json!("1234"), json!("XXXX")),
        // What is never masked hides nothing.
        ("reveal_last: 4", json!("-1234"), json!("-XXXX")),
        ("reveal_last: 4", json!(-1234), json!("-XXXX")),
        ("reveal_last: 5", json!("--12-34"), json!("--XX-XX")),
        ("reveal_last: 4", json!("-01234"), json!("-X1234")),
        ("reveal_last: 1", json!("--"), json!("--")),
        ("reveal: 1, 2", json!("abcdef"), json!("aXXXef")),
        ("reveal: first: 2", json!("abcdef"), json!("abXXXX")),
        ("reveal: last: 2, char: '*'", json!("abcdef"), json!("****ef")),
        ("reveal: 0, 0, 'X', '-'", json!("12-34"), json!("XX-XX")),
        ("reveal: keep: '-@.'", json!("a@b.c-d"), json!("X@X.X-X")),
        ("reveal", json!("abc"), json!("XXX")),
        // What would reveal everything reveals nothing.
        ("reveal: 3, 3", json!("abcdef"), json!("XXXXXX")),
        ("reveal: 0, 0, 'X', 'abc'", json!("abc"), json!("XXX")),
    ]);
}

#[test]
fn cards() {
    let object = json!({"number": CARD, "expiration_month": 3, "expiration_year": 2031});
    check(&[
        ("card_mask", json!(CARD), json!("XXXXXXXXXXXXXXXX")),
        ("card_mask: 'true'", json!(CARD), json!("42424242XXXXXXXX")),
        ("card_mask: 'false', 'true'", json!(CARD), json!("XXXXXXXXXXXX4242")),
        ("card_mask: 'true', 'true'", json!(AMEX), json!("378282XXXXX0005")),
        ("card_mask: true, true, '*'", json!(AMEX), json!("378282*****0005")),
        ("card_mask: bin: 'true'", object.clone(), json!("42424242XXXXXXXX")),
        // Ends are counted in digits; what separates them is kept where that is wanted.
        (
            "card_mask: true, true, 'X', '-'",
            json!("4242-4242-4242-4242"),
            json!("4242-4242-XXXX-4242"),
        ),
        ("card_mask: 'true', 'true'", json!("4242 4242 4242 4242"), json!("4242X4242XXXXXX4242")),
        ("card_mask: keep: '.'", json!("3782.822463.10005"), json!("XXXX.XXXXXX.XXXXX")),
        ("card_bin", json!(CARD), json!("42424242")),
        ("card_bin", json!(AMEX), json!("378282")),
        ("card_bin: ' '", json!(CARD), json!("4242 4242")),
    ]);
    for (format, expected) in [
        ("MM", "03"),
        ("MMYY", "0331"),
        ("MM/YY", "03/31"),
        ("MM/YYYY", "03/2031"),
        ("MM-YYYY", "03-2031"),
        ("MM_YYYY", "03_2031"),
        ("YYYY", "2031"),
        ("YYYY-MM", "2031-03"),
        ("YYYY/MM", "2031/03"),
    ] {
        check(&[(&format!("card_exp: '{format}'"), object.clone(), json!(expected))]);
    }
    // What the format does not name need not be there.
    check(&[
        ("card_exp: 'MM'", json!({"expiration_month": 3}), json!("03")),
        ("card_exp: 'YYYY'", json!({"expiration_year": 2031}), json!("2031")),
    ]);
    for (filters, data) in [
        ("card_exp: 'MM/YY'", json!({"expiration_month": 3})),
        ("card_exp: 'MMYY'", json!({"expiration_year": 2031})),
        ("card_exp: 'YY'", object.clone()),
        ("card_exp: 'MM'", json!({"number": CARD})),
        ("card_exp: 'MM'", json!(CARD)),
        ("card_mask", json!("123")),
        ("card_mask", json!({"no": 1})),
        ("card_mask", json!("4242.4242.4242.4242")),
        ("card_mask: keep: '-'", json!("4242-4242-424")),
        ("card_mask: 'perhaps'", json!(CARD)),
        // Digits that are kept would show more of a card than its BIN and its last four.
        ("card_mask: 'false', 'false', 'X', '4'", json!(CARD)),
        ("card_bin", json!("4242-4242-4242-4242")),
    ] {
        let refused = filtered(filters, &data);
        assert!(matches!(refused, Err(ExpressionError::Filter { .. })), "{filters}: {refused:?}");
    }
}

#[test]
fn aliases_keep_the_shape() {
    for filters in ["alias_card", "alias_card: 'true'", "alias_card: 'true', 'true'"] {
        let alias = filtered(filters, &json!(CARD)).unwrap();
        let alias = alias.as_str().unwrap();
        assert!(alias.len() == 16 && alias.bytes().all(|byte| byte.is_ascii_digit()), "{alias}");
        assert!(!luhn_valid(alias), "{alias} could be somebody's");
        assert_eq!(filters.contains("true"), alias.starts_with("42424242"));
        assert_eq!(filters.ends_with("'true', 'true'"), alias.ends_with("4242"));
    }
    // Of two digits that are drawn, for a number that fails the check as an alias does.
    for _ in 0..500 {
        let alias = filtered("alias_card: true, true", &json!("424242424243")).unwrap();
        let text = alias.as_str().unwrap();
        assert!(
            text.starts_with("424242") && text.ends_with("4243") && !luhn_valid(text),
            "{alias}"
        );
        assert_ne!(alias, json!("424242424243"));
    }
    let alias = filtered("alias_preserve_format: 1, 1", &json!("aB-12 é9")).unwrap();
    let alias: Vec<char> = alias.as_str().unwrap().chars().collect();
    assert_eq!((alias[0], alias[2], alias[5], alias[7]), ('a', '-', ' ', '9'));
    assert!(
        alias[1].is_ascii_uppercase() && alias[3].is_ascii_digit() && alias[4].is_ascii_digit()
    );
    assert!(alias[6].is_ascii_alphanumeric());
    let alias = filtered("alias_preserve_length: 0, 2", &json!("12-34-56")).unwrap();
    let alias = alias.as_str().unwrap();
    assert!(alias.len() == 8 && alias.ends_with("56") && !alias[..6].contains('-'), "{alias}");
    // What would keep everything is no alias.
    for (filters, text) in [
        ("alias_preserve_format: 3, 3", "123456"),
        ("alias_preserve_length: 6", "123456"),
        ("alias_preserve_format: 4, 4", "1234-5678"),
        ("alias_preserve_format: 2, 2", "AB-12"),
        ("alias_preserve_format", "!?#"),
        ("alias_preserve_length", ""),
    ] {
        let refused = filtered(filters, &json!(text)).unwrap_err();
        assert!(refused.to_string().contains("would keep the whole value"), "{refused}");
    }
}

#[test]
fn no_alias_is_the_value_itself() {
    for seed in 0..300 {
        let entropy = SeededEntropy::new(seed);
        for (filters, text) in [
            ("alias_preserve_format: 2, 1", "12-3-4"),
            ("alias_preserve_format", "7"),
            ("alias_preserve_length: 0, 1", "x4"),
        ] {
            let data = json!(text);
            let scope = Scope { data: &data, metadata: None, entropy: Some(&entropy) };
            let template = Template::parse(&format!("{{{{ data | {filters} }}}}")).unwrap();
            assert_ne!(template.evaluate(&scope).unwrap(), text, "{filters} of {seed}");
        }
    }
}

#[test]
fn json_paths() {
    let data = json!({"a": {"b": [1, {"c": "x"}]}, "list": [1, 2]});
    let rows =
        json!({"rows": [{"kind": "a", "n": 1}, {"kind": "b", "n": 7}, {"n": 2, "gone": true}]});
    check(&[
        ("json: '$.a.b[1].c'", data.clone(), json!("x")),
        ("json: '$.a'", data.clone(), data["a"].clone()),
        ("json: '$.list[-1]'", data.clone(), json!(2)),
        ("json: '$.list[?@ > 1]'", data.clone(), json!(2)),
        ("json: '$.rows[?@.kind == \"b\"].n'", rows.clone(), json!(7)),
        ("json: '$.rows[?@.n > 1 && !@.gone].kind'", rows.clone(), json!("b")),
        ("json: \"$['a']['b'][0]\"", data.clone(), json!(1)),
        // What is behind a filter is none of it.
        ("json: '$.rows[?@.kind == \"b\"][\"n\"]'", rows.clone(), json!(7)),
        ("json: '$.rows[?@.gone].*'", json!({"rows": [{"gone": 5}, {"n": 1}]}), json!(5)),
    ]);
    let chosen = json!({"want": 7, "kind": "b", "two": 2, "i": [
        {"v": 1, "n": "x"}, {"v": 7, "n": "yz", "kind": "b"}, {"v": 7, "n": "z", "kind": "a"}]});
    check(&[
        ("json: '$.i[?@.v == $.i[0].v].n'", chosen.clone(), json!("x")),
        ("json: '$.i[?@.v == $.want && $.kind == @.kind].n'", chosen.clone(), json!("yz")),
        ("json: '$.i[?(@.n == \"z\") || @.v == $.none].kind'", chosen.clone(), json!("a")),
        ("json: '$.i[?length(@.n) == $.two].v'", chosen.clone(), json!(7)),
        ("json: '$.i[?@.v<$.two && (2 > @.v)].n'", chosen.clone(), json!("x")),
    ]);
    for path in ["$.list[*]", "$.nothing", "$..b[*]", "a.b", "$["] {
        let refused = filtered(&format!("json: '{path}'"), &data);
        assert!(matches!(refused, Err(ExpressionError::Filter { .. })), "{path}: {refused:?}");
    }
}

#[test]
fn casts_text_and_encodings() {
    check(&[
        ("stringify", json!("text"), json!("text")),
        ("stringify", json!({"b": 1, "a": [true, null]}), json!(r#"{"a":[true,null],"b":1}"#)),
        ("json_stringify", json!("te\"xt"), json!(r#""te\"xt""#)),
        ("json_stringify", json!(5), json!("5")),
        ("pad_left: 6, '0'", json!(42), json!("000042")),
        ("pad_right: 4, '.'", json!("é"), json!("é...")),
        ("pad_left: 2, '0'", json!("12345"), json!("12345")),
        ("to_string", json!(1.5), json!("1.5")),
        ("to_string", json!(true), json!("true")),
        ("to_number", json!("17"), json!(17)),
        ("to_number", json!("03"), json!(3)),
        ("to_number", json!("00.5"), json!(0.5)),
        ("to_number", json!(" -1.5e2 "), json!(-150.0)),
        ("to_number", json!("-007"), json!(-7)),
        ("to_boolean", json!("TRUE"), json!(true)),
        ("to_boolean", json!(false), json!(false)),
        ("to_boolean", json!(" true\n"), json!(true)),
        ("to_boolean", json!("\tFalse "), json!(false)),
        ("to_base64", json!("hello"), json!("aGVsbG8=")),
        ("to_base16", json!("hello"), json!("68656c6c6f")),
        (
            "hmac: 'sha-1', 'key'",
            json!("The quick brown fox jumps over the lazy dog"),
            json!("de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"),
        ),
        (
            "hmac: 'sha-256', 'key'",
            json!("The quick brown fox jumps over the lazy dog"),
            json!("f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"),
        ),
    ]);
    for (filters, data) in [
        ("to_number", json!("0x10")),
        ("to_number", json!("00x10")),
        ("to_number", json!("NaN")),
        ("to_number", json!("1e400")),
        ("to_number", json!([1])),
        ("to_boolean", json!("yes")),
        ("to_boolean", json!("\u{a0}true")),
        ("to_boolean", json!(1)),
        ("to_string", json!(null)),
        ("hmac: 'md5', 'key'", json!("x")),
        ("hmac: 'sha-256'", json!("x")),
        ("pad_left: 5000", json!("x")),
        ("last4", json!({"a": 1})),
        ("reveal_last: 'x'", json!("abc")),
        ("reveal_last: 4, 'XX'", json!("abcdef")),
    ] {
        let refused = filtered(filters, &data);
        assert!(matches!(refused, Err(ExpressionError::Filter { .. })), "{filters}: {refused:?}");
    }
}

#[test]
fn an_hmac_is_that_of_its_rfc() {
    let data = json!("what do ya want for nothing?");
    let sha_512 = concat!(
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554",
        "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
    );
    // RFC 2202 and RFC 4231, test case 2 of each.
    for (algorithm, expected) in [
        ("sha-1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        ("sha-256", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ("sha-512", sha_512),
    ] {
        check(&[(&format!("hmac: '{algorithm}', 'Jefe'"), data.clone(), json!(expected))]);
    }
}

#[test]
fn liquids_own() {
    check(&[
        ("split: ' '", json!("a b c"), json!(["a", "b", "c"])),
        ("split: ' ' | first", json!("a b c"), json!("a")),
        ("split: ' ' | last", json!("a b c"), json!("c")),
        ("split: ',' | join: '-'", json!("a,b"), json!("a-b")),
        ("upcase", json!("abc"), json!("ABC")),
        ("downcase", json!("ABC"), json!("abc")),
        ("capitalize", json!("abc"), json!("Abc")),
        ("slice: 1, 2", json!("abcd"), json!("bc")),
        ("slice: -2, 2", json!("abcd"), json!("cd")),
        ("remove: '-'", json!("1-2-3"), json!("123")),
        ("replace: 'a', 'b'", json!("aaa"), json!("bbb")),
        // The second argument defaults to nothing.
        ("replace: '-'", json!("1-2-3"), json!("123")),
        ("append: '!'", json!("a"), json!("a!")),
        ("prepend: '!'", json!("a"), json!("!a")),
        ("strip", json!("  a "), json!("a")),
        ("size", json!("abc"), json!(3)),
        ("default: 'x'", json!(""), json!("x")),
        ("default: 'x'", json!(null), json!("x")),
        ("plus: 2", json!(40), json!(42)),
        ("upcase | append: '-' | append: '1'", json!("a"), json!("A-1")),
    ]);
}

#[test]
fn objects_make_the_same_text_each_time() {
    let object = json!({"d": 1, "c": "2", "b": [3], "a": null, "z": {"y": 1, "x": 2}});
    let text = object_text(&object);
    let data = json!({"o": object, "l": [object], "n": u64::MAX});
    for (expression, expected) in [
        ("data.o | append: '!'", format!("{text}!")),
        ("'!' | append: data.o", format!("!{text}")),
        ("'!' | append: data.l", format!("![{text}]")),
        ("data.l | downcase", format!("[{text}]")),
        ("data.o | remove: data.o", String::new()),
        // A number that liquid holds as an object is one all the same.
        ("'!' | append: data.n", format!("!{}", u64::MAX)),
        // Arrays of single values are what liquid makes of them.
        ("data.o.b | append: '!'", "3!".to_owned()),
    ] {
        let made = evaluate(&format!("{{{{ {expression} }}}}"), &data);
        assert_eq!(made, Ok(json!(expected)), "{expression}");
    }
}

fn object_text(object: &Value) -> String {
    filtered("stringify", object).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn sorting_is_in_one_order_whatever_there_is() {
    let (one, two, none) = (json!({"k": 1}), json!({"k": "2"}), json!({"n": 0}));
    check(&[
        (
            "sort",
            json!(["b", 2, null, "a", 10, true, 1.5]),
            json!([true, 1.5, 2, 10, "a", "b", null]),
        ),
        ("sort: 'k'", json!([none, two, one]), json!([one, two, none])),
        (
            "sort",
            json!([9_007_199_254_740_993_i64, 9_007_199_254_740_992.0, 9_007_199_254_740_992_i64]),
            json!([9_007_199_254_740_992.0, 9_007_199_254_740_992_i64, 9_007_199_254_740_993_i64]),
        ),
        ("sort", json!("one"), json!(["one"])),
    ]);
    assert!(filtered("sort: 'k'", &json!([one, 1])).is_err());
    // Sorting by what is no order panics over most mixtures of so many.
    for seed in 0..50_usize {
        let mixed = |n: usize| match (n * 7 + seed * 13) % 11 {
            n @ 0..4 => json!(n * 5),
            n @ 4..8 => json!(format!("{}", n * 3)),
            8 => json!(null),
            9 => json!([n]),
            _ => json!(n > 10),
        };
        let items: Vec<Value> = (0..60).map(mixed).collect();
        assert!(filtered("sort | size", &json!(items)).is_ok(), "{items:?}");
    }
}

#[test]
fn sorting_in_any_case() {
    let (first, second) = (json!({"n": 1, "k": "b", "x": 1}), json!({"n": 1, "k": "A", "x": 1}));
    let none = json!({"n": 0, "x": 1});
    check(&[
        ("sort_natural", json!(["b", null, "a", "C", "B"]), json!(["a", "b", "B", "C", null])),
        ("sort_natural", json!([first, second]), json!([second, first])),
        ("sort_natural: 'k'", json!([none, first, second]), json!([second, first, none])),
    ]);
    assert!(filtered("sort_natural: 'k'", &json!([first, 1])).is_err());
    assert!(filtered("sort_natural", &json!(vec![1; 10_001])).is_err());
}

#[test]
fn whole_numbers_stay_exact() {
    // Past 2^53, where fractions skip whole numbers.
    let odd = json!(9_007_199_254_740_993_i64);
    check(&[
        ("plus: 1", odd.clone(), json!(9_007_199_254_740_994_i64)),
        ("minus: 1", odd.clone(), json!(9_007_199_254_740_992_i64)),
        ("times: -1", odd.clone(), json!(-9_007_199_254_740_993_i64)),
        ("divided_by: 1", odd.clone(), odd.clone()),
        ("abs", odd.clone(), odd.clone()),
        ("ceil", odd.clone(), odd.clone()),
        ("floor", odd.clone(), odd.clone()),
        ("round", odd.clone(), odd.clone()),
        ("round: 2", odd.clone(), odd.clone()),
        ("at_most: 9007199254740992", odd.clone(), json!(9_007_199_254_740_992_i64)),
        ("at_least: 9007199254740994", odd, json!(9_007_199_254_740_994_i64)),
        ("plus: 0", json!(i64::MAX), json!(i64::MAX)),
        ("minus: 0", json!(i64::MIN), json!(i64::MIN)),
        ("plus: 2", json!("40"), json!(42)),
        ("divided_by: 2", json!(-7), json!(-3)),
        ("modulo: 3", json!(7), json!(1)),
        ("to_number", json!(u64::MAX.to_string()), json!(u64::MAX)),
        // Fractions are liquid's.
        ("plus: 0.5", json!(1), json!(1.5)),
        ("times: 2", json!(1.5), json!(3.0)),
        ("abs", json!(-1.5), json!(1.5)),
        ("abs", json!(-1e300), json!(1e300)),
        ("ceil", json!(1.2), json!(2)),
        ("floor", json!("-1.2"), json!(-2)),
        ("round", json!(2.5), json!(3)),
        ("round: 1", json!(2.25), json!(2.3)),
        ("round: 1", json!(1e19), json!(1e19)),
        ("to_number", json!("1e30"), json!(1e30)),
    ]);
}

#[test]
fn a_whole_number_that_does_not_fit_is_refused() {
    let long = json!("123456789012345678901234");
    for (filters, data) in [
        ("times: 4", json!(i64::MAX)),
        ("plus: 1", json!(i64::MAX)),
        ("minus: 1", json!(i64::MIN)),
        ("divided_by: -1", json!(i64::MIN)),
        ("abs", json!(i64::MIN)),
        ("ceil", json!(1e300)),
        ("floor", json!(-1e300)),
        ("round", json!(1e300)),
        ("round", json!("1e30")),
        ("round: 0", json!(1e19)),
        ("round", json!(u64::MAX)),
        ("minus: 1", json!(u64::MAX)),
        ("at_least: 1", json!(u64::MAX)),
        ("plus: 1", long.clone()),
        ("at_most: 1", long.clone()),
        ("ceil", long.clone()),
        ("to_number", json!("18446744073709551616")),
        ("to_number", json!("-9223372036854775809")),
        ("to_number", long),
    ] {
        let Err(ExpressionError::Filter { reason, .. }) = filtered(filters, &data) else {
            panic!("{data} | {filters}: {:?}", filtered(filters, &data));
        };
        assert!(reason.contains("64 bits"), "{data} | {filters}: {reason}");
    }
    for filters in ["divided_by: 0", "modulo: 0", "plus", "plus: 'x'", "plus: data.x"] {
        assert!(filtered(filters, &json!(1)).is_err(), "{filters}");
    }
}
