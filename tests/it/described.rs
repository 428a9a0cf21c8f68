//! What is answered is what the description says of it: each status, each header, each content type.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tokamak::config::{Rate, RateLimits};
use tokamak::limits::TRACE_ID_CHARS_MAX;

use crate::support::receiver::{Hook, Receiver};
use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer, guests};

/// Headers that any answer may have, whatever it is an answer to: HTTP's own, and those for browsers and caches.
const OF_ALL: &[&str] = &[
    "cache-control",
    "connection",
    "content-length",
    "content-security-policy",
    "content-type",
    "cross-origin-resource-policy",
    "date",
    "referrer-policy",
    "transfer-encoding",
    "x-content-type-options",
    "x-frame-options",
];
/// An id that nothing has.
const NOTHING: &str = "00000000-0000-7000-8000-000000000000";

/// Asks, and looks at the answers beside the description.
struct Walk {
    description: Value,
    /// Which header came with which status.
    seen: BTreeSet<(u16, String)>,
}

/// The path of the description that an address is one of.
fn pattern<'d>(description: &'d Value, path: &str) -> &'d str {
    let path = path.split('?').next().unwrap_or(path);
    let fits = |pattern: &&String| {
        let same_length = pattern.split('/').count() == path.split('/').count();
        let mut parts = pattern.split('/').zip(path.split('/'));
        same_length && parts.all(|(said, asked)| said.starts_with('{') || said == asked)
    };
    let paths = description["paths"].as_object().unwrap();
    // A name comes before a place for any.
    let found = paths.keys().filter(fits).min_by_key(|pattern| pattern.matches('{').count());
    found.unwrap_or_else(|| panic!("{path} is not described"))
}

impl Walk {
    async fn begin(server: &TestServer) -> Self {
        let description = server.stranger().get("/openapi.json").await.expect(200);
        Self { description, seen: BTreeSet::new() }
    }

    /// Every operation, with ids of nothing in its path.
    fn operations(&self) -> Vec<(Method, String)> {
        let mut operations = Vec::new();
        for (path, methods) in self.description["paths"].as_object().unwrap() {
            let path = path.replace("{id}", NOTHING).replace("{invocation_id}", NOTHING);
            for method in methods.as_object().unwrap().keys() {
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                operations.push((method, path.clone()));
            }
        }
        assert!(operations.len() >= 40, "{}", operations.len());
        operations
    }

    /// Looks at an answer.
    fn look(&mut self, method: &Method, path: &str, answer: &Answer) {
        let at = format!("{method} {path}: {} {}", answer.status, answer.text());
        let pattern = pattern(&self.description, path);
        let operation = &self.description["paths"][pattern][method.as_str().to_lowercase()];
        let responses = &operation["responses"];
        let said = responses.get(answer.status.as_str()).or_else(|| responses.get("default"));
        let said = said.unwrap_or_else(|| panic!("{at} has a status that is not described"));
        let headers = said["headers"].as_object().unwrap();
        let names = answer.headers.keys().map(reqwest::header::HeaderName::as_str);
        for name in names.filter(|name| !OF_ALL.contains(name)) {
            let is_said = headers.keys().any(|said| said.eq_ignore_ascii_case(name));
            assert!(is_said, "{at} has {name}, which is not described");
            self.seen.insert((answer.status.as_u16(), name.to_owned()));
        }
        if !answer.bytes.is_empty() {
            let kind = answer.headers["content-type"].to_str().unwrap();
            let kind = kind.split(';').next().unwrap();
            assert!(said["content"].get(kind).is_some(), "{at} is {kind}, which is not described");
        }
    }

    /// Looks at what a receiver was sent.
    fn look_at_hook(&self, hook: &Hook) {
        let react = &self.description["paths"]["/reactors/{id}/react"]["post"];
        let told = &react["callbacks"]["result"]["{$request.body#/callback_url}"]["post"];
        for parameter in told["parameters"].as_array().unwrap() {
            assert!(hook.headers.contains_key(text(parameter, "name")), "{parameter}");
        }
        let schema = &told["requestBody"]["content"]["application/json"]["schema"];
        let body = hook.json();
        for (schema, value) in [(schema, &body), (&schema["properties"]["data"], &body["data"])] {
            for name in schema["required"].as_array().unwrap() {
                assert!(value.get(name.as_str().unwrap()).is_some(), "{name} is not in {body}");
            }
            for name in value.as_object().unwrap().keys() {
                assert!(schema["properties"].get(name).is_some(), "{name} is not described");
            }
        }
    }

