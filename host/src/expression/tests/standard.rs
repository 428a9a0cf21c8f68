//! Liquid's standard filters (decisions §4), each by an input and what comes of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::filtered;
use crate::expression::filters::JSON_OR_NOTHING;
use crate::expression::language::LANGUAGE;

/// Of filters that there are here, those that are not Liquid's.
const OURS: &[&str] = &[
    "alias_card",
    "alias_preserve_format",
    "alias_preserve_length",
    "card_bin",
    "card_exp",
    "card_mask",
    "hmac",
    "json",
    "json_stringify",
    "last4",
    "pad_left",
    "pad_right",
    "reveal",
    "reveal_last",
    "stringify",
    "to_base16",
    "to_base64",
    "to_boolean",
    "to_number",
    "to_string",
];

/// Filters on an input, and the result.
type Row = (&'static str, Value, Value);

fn table() -> Vec<Row> {
    [of_text(), of_numbers(), of_arrays(), of_anything()].concat()
}

fn of_text() -> Vec<Row> {
    vec![
        ("append: '.txt'", json!("file"), json!("file.txt")),
        ("append: 7", json!(4), json!("47")),
        ("capitalize", json!("word of it"), json!("Word of it")),
        ("capitalize", json!("über"), json!("Über")),
        ("downcase", json!("ÄB-Cd1"), json!("äb-cd1")),
        ("escape", json!("<a & 'b'>"), json!("&lt;a &amp; &#39;b&#39;&gt;")),
        ("escape_once", json!("&lt;1 & 2"), json!("&lt;1 &amp; 2")),
        ("lstrip", json!(" \t a "), json!("a ")),
        ("newline_to_br", json!("a\nb"), json!("a<br />\nb")),
        ("prepend: 'https://'", json!("x.example"), json!("https://x.example")),
        ("remove: 'ab'", json!("abcabd"), json!("cd")),
        ("remove_first: 'ab'", json!("abcabd"), json!("cabd")),
        ("replace: 'a', 'xy'", json!("banana"), json!("bxynxynxy")),
        ("replace: 'an'", json!("banana"), json!("ba")),
        ("replace_first: 'a', 'x'", json!("banana"), json!("bxnana")),
        ("rstrip", json!(" a \n"), json!(" a")),
        ("slice: 2", json!("abcd"), json!("c")),
        ("slice: 1, 9", json!("äöüß"), json!("öüß")),
        ("slice: -3, 2", json!("abcd"), json!("bc")),
        ("split: ', '", json!("a, b,c"), json!(["a", "b,c"])),
        ("split: ''", json!("aé"), json!(["a", "é"])),
        ("strip", json!("\n a b "), json!("a b")),
        ("strip_html", json!("a <b>b</b><br/> c"), json!("a b c")),
        ("strip_newlines", json!("a\r\nb\nc"), json!("abc")),
        ("truncate: 5", json!("abcdefgh"), json!("ab...")),
        ("truncate: 5, ''", json!("abcdefgh"), json!("abcde")),
        ("truncate: 8", json!("abcdefgh"), json!("abcdefgh")),
        ("truncate: 4", json!("äöüßéñ"), json!("ä...")),
        ("truncate: 4", json!("äöüß"), json!("äöüß")),
        ("truncate: 5, '…'", json!("abcdefgh"), json!("abcd…")),
        ("truncate: 2", json!("abcdefgh"), json!("...")),
        ("truncate", json!("x".repeat(51)), json!("x".repeat(47) + "...")),
        ("truncate: 3", json!(12345), json!("...")),
        ("truncatewords: 2", json!("one two three"), json!("one two...")),
        ("upcase", json!("äb-Cd1"), json!("ÄB-CD1")),
        ("url_decode", json!("a%20b%26c"), json!("a b&c")),
        ("url_decode", json!("a+b"), json!("a b")),
        ("url_decode", json!("%C3%A9"), json!("é")),
        // A space as in paths, not as in forms: it is decoded to one everywhere.
        ("url_encode", json!("a b&c/é"), json!("a%20b%26c%2F%C3%A9")),
    ]
}

fn of_numbers() -> Vec<Row> {
    vec![
        ("abs", json!(-4), json!(4)),
        ("at_least: 5", json!(4), json!(5)),
        ("at_most: 5", json!(6), json!(5)),
        ("ceil", json!(4.1), json!(5)),
        ("divided_by: 4", json!(18), json!(4)),
        ("divided_by: 4.0", json!(18), json!(4.5)),
        ("floor", json!(4.9), json!(4)),
        ("minus: 3", json!(10), json!(7)),
        ("modulo: 4", json!(18), json!(2)),
        ("plus: 3", json!(10), json!(13)),
        ("round", json!(4.5), json!(5)),
        ("round: 2", json!(4.567), json!(4.57)),
        ("times: 3", json!(7), json!(21)),
    ]
}

fn of_arrays() -> Vec<Row> {
    let rows = json!([{"k": "b", "n": 2}, {"k": "a", "n": 1}, {"n": 3}]);
    vec![
        ("compact", json!([1, null, 2, null]), json!([1, 2])),
        ("concat: data", json!([1, 2]), json!([1, 2, 1, 2])),
        ("first", json!(["a", "b"]), json!("a")),
        ("join: '-'", json!(["a", 1, true]), json!("a-1-true")),
        ("join", json!(["a", "b"]), json!("a b")),
        ("last", json!(["a", "b"]), json!("b")),
        ("map: 'n'", rows.clone(), json!([2, 1, 3])),
        ("reverse", json!([1, 2, 3]), json!([3, 2, 1])),
        ("size", json!([1, 2, 3]), json!(3)),
        ("size", json!("äöü"), json!(3)),
        ("size", json!({"a": 1, "b": [1, 2, 3]}), json!(2)),
        ("size", json!(1234), json!(4)),
        ("size", json!(null), json!(0)),
        ("slice: 1, 2", json!([1, 2, 3, 4]), json!([2, 3])),
        ("sort", json!([3, 1, 2]), json!([1, 2, 3])),
        ("sort: 'n'", rows.clone(), json!([rows[1], rows[0], rows[2]])),
        ("sort_natural", json!(["b", "A", "c"]), json!(["A", "b", "c"])),
        ("uniq", json!(["b", "a", "b"]), json!(["b", "a"])),
        ("where: 'k', 'a'", rows.clone(), json!([rows[1]])),
        ("where: 'k'", rows.clone(), json!([rows[0], rows[1]])),
    ]
}

fn of_anything() -> Vec<Row> {
    vec![
        ("date: '%d.%m.%Y'", json!("2030-08-26"), json!("26.08.2030")),
        ("date: '%H:%M'", json!("2030-08-26 19:23:57 +0000"), json!("19:23")),
        ("date: '%Y'", json!("1980-02-03T00:00:00Z"), json!("1980")),
        ("date: '%Y'", json!("1950-02-03T00:00:00Z"), json!("1950")),
        ("date: '%Y'", json!(" 1980-02-03 "), json!("1980")),
        ("date: '%Y-%m'", json!("2030-08-26T19:23:57.000+00:00"), json!("2030-08")),
        ("date: '%d %H:%M %z'", json!("2020-02-03T04:05:06+02:00"), json!("03 04:05 +0200")),
        ("date: '%H:%M:%S %z'", json!("2020-02-03t04:05-0330"), json!("04:05:00 -0330")),
        ("date: '%s'", json!("2020-02-03T04:05:06.1234567891+02"), json!("1580695506")),
        ("date: '%Y-%m-%d'", json!(318_384_000), json!("1980-02-03")),
        ("date: '%Y-%m-%d'", json!(318_384_000.0), json!("1980-02-03")),
        ("date: '%Y-%m-%d'", json!("318384000"), json!("1980-02-03")),
        ("date: '%Y'", json!(-86_400), json!("1969")),
        ("date: '%d %H:%M:%S'", json!("2016-12-31T23:59:60Z"), json!("31 23:59:59")),
        ("date: '%H:%M:%S %z'", json!("2017-01-01T01:59:60.5+02:00"), json!("01:59:59 +0200")),
        // What is no moment stays itself, and so does what liquid has no offset for.
        ("date: '%Y'", json!("2020-02-03T04:05:61Z"), json!("2020-02-03T04:05:61Z")),
        ("date: '%Y'", json!("2020-02-03T04:05:06+20:00"), json!("2020-02-03T04:05:06+20:00")),
        ("date: '%Y'", json!("2020-02-30T00:00:00Z"), json!("2020-02-30T00:00:00Z")),
        ("date: '%Y'", json!(1.5), json!(1.5)),
        ("date: '%Y'", json!(u64::MAX), json!(u64::MAX)),
        ("date: ''", json!(318_384_000), json!(318_384_000)),
        ("default: 'none'", json!(null), json!("none")),
        ("default: 'none'", json!(false), json!("none")),
        ("default: 'none'", json!([]), json!("none")),
        ("default: 'none'", json!(0), json!(0)),
        ("default: 'none'", json!(u64::MAX), json!(u64::MAX)),
    ]
}

#[test]
fn each_gives_what_liquid_says() {
    let other = |(filters, data, expected): &Row| {
        let made = filtered(filters, data);
        (made.as_ref() != Ok(expected)).then(|| format!("{data} | {filters}: {made:?}"))
    };
    assert_eq!(table().iter().filter_map(other).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn each_that_there_is_stands_in_a_table() {
    let named = |(filters, ..): &Row| filters.split(':').next().unwrap_or_default().trim();
    let tested: BTreeSet<&str> = table().iter().map(named).collect();
    let there: BTreeSet<&str> =
        LANGUAGE.filters.plugin_names().filter(|name| *name != JSON_OR_NOTHING).collect();
    let expected: BTreeSet<&str> = tested.iter().chain(OURS).copied().collect();
    assert_eq!(there, expected);
}
