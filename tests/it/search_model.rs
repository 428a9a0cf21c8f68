//! Random tokens, random callers and random queries, beside a plain evaluation of the same query over the tokens as they
//! were answered, and of the caller's rights over what it gives (decisions §2).

mod callers;

use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Days, NaiveDate, Utc};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use callers::{Caller, callers};

use crate::support::TestServer;
use crate::support::client::Client;

const ROUNDS: usize = 4;
const TOKENS: usize = 60;
const CHANGES: usize = 15;
const QUERIES: usize = 120;

/// Where tokens lie, some of them below others, and some that only look as if they did.
const CONTAINERS: &[&str] = &["/a/", "/a/b/", "/a/b/c/", "/a/bc/", "/d/", "/d/E_f-1/"];
const KEYS: &[&str] = &["tier", "a b", "Ünï", "x:y"];
const VALUES: &[&str] = &["gold", "GOLD", "two words", "a\"b\\c", "AND", "*", "", "(x)", "ß"];
const TYPES: &[&str] = &["token", "social_security_number", "employer_id_number", "card_number"];

/// A query, as something that can be both written and evaluated.
#[derive(Debug, Clone)]
enum Query {
    Text { field: String, value: String, quoted: bool },
    Container { path: &'static str, below: bool },
    Time { field: &'static str, from: Bound, to: Bound, exclusive: bool },
    Day { field: &'static str, day: NaiveDate },
    Not(Box<Query>),
    And(Vec<Query>),
    Or(Vec<Query>),
}

/// An end of a range.
#[derive(Debug, Clone)]
enum Bound {
    Open,
    Day(NaiveDate),
    Instant(DateTime<Utc>),
}

fn token() -> impl Strategy<Value = Value> {
    let metadata = prop::collection::btree_map(
        prop::sample::select(KEYS).prop_map(str::to_owned),
        prop::sample::select(VALUES).prop_map(str::to_owned),
        0..4,
    );
    let containers =
        prop::option::of(prop::sample::subsequence(CONTAINERS, 1..3).prop_map(Vec::from));
    (prop::sample::select(TYPES), 0..12_u32, metadata, containers, any::<bool>()).prop_map(
        |(kind, number, metadata, containers, has_mask)| {
            let data = match kind {
                "token" => json!({"name": format!("Name {number}"), "n": number}),
                "card_number" => json!("4242424242424242"),
                _ => json!(format!("12-34567{number:02}")),
            };
            let mut body = json!({"type": kind, "data": data, "metadata": metadata});
            if let Some(containers) = containers {
                body["containers"] = json!(containers);
            }
            match (kind, has_mask) {
                ("token", true) => body["mask"] = json!({"n": "{{ data.n }}", "name": "hidden"}),
                ("card_number", false) => body["mask"] = Value::Null,
                _ => {}
            }
            match kind {
                "token" => body["search_indexes"] = json!(["{{ data.name }}", "{{ data.n }}"]),
                "card_number" => body["search_indexes"] = json!(["{{ data | last4 }}"]),
                _ => {}
            }
            body
        },
    )
}

/// Queries about these tokens: most values are such as occur.
fn query(tokens: &[Value]) -> impl Strategy<Value = Query> + use<> {
    let texts = tokens.iter().flat_map(|token| {
        let member = |name: &str| Some((name.to_owned(), token.get(name)?.as_str()?.to_owned()));
        ["id", "type", "fingerprint", "created_by", "modified_by"].into_iter().filter_map(member)
    });
    let mut texts: Vec<(String, String)> = texts.collect();
    texts.extend([("id".to_owned(), "nobody".to_owned()), ("type".to_owned(), "Token".to_owned())]);
    let times: Vec<DateTime<Utc>> =
        tokens.iter().filter_map(|token| time(token, "created_at")).collect();
    let data = (0..14_u32, 0..5_u8).prop_map(|(number, form)| match form {
        0 => format!("name {number}"),
        1 => format!("12-34567{number:02}"),
        2 => format!("1234567{number:02}"),
        3 => format!("67{number:02}"),
        _ => number.to_string(),
    });
    let text = |field: String, value: String, quoted| Query::Text { field, value, quoted };
    let bound = prop_oneof![
        1 => Just(Bound::Open),
        2 => prop::sample::select(times.clone()).prop_map(|at| Bound::Day(at.date_naive())),
        3 => prop::sample::select(times.clone()).prop_map(Bound::Instant),
    ];
    let field = prop::sample::select(&["created_at", "modified_at"][..]);
    let leaf = prop_oneof![
        4 => (prop::sample::select(texts), any::<bool>())
            .prop_map(move |((field, value), quoted)| text(field, value, quoted)),
        4 => (prop::sample::select(KEYS), prop::sample::select(VALUES), any::<bool>(), any::<bool>())
            .prop_map(move |(key, value, upper, quoted)| {
                let value = if upper { value.to_uppercase() } else { value.to_owned() };
                text(format!("metadata.{key}"), value, quoted)
            }),
        3 => (data, any::<bool>()).prop_map(move |(data, quoted)| text("data".into(), data, quoted)),
        3 => (prop::sample::select(CONTAINERS), any::<bool>())
            .prop_map(|(path, below)| Query::Container { path, below }),
        3 => (field.clone(), bound.clone(), bound, any::<bool>())
            .prop_map(|(field, from, to, exclusive)| Query::Time { field, from, to, exclusive }),
        1 => (field, prop::sample::select(times))
            .prop_map(|(field, at)| Query::Day { field, day: at.date_naive() }),
    ];
    leaf.prop_recursive(4, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Query::Not(Box::new(part))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Query::And),
            prop::collection::vec(inner, 2..4).prop_map(Query::Or),
        ]
    })
}

