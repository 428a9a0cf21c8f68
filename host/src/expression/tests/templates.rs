//! Templates and masks: syntax, types, and what is refused.

use serde_json::{Value, json};

use super::{arguments_work, evaluate, work};
use crate::crypto::entropy::{Entropy, SeededEntropy};
use crate::expression::{Arguments, ExpressionError, Mask, Scope, Template, TokenParts};
use crate::model::faults::Faults;

#[test]
fn one_expression_alone_keeps_its_type_and_anything_else_is_text() {
    let data = json!({"n": 5, "list": [1, "a"], "flag": true, "text": "x", "none": null, "f": 1.5});
    let table = [
        ("{{ data.n }}", json!(5)),
        ("{{data.n}}", json!(5)),
        ("  {{ data.n }}", json!("  5")),
        ("{{ data.list }}", json!([1, "a"])),
        ("{{ data.list[1] }}", json!("a")),
        ("{{ data.flag }}", json!(true)),
        ("{{ data.f }}", json!(1.5)),
        ("{{ data.n }}{{ data.text }}", json!("5x")),
        ("a {{ data.list }} b", json!(r#"a [1,"a"] b"#)),
        ("{{ data['text'] }}", json!("x")),
        ("plain", json!("plain")),
        ("", json!("")),
        ("{{ 'literal' }}", json!("literal")),
        ("{{ data.text | append: '}}' }}", json!("x}}")),
    ];
    for (source, expected) in table {
        assert_eq!(evaluate(source, &data), Ok(expected), "{source}");
    }
    assert_eq!(evaluate("{{ data }}", &data), Ok(data));
}

#[test]
fn every_way_to_be_no_expression() {
    use ExpressionError::{
        Syntax, Tag, TooComplex, TooLarge, TooLong, Unclosed, Unevaluable, UnknownFilter,
    };
    let filters = format!("{{{{ data{} }}}}", " | upcase".repeat(21));
    let brackets = format!("{{{{ data{}0{} }}}}", "[".repeat(9), "]".repeat(9));
    let table: [(String, ExpressionError); 23] = [
        ("x".repeat(4097), TooLong),
        ("{{ data".into(), Unclosed),
        ("{{ data | append: '}}".into(), Unclosed),
        ("{% if data %}x{% endif %}".into(), Tag),
        ("{{ data }}{% assign x = 1 %}".into(), Tag),
        ("{{ data | no_such_filter }}".into(), UnknownFilter),
        ("{{ data | append: '|' | no_such_filter: 1 }}".into(), UnknownFilter),
        ("{{ data | append: '| no_such_filter' 1 }}".into(), Syntax),
        ("{{ data | upcase upcase }}".into(), Syntax),
        ("{{ data | append }}".into(), Syntax),
        ("{{ data | last-4 }}".into(), UnknownFilter),
        ("{{ data | éa }}".into(), UnknownFilter),
        ("{{ data[a|b] }}".into(), Syntax),
        ("{{ data | append('x') }}".into(), Syntax),
        ("{{ data | upcase, 1 }}".into(), Syntax),
        ("{{ }}".into(), Syntax),
        ("{{ data | }}".into(), Syntax),
        ("{{ data %}{% x }}".into(), Syntax),
        (filters, TooComplex),
        (brackets, TooComplex),
        ("{{ data.nothing }}".into(), Unevaluable),
        ("{{ nothing }}".into(), Unevaluable),
        ("{{ data }}{{ data }}".into(), TooLarge),
    ];
    let data = Value::from("x".repeat(40_000));
    for (source, expected) in table {
        let shown: String = source.chars().take(40).collect();
        assert_eq!(evaluate(&source, &data), Err(expected), "{shown}");
    }
}

#[test]
fn filters_cannot_multiply_without_bound() {
    let data = Value::from("x".repeat(30_000));
    let source = "{{ data | replace: 'x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}";
    assert!(evaluate(source, &data).is_err());
    let doubled = format!("{{{{ data{} }}}}", " | append: data".repeat(19));
    assert!(evaluate(&doubled, &data).is_err());
    let split = evaluate(
        "{{ data | split: '' | join: 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy' }}",
        &data,
    );
    assert!(split.is_err());
}

#[test]
fn index_values_are_single_and_not_empty() {
    let entropy = SeededEntropy::new(7);
    let index = |source: &str, data: Value| {
        let scope = Scope { data: &data, metadata: None, entropy: Some(&entropy) };
        Template::parse(source)?.evaluate_index(&scope, &work())
    };
    assert_eq!(index("{{ data }}", json!("x")), Ok("x".into()));
    assert_eq!(index("{{ data }}", json!(5)), Ok("5".into()));
    assert_eq!(index("{{ data }}", json!([1])), Err(ExpressionError::NotSingle));
    assert_eq!(index("{{ data }}", json!({"a": 1})), Err(ExpressionError::NotSingle));
    assert_eq!(index("{{ data }}", json!("")), Err(ExpressionError::Empty));
    assert_eq!(index("{{ data }}", json!(null)), Err(ExpressionError::Empty));
}

#[test]
fn dates_are_read_in_more_forms_but_in_what_is_kept() {
    let entropy = SeededEntropy::new(7);
    let source = "{{ data | date: '%Y' }}";
    let (template, mask) = (Template::parse(source).unwrap(), Mask::parse(&json!(source)).unwrap());
    let args = Arguments::parse(&json!("{{ one | date: '%Y' }}")).unwrap();
    for (data, kept) in [
        (json!("1980-02-03T00:00:00Z"), "1980-02-03T00:00:00Z"),
        (json!("1980-02-03t00:00+02:00"), "1980-02-03t00:00+02:00"),
        (json!(318_384_000), "318384000"),
        // In liquid's own forms they are the same.
        (json!("1980-02-03"), "1980"),
        (json!("1980-02-03 04:05:06 +0000"), "1980"),
        (json!("318384000"), "1980"),
    ] {
        // Ids are drawn, fingerprints and indexes are not.
        let drawn: &dyn Entropy = &entropy;
        for entropy in [Some(drawn), None] {
            let scope = Scope { data: &data, metadata: None, entropy };
            let text = template.evaluate_text(&scope, &work());
            assert_eq!(text.as_deref(), Ok(kept), "{data}");
            assert_eq!(template.evaluate_index(&scope, &work()), text, "{data}");
        }
        assert_eq!(mask.evaluate(&data, &entropy, &work()).unwrap(), json!("1980"), "{data}");
        let token = TokenParts { id: "one".to_owned(), data, whole: None };
        let filled = args.fill(&|_| Some(&token), &entropy, &arguments_work());
        assert_eq!(filled.unwrap(), json!("1980"));
    }
}

#[test]
fn metadata_is_there_where_it_is_given() {
    let entropy = SeededEntropy::new(7);
    let metadata = [("region".to_owned(), "eu".to_owned())].into();
    let data = json!("x");
    let template = Template::parse("{{ data }}-{{ metadata.region }}").unwrap();
    let with = Scope { data: &data, metadata: Some(&metadata), entropy: Some(&entropy) };
    assert_eq!(template.evaluate_text(&with, &work()), Ok("x-eu".to_owned()));
    let without = Scope { metadata: None, ..with };
    assert_eq!(template.evaluate_text(&without, &work()), Err(ExpressionError::Unevaluable));
}

#[test]
fn masks_of_any_shape() {
    let entropy = SeededEntropy::new(7);
    let data = json!({"number": "4242424242424242", "month": 12});
    let mask = json!({
        "number": "{{ data.number | reveal_last: 4 }}", "list": ["{{ data.month }}", null, 7],
        "text": "plain", "mixed": "month {{ data.month }}",
    });
    let shown = Mask::parse(&mask).unwrap().evaluate(&data, &entropy, &work()).unwrap();
    assert_eq!(
        shown,
        json!({"number": "XXXXXXXXXXXX4242", "list": [12, null, 7], "text": "plain", "mixed": "month 12"})
    );
    // Every fault is named, at parsing and at evaluating.
    let wrong =
        json!({"a": "{{ data", "b": [{"c": "{{ data | nope }}"}], "d": "{{ data.number }}"});
    let faults = Mask::parse(&wrong).unwrap_err().into_map();
    assert_eq!(faults.keys().collect::<Vec<_>>(), ["a", "b[0].c"]);
    let unfit = json!({"a": "{{ data.year }}", "b": ["{{ data.number | to_boolean }}"]});
    let faults =
        Mask::parse(&unfit).unwrap().evaluate(&data, &entropy, &work()).unwrap_err().into_map();
    assert_eq!(faults.keys().collect::<Vec<_>>(), ["a", "b[0]"]);
    assert!(!format!("{faults:?}").contains("4242"));
    // Where the data was other when the mask was written, what can be evaluated is shown.
    let in_part = json!({"a": "{{ data.year }}", "n": "{{ data.number | last4 }}",
        "b": ["{{ data.year }}", 7], "c": {"d": "{{ data.year }} of {{ data.number }}"}, "e": null});
    let in_part = Mask::parse(&in_part).unwrap().evaluate_in_part(&data, &entropy, &work());
    assert_eq!(in_part, Some(json!({"n": "4242", "b": [null, 7], "c": {}, "e": null})));
    let text = Mask::parse(&json!("{{ data.number }}-{{ data.year }}")).unwrap();
    assert_eq!(text.evaluate_in_part(&data, &entropy, &work()), None);
    // All of a mask together is bounded.
    let data = Value::from("x".repeat(40_000));
    let twice = json!(["{{ data }}", "{{ data }}"]);
    let twice = Mask::parse(&twice).unwrap();
    assert!(twice.evaluate(&data, &entropy, &work()).is_err());
    let shown = twice.evaluate_in_part(&data, &entropy, &work());
    assert_eq!(shown, Some(json!([data, null])));
}

#[test]
fn kept_templates_are_what_parsing_gives() {
    let data = json!({"number": "4242424242424242"});
    let entropy = SeededEntropy::new(7);
    let scope = Scope { data: &data, metadata: None, entropy: Some(&entropy) };
    for _ in 0..3 {
        for (source, expected) in
            [("{{ data.number | last4 }}", "4242"), ("{{ data.number | slice: 0, 4 }}!", "4242!")]
        {
            let kept = Template::parse_kept(source).unwrap().evaluate(&scope);
            assert_eq!(kept, Ok(json!(expected)));
            assert_eq!(kept, Template::parse(source).unwrap().evaluate(&scope));
        }
        assert!(matches!(Template::parse_kept("{{ data"), Err(ExpressionError::Unclosed)));
    }
    // More than are kept: each is still itself.
    for number in 0..3_000 {
        let source = format!("{{{{ data.number | append: '{number}' | slice: 16, 5 }}}}");
        let value = Template::parse_kept(&source).unwrap().evaluate(&scope);
        assert_eq!(value, Ok(json!(number.to_string())));
    }
}

#[test]
fn default_stands_in_for_what_is_missing() {
    let data = json!({"none": null, "there": "a | b"});
    for (expression, expected) in [
        ("data.missing | default: 'x'", json!("x")),
        ("data.a.b | default: 'x' | upcase", json!("X")),
        ("data.none | default: 7", json!(7)),
        ("data.there | default: 'x'", json!("a | b")),
        ("data['it|s'] | default: 'x'", json!("x")),
        // As text is that was copied, or set in lines.
        ("data.missing |\tdefault: 'x'\t", json!("x")),
        ("data.missing\u{a0}|\u{a0}default: 'x'", json!("x")),
        ("data.there\n\t|\n\tdefault: 'x' | upcase", json!("A | B")),
        ("data.missing |\u{2003}\u{b}default: data.a | default: 'x'\u{c}", json!("x")),
        // What is not needed need not be there.
        ("data.there | default: data.missing", json!("a | b")),
        ("data.missing | default: data.a.b | default: 'x'", json!("x")),
        ("data.missing | default: data.there | default: 'x'", json!("a | b")),
        ("data.none | default: data.a | default: data.b | default: 7", json!(7)),
        ("data.missing | default: data.a", json!(null)),
        ("data.there | upcase | default: data.missing", json!("A | B")),
        ("data | json: '$.missing' | default: 'x'", json!("x")),
        ("data | json: '$.there' | default: 'x'", json!("a | b")),
        ("data | json: \"$['a|b'].c\" | default: data.there | upcase", json!("A | B")),
        ("data | json: '$.missing' | default: nil | default: data.there", json!("a | b")),
    ] {
        let value = evaluate(&format!("{{{{ {expression} }}}}"), &data);
        assert_eq!(value, Ok(expected), "{expression}");
    }
    for expression in ["data.missing | upcase | default: 'x'", "data.missing"] {
        let value = evaluate(&format!("{{{{ {expression} }}}}"), &data);
        assert_eq!(value, Err(ExpressionError::Unevaluable), "{expression}");
    }
    for (filters, reason) in [
        ("json: '$.missing' | upcase | default: 'x'", "found nothing at its path"),
        ("json: '$.missing'", "found nothing at its path"),
        ("json: '$..*' | default: 'x'", "found several values at its path"),
    ] {
        let value = evaluate(&format!("{{{{ data | {filters} }}}}"), &data);
        assert_eq!(value, Err(ExpressionError::Filter { filter: "json", reason }), "{filters}");
    }
    for (filters, refusal) in [
        ("json_or_nothing: '$.missing'", ExpressionError::UnknownFilter),
        ("default", ExpressionError::Syntax),
        ("default: 1, 2", ExpressionError::Syntax),
        ("default: 1, allow_false: true", ExpressionError::Syntax),
    ] {
        let parsed = Template::parse(&format!("{{{{ data | {filters} }}}}"));
        assert_eq!(parsed.err(), Some(refusal), "{filters}");
    }
    let quoted = evaluate("{{ data.missing | default: 'json_or_nothing' }}", &data);
    assert_eq!(quoted, Ok(json!("json_or_nothing")));
}

#[test]
fn what_cannot_be_read_of_a_mask_hides_itself_alone() {
    let mask = json!({"kept": "{{ data.a }}", "gone": "{{ data.a | nope }}", "list": ["{{ |", 1]});
    let mut faults = Faults::new();
    let mask = Mask::read(&mask, &mut faults);
    let told: Vec<_> = faults.into_map().into_keys().collect();
    assert_eq!(told, ["gone", "list[0]"]);
    let entropy = SeededEntropy::new(1);
    let shown = mask.evaluate_in_part(&json!({"a": 1}), &entropy, &work());
    assert_eq!(shown, Some(json!({"kept": 1, "list": [null, 1]})));
    let text = Mask::read(&json!("{{ nope("), &mut Faults::new());
    assert_eq!(text.evaluate_in_part(&json!(1), &entropy, &work()), None);
}

#[test]
fn no_member_is_taken_for_a_large_number() {
    let digits = u64::MAX.to_string();
    let (large, member) = (json!(u64::MAX), json!({ "\0large": digits }));
    for (expression, large_value, member_value) in [
        ("data | default: 'x'", large.clone(), member.clone()),
        ("data | stringify", json!(digits), json!(member.to_string())),
    ] {
        let value = |data: &Value| evaluate(&format!("{{{{ {expression} }}}}"), data);
        assert_eq!(value(&large), Ok(large_value), "{expression}");
        assert_eq!(value(&member), Ok(member_value), "{expression}");
    }
    for name in ["\0", "\0\0large", "\0\0"] {
        let data = json!([{ name: digits }]);
        assert_eq!(evaluate("{{ data | first }}", &data), Ok(data[0].clone()));
    }
}
