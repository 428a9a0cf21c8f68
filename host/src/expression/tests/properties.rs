//! What must hold for any expression on any data.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{evaluate, filtered, work};
use crate::crypto::entropy::SeededEntropy;
use crate::expression::{Arguments, Mask, Scope, Template};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "[0-9]{12,19}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,6}|number", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Sources of the language's own words, most of them nonsense.
fn sources() -> impl Strategy<Value = String> {
    let words = vec![
        "{{",
        "}}",
        " data ",
        "| ",
        ".number",
        "[0]",
        "['a']",
        "last4",
        "reveal_last: 4",
        "reveal: 1, 2",
        "card_mask",
        "alias_card",
        "json: '$..*'",
        "stringify",
        "pad_left: 9",
        "to_number",
        "hmac: 'sha-256', 'k'",
        "split: ''",
        "first",
        "append: data",
        "replace: '', 'x'",
        "slice: -1, 5",
        "default: 1",
        "'",
        "\"",
        "{%",
        "%}",
        "size",
        "times: 9999999999",
        "divided_by: 0",
        "date: '%Y'",
        "sort",
        "map: 'a'",
        "truncate: -5",
        "é",
        "-",
    ];
    prop::collection::vec(prop::sample::select(words), 0..12).prop_map(|words| words.concat())
}

proptest! {
    /// Short texts are masked without liquid, to the same effect.
    #[test]
    fn the_last_characters_are_shown_alike_by_either_way(
        data in values(),
        text in prop_oneof![".{0,30}", "[0-9-]{0,20}", "(ab-é){300,400}"],
        path in prop_oneof![Just("data"), Just("data.number"), Just("data.number.a")],
        shown in 0_usize..40,
    ) {
        let number = json!({"number": text.clone()});
        for data in [data, Value::String(text), number] {
            let ours = evaluate(&format!("{{{{ {path} | reveal_last: {shown} }}}}"), &data);
            let liquids = evaluate(&format!("{{{{ {path} | reveal_last: {shown}, 'X' }}}}"), &data);
            prop_assert_eq!(ours, liquids);
        }
    }

    /// A path of names is followed without liquid, to the same effect.
    #[test]
    fn what_a_path_of_names_finds_is_alike_by_either_way(
        inner in values(),
        names in prop::collection::vec("number|a|b", 1..4),
    ) {
        let below = json!({"number": inner.clone(), "a": {"b": inner.clone(), "number": [inner]}});
        for data in [below.clone(), json!({"b": below, "number": {}}), json!([below]), json!("a")] {
            let ours = filtered(&format!("json: '$.{}'", names.join(".")), &data);
            let liquids = filtered(&format!("json: \"$['{}']\"", names.join("']['")), &data);
            prop_assert_eq!(ours, liquids);
        }
    }

    #[test]
    fn any_text_is_a_template_or_refused(source in ".{0,80}", data in values()) {
        let _ = evaluate(&source, &data);
    }

    #[test]
    fn words_of_the_language_evaluate_or_are_refused_without_telling(source in sources(), secret in "[A-Z]{12}") {
        let data = json!({"number": secret, "a": [secret]});
        if let Err(error) = evaluate(&source, &data) {
            prop_assert!(!error.to_string().contains(&secret));
        }
        let _ = filtered(&source, &data);
    }

    #[test]
    fn a_value_alone_comes_back_as_it_is(data in values()) {
        prop_assume!(!data.is_null());
        prop_assert_eq!(evaluate("{{ data }}", &data), Ok(data));
    }

    #[test]
    fn reveal_last_shows_at_most_what_it_says(text in "[a-zA-Z0-9 -]{1,30}", shown in 0..12_usize) {
        let masked = filtered(&format!("reveal_last: {shown}, '*'"), &json!(text)).unwrap();
        let masked: Vec<char> = masked.as_str().unwrap().chars().collect();
        let text: Vec<char> = text.chars().collect();
        prop_assert_eq!(masked.len(), text.len());
        let hides = text.iter().take(text.len().saturating_sub(shown)).any(|c| *c != '-');
        let kept = if hides { shown } else { 0 };
        for (index, (masked, c)) in masked.iter().zip(&text).enumerate() {
            let expected = if *c == '-' || index >= text.len() - kept { *c } else { '*' };
            prop_assert_eq!(*masked, expected);
        }
    }

    #[test]
    fn aliases_of_one_seed_differ_from_the_number(number in "[0-9]{12,19}", seed in any::<u64>()) {
        let entropy = SeededEntropy::new(seed);
        let data = json!(number);
        let scope = Scope { data: &data, metadata: None, entropy: Some(&entropy) };
        let alias = Template::parse("{{ data | alias_card: 'true', 'true' }}").unwrap().evaluate(&scope).unwrap();
        let alias = alias.as_str().unwrap();
        let bin = if number.len() >= 16 { 8 } else { 6 };
        prop_assert_eq!(alias.len(), number.len());
        prop_assert_eq!(&alias[..bin], &number[..bin]);
        prop_assert_eq!(&alias[number.len() - 4..], &number[number.len() - 4..]);
        prop_assert!(!crate::token_type::luhn_valid(alias));
    }

    #[test]
    fn masks_and_arguments_of_any_json_are_read_or_refused(mask in values(), data in values(), source in sources()) {
        let entropy = SeededEntropy::new(7);
        for mask in [mask, json!({"a": [source]})] {
            if let Ok(mask) = Mask::parse(&mask) {
                let _ = mask.evaluate(&data, &entropy, &work());
            }
            if let Ok(arguments) = Arguments::parse(&mask) {
                let _ = arguments.fill(&|_| None, &entropy, &work());
            }
        }
    }
}
