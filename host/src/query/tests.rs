//! Rule by rule (interface §4.2), and properties.

use proptest::prelude::*;

use super::{Query, QueryError, Term, TextField, TimeField, parse};
use crate::model::time::Timestamp;

fn text(field: TextField, value: &str) -> Query {
    Query::Term(Term::Text(field, value.to_owned()))
}

fn kind(value: &str) -> Query {
    text(TextField::Type, value)
}

fn metadata(key: &str, value: &str) -> Query {
    text(TextField::Metadata(key.to_owned()), value)
}

fn not(query: Query) -> Query {
    Query::Not(Box::new(query))
}

fn created(from: Option<u64>, to: Option<u64>) -> Query {
    let (from, to) = (from.map(Timestamp), to.map(Timestamp));
    Query::Term(Term::Time { field: TimeField::CreatedAt, from, to })
}

#[test]
fn terms_operators_and_groups() {
    let (a, b, c) = (|| kind("a"), || kind("b"), || kind("c"));
    let table = [
        ("type:a", a()),
        ("  type:a  ", a()),
        ("type:a AND type:b", Query::And(vec![a(), b()])),
        ("type:a OR type:b", Query::Or(vec![a(), b()])),
        ("type:a OR type:b AND type:c", Query::Or(vec![a(), Query::And(vec![b(), c()])])),
        ("(type:a OR type:b) AND type:c", Query::And(vec![Query::Or(vec![a(), b()]), c()])),
        ("NOT type:a AND type:b", Query::And(vec![not(a()), b()])),
        ("!type:a", not(a())),
        ("-type:a", not(a())),
        ("NOT(type:a OR type:b)", not(Query::Or(vec![a(), b()]))),
        ("NOT NOT type:a", a()),
        ("!-type:a", a()),
        ("((type:a))", a()),
        ("type:a AND(type:b)", Query::And(vec![a(), b()])),
        (
            "type:a AND NOT type:b OR !type:c",
            Query::Or(vec![Query::And(vec![a(), not(b())]), not(c())]),
        ),
    ];
    for (query, expected) in table {
        assert_eq!(parse(query).as_ref(), Ok(&expected), "{query}");
    }
}

