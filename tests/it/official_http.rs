//! The formulas that send requests, and the one that compares, over HTTP and on tokens.
//!
//! `StandIn` is the other side: a processor that keeps idempotency keys as the common ones do, and an endpoint that
//! tells what it got.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{any, post};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokamak::token_type::TokenType;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::server::Setup;
use crate::support::{Answer, TestServer, guests};

const FORWARD: &str = "3f0d8a5e-7c41-4b9a-a6e2-91d4c05b7e03";
const PAYMENT: &str = "9c6e1f27-0a84-4d35-b1f8-7e52a3d09c04";
const IDENTITY: &str = "d17b4c90-5e2f-4a68-8c03-26fa91b7e505";

const KEY: &str = "sk_test_canary";
const GOOD: &str = "4242424242424242";
const POOR: &str = "4000000000009995";
/// The payment is made, and its answer comes too late.
const SLOW: &str = "4000000000000259";

/// What a stand-in got and made.
#[derive(Default)]
struct Seen {
    /// Method, path with query, headers, body.
    requests: Vec<Value>,
    /// Answers by idempotency key.
    answers: BTreeMap<String, (u16, Value)>,
    payments: usize,
}

type Shared = Arc<Mutex<Seen>>;

struct StandIn {
    base: String,
    seen: Shared,
    serving: JoinHandle<()>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen = Shared::default();
        let routes = axum::Router::new()
            .route("/v1/payment_intents", post(pay_by_form))
            .route("/payments", post(pay_by_json))
            .route("/endpoint/{*rest}", any(endpoint))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&seen));
        let serving = tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        Self { base, seen, serving }
    }

    /// How many payments were made, and how many idempotency keys there were.
    fn payments(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap();
        (seen.payments, seen.answers.len())
    }

    /// The first idempotency key.
    fn key(&self) -> String {
        self.seen.lock().unwrap().answers.keys().next().unwrap().clone()
    }

    /// What the endpoint got.
    fn requests(&self) -> Vec<Value> {
        self.seen.lock().unwrap().requests.clone()
    }
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// Makes a payment once for each idempotency key; gives the answer and whether it comes late.
fn pay(seen: &Shared, headers: &HeaderMap, number: &str, approved: Value) -> (u16, Value, bool) {
    let mut seen = seen.lock().unwrap();
    if header(headers, "authorization") != format!("Bearer {KEY}") {
        return (401, json!({"error": {"type": "invalid_request_error"}}), false);
    }
    let key = header(headers, "idempotency-key");
    assert!(!key.is_empty());
    if let Some((status, answer)) = seen.answers.get(&key) {
        return (*status, answer.clone(), false);
    }
    let declined = json!({"error": {"type": "card_error", "code": "card_declined",
        "decline_code": "insufficient_funds", "message": format!("no money on {number}")}});
    let (status, answer) = if number == POOR { (402, declined) } else { (200, approved) };
    seen.payments += usize::from(status == 200);
    seen.answers.insert(key, (status, answer.clone()));
    (status, answer, number == SLOW)
}