    /// Sends JSON, and looks at the answer; with a body of `null`, none is sent.
    async fn ask(&mut self, client: &Client, (method, path): (&str, &str), body: Value) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = client.request(method.clone(), path);
        let request = match (&method, body) {
            (_, Value::Null) => request,
            (&Method::PATCH, body) => request
                .header("content-type", "application/merge-patch+json")
                .body(body.to_string()),
            (_, body) => request.json(&body),
        };
        let answer = client.send(request).await;
        self.look(&method, path, &answer);
        answer
    }

    /// Asks every operation for nothing that is there, with an empty body where one is taken.
    async fn ask_all(&mut self, client: &Client, query: &str) {
        for (method, path) in self.operations() {
            let takes_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
            let body = if takes_body { json!({}) } else { Value::Null };
            let path = format!("{path}{query}");
            self.ask(client, (method.as_str(), &path), body).await;
        }
    }

    /// Asks every operation with this header, and a body that is no JSON.
    async fn ask_all_with(&mut self, client: &Client, (name, value): (&str, &str)) {
        for (method, path) in self.operations() {
            let request = client.request(method.clone(), &path).header(name, value);
            let answer = match method {
                Method::GET | Method::DELETE => client.send(request).await,
                _ => client.send(request.body("no JSON")).await,
            };
            self.look(&method, &path, &answer);
        }
    }

    #[track_caller]
    fn assert_seen(&self, expected: &[(u16, &str)]) {
        for (status, name) in expected {
            let seen = self.seen.contains(&(*status, (*name).to_owned()));
            assert!(seen, "{name} with {status} is not in {:?}", self.seen);
        }
    }
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap()
}

