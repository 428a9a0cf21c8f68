//! What evaluating may cost, whatever it is given; and values at the edges of what liquid can hold.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{arguments_work, evaluate, filtered, work};
use crate::crypto::entropy::SeededEntropy;
use crate::expression::{Arguments, ExpressionError, Mask, Scope, Template, TokenParts};

/// An object of this many members.
fn wide(members: usize) -> Value {
    Value::Object((0..members).map(|n| (format!("m{n}"), json!("x"))).collect::<Map<_, _>>())
}

fn too_complex(outcome: &Result<Value, ExpressionError>) -> bool {
    *outcome == Err(ExpressionError::TooComplex)
}

#[test]
fn doubling_ends_soon() {
    let mut source = "{{ data".to_owned();
    for _ in 0..15 {
        source.push_str(" | append: data");
    }
    source.push_str(" | size }}");
    assert!(evaluate(&source, &json!("x".repeat(100))).is_ok());
    assert!(too_complex(&evaluate(&source, &json!("x".repeat(1 << 20)))));
}

#[test]
fn many_expressions_on_large_data_share_one_allowance() {
    let data = wide(60_000);
    let entropy = SeededEntropy::new(1);
    let small = Mask::parse(&json!(vec!["{{ data.m0 | last4 }}"; 300])).unwrap();
    assert!(small.evaluate(&data, &entropy, &work()).is_ok());
    let large = Mask::parse(&json!(vec!["{{ data | stringify | size }}"; 300])).unwrap();
    let faults = large.evaluate(&json!("x".repeat(1 << 20)), &entropy, &work()).unwrap_err();
    assert!(faults.to_string().contains("too complex"), "{faults}");
}

#[test]
fn no_token_is_found_by_more_than_a_query_may_ask_for() {
    let (template, entropy) = (Template::parse("{{ data }}").unwrap(), SeededEntropy::new(1));
    let index = |bytes: usize| {
        let data = json!("x".repeat(bytes));
        template
            .evaluate_index(
                &Scope { data: &data, metadata: None, entropy: Some(&entropy) },
                &work(),
            )
            .map(|text| text.len())
    };
    assert_eq!(index(64 << 10), Ok(64 << 10));
    assert_eq!(index((64 << 10) + 1), Err(ExpressionError::TooLarge));
}

#[test]
fn many_references_to_large_tokens_share_one_allowance() {
    let data = json!("x".repeat(1 << 20));
    let token = TokenParts { id: "one".to_owned(), data, whole: None };
    let entropy = SeededEntropy::new(1);
    let fill = |count: usize| {
        let args = Arguments::parse(&json!(vec!["{{ one | upcase | size }}"; count])).unwrap();
        args.fill(&|_| Some(&token), &entropy, &arguments_work())
    };
    assert!(fill(20).is_ok());
    assert!(fill(2_000).is_err());
}

#[test]
fn splitting_makes_no_more_items_than_filters_take() {
    assert_eq!(filtered("split: ''", &json!("ab")), Ok(json!(["a", "b"])));
    assert_eq!(filtered("split: ','", &json!(null)), Ok(json!([])));
    assert_eq!(filtered("split: ',' | size", &json!(",".repeat(9_999))), Ok(json!(10_000)));
    let refused = filtered("split: ','", &json!(",".repeat(10_000)));
    assert!(matches!(refused, Err(ExpressionError::Filter { filter: "split", .. })), "{refused:?}");
}

#[test]
fn many_small_values_cost_more_than_their_text() {
    let token = |data| TokenParts { id: "one".to_owned(), data, whole: None };
    let fill = |token: &TokenParts, count: usize| {
        let args = Arguments::parse(&json!(vec!["{{ one | stringify | size }}"; count])).unwrap();
        args.fill(&|_| Some(token), &SeededEntropy::new(1), &arguments_work())
    };
    // What a token may hold is taken at least once.
    let small_values = token(json!(vec![1; 500_000]));
    assert!(fill(&small_values, 1).is_ok());
    assert!(fill(&small_values, 20).is_err());
    assert!(fill(&token(json!("x".repeat(1 << 20))), 20).is_ok());
}

#[test]
fn what_is_too_large_once_is_not_tried_again() {
    let token = TokenParts { id: "one".to_owned(), data: json!("x".repeat(70_000)), whole: None };
    let args = Arguments::parse(&json!(vec!["{{ one | upcase }}"; 100])).unwrap();
    let unfilled =
        args.fill(&|_| Some(&token), &SeededEntropy::new(1), &arguments_work()).unwrap_err();
    assert!(unfilled.is_bound);
    assert_eq!(unfilled.faults.into_map().into_keys().collect::<Vec<_>>(), ["[0]"]);
}

