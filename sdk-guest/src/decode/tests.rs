//! Texts of serde, and what is left of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::member;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to see what cannot be read")]
struct Sample {
    count: u32,
    card: Card,
    #[serde(default)]
    items: Vec<Card>,
    #[serde(default)]
    color: Color,
    #[serde(default)]
    own: Option<Own>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "read to see what cannot be read")]
struct Card {
    number: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Color {
    #[default]
    Red,
    Green,
}

/// A type whose author quotes the value, as types of other crates do.
#[derive(Debug)]
struct Own;

impl<'de> Deserialize<'de> for Own {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Err(serde::de::Error::custom(format!("cannot read {text}, expected something else")))
    }
}

fn sample(members: &[(&str, Value)]) -> String {
    let mut sample = json!({ "count": 1, "card": { "number": "1" } });
    for (name, value) in members {
        sample[name] = value.clone();
    }
    sample.to_string()
}

/// Types that name some of what they hold.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "read to see what cannot be read")]
struct Mixed {
    #[serde(default)]
    map: BTreeMap<String, u32>,
    #[serde(default)]
    list: Option<Vec<Named>>,
    #[serde(default)]
    pair: (u32, Option<u32>),
    #[serde(default)]
    big: Option<u128>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "read to see what cannot be read")]
struct Named {
    inner_map: BTreeMap<String, Card>,
}

#[test]
fn what_is_called_by_data_is_not_named() {
    let deep = |member: &str, value: Value| json!([{ "innerMap": {} }, { member: value }]);
    for (name, value, path, message) in [
        ("map", json!({ "4242": "secret" }), "args.map", format!("a part of it: {WHOLE}")),
        ("list", deep("secret", json!(1)), "args.list[1]", "a part of it: is not valid".to_owned()),
        (
            "list",
            deep("innerMap", json!(4242)),
            "args.list[1].innerMap",
            "must be an object".to_owned(),
        ),
        (
            "list",
            deep("innerMap", json!({ "4242": {} })),
            "args.list[1].innerMap",
            "a part of it: `number` is required".to_owned(),
        ),
        ("list", json!([{}]), "args.list[0].innerMap", "is required".to_owned()),
        ("pair", json!([1, "secret"]), "args.pair", format!("a part of it: {WHOLE}")),
        ("big", json!(-1), "args.big", "is not valid".to_owned()),
        ("big", json!(1.5), "args", "a part of it: is not valid".to_owned()),
    ] {
        let error = member::<Mixed>(&json!({ name: value }).to_string(), "args").unwrap_err();
        assert_eq!(error.messages(path), [message.as_str()], "{error:?}");
        let told = format!("{error:?} {error}");
        assert!(!told.contains("4242\"") && !told.contains("secret"), "{told}");
    }
    // What the caller has called an argument is its own word.
    let error = member::<BTreeMap<String, u32>>(r#"{"a":"secret"}"#, "args").unwrap_err();
    assert_eq!(error.messages("args.a"), [WHOLE]);
}

/// A type that takes anything for a text, and then finds fault with it.
#[derive(Debug)]
struct Lenient;

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer).unwrap_or_default();
        if text == "wrong" { Err(serde::de::Error::custom("wrong")) } else { Ok(Self) }
    }
}

#[test]
fn a_list_ends_whatever_its_items_make_of_it() {
    let error = member::<Vec<Lenient>>(r#"["", "wrong"]"#, "args").unwrap_err();
    assert_eq!(error.messages("args[1]"), ["is not valid"]);
}

const WHOLE: &str = "must be a whole number from 0 to 4294967295";

#[test]
fn a_number_that_does_not_fit_is_told_what_does() {
    fn told<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let error = member::<Vec<T>>(&format!("[{text}]"), "args").unwrap_err();
        error.messages("args[0]").concat()
    }
    assert_eq!(told::<u8>("300"), "must be a whole number from 0 to 255");
    assert_eq!(told::<i8>("-129"), "must be a whole number from -128 to 127");
    let large = "must be a whole number from 0 to 18446744073709551615, written with digits alone";
    for text in ["1e3", "1.0", "18446744073709551616"] {
        assert_eq!(told::<u64>(text), large, "{text}");
    }
    assert_eq!(told::<f64>("true"), "must be a number");
}

#[test]
fn what_fits_is_read() {
    let text = sample(&[("color", json!("green")), ("items", json!([{ "number": "2" }]))]);
    assert_eq!(member::<Sample>(&text, "args").unwrap().items.len(), 1);
    let map: BTreeMap<String, u32> = member(r#"{"a":1}"#, "configuration").unwrap();
    assert_eq!(map["a"], 1);
}

#[test]
fn faults_name_the_member_and_not_its_value() {
    let secret = "4242-secret, expected a secret at line 9";
    let table = [
        (json!({}).to_string(), "args.count", "is required"),
        (sample(&[("card", json!({}))]), "args.card.number", "is required"),
        (sample(&[("count", json!(secret))]), "args.count", WHOLE),
        (sample(&[("count", json!(-4242))]), "args.count", WHOLE),
        (sample(&[("count", json!(42_424_242_424_242_u64))]), "args.count", WHOLE),
        (
            sample(&[("count", json!(4242.5))]),
            "args.count",
            "must be a whole number from 0 to 4294967295, written with digits alone",
        ),
        (sample(&[("card", json!(secret))]), "args.card", "must be an object"),
        (sample(&[("card", json!({ "number": 4242 }))]), "args.card.number", "must be a string"),
        (sample(&[("items", json!(secret))]), "args.items", "must be an array"),
        (
            sample(&[("items", json!([{ "number": "1" }, {}]))]),
            "args.items[1].number",
            "is required",
        ),
        (sample(&[("items", json!([4242]))]), "args.items[0]", "must be an object"),
        (sample(&[("color", json!(secret))]), "args.color", "must be `red` or `green`"),
        (sample(&[("own", json!(secret))]), "args.own", "is not valid"),
        (sample(&[("4242-secret", json!(1))]), "args.4242-secret", "is not valid"),
        (r#"{"count":1,"count":4242}"#.to_owned(), "args.count", "occurs twice"),
        (r#"{"count":4242"#.to_owned(), "args", "a part of it: is not valid"),
        (json!([4242]).to_string(), "args", ""),
        (json!(secret).to_string(), "args", "must be an object"),
        (json!(null).to_string(), "args", "must be an object"),
    ];
    for (text, path, message) in table {
        let error = member::<Sample>(&text, "args").unwrap_err();
        assert_eq!(error.status(), 400);
        let messages = error.messages(path);
        if !message.is_empty() {
            assert_eq!(messages, [message], "{path} of {error:?}");
        }
        let told = format!("{error:?} {error}").replace(path, "");
        assert!(!told.contains("4242") && !told.contains("secret"), "{told}");
    }
}