async fn reply((status, answer, late): (u16, Value, bool)) -> (StatusCode, String) {
    if late {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    (StatusCode::from_u16(status).unwrap(), answer.to_string())
}

async fn pay_by_form(
    State(seen): State<Shared>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    assert_eq!(header(&headers, "content-type"), "application/x-www-form-urlencoded");
    let fields: BTreeMap<String, String> =
        url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let number = fields["payment_method_data[card][number]"].clone();
    let status =
        if fields["capture_method"] == "manual" { "requires_capture" } else { "succeeded" };
    let approved = json!({
        "id": "pi_17", "status": status, "amount": fields["amount"].parse::<u64>().unwrap(),
        "currency": fields["currency"], "latest_charge": {"payment_method_details": {"card": {
            "network_transaction_id": "MCC0017", "checks": {"cvc_check": "pass"}}}},
    });
    reply(pay(&seen, &headers, &number, approved)).await
}

async fn pay_by_json(
    State(seen): State<Shared>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let body: Value = body.parse().unwrap();
    let number = body["source"]["number"].as_str().unwrap().to_owned();
    let approved = json!({"id": "pay_17", "approved": true, "status": "Authorized",
        "amount": body["amount"], "currency": body["currency"], "reference": body["reference"]});
    reply(pay(&seen, &headers, &number, approved)).await
}

/// Tells what it got; `/endpoint/fail` fails with it, and `/endpoint/digits` tells of numbers by a long name.
async fn endpoint(
    State(seen): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let headers: BTreeMap<_, _> =
        headers.keys().map(|name| (name.as_str(), header(&headers, name.as_str()))).collect();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let got = json!({"method": method.as_str(), "uri": uri.to_string(), "headers": headers, "body": text});
    seen.lock().unwrap().requests.push(got);
    if uri.path().ends_with("/digits") {
        let (name, numbers) = ("k".repeat(3 << 20), ["12345678901234567890123"; 41].join(","));
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        return (StatusCode::OK, format!(r#"{{"deep":{deep},"id":"c-18","{name}":[{numbers}]}}"#));
    }
    let status =
        if uri.path().ends_with("/fail") { StatusCode::BAD_GATEWAY } else { StatusCode::CREATED };
    (
        status,
        json!({"id": "c-17", "card": {"number": GOOD, "brand": "visa"}, "echo": text}).to_string(),
    )
}

async fn server() -> TestServer {
    let setup =
        Setup { allow_private_networks: true, react_timeout_ms: 60_000, ..Setup::default() };
    TestServer::start_with(setup).await
}

async fn react(server: &TestServer, reactor: &str, args: Value) -> Answer {
    server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

/// A reactor that forwards to a stand-in, which speaks in clear.
async fn forward(server: &TestServer, url: &str, mut configuration: Value) -> String {
    configuration["url"] = json!(url);
    configuration["allow_http"] = json!(true);
    guests::reactor(server, FORWARD, json!({"configuration": configuration})).await
}

async fn card(server: &TestServer, number: &str) -> String {
    let card =
        json!({"number": number, "expiration_month": 12, "expiration_year": 2099, "cvc": "987"});
    format!("{{{{ {} }}}}", server.private.token("card", card).await)
}

async fn payments(server: &TestServer, base: &str, style: &str, key: &str) -> String {
    let configuration =
        json!({"base_url": base, "api_key": key, "style": style, "timeout_ms": 4_000});
    guests::reactor(server, PAYMENT, json!({"configuration": configuration})).await
}

/// Neither the card nor the key is in an answer.
fn tells_nothing(answer: &Answer) {
    for hidden in [GOOD, POOR, SLOW, KEY] {
        assert!(!answer.text().contains(hidden), "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_are_authorised_by_token() {
    let (server, processor) = (server().await, StandIn::start().await);
    let card = card(&server, GOOD).await;
    for (style, id, network) in
        [("payment_intents", "pi_17", json!("MCC0017")), ("json", "pay_17", json!(null))]
    {
        let reactor = payments(&server, &processor.base, style, KEY).await;
        let args =
            json!({"card": card, "amount": 1250, "currency": "EUR", "reference": "order-17"});
        let answer = react(&server, &reactor, args).await;
        let raw = answer.expect(200)["raw"].clone();
        assert_eq!(
            (&raw["status"], &raw["id"], &raw["amount"], &raw["currency"]),
            (&json!("authorized"), &json!(id), &json!(1250), &json!("EUR"))
        );
        assert_eq!(raw["network_transaction_id"], network);
        tells_nothing(&answer);
    }
    let capture = json!({"card": card, "amount": "7", "currency": "usd", "capture": "true"});
    let reactor = payments(&server, &processor.base, "payment_intents", KEY).await;
    let raw = react(&server, &reactor, capture).await.expect(200)["raw"].clone();
    assert_eq!((&raw["status"], &raw["amount"]), (&json!("captured"), &json!(7)));
    assert_eq!(processor.payments(), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_processor_refuses_is_told_without_the_card() {
    let (server, processor) = (server().await, StandIn::start().await);
    let card = card(&server, POOR).await;
    let args = json!({"card": card, "amount": 100, "currency": "EUR"});
    let reactor = payments(&server, &processor.base, "payment_intents", KEY).await;
    let declined = react(&server, &reactor, args.clone()).await;
    let problem = declined.expect(402);
    assert_eq!(problem["title"], "Invalid Payment Method");
    assert_eq!(problem["detail"], "the card was declined (insufficient_funds)");
    tells_nothing(&declined);

    let stranger = payments(&server, &processor.base, "json", "sk_other").await;
    let refused = react(&server, &stranger, args).await;
    assert_eq!(refused.status, 500, "{}", refused.text());
    tells_nothing(&refused);

    let wrong = json!({"card": card, "amount": 0, "currency": "EURO"});
    let wrong = react(&server, &reactor, wrong).await;
    let mut members = wrong.faults();
    members.sort();
    assert_eq!(
        (wrong.status.as_u16(), members),
        (400, vec!["args.amount".to_owned(), "args.currency".to_owned()])
    );
    assert_eq!(processor.payments(), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_answer_was_lost_is_made_once() {
    let (server, processor) = (server().await, StandIn::start().await);
    let reactor = payments(&server, &processor.base, "payment_intents", KEY).await;
    let args = json!({"card": card(&server, SLOW).await, "amount": 100, "currency": "EUR"});
    let lost = react(&server, &reactor, args.clone()).await;
    let detail = lost.expect(503)["detail"].as_str().unwrap().to_owned();
    tells_nothing(&lost);
    let key = processor.key();
    assert!(detail.contains(&format!("`retry_of` set to {key}")), "{detail}");
    assert_eq!(processor.payments(), (1, 1));

    let mut again = args;
    again["retry_of"] = json!(key);
    let found = react(&server, &reactor, again).await.expect(200);
    assert_eq!(
        (&found["raw"]["status"], &found["raw"]["id"]),
        (&json!("authorized"), &json!("pi_17"))
    );
    assert_eq!(processor.payments(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_processor_that_is_not_there_is_unavailable() {
    let server = server().await;
    let base = StandIn::start().await.base.clone();
    let reactor = payments(&server, &base, "json", KEY).await;
    let args = json!({"card": card(&server, GOOD).await, "amount": 100, "currency": "EUR"});
    let answer = react(&server, &reactor, args).await;
    assert!(answer.expect(503)["detail"].as_str().unwrap().contains("retry_of"));
    tells_nothing(&answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_host_is_allowed_and_no_private_address() {
    let (server, stand_in) = (TestServer::start().await, StandIn::start().await);
    let card = card(&server, GOOD).await;
    let reactor = payments(&server, &stand_in.base, "json", KEY).await;
    let args = json!({"card": card, "amount": 100, "currency": "EUR"});
    let refused = react(&server, &reactor, args).await;
    assert_eq!(refused.status, 500, "{}", refused.text());
    tells_nothing(&refused);
    let url = format!("{}/endpoint/cards", stand_in.base);
    let forward = forward(&server, &url, json!({})).await;
    let refused = react(&server, &forward, json!({"card": card})).await;
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!((stand_in.payments(), stand_in.requests().len()), ((0, 0), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_forwarded_by_template() {
    let (server, stand_in) = (server().await, StandIn::start().await);
    let url = "/endpoint/customers/{{ args.customer }}?q={{ args.customer }}";
    let configuration = json!({
        "headers": json!({"Authorization": "Bearer {{ configuration.api_key }}",
            "Idempotency-Key": "{{ invocation.id }}"}).to_string(),
        "body_template": json!({"pan": "{{ args.card.number }}", "month": "{{ args.card.expiration_month }}",
            "text": "for {{ args.customer }}"}).to_string(),
        "api_key": KEY, "raw_path": "/id", "tokenize_path": "/card", "tokenize_type": "card",
        "expected_status": "201",
    });
    let reactor = forward(&server, &format!("{}{url}", stand_in.base), configuration).await;
    let args = json!({"card": card(&server, GOOD).await, "customer": "a/..\"&{}"});
    let answer = react(&server, &reactor, args).await;
    let body = answer.expect(200);
    assert_eq!(body["raw"], "c-17");
    tells_nothing(&answer);
    let token = body["tokens"]["id"].as_str().unwrap();
    let kept = server.revealing().await.get(&format!("/tokens/{token}")).await.expect(200);
    assert_eq!((&kept["type"], &kept["data"]["number"]), (&json!("card"), &json!(GOOD)));

    let got = stand_in.requests().remove(0);
    assert_eq!(got["method"], "POST");
    assert_eq!(got["uri"], "/endpoint/customers/a%2F..%22%26%7B%7D?q=a%2F..%22%26%7B%7D");
    assert_eq!(got["headers"]["authorization"], format!("Bearer {KEY}"));
    assert_eq!(got["headers"]["idempotency-key"].as_str().unwrap().len(), 36);
    assert_eq!(
        got["body"].as_str().unwrap().parse::<Value>().unwrap(),
        json!({"pan": GOOD, "month": 12, "text": "for a/..\"&{}"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_is_forwarded_without_a_body() {
    let (server, stand_in) = (server().await, StandIn::start().await);
    let url = format!("{}/endpoint/customers/{{{{ args.customer }}}}", stand_in.base);
    let reactor = forward(&server, &url, json!({"method": "DELETE"})).await;
    let answer = react(&server, &reactor, json!({"customer": "17"})).await;
    assert_eq!(answer.expect(200)["raw"]["status"], 201);
    let got = stand_in.requests().remove(0);
    assert_eq!((&got["method"], &got["body"]), (&json!("DELETE"), &json!("")));
    assert_eq!(got["uri"], "/endpoint/customers/17");
    assert!(got["headers"].get("content-type").is_none(), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forward_that_fails_tells_its_status_and_no_more() {
    let (server, stand_in) = (server().await, StandIn::start().await);
    let url = format!("{}/endpoint/fail", stand_in.base);
    let reactor = forward(&server, &url, json!({})).await;
    let answer = react(&server, &reactor, json!({"card": card(&server, GOOD).await})).await;
    assert_eq!(answer.expect(503)["detail"], "the endpoint answered 502");
    tells_nothing(&answer);

    let url = format!("{}/endpoint/x", stand_in.base);
    let headers = json!({"X-Name": "{{ args.name }}"}).to_string();
    let reactor = forward(&server, &url, json!({"headers": headers})).await;
    for (args, status) in
        [(json!({"name": "a\r\nX-Admin: 1"}), 400), (json!({}), 400), (json!({"name": "Ada"}), 200)]
    {
        let answer = react(&server, &reactor, args).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        if status == 400 {
            assert_eq!(answer.faults(), ["args.name"]);
        }
    }
    assert_eq!(stand_in.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_of_tokens_are_those_of_the_vault() {
    let (server, stand_in) = (server().await, StandIn::start().await);
    let url = format!("{}/endpoint/cards", stand_in.base);
    let typed = async |name: &str| {
        let configuration = json!({"tokenize_path": "/card", "tokenize_type": name});
        let reactor = forward(&server, &url, configuration).await;
        react(&server, &reactor, json!({})).await
    };
    for name in TokenType::all().map(TokenType::as_str) {
        // The endpoint's card is no data of other types.
        let status = if matches!(name, "token" | "card") { 200 } else { 400 };
        let answer = typed(name).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    let sent = TokenType::all().count();
    assert_eq!(stand_in.requests().len(), sent);
    // What no token can be made of is not asked for.
    let problem = typed("cards").await.expect(500);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("configuration.tokenize_type must be one of token, card"), "{detail}");
    assert_eq!(stand_in.requests().len(), sent);
}

/// The formula has no memory for a name of this length with each of the numbers.
#[tokio::test(flavor = "multi_thread")]
async fn answers_with_long_names_of_many_numbers_are_looked_through() {
    let (server, stand_in) = (server().await, StandIn::start().await);
    let url = format!("{}/endpoint/digits", stand_in.base);
    let part = forward(&server, &url, json!({"raw_path": "/id"})).await;
    assert_eq!(react(&server, &part, json!({})).await.expect(200)["raw"], "c-18");
    let whole = forward(&server, &url, json!({})).await;
    let problem = react(&server, &whole, json!({})).await.expect(500);
    let detail = "what would be returned of the endpoint's answer has a number with more digits than are kept";
    assert_eq!(problem["detail"], detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_forwarded_in_clear_unless_that_is_allowed() {
    let (server, stand_in) = (server().await, StandIn::start().await);
    let url = format!("{}/endpoint/cards", stand_in.base);
    let args = json!({"card": card(&server, GOOD).await});
    for configuration in [json!({"url": url}), json!({"url": url, "allow_http": false})] {
        let configuration = json!({"configuration": configuration});
        let reactor = guests::reactor(&server, FORWARD, configuration).await;
        let refused = react(&server, &reactor, args.clone()).await;
        // The caller cannot mend it.
        let problem = refused.expect(500);
        assert!(
            problem["detail"].as_str().unwrap().contains("configuration.url must be"),
            "{problem}"
        );
        tells_nothing(&refused);
    }
    assert_eq!(stand_in.requests().len(), 0);
    let allowed = forward(&server, &url, json!({})).await;
    assert_eq!(react(&server, &allowed, args).await.status, 200);
    assert_eq!(stand_in.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_are_compared_by_token_and_not_told() {
    let server = TestServer::start().await;
    let token = async |kind: &str, data: &str| {
        format!("{{{{ {} }}}}", server.private.token(kind, json!(data)).await)
    };
    let known = token("social_security_number", "123-45-6789").await;
    let same = token("social_security_number", "123456789").await;
    let other = token("social_security_number", "987-65-4321").await;
    let name = token("token", "Zoë Lovelace").await;
    let args = json!({
        "identity": {"name": name, "ssn": known, "birth_date": "1990-02-03"},
        "candidates": [
            {"id": known, "name": "LOVELACE, ZOE", "ssn": same},
            {"id": "b", "name": "Grace Hopper", "ssn": other, "birth_date": "1990-03-02"},
        ],
    });
    let reactor = guests::reactor(&server, IDENTITY, json!({})).await;
    let answer = react(&server, &reactor, args.clone()).await;
    assert_eq!(
        answer.expect(200)["raw"]["candidates"],
        json!([
            {"index": 0, "match": true, "score": 1.0, "fields": {"name": 1.0, "ssn": 1.0}},
            {"index": 1, "match": false, "score": 0.21,
             "fields": {"name": 0.0, "birth_date": 0.8, "ssn": 0.0}},
        ])
    );
    for hidden in ["6789", "4321", "ovelace", "OVELACE", "1990"] {
        assert!(!answer.text().contains(hidden), "{}", answer.text());
    }
    let configuration = json!({"answer": "match", "threshold": "0.2"});
    let reactor = guests::reactor(&server, IDENTITY, json!({"configuration": configuration})).await;
    let raw = react(&server, &reactor, args).await.expect(200)["raw"].clone();
    let expected = json!([{"index": 0, "match": true}, {"index": 1, "match": true}]);
    assert_eq!(raw["candidates"], expected);
}
