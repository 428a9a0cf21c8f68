//! The formula as a reactor would call it, on a network that answers as it is told.

use tokamak_sdk::http::{Error as HttpError, Response, Sent};
use tokamak_sdk::testing::{Call, FakeHttp, Outcome};
use tokamak_sdk::{ErrorKind, Map, Value, json};

use super::react;
use crate::settings::TOKEN_TYPES;

mod answers;

const URL: &str = "https://api.example.com/cards";
const INVOCATION: &str = "01900000-0000-7000-8000-000000000001";

fn with(mut value: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members of an object") };
    for (name, member) in members {
        value[name] = member;
    }
    value
}

fn call(args: &Value, configuration: Value, network: &FakeHttp) -> Outcome {
    let configuration = with(json!({ "url": URL }), configuration);
    Call::new(args).configuration(configuration).http(network).run(react)
}

fn answering(body: Value) -> FakeHttp {
    FakeHttp::new().json(200, body)
}

/// What is sent for these arguments and this configuration.
fn sent(args: &Value, configuration: Value) -> Sent {
    let network = answering(json!({}));
    let outcome = call(args, configuration, &network);
    assert!(outcome.is_ok(), "{:?}", outcome.error());
    network.requests().remove(0)
}

/// The members that a refused request names; nothing is sent, nothing of the arguments is told. What is wrong with the
/// configuration alone is no affair of the caller's.
fn refused(args: &Value, configuration: Value) -> Vec<String> {
    let network = answering(json!({}));
    let outcome = call(args, configuration, &network);
    let error = outcome.error();
    assert!(network.requests().is_empty());
    let told = format!("{error:?}");
    assert!(!told.contains("secret"), "{told}");
    let known = ["configuration", "args"]
        .iter()
        .flat_map(|root| told.split('"').filter(move |part| part.starts_with(root)));
    let mut members: Vec<String> = known.map(str::to_owned).collect();
    members.retain(|member| !error.messages(member).is_empty());
    if members.iter().all(|member| member.starts_with("configuration")) {
        assert_eq!(error.kind(), Some(ErrorKind::Runtime), "{told}");
        assert!(members.iter().all(|member| error.detail().contains(member)), "{told}");
    } else {
        assert_eq!(error.kind(), Some(ErrorKind::BadRequest), "{told}");
    }
    members
}

fn card() -> Value {
    json!({ "card": { "number": "4242424242424242", "expiration_month": 12, "cvc": null }, "tags": ["a", 2] })
}

#[test]
fn without_a_template_the_arguments_are_sent() {
    let sent = sent(&card(), json!({}));
    assert_eq!((sent.method.as_str(), sent.url.as_str(), sent.redirects), ("POST", URL, 0));
    assert_eq!(sent.json(), card());
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("accept"), Some("application/json"));
    assert_eq!(sent.timeout_ms, None);
}

#[test]
fn what_makes_an_address_or_headers_too_long_is_named() {
    let args = json!({ "a": "x".repeat(8_001), "b": "y".repeat(4_000), "c": "z" });
    let url = |path: &str| json!({ "url": format!("{URL}?{path}") });
    let headers = |headers: Value| json!({ "headers": headers.to_string() });
    let many: Map<String, Value> =
        (0..9).map(|n| (format!("h{n}"), json!("{{ args.b }}"))).collect();
    for (configuration, members) in [
        (url("a={{ args.a }}&c={{ args.c }}"), ["args.a", "args.c"].as_slice()),
        (url(&"a".repeat(8_001)), &["configuration.url"]),
        (headers(json!({ "a": "{{ args.a }}" })), &["args.a"]),
        (headers(Value::Object(many)), &["args.b"]),
    ] {
        assert_eq!(refused(&args, configuration), members);
    }
    let sent = sent(&args, headers(json!({ "a": "{{ args.b }}", "c": "{{ args.c }}" })));
    assert_eq!(sent.header("a").map(str::len), Some(4_000));
}