#[test]
fn a_thousand_ids_are_refused_without_a_search_among_them() {
    let mut text = String::new();
    for n in 0..1_000 {
        write!(text, "{{{{ id-{n} }}}}").unwrap();
    }
    let arguments = Arguments::parse(&json!(text));
    assert!(arguments.unwrap_err().to_string().contains("100"));
}

#[test]
fn paths_that_could_cost_more_than_the_data_are_refused() {
    for path in [
        "$..a..b",
        "$..a[?@.b]",
        "$[?@..a]",
        "$[?@.a][?@.b]",
        "$[?$.a == $.b]",
        "$[?@.a == $.b && $.a == $.b]",
        "$[?$..a]",
        "$[?$.*]",
        "$[?$[0:1]]",
        "$[?length($.a) > 1]",
        "$[?(length($.a) > 1)]",
        "$[?@.*]",
        "$[?count(@.*) > 1]",
        "$[?count(@['a','b']) > 1]",
        "$[0,0]",
        &format!("$.{}", "a".repeat(300)),
    ] {
        let refused = filtered(&format!("json: \"{path}\""), &json!({"a": 1}));
        assert!(
            matches!(refused, Err(ExpressionError::Filter { filter: "json", .. })),
            "{path} {refused:?}"
        );
    }
    for (path, part) in [
        ("$[0,0]", "without lists"),
        ("$..a..b", "at most one .. or one filter"),
        ("$[?match(@.a, 'b')]", "match() and search()"),
        ("$[?@.a || search(@.a, 'b')]", "match() and search()"),
        ("$[?$.a == $.b]", "once in a comparison"),
        ("$[?$.a.b]", "beside =="),
        ("$[?!$['a']]", "beside =="),
        ("$[?$.a && @.b == 1]", "beside =="),
        ("$[?@.b == 1 || $.a]", "beside =="),
        ("$[?@.b == 1 && ($.a)]", "beside =="),
        ("$[?@.*]", "without *"),
        (format!("$.{}", "a".repeat(300)).as_str(), "at most 256 bytes"),
    ] {
        let refused = filtered(&format!("json: \"{path}\""), &json!({"a": 1})).unwrap_err();
        assert!(refused.to_string().contains(part), "{path} {refused}");
    }
    // Within quotes the same characters are a name.
    let data = json!({"a..b,c?..": 7});
    assert_eq!(filtered("json: \"$['a..b,c?..']\"", &data), Ok(json!(7)));
}

#[test]
fn a_path_of_names_has_the_bounds_of_any_expression() {
    let source = "{{ one | json: '$.a' }}";
    let entropy = SeededEntropy::new(1);
    let fill = |data: Value, count: usize| {
        let token = TokenParts { id: "one".to_owned(), data, whole: None };
        let args = Arguments::parse(&json!(vec![source; count])).unwrap();
        args.fill(&|_| Some(&token), &entropy, &arguments_work())
            .map_err(|unfilled| unfilled.faults.to_string())
    };
    let beside = |bytes: usize| json!({"a": 1, "b": "x".repeat(bytes)});
    assert_eq!(fill(beside(1 << 20), 10), Ok(json!(vec![1; 10])));
    assert!(fill(beside(1 << 20), 2_000).unwrap_err().contains("too complex"));
    // A filter takes no more than that, whatever it makes of it.
    assert!(fill(beside(2 << 20), 1).unwrap_err().contains("too complex"));
    assert!(fill(json!({"a": "x".repeat(70_000)}), 1).is_err());
    // What is not there is refused, however often it is asked for.
    assert!(fill(json!({"b": 1}), 1).unwrap_err().contains("found nothing at its path"));
    let nothing = Arguments::parse(&json!(vec![source; 100])).unwrap();
    let (token, work) =
        (TokenParts { id: "one".to_owned(), data: json!({}), whole: None }, arguments_work());
    assert!(nothing.fill(&|_| Some(&token), &entropy, &work).is_err());
    // Liquid takes no other white space, so neither does the path.
    assert!(Arguments::parse(&json!("{{ one |\tjson: '$.a' }}")).is_err());
}