/// The query as text: quoted or escaped, with brackets where they are needed and where they are not.
fn write(query: &Query) -> String {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let joined = |parts: &[Query], operator: &str| {
        let parts: Vec<String> = parts.iter().map(write).collect();
        format!("({})", parts.join(operator))
    };
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    let bound = |bound: &Bound| match bound {
        Bound::Open => "*".to_owned(),
        Bound::Day(day) => day.to_string(),
        Bound::Instant(at) => quote(&at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)),
    };
    match query {
        Query::Text { field, value, quoted: true } => {
            format!("{}:{}", escape(field), quote(value))
        }
        Query::Text { field, value, .. } if value.is_empty() => format!("{}:\"\"", escape(field)),
        Query::Text { field, value, .. } => format!("{}:{}", escape(field), escape(value)),
        Query::Container { path, below } => {
            format!("container:\"{path}{}\"", if *below { "*" } else { "" })
        }
        Query::Time { field, from, to, exclusive: true } => {
            format!("{field}:{{{} TO {}}}", bound(from), bound(to))
        }
        Query::Time { field, from, to, .. } => {
            format!("{field}:[{} TO  {} ]", bound(from), bound(to))
        }
        Query::Day { field, day } => format!("{field}:{day}"),
        Query::Not(part) => {
            format!("{}({})", ["NOT ", "!", "-", "NOT"][turn % 4], write(part))
        }
        Query::And(parts) => joined(parts, " AND "),
        Query::Or(parts) => joined(parts, "\nOR\t"),
    }
}

/// Escapes whatever is not a letter or a digit, and a word that would be an operator.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for (at, c) in text.chars().enumerate() {
        let plain = c.is_alphanumeric() || matches!(c, '.' | '_');
        if !plain || (at == 0 && matches!(text, "AND" | "OR" | "NOT")) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn time(token: &Value, field: &str) -> Option<DateTime<Utc>> {
    let text = token.get(field)?.as_str()?;
    Some(DateTime::parse_from_rfc3339(text).unwrap().to_utc())
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase().to_uppercase() == other.to_lowercase().to_uppercase()
}

/// What the token's search indexes come to.
fn indexed(token: &Value) -> Vec<String> {
    let data = &token["data"];
    match token["type"].as_str().unwrap() {
        "token" => vec![data["name"].as_str().unwrap().to_owned(), data["n"].to_string()],
        "card_number" => vec!["4242".to_owned()],
        _ => {
            let text = data.as_str().unwrap();
            let digits = text.replace('-', "");
            vec![text.to_owned(), text[text.len() - 4..].to_owned(), digits]
        }
    }
}

/// The first instant of a bound and the first after it.
fn span(bound: &Bound) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let start = |day: &NaiveDate| day.and_hms_opt(0, 0, 0).unwrap().and_utc();
    match bound {
        Bound::Open => None,
        Bound::Day(day) => Some((start(day), start(&day.checked_add_days(Days::new(1)).unwrap()))),
        Bound::Instant(at) => Some((*at, *at + chrono::Duration::milliseconds(1))),
    }
}

fn matches(query: &Query, token: &Value) -> bool {
    match query {
        Query::Text { field, value, .. } => match field.split_once('.') {
            Some((_, key)) => {
                let found = token["metadata"].get(key).and_then(Value::as_str);
                found.is_some_and(|found| same(found, value))
            }
            None if field == "data" => indexed(token).iter().any(|text| same(text, value)),
            None => token.get(field).and_then(Value::as_str) == Some(value),
        },
        Query::Container { path, below } => {
            let containers = token["containers"].as_array().unwrap();
            let mut containers = containers.iter().map(|path| path.as_str().unwrap());
            let path = path.to_lowercase();
            containers.any(|one| if *below { one.starts_with(&path) } else { one == path })
        }
        Query::Time { field, from, to, exclusive } => time(token, field).is_some_and(|at| {
            let after =
                span(from).is_none_or(|(first, end)| at >= if *exclusive { end } else { first });
            let before =
                span(to).is_none_or(|(first, end)| at < if *exclusive { first } else { end });
            after && before
        }),
        Query::Day { field, day } => {
            let (first, end) = span(&Bound::Day(*day)).unwrap();
            time(token, field).is_some_and(|at| first <= at && at < end)
        }
        Query::Not(part) => !matches(part, token),
        Query::And(parts) => parts.iter().all(|part| matches(part, token)),
        Query::Or(parts) => parts.iter().any(|part| matches(part, token)),
    }
}