#[test]
fn a_template_is_filled_and_keeps_types() {
    let table = [
        (json!("{{ args.card }}"), card()["card"].clone()),
        (json!({ "n": "{{ args.card.number }}" }), json!({ "n": "4242424242424242" })),
        (json!(["{{args.card.expiration_month}}"]), json!([12])),
        (json!("m={{ args.card.expiration_month }};"), json!("m=12;")),
        (json!("{{ args.tags.1 }}/{{ args.tags.0 }}"), json!("2/a")),
        (
            json!({ "a": { "b": [1, true, null, "text"] } }),
            json!({ "a": { "b": [1, true, null, "text"] } }),
        ),
        // Null is a value; absent is none, and may be left out.
        (json!(["{{ args.card.cvc }}"]), json!([null])),
        (json!({ "a": "{{ args.gone? }}", "b": ["{{ args.gone? }}", 1] }), json!({ "b": [1] })),
        (json!("<{{ args.gone? }}>"), json!("<>")),
        (json!("{{ invocation.id }} {{ invocation.attempt }}"), json!(format!("{INVOCATION} 1"))),
        (json!({ "k": "{{ configuration.api_key }}" }), json!({ "k": "key" })),
    ];
    for (template, expected) in table {
        let configuration = json!({ "body_template": template.to_string(), "api_key": "key" });
        assert_eq!(sent(&card(), configuration).json(), expected, "{template}");
    }
}

#[test]
fn values_never_become_syntax_of_the_body() {
    let nasty = "\"}, \"admin\": true, \"x\": \"{{ configuration.api_key }}\r\n\\";
    let args = json!({ "name": nasty });
    let template = json!({ "name": "{{ args.name }}", "text": "Dear {{ args.name }}" }).to_string();
    let sent_json = sent(&args, json!({ "body_template": template, "api_key": "key" })).json();
    assert_eq!(sent_json, json!({ "name": nasty, "text": format!("Dear {nasty}") }));
    let args = json!({ "name": "a&admin=1", "b]=2&c[": "=" });
    let sent = sent(&args, json!({ "content_type": "form" }));
    assert_eq!(sent.text(), "name=a%26admin%3D1&b%5D%3D2%26c%5B=%3D");
}

#[test]
fn a_form_has_a_field_for_each_scalar() {
    let sent = sent(&card(), json!({ "content_type": "form" }));
    assert_eq!(sent.header("content-type"), Some("application/x-www-form-urlencoded"));
    let expected = "card%5Bnumber%5D=4242424242424242&card%5Bexpiration_month%5D=12&tags%5B0%5D=a&tags%5B1%5D=2";
    assert_eq!(sent.text(), expected);
    let template = json!({ "n": "{{ args.card.number }}", "live": true }).to_string();
    let sent = self::sent(&card(), json!({ "content_type": "form", "body_template": template }));
    assert_eq!(sent.text(), "n=4242424242424242&live=true");
    let sent = self::sent(&card(), json!({ "content_type": "json" }));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(refused(&json!([1]), json!({ "content_type": "form" })), ["args"]);
    let list = json!({ "content_type": "form", "body_template": "[]" });
    assert_eq!(refused(&card(), list), ["configuration.body_template"]);
    // What the caller sends in the place of all of it is the caller's.
    for (template, args) in [
        ("\"{{ args.tags }}\"", card()),
        ("\"{{ args.tags }}\"", json!({})),
        ("\"{{ args.tags? }}\"", json!({})),
    ] {
        let whole = json!({ "content_type": "form", "body_template": template });
        let outcome = call(&args, whole, &FakeHttp::new());
        assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest), "{template} {args}");
        assert_eq!(outcome.error().messages("args.tags").len(), 1, "{:?}", outcome.error());
    }
}

#[test]
fn methods_decide_whether_arguments_are_a_body() {
    for (method, sends) in
        [("get", false), ("POST", true), ("Put", true), ("PATCH", true), ("DELETE", false)]
    {
        let sent = sent(&card(), json!({ "method": method }));
        assert_eq!((sent.method, sent.body.is_some()), (method.to_uppercase(), sends));
    }
    let sent = sent(&card(), json!({ "method": "DELETE", "body_template": "1" }));
    assert_eq!(sent.text(), "1");
}

#[test]
fn addresses_hold_encoded_values() {
    let args = json!({ "id": "a/../b?c#d e", "n": 7, "empty": "" });
    let url = |template: &str| sent(&args, json!({ "url": template })).url;
    assert_eq!(
        url("https://a.example/x/{{ args.id }}/y-{{ args.n }}?q={{ args.id }}&e={{ args.empty }}"),
        "https://a.example/x/a%2F..%2Fb%3Fc%23d%20e/y-7?q=a%2F..%2Fb%3Fc%23d%20e&e="
    );
    assert_eq!(url("https://a.example?q={{args.n}}"), "https://a.example?q=7");
    assert_eq!(
        url("https://a.example/a?q={{ args.gone? }}&n={{ args.n? }}"),
        "https://a.example/a?q=&n=7"
    );
}