#[test]
fn dates_are_no_wider_than_dates() {
    let data =
        json!({"at": "2020-01-02 03:04:05 +0000", "day": "2020-01-02", "format": "%99999999d"});
    for expression in
        ["data.at | date: '%-9999999d'", "data.at | date: data.format", "data.at | date: '%^999b'"]
    {
        let refused = evaluate(&format!("{{{{ {expression} }}}}"), &data);
        assert!(
            matches!(refused, Err(ExpressionError::Filter { filter: "date", .. })),
            "{expression}"
        );
    }
    // Liquid cuts its format through the middle of a character.
    for format in ["%é", "%-é", "%10é", "%^#é", "%:é", "%::é", "%Eé", "%OŸ", "%Y%\u{1f600}"]
    {
        let refused = evaluate(&format!("{{{{ data.at | date: '{format}' }}}}"), &data);
        let Err(ExpressionError::Filter { filter: "date", .. }) = refused else {
            panic!("{format}: {refused:?}")
        };
    }
    for (expression, expected) in [
        ("data.at | date: '%d/%m/%Y'", "02/01/2020"),
        ("data.at | date: '%dé%%é'", "02é%é"),
        ("data.day | date: '%d.%m.%y'", "02.01.20"),
        ("data.day | date: ''", "2020-01-02"),
        ("data.format | date: '%Y'", "%99999999d"),
    ] {
        assert_eq!(evaluate(&format!("{{{{ {expression} }}}}"), &data), Ok(json!(expected)));
    }
}

#[test]
fn slices_count_characters() {
    for (filters, data, expected) in [
        ("slice: 3, 2", json!("  héé  "), json!("éé")),
        ("slice: -4, 2", json!("  héé  "), json!("éé")),
        ("slice: 1", json!("abc"), json!("b")),
        ("slice: 9223372036854775807, 9223372036854775807", json!("abc"), json!("")),
        ("slice: -9223372036854775808, 1", json!("abc"), json!("")),
        ("slice: 1, 2", json!([1, 2, 3, 4]), json!([2, 3])),
        ("slice: -1", json!([1, 2, 3]), json!([3])),
    ] {
        assert_eq!(filtered(filters, &data), Ok(expected), "{data} | {filters}");
    }
}

#[test]
fn doubles_go_whatever_they_are() {
    let data = json!([1, "1", 1, {"a": 1}, {"a": 1}, null, null]);
    assert_eq!(filtered("uniq", &data), Ok(json!([1, "1", {"a": 1}, null])));
    let numbers = Value::from((0..9_000).collect::<Vec<_>>());
    assert_eq!(filtered("uniq | size", &numbers), Ok(json!(9_000)));
}

#[test]
fn whole_numbers_of_64_bits_stay_exact() {
    let data = json!({"n": u64::MAX, "low": i64::MIN});
    for (expression, expected) in [
        ("data.n", json!(u64::MAX)),
        ("data.n | default: 1", json!(u64::MAX)),
        // Liquid's own filters take its digits.
        ("data.n | upcase", json!(u64::MAX.to_string())),
        ("data.n | stringify", json!(u64::MAX.to_string())),
        ("data.n | append: 'x'", json!(format!("{}x", u64::MAX))),
        ("data | json: '$.n'", json!(u64::MAX)),
        ("data.low | default: 1", json!(i64::MIN)),
    ] {
        assert_eq!(
            evaluate(&format!("{{{{ {expression} }}}}"), &data),
            Ok(expected),
            "{expression}"
        );
    }
}

#[test]
fn what_json_cannot_hold_is_refused() {
    let data = json!({"big": 1e300});
    assert_eq!(
        evaluate("{{ data.big | times: data.big }}", &data),
        Err(ExpressionError::Unevaluable)
    );
}

#[test]
fn an_expression_alone_gives_no_more_than_the_data_or_the_usual_bound() {
    let text = |source: &str, data: &Value| {
        let entropy = SeededEntropy::new(1);
        let scope = Scope { data, metadata: None, entropy: Some(&entropy) };
        Template::parse(source).unwrap().evaluate_text(&scope, &work())
    };
    let large = json!({"a": "x".repeat(1 << 20), "b": "y"});
    for whole in ["{{ data }}", "{{ data | stringify }}", "{{ data.a }}"] {
        assert!(text(whole, &large).is_ok(), "{whole}");
    }
    let half = json!("x".repeat(40_000));
    assert_eq!(text("{{ data | append: data }}", &half), Err(ExpressionError::TooLarge));
    assert_eq!(text("{{ data }}{{ data }}", &half), Err(ExpressionError::TooLarge));
    let short = json!("x".repeat(20_000));
    assert_eq!(text("{{ data | append: data }}", &short).unwrap().len(), 40_000);
}