/// Asks for runs that are answered, fail in each way, and are told to a receiver.
async fn run(walk: &mut Walk, server: &TestServer, reactor: &str) {
    let receiver = Receiver::start().await;
    let react = format!("/reactors/{reactor}/react");
    let client = &server.private;
    for (args, status) in [
        (json!({"behaviour": "respond", "raw": 1}), 200),
        (json!({"behaviour": "fail", "kind": "authentication"}), 401),
        (json!({"behaviour": "fail", "kind": "invalid_payment_method"}), 402),
        (json!({"behaviour": "fail", "kind": "rate_limit"}), 429),
        (json!({"behaviour": "fail", "kind": "service_unavailable"}), 503),
        (
            json!({"behaviour": "custom", "status": 400, "headers": [["retry-after", "3"]],
                "body": {}}),
            400,
        ),
        (
            json!({"behaviour": "custom", "status": 418, "headers": [["retry-after", "3"]],
                "body": {}}),
            418,
        ),
        (json!({"behaviour": "panic", "message": "x"}), 500),
        (json!({"a": format!("{{{{ {NOTHING} }}}}")}), 400),
    ] {
        walk.ask(client, ("POST", &react), json!({"args": args})).await.expect(status);
    }
    let body = json!({"args": {}, "callback_url": receiver.url()});
    let queued = walk.ask(client, ("POST", &react), body).await;
    queued.expect(202);
    let place = queued.headers["location"].to_str().unwrap();
    let hook = receiver.wait(1).await.remove(0);
    walk.look_at_hook(&hook);
    walk.ask(client, ("GET", place), Value::Null).await.expect(200);
    walk.ask(client, ("POST", &format!("{place}/redeliver")), Value::Null).await.expect(202);
    let invocations = format!("/reactors/{reactor}/invocations");
    walk.ask(&server.management, ("GET", &invocations), Value::Null).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_succeeds_is_answered_as_described() {
    let server = TestServer::start_with(Setup::open()).await;
    let mut walk = Walk::begin(&server).await;
    let (management, private) = (&server.management, &server.private);
    let token = json!({"id": "one", "type": "token", "data": "x", "deduplicate_token": true});
    walk.ask(private, ("POST", "/tokens"), token).await.expect(201);
    let same = json!({"type": "token", "data": "x", "deduplicate_token": true});
    walk.ask(private, ("POST", "/tokens"), same).await.expect(200);
    walk.ask(private, ("GET", "/tokens/one"), Value::Null).await.expect(200);
    walk.ask(private, ("PATCH", "/tokens/one"), json!({"metadata": {"a": "b"}})).await.expect(200);
    walk.ask(private, ("POST", "/tokenize"), json!(["y"])).await.expect(200);
    walk.ask(private, ("DELETE", "/tokens/one"), Value::Null).await.expect(204);
    let body = json!({"name": "p", "type": "public", "permissions": ["token:create"]});
    let made = walk.ask(management, ("POST", "/applications"), body).await.expect(201);
    let path = format!("/applications/{}", text(&made, "id"));
    let public = server.client(text(&made, "key"));
    let session = walk.ask(&public, ("POST", "/sessions"), json!({})).await.expect(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["token:create"]});
    walk.ask(private, ("POST", "/sessions/authorize"), body).await.expect(200);
    let again = format!("{path}/regenerate");
    walk.ask(management, ("POST", &again), Value::Null).await.expect(200);
    walk.ask(management, ("DELETE", &path), Value::Null).await.expect(204);
    let formula = guests::formula(&server, "probe", json!({})).await;
    let path = format!("/reactor-formulas/{formula}/component");
    walk.ask(management, ("GET", &path), Value::Null).await;
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let reactor = walk.ask(management, ("POST", "/reactors"), body).await.expect(201);
    run(&mut walk, &server, text(&reactor, "id")).await;
    for _ in 0..2 {
        let body = json!({"type": "token", "data": "once"});
        let request = private.request(Method::POST, "/tokens").json(&body);
        let answer = private.send(request.header("svc-idempotency-key", "one")).await;
        walk.look(&Method::POST, "/tokens", &answer);
    }
    for client in [management, private] {
        walk.ask_all(client, "").await;
    }
    walk.assert_seen(&[
        (200, "svc-trace-id"),
        (201, "location"),
        (201, "svc-idempotent-replay"),
        (202, "location"),
        (400, "retry-after"),
        (401, "svc-invocation-id"),
        (418, "svc-invocation-id"),
        (429, "retry-after"),
        (500, "svc-invocation-id"),
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_answered_as_described() {
    let server = TestServer::start().await;
    let mut walk = Walk::begin(&server).await;
    let powerless = server.application("public", &["token:create"], json!([])).await;
    let unknown = server.client("key_prv_00000000000000000000000000000000");
    let token =
        server.private.request(Method::POST, "/tokens").json(&json!({"type": "token", "data": 1}));
    let token = token.header("svc-idempotency-key", "the same for all");
    server.private.send(token).await.expect(201);
    for client in [&server.stranger(), &unknown, &powerless, &server.management, &server.private] {
        walk.ask_all(client, "").await;
        walk.ask_all(client, "?page=0&size=1000&start=x&id=x&type=x").await;
        walk.ask_all(client, &format!("?x={}", "x".repeat(17_000))).await;
        for header in [
            ("x-long", "x".repeat(33_000).as_str()),
            ("content-type", "text/plain"),
            ("content-type", "application/json"),
            ("content-type", "application/merge-patch+json"),
            ("content-type", "application/wasm"),
            ("svc-idempotency-key", "the same for all"),
            ("svc-idempotency-key", ""),
        ] {
            walk.ask_all_with(client, header).await;
        }
    }
    walk.assert_seen(&[(401, "www-authenticate"), (422, "svc-trace-id"), (431, "svc-trace-id")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_too_often_is_answered_as_described() {
    let one: Rate = 1.into();
    // Making the private application of the test's server is one already.
    let manage = "1:2".parse().unwrap();
    let (read, search, write, invoke) = (one, one, one, one);
    let rates = RateLimits { read, search, write, invoke, manage, ..RateLimits::default() };
    let server = TestServer::start_with(Setup { rates, ..Setup::default() }).await;
    let mut walk = Walk::begin(&server).await;
    for client in [&server.management, &server.private, &server.management, &server.private] {
        walk.ask_all(client, "").await;
    }
    walk.assert_seen(&[(429, "retry-after")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_cannot_serve_is_answered_as_described() {
    let server = TestServer::start().await;
    let mut walk = Walk::begin(&server).await;
    server.vault.close();
    for client in [&server.management, &server.private] {
        walk.ask_all(client, "").await;
    }
    walk.assert_seen(&[(503, "retry-after")]);
}

/// What clients are made of: one type for each thing, and each header where it can be sent.
#[tokio::test(flavor = "multi_thread")]
async fn things_are_described_once_and_named_wherever_they_are() {
    let server = TestServer::start().await;
    let Walk { description, .. } = Walk::begin(&server).await;
    let schemas = description["components"]["schemas"].as_object().unwrap();
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let mut pages = 0;
    for (name, page) in schemas {
        if let Some(item) = name.strip_prefix("Paginated_") {
            assert_eq!(page["properties"]["data"]["items"], reference(item), "{name}");
            pages += 1;
        }
    }
    assert!(pages >= 6, "{pages}");
    let required = schemas["Problem"]["required"].as_array().unwrap();
    assert!(required.contains(&json!("trace_id")), "{required:?}");
    assert_eq!(schemas["JobView"]["properties"]["error"], reference("RunProblem"));
    let parts = schemas["RunProblem"]["allOf"].as_array().unwrap();
    assert_eq!(parts[0], reference("Problem"));
    assert!(parts[1]["properties"].get("body").is_some(), "{parts:?}");
    let trace = json!({"$ref": "#/components/parameters/SVC-TRACE-ID"});
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().unwrap();
            assert!(parameters.contains(&trace), "{method} {path}");
        }
    }
    let trace = &description["components"]["parameters"]["SVC-TRACE-ID"];
    // One of any form is taken, or replaced: a schema that bounds it would have it refused.
    assert_eq!(trace["schema"], json!({"type": "string"}));
    let text = trace["description"].as_str().unwrap();
    assert!(text.contains(&TRACE_ID_CHARS_MAX.to_string()), "{text}");
}