fn draw<S: Strategy>(strategy: S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

/// Makes tokens over many days and changes some; they come as they are in the end, newest first.
async fn make(server: &TestServer, private: &Client, runner: &mut TestRunner) -> Vec<Value> {
    let mut tokens: Vec<Value> = Vec::new();
    for _ in 0..TOKENS {
        server.clock.advance_ms(draw(1..30_000_000_u64, runner));
        let body = draw(token(), runner);
        tokens.insert(0, private.post("/tokens", body).await.expect(201));
    }
    for _ in 0..CHANGES {
        server.clock.advance_ms(draw(1..30_000_000_u64, runner));
        let changed = &mut tokens[draw(0..TOKENS, runner)];
        let mut patch = draw(token(), runner);
        patch.as_object_mut().unwrap().retain(|name, _| name == "metadata" || name == "containers");
        let path = format!("/tokens/{}", changed["id"].as_str().unwrap());
        *changed = private.patch(&path, patch).await.expect(200);
    }
    tokens
}

/// A page of a search, and what it must be.
async fn assert_page(caller: &Caller, mut body: Value, number: usize, expected: &[Value]) -> Value {
    let size = usize::try_from(body["size"].as_u64().unwrap()).unwrap();
    let Caller { client, rights } = caller;
    if body.get("start").is_none() {
        body["page"] = json!(number);
    }
    let answer = client.post("/tokens/search", body.clone()).await.expect(200);
    let (from, to) = ((number - 1) * size, expected.len().min(number * size));
    let shown = expected.get(from..to).unwrap_or_default();
    assert_eq!(answer["data"].as_array().unwrap(), shown, "{body} {rights:?}");
    let mut pagination = answer["pagination"].clone();
    let next = pagination.as_object_mut().unwrap().remove("next").unwrap_or_default();
    let about = json!({"total_items": expected.len(), "total_pages": expected.len().div_ceil(size),
        "page_number": number, "page_size": size});
    assert_eq!(pagination, about, "{body} {rights:?}");
    assert_eq!(next.is_string(), to < expected.len(), "{body} {rights:?}");
    next
}

/// Searches as a caller, all on one page or on several, by their numbers or from one to the next.
async fn assert_found(caller: &Caller, query: &str, expected: &[Value], runner: &mut TestRunner) {
    let pages = draw(prop_oneof![4 => Just(1_usize), 1 => 2..4_usize], runner);
    if pages == 1 {
        assert_page(caller, json!({"query": query, "size": 100}), 1, expected).await;
        return;
    }
    let size = expected.len().div_ceil(pages).max(1);
    let mut body = json!({"query": query, "size": size});
    let by_cursor = draw(any::<bool>(), runner);
    for number in 1.. {
        let next = assert_page(caller, body.clone(), number, expected).await;
        if by_cursor {
            body["start"] = next.clone();
        }
        if next.is_null() {
            break;
        }
    }
    if !by_cursor {
        // Behind the last page there is nothing, of so many still.
        assert_page(caller, body, pages + 1, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_what_a_plain_evaluation_finds() {
    let mut runner = TestRunner::default();
    let (mut telling, mut narrowed) = (0, 0);
    for _ in 0..ROUNDS {
        let server = TestServer::start().await;
        let private = server.revealing().await;
        let tokens = make(&server, &private, &mut runner).await;
        let callers = callers(&server, &tokens, &mut runner).await;
        for turn in 0..QUERIES {
            let query = draw(query(&tokens), &mut runner);
            let text = write(&query);
            let caller = &callers[turn % callers.len()];
            let body = json!({"query": text});
            if !caller.rights.may_search() {
                caller.client.post("/tokens/search", body).await.expect(403);
                continue;
            }
            let matching: Vec<&Value> =
                tokens.iter().filter(|token| matches(&query, token)).collect();
            let expected = matching.iter().filter_map(|token| caller.rights.shown(token));
            let expected: Vec<Value> = expected.collect();
            assert_found(caller, &text, &expected, &mut runner).await;
            telling += usize::from(!matching.is_empty() && matching.len() < TOKENS);
            narrowed += usize::from(!expected.is_empty() && expected.len() < matching.len());
        }
    }
    assert!(telling > ROUNDS * QUERIES / 4, "{telling} queries told tokens apart");
    assert!(narrowed > ROUNDS * QUERIES / 10, "{narrowed} searches were narrowed");
}