#[test]
fn values_bare_quoted_and_escaped() {
    let table = [
        ("id:a-b_c.d,e", text(TextField::Id, "a-b_c.d,e")),
        (r#"data:"two words""#, text(TextField::Data, "two words")),
        (r#"data:"a \"b\" \\ c""#, text(TextField::Data, r#"a "b" \ c"#)),
        (r"data:a\ b\(\*\)", text(TextField::Data, "a b(*)")),
        (r#"data:"4*""#, text(TextField::Data, "4*")),
        (r"data:4\*", text(TextField::Data, "4*")),
        (r#"data:"""#, text(TextField::Data, "")),
        ("data:a:b", text(TextField::Data, "a:b")),
        ("metadata.customer-id:17", metadata("customer-id", "17")),
        (r"metadata.a\ b:17", metadata("a b", "17")),
        (r"metadata.a\:b:17", metadata("a:b", "17")),
        ("metadata.a.b:AND", metadata("a.b", "AND")),
        ("fingerprint:3ab", text(TextField::Fingerprint, "3ab")),
        ("created_by:x", text(TextField::CreatedBy, "x")),
        ("modified_by:x", text(TextField::ModifiedBy, "x")),
        ("data:Ünïcode", text(TextField::Data, "Ünïcode")),
    ];
    for (query, expected) in table {
        assert_eq!(parse(query).as_ref(), Ok(&expected), "{query}");
    }
}

#[test]
fn containers_alone_and_with_all_below() {
    let alone = |path: &str| Query::Term(Term::Container(path.to_owned()));
    let within = |path: &str| Query::Term(Term::ContainerWithin(path.to_owned()));
    let table = [
        (r#"container:"/pci/high/""#, alone("/pci/high/")),
        ("container:/pci/", alone("/pci/")),
        (r#"container:"/PCI/""#, alone("/pci/")),
        (r#"container:"/pci/*""#, within("/pci/")),
        ("container:/pci/*", within("/pci/")),
        (r#"container:"/*""#, within("/")),
        ("container:/", alone("/")),
    ];
    for (query, expected) in table {
        assert_eq!(parse(query).as_ref(), Ok(&expected), "{query}");
    }
}

#[test]
fn times_and_ranges() {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let table = [
        ("created_at:1970-01-02", created(Some(DAY), Some(2 * DAY - 1))),
        ("created_at:1970-01-01T00:00:01Z", created(Some(1_000), Some(1_999))),
        ("created_at:1970-01-01T00:01", created(Some(60_000), Some(119_999))),
        ("created_at:\"1970-01-01T00:00:01.500\"", created(Some(1_500), Some(1_500))),
        ("created_at:[1970-01-02 TO 1970-01-03]", created(Some(DAY), Some(3 * DAY - 1))),
        ("created_at:{1970-01-02 TO 1970-01-05}", created(Some(2 * DAY), Some(4 * DAY - 1))),
        ("created_at:[* TO 1970-01-02]", created(None, Some(2 * DAY - 1))),
        ("created_at:[1970-01-02 TO *]", created(Some(DAY), None)),
        ("created_at:{1970-01-02 TO *}", created(Some(2 * DAY), None)),
        ("created_at:[* TO *]", created(None, None)),
        ("created_at:[ 1970-01-02  TO  * ]", created(Some(DAY), None)),
        ("created_at:[1970-01-03 TO 1970-01-02]", Query::Term(Term::Nothing)),
        ("created_at:{1970-01-02 TO 1970-01-03}", Query::Term(Term::Nothing)),
        ("created_at:{* TO 1970-01-01}", Query::Term(Term::Nothing)),
        ("created_at:[\"1970-01-02\" TO 1970-01-02T00:00:00Z]", created(Some(DAY), Some(DAY))),
        // However a time is written, it is the same one.
        ("created_at:{1970-01-01T00:01 TO *}", created(Some(60_001), None)),
        ("created_at:{1970-01-01T00:01:00Z TO *}", created(Some(60_001), None)),
        (
            "created_at:{1970-01-01T00:01:00.000Z TO 1970-01-01T00:02}",
            created(Some(60_001), Some(119_999)),
        ),
        ("created_at:[* TO 1970-01-01T00:01:00Z]", created(None, Some(60_000))),
        ("created_at:[1970-01-01T00:01 TO 1970-01-02]", created(Some(60_000), Some(2 * DAY - 1))),
    ];
    for (query, expected) in table {
        assert_eq!(parse(query).as_ref(), Ok(&expected), "{query}");
    }
}

/// What Lucene would take for more than text, and what only looks like a space.
#[test]
fn other_features_of_lucene_are_refused_and_not_taken_for_text() {
    for (query, position, expected) in [
        ("data:4*", 6, "only containers"),
        ("data:*4", 6, "wildcards"),
        ("data:a~", 7, "fuzziness"),
        ("data:a^2", 7, "boosts"),
        ("data:a?", 7, "wildcards"),
        ("data:/4.*2/", 6, "regular expressions"),
        ("id:a\u{a0}OR\u{a0}id:b", 5, "unusual spaces"),
        ("data:a\u{3000}b", 7, "unusual spaces"),
        ("type:card\u{a0}AND type:bank", 10, "unusual spaces"),
        ("type:\"a\u{a0}\" type:bank", 11, "AND"),
        ("type:card AND\u{a0}type:bank", 14, "unusual spaces"),
        ("type:card \u{a0}AND type:bank", 11, "unusual spaces"),
        ("created_at:[2020-01-01 TO\u{a0}2021-01-01]", 26, "unusual spaces"),
        ("metadata.z*:a", 11, "wildcards"),
        ("metadata.z?:a", 11, "wildcards"),
        ("metadata.z~:a", 11, "fuzziness"),
        ("metadata.a&&b:c", 11, "&&"),
        ("metadata.a\u{a0}:c", 11, "unusual spaces"),
        ("data:a\u{7}", 7, "unusual spaces"),
    ] {
        let error = parse(query).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("at character {position}: expected ")),
            "{query}: {error}"
        );
        assert!(error.contains(expected), "{query}: {error}");
    }
}

/// What is refused: the position, and a part of what was expected.
#[test]
fn refusals_give_the_position_and_what_was_expected() {
    let table = [
        ("", 1, "a term such as"),
        ("type", 5, ":"),
        ("type:", 6, "a value"),
        ("type:a type:b", 8, "AND"),
        ("type:a and type:b", 8, "the end of the query"),
        ("type:a AND", 11, "a term such as"),
        ("type:a AND AND type:b", 12, "a term"),
        ("OR type:a", 1, "a term"),
        ("(type:a", 8, ")"),
        ("type:a)", 7, "the end of the query"),
        ("()", 2, "a term such as"),
        ("data:\"abc", 10, "a closing quote"),
        ("data:abc\\", 9, "AND"),
        ("colour:red", 1, "metadata.<key>"),
        ("metadata.:x", 1, "metadata.<key>"),
        ("Type:a", 1, "one of the fields"),
        ("type:a AND colour:red", 12, "one of the fields"),
        ("created_at:[2020-01-01 TO 2020-01-02}", 37, "]"),
        ("created_at:{2020-01-01 TO 2020-01-02]", 37, "}"),
        ("created_at:[2020-01-01 TO]", 26, "a space"),
        ("created_at:[2020-01-01 2020-01-02]", 24, "TO"),
        ("created_at:yesterday", 12, "a date such as"),
        ("created_at:2020-13-01", 12, "a date such as"),
        ("type:[a TO b]", 6, "only times have ranges"),
        ("id:a&&id:b", 5, "AND or OR"),
        ("id:a || id:b", 6, "&& and || are not"),
        ("(id:a)&&(id:b)", 7, "&& and || are not"),
        ("id:\"a\"&&id:b", 7, "&& and || are not"),
        ("&& id:a", 1, "&& and || are not"),
        ("data:\"a &&", 11, "a closing quote"),
        ("created_at:[2020-01-01 && 2020-02-01]", 24, "TO"),
        ("data:a\\&& id:b", 11, "AND"),
        ("id:a AND || id:b", 10, "&& and || are not"),
        ("id:a AND NOT &&", 14, "&& and || are not"),
        ("id:a||id:b", 5, "&& and || are not"),
        ("id:a or id:b", 6, "AND"),
        ("id:a Or id:b", 6, "AND"),
        ("type:card OR OR", 14, "a term"),
        ("(OR id:a)", 2, "a term"),
        ("not id:a", 4, ":"),
        ("Not id:a", 4, ":"),
        ("container:pci", 11, "a container such as"),
        ("container:\"/pci*\"", 12, "a container such as"),
        ("ünï:a", 1, "one of the fields"),
        ("data:ü ñ", 8, "AND"),
        ("+type:a", 1, "one of the fields"),
        ("_exists_:type", 1, "one of the fields"),
    ];
    let mut wrong = Vec::new();
    for (query, at, part) in table {
        match parse(query) {
            Err(QueryError::Expected { position, expected })
                if position == at && expected.contains(part) => {}
            other => wrong.push(format!("{query}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn limits() {
    let terms = |count: usize| vec!["type:a"; count].join(" OR ");
    assert!(parse(&terms(64)).is_ok());
    assert_eq!(parse(&terms(65)), Err(QueryError::TooManyTerms));
    let nested = |depth: usize| format!("{}type:a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(16)).is_ok());
    assert_eq!(parse(&nested(17)), Err(QueryError::TooDeep));
    assert_eq!(parse(&nested(30_000)), Err(QueryError::TooDeep));
    assert_eq!(parse(&"a".repeat((192 << 10) + 1)), Err(QueryError::TooLong));
    // Negations do not nest, however many there are.
    assert_eq!(parse(&format!("{}type:a", "-".repeat(60_000))), Ok(kind("a")));
    // Parentheses in values are no levels.
    assert!(parse(&format!("data:\"{}\"", "(".repeat(100))).is_ok());
}

/// A query as text, fully parenthesised.
fn write(query: &Query) -> String {
    match query {
        Query::Term(Term::Text(TextField::Data, value)) => {
            format!("data:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Query::Term(_) => "type:a".to_owned(),
        Query::And(parts) => parts.iter().map(group).collect::<Vec<_>>().join(" AND "),
        Query::Or(parts) => parts.iter().map(group).collect::<Vec<_>>().join(" OR "),
        Query::Not(part) => format!("NOT {}", group(part)),
    }
}

fn group(query: &Query) -> String {
    format!("({})", write(query))
}

fn queries() -> impl Strategy<Value = Query> {
    let leaf = ".{0,8}".prop_map(|value| text(TextField::Data, &value));
    leaf.prop_recursive(4, 32, 4, |inner| {
        let several = || prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            several().prop_map(Query::And),
            several().prop_map(Query::Or),
            // Two negations would be none.
            inner
                .clone()
                .prop_filter("negated twice", |query| !matches!(query, Query::Not(_)))
                .prop_map(not),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn text_of_the_grammars_own_words_is_read_or_refused(
        words in prop::collection::vec(prop::sample::select(vec![
            "type:a", "AND", "OR", "NOT", "(", ")", "[", "]", "{", "}", "\"", "\\", "*", "-", "!",
            "created_at:", "TO", "2020-01-01", " ", "metadata.a:", "container:", "/pci/",
        ]), 0..20),
    ) {
        let text = words.concat();
        if let Err(QueryError::Expected { position, .. }) = parse(&text) {
            prop_assert!(position <= text.chars().count() + 1);
        }
    }

    #[test]
    fn what_is_written_is_read(query in queries()) {
        // A group of one is what is in it, so that reading gives the very tree.
        prop_assert_eq!(parse(&write(&query)), Ok(query));
    }
}