#[test]
fn values_never_lead_an_address_elsewhere() {
    let url = json!({ "url": "https://a.example/x/{{ args.id }}/y" });
    for id in ["", ".", ".."] {
        assert_eq!(refused(&json!({ "id": id }), url.clone()), ["args.id"], "{id}");
    }
    // An encoded dot is encoded once more, and harmless.
    assert_eq!(sent(&json!({ "id": "%2e" }), url).url, "https://a.example/x/%252e/y");
    let dots = json!({ "url": "https://a.example/x/.{{ args.id }}" });
    assert_eq!(refused(&json!({ "id": "." }), dots), ["args.id"]);
    let whole = json!({ "url": "https://a.example/x/{{ args.id? }}" });
    assert_eq!(refused(&json!({}), whole), ["args.id"]);
}

#[test]
fn headers_are_filled() {
    let headers = json!({
        "Authorization": "Bearer {{ configuration.api_key }}", "Idempotency-Key": "{{ invocation.id }}",
        "X-Trace": "{{ args.trace? }}", "X-Tag": "t-{{ args.tags.1 }}", "Accept": "text/csv",
        "Content-Type": "application/vnd.api+json",
    });
    let configuration = json!({ "headers": headers.to_string(), "api_key": "k-1" });
    let sent = sent(&card(), configuration);
    assert_eq!(sent.header("authorization"), Some("Bearer k-1"));
    assert_eq!(sent.header("idempotency-key"), Some(INVOCATION));
    assert_eq!((sent.header("x-trace"), sent.header("x-tag")), (None, Some("t-2")));
    assert_eq!(sent.header("accept"), Some("text/csv"));
    assert_eq!(sent.header("content-type"), Some("application/vnd.api+json"));
    assert_eq!(sent.headers.len(), 5);
}

#[test]
fn values_never_become_another_header() {
    let headers = json!({ "X-Name": "{{ args.name }}" }).to_string();
    for name in ["secret\r\nX-Admin: 1", "secret\n", "secret\0", "secrét", "\u{7f}secret"] {
        let members = refused(&json!({ "name": name }), json!({ "headers": headers }));
        assert_eq!(members, ["args.name"], "{name:?}");
    }
}

#[test]
fn placeholders_without_a_value_are_all_named() {
    let configuration = json!({
        "url": "https://a.example/{{ args.id }}",
        "headers": json!({ "Authorization": "{{ configuration.api_key }}", "X-A": "{{ args.list }}" }).to_string(),
        "body_template": json!({ "a": "{{ args.card.number }}", "b": "x{{ args.null }}" }).to_string(),
    });
    let args = json!({ "card": "secret", "list": ["secret"], "null": null });
    let mut members = refused(&args, configuration);
    members.sort();
    let expected =
        ["args.card.number", "args.id", "args.list", "args.null", "configuration.api_key"];
    assert_eq!(members, expected);
}

#[test]
fn the_configuration_is_checked() {
    let table = [
        ("url", json!("https://{{ args.host }}/")),
        ("url", json!("api.example.com")),
        ("url", json!("http://api.example.com/")),
        ("url", json!("http://127.0.0.1/")),
        ("method", json!("TRACE")),
        ("content_type", json!("xml")),
        ("body_template", json!("{")),
        ("body_template", json!("{\"a\": {{ args.a }}}")),
        ("body_template", json!("\"{{ args.a | last4 }}\"")),
        ("headers", json!("[]")),
        ("headers", json!("{\"Host\": \"x\"}")),
        ("headers", json!("{\"X\": \"a\\r\\nb\"}")),
        ("expected_status", json!("2xx")),
        ("raw_path", json!("a.b")),
        ("tokenize_path", json!("a")),
        ("tokenize_type", json!("card")),
        ("redact", json!("/a")),
        ("redact", json!("[\"\"]")),
    ];
    for (name, value) in table {
        let mut configuration = json!({});
        configuration[name] = value.clone();
        let members = refused(&json!({ "a": "secret" }), configuration);
        assert_eq!(members, [format!("configuration.{name}")], "{value}");
    }
    let with_get = json!({ "method": "GET", "body_template": "1" });
    assert_eq!(refused(&card(), with_get), ["configuration.body_template"]);
    assert_eq!(sent(&card(), json!({ "timeout_ms": 1500 })).timeout_ms, Some(1500));
}

