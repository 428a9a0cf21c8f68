//! References in arguments (decisions §4).

use serde_json::{Value, json};

use super::arguments_work;
use crate::crypto::entropy::SeededEntropy;
use crate::expression::{Arguments, TokenParts};
use crate::model::faults::Faults;

fn parts(id: &str, data: Value) -> TokenParts {
    let whole = json!({"id": id, "type": "token", "data": data.clone()});
    TokenParts { id: id.to_owned(), data, whole: Some(whole) }
}

fn fill(value: &Value) -> Result<Value, Faults> {
    let tokens = [
        parts("one", json!("1")),
        parts("an id, it's spaced", json!({"a": [1]})),
        parts("3f1c-77", json!(7)),
        parts("token", json!("named token")),
    ];
    let arguments = Arguments::parse(value)?;
    let find = |id: &crate::model::id::TokenId| tokens.iter().find(|parts| parts.id == id.as_str());
    let filled = arguments.fill(&find, &SeededEntropy::new(7), &arguments_work());
    filled.map_err(|unfilled| unfilled.faults)
}

#[test]
fn references_become_values() {
    let table = [
        (json!("{{ one }}"), json!("1")),
        (json!("{{one}}"), json!("1")),
        (json!(" {{ one }}"), json!(" 1")),
        (json!("{{ 3f1c-77 }}"), json!(7)),
        (json!("{{ an id, it's spaced }}"), json!({"a": [1]})),
        (json!("{{ an id, it's spaced | json: '$.a[0]' }}"), json!(1)),
        (json!("{{ one }}/{{ 3f1c-77 }}"), json!("1/7")),
        (json!("{{ token: one | json: '$.type' }}"), json!("token")),
        (json!("{{ token:one }}"), json!({"id": "one", "type": "token", "data": "1"})),
        (json!("{{ token }}"), json!("named token")),
        (json!("{{ one | append: '{{ x }}' }}"), json!("1{{ x }}")),
        (json!({"{{ one }}": "{{ one }}"}), json!({"{{ one }}": "1"})),
        (json!("no { reference }"), json!("no { reference }")),
        (json!([true, null, 1.5]), json!([true, null, 1.5])),
    ];
    for (value, expected) in table {
        assert_eq!(fill(&value).unwrap(), expected, "{value}");
    }
}

#[test]
fn data_that_looks_like_a_reference_is_data() {
    let tokens = [parts("one", json!("{{ two }}")), parts("two", json!("secret"))];
    let find = |id: &crate::model::id::TokenId| tokens.iter().find(|parts| parts.id == id.as_str());
    let arguments = Arguments::parse(&json!("{{ one }}")).unwrap();
    let filled = arguments.fill(&find, &SeededEntropy::new(7), &arguments_work()).unwrap();
    assert_eq!(filled, "{{ two }}");
}

#[test]
fn each_token_is_named_once_with_all_its_places() {
    let value = json!({"a": "{{ one }} {{ two }}", "b": [{"c": "{{ one }}"}, "{{ one }}"]});
    let arguments = Arguments::parse(&value).unwrap();
    let ids: Vec<_> = arguments.token_ids().iter().map(ToString::to_string).collect();
    assert_eq!(ids, ["one", "two"]);
    assert_eq!(arguments.paths_of(&arguments.token_ids()[0]), ["a", "b[0].c", "b[1]"]);
    assert!(!arguments.shows_whole("one"));
    let value = json!(["{{ one }}", "{{ token: one }}", "{{ two | upcase }}"]);
    let arguments = Arguments::parse(&value).unwrap();
    assert!(arguments.shows_whole("one") && !arguments.shows_whole("two"));
}