#[test]
fn members_of_the_configuration_of_the_wrong_type_are_named() {
    let texts = [
        "url",
        "method",
        "content_type",
        "body_template",
        "headers",
        "expected_status",
        "raw_path",
        "tokenize_path",
        "redact",
    ];
    let mut table: Vec<(&str, Value, &str)> =
        texts.into_iter().map(|name| (name, json!(["secret"]), "must be a string")).collect();
    let whole = "must be a whole number of milliseconds, 1 to 4294967295";
    for wrong in [json!(-1), json!(0), json!(1.5), json!(1_000_000_000_000_u64), json!("secret")] {
        table.push(("timeout_ms", wrong, whole));
    }
    table.push(("allow_http", json!("true"), "must be true or false"));
    table.push(("url", json!(null), "is required"));
    for (name, value, message) in table {
        let outcome = call(&card(), json!({ name: value }), &FakeHttp::new());
        let told = format!("{:?}", outcome.error());
        let member = format!("configuration.{name}");
        assert_eq!(outcome.error().messages(&member), [message], "{told}");
        assert!(!told.contains("secret"), "{told}");
        assert_eq!(refused(&card(), json!({ name: value })), [member]);
    }
    let all = texts.into_iter().chain(["tokenize_type", "timeout_ms", "allow_http"]);
    let (mut wrong, mut members) = (json!({}), Vec::new());
    for name in all {
        wrong[name] = json!({});
        members.push(format!("configuration.{name}"));
    }
    let mut told = refused(&card(), wrong);
    told.sort();
    members.sort();
    assert_eq!(told, members);
}

#[test]
fn no_fault_hides_another() {
    let body = json!({ "a": "{{ args.a }}" }).to_string();
    let headers = json!({ "X-B": "{{ args.b }}" }).to_string();
    let url = "http://a.example/{{ args.c }}";
    let table = [
        (json!({ "timeout_ms": -1, "method": "BREW" }), vec!["timeout_ms", "method"], vec![]),
        (json!({ "tokenize_path": "a", "tokenize_type": "card" }), vec!["tokenize_path"], vec![]),
        // The address is not to blame for what is wrong with `allow_http`.
        (json!({ "url": url, "allow_http": "true" }), vec!["allow_http"], vec!["args.c"]),
        (json!({ "url": url, "raw_path": "a" }), vec!["url", "raw_path"], vec![]),
        (
            json!({ "body_template": body, "headers": headers, "method": 5, "content_type": "xml", "redact": 7 }),
            vec!["method", "content_type", "redact"],
            vec!["args.a", "args.b"],
        ),
        (
            json!({ "body_template": "{", "headers": headers }),
            vec!["body_template"],
            vec!["args.b"],
        ),
        (json!({ "body_template": body, "headers": "[]" }), vec!["headers"], vec!["args.a"]),
    ];
    for (configuration, settings, args) in table {
        let settings = settings.into_iter().map(|name| format!("configuration.{name}"));
        let mut members: Vec<String> =
            settings.chain(args.into_iter().map(str::to_owned)).collect();
        members.sort();
        let mut told = refused(&json!({}), configuration.clone());
        told.sort();
        assert_eq!(told, members, "{configuration}");
    }
}

#[test]
fn nothing_goes_in_clear_unless_that_is_allowed() {
    let url = "http://a.example/x";
    let denied = json!({ "url": url, "allow_http": false });
    assert_eq!(refused(&card(), denied), ["configuration.url"]);
    assert_eq!(sent(&card(), json!({ "url": url, "allow_http": true })).url, url);
    assert_eq!(sent(&card(), json!({ "allow_http": true })).url, URL);
    let placeholder = json!({ "url": "http://{{ args.host }}/", "allow_http": true });
    assert_eq!(refused(&card(), placeholder), ["configuration.url"]);
}

#[test]
fn types_of_tokens_are_known_before_anything_is_sent() {
    for name in TOKEN_TYPES {
        let typed = json!({ "tokenize_path": "/card", "tokenize_type": name });
        let outcome = call(&card(), typed, &answering(json!({ "card": "x" })));
        assert_eq!(outcome.tokenize(), json!({ "type": name, "data": "x" }));
    }
    for wrong in ["", "Card", "card ", "secret"] {
        let typed = json!({ "tokenize_path": "/card", "tokenize_type": wrong });
        assert_eq!(refused(&card(), typed), ["configuration.tokenize_type"], "{wrong}");
    }
    let typed = json!({ "tokenize_path": "/card", "tokenize_type": "cards" });
    let outcome = call(&card(), typed, &FakeHttp::new());
    let told = outcome.error().messages("configuration.tokenize_type");
    let list = "must be one of token, card, card_number, bank, us_bank_account_number, \
                us_bank_routing_number, social_security_number, employer_id_number";
    assert_eq!(told, [list]);
}