#[test]
fn a_path_into_the_data_is_followed_without_the_rest_of_the_token() {
    let whole = json!({"id": "one", "data": {"a": {"b": 1}, "data": 2}, "type": "token"});
    let data = whole["data"].clone();
    for (path, needed, expected) in [
        ("$.data.a.b", false, Some(json!(1))),
        ("$.data.data", false, Some(json!(2))),
        ("$.data.c", false, None),
        ("$.data", true, Some(data.clone())),
        ("$.type", true, Some(json!("token"))),
        ("$.data.a['b']", true, Some(json!(1))),
    ] {
        let arguments =
            Arguments::parse(&json!(format!("{{{{ token: one | json: \"{path}\" }}}}")));
        let arguments = arguments.unwrap();
        assert_eq!(arguments.shows_whole("one"), needed, "{path}");
        let whole = needed.then(|| whole.clone());
        let parts = TokenParts { id: "one".to_owned(), data: data.clone(), whole };
        let filled =
            arguments.fill(&|_| Some(&parts), &SeededEntropy::new(7), &arguments_work()).ok();
        assert_eq!(filled, expected, "{path}");
        // Hidden data has nothing in it.
        let parts = TokenParts { id: "one".to_owned(), data: Value::Null, whole: None };
        let hidden = arguments.fill(&|_| Some(&parts), &SeededEntropy::new(7), &arguments_work());
        assert!(hidden.is_err(), "{path}");
    }
}

#[test]
fn what_is_no_reference_is_told_at_its_place() {
    let value = json!({
        "empty": "{{ }}", "open": "{{ one", "short": "{{ ab }}", "filter": "{{ one | nope }}",
        "character": "{{ a/b }}", "deep": [["{{ token: }}"]], "fine": "{{ one }}",
    });
    let faults = Arguments::parse(&value).unwrap_err().into_map();
    let paths: Vec<_> = faults.keys().collect();
    assert_eq!(paths, ["character", "deep[0][0]", "empty", "filter", "open", "short"]);
    let refused = fill(&json!({"a": "{{ one | to_boolean }}"})).unwrap_err().into_map();
    assert_eq!(refused.keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn each_has_so_many_bytes_as_it_is_written_whatever_its_id() {
    let id = "a-much-longer-id-than-any-that-stands-for-it";
    let tokens = [parts("one", json!("1")), parts(id, json!("1"))];
    let find = |id: &crate::model::id::TokenId| tokens.iter().find(|parts| parts.id == id.as_str());
    for head in ["one", id] {
        for (bytes, is_taken) in [(4_096, true), (4_097, false)] {
            let missing = bytes - format!("{{{{ {head} | append: '' }}}}").len();
            let filtered = format!("{{{{ {head} | append: '{}' }}}}", "x".repeat(missing));
            let spaced = format!("{{{{{head}{}}}}}", " ".repeat(bytes - 4 - head.len()));
            for source in [filtered, spaced] {
                assert_eq!(source.len(), bytes);
                let filled = Arguments::parse(&json!(format!("{source} and more"))).map(|args| {
                    args.fill(&find, &SeededEntropy::new(7), &arguments_work()).is_ok()
                });
                assert_eq!(filled.unwrap_or(false), is_taken, "{bytes} {head}");
            }
        }
    }
}

#[test]
fn at_most_100_tokens_and_16_mib() {
    let references = |count: usize| {
        Value::from((0..count).map(|n| format!("{{{{ token{n} }}}}")).collect::<Vec<_>>())
    };
    assert!(Arguments::parse(&references(100)).is_ok());
    assert!(Arguments::parse(&references(101)).is_err());
    let tokens = [parts("big", Value::from("x".repeat(1 << 20)))];
    let find = |id: &crate::model::id::TokenId| tokens.iter().find(|parts| parts.id == id.as_str());
    let filled = |count: usize| {
        let arguments = Arguments::parse(&Value::from(vec!["{{ big }}"; count])).unwrap();
        arguments.fill(&find, &SeededEntropy::new(7), &arguments_work())
    };
    assert!(filled(16).is_ok());
    assert!(filled(17).is_err());
}

/// Nobody may read what was freed; but that it is dropped in a way of its own is seen by the compiler.
#[test]
fn what_a_reference_can_show_is_wiped_however_it_goes() {
    #[expect(drop_bounds, reason = "that is what is asked")]
    fn is_wiped<T: Drop>(_: &T) {}
    is_wiped(&parts("one", json!("secret")));
}
