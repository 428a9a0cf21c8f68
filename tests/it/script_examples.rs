//! The scripts of `examples/formulas-javascript` at work: a card is charged at a processor, a bank file is built, two services
//! are asked and what they tell is kept. Their cases are run in `formula_examples.rs`.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::any;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::TestServer;
use crate::support::scripts::{react, reactor};
use crate::support::server::Setup;

const CHARGE: [&str; 2] = [
    include_str!("../../examples/formulas-javascript/charge-card/formula.js"),
    include_str!("../../examples/formulas-javascript/charge-card/formula.json"),
];
const BANK: [&str; 2] = [
    include_str!("../../examples/formulas-javascript/bank-file/formula.js"),
    include_str!("../../examples/formulas-javascript/bank-file/formula.json"),
];
const FAN_OUT: [&str; 2] = [
    include_str!("../../examples/formulas-javascript/fan-out/formula.js"),
    include_str!("../../examples/formulas-javascript/fan-out/formula.json"),
];

type Seen = Arc<Mutex<Vec<Value>>>;

/// The other side of all of them; gives its address and what it was sent.
async fn stand_in() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let routes = axum::Router::new().route("/{*path}", any(answer)).with_state(Arc::clone(&seen));
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    (base, seen)
}

async fn answer(
    State(seen): State<Seen>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], String), (StatusCode, &'static str)> {
    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
    seen.lock().unwrap().push(json!({
        "uri": uri.to_string(), "body": sent, "text": String::from_utf8_lossy(&body),
        "authorization": header("authorization"), "key": header("idempotency-key"),
        "signature": header("x-signature"),
    }));
    let (status, told) = match uri.path() {
        "/v1/charges" if sent["source"]["number"] == "4000000000000002" => {
            (402, json!({"error": {"code": "card_declined"}}))
        }
        // As a proxy before the processor would.
        "/v1/charges" if sent["reference"] == "too-many" => {
            return Err((StatusCode::TOO_MANY_REQUESTS, "<html>slow down</html>"));
        }
        "/v1/charges" if sent["reference"] == "away" => {
            return Err((StatusCode::BAD_GATEWAY, "<html>bad gateway</html>"));
        }
        "/v1/charges" if sent["reference"] == "no-json" => {
            return Err((StatusCode::OK, "<html>thank you</html>"));
        }
        "/v1/charges" if sent["reference"] == "no-code" => (402, json!({})),
        "/v1/charges" if sent["reference"] == "no-name" => {
            (200, json!({"id": "ch_2", "status": "captured", "amount": sent["amount"]}))
        }
        "/v1/charges" => (
            201,
            json!({"id": "ch_1", "status": "captured", "amount": sent["amount"], "network_token": "ntk-secret"}),
        ),
        "/credit" => (200, json!({"score": 740, "report": {"accounts": 3}})),
        "/identity" if sent["names"][0] == "Nobody" => (500, json!({})),
        "/identity" => (200, json!({"matched": true, "names": sent["names"]})),
        _ => (404, json!({})),
    };
    let is_json = [(CONTENT_TYPE, "application/json")];
    Ok((StatusCode::from_u16(status).unwrap(), is_json, told.to_string()))
}

/// Makes a formula and a reactor of an example as it declares itself, but for the hosts; gives the address to invoke it at.
async fn made(server: &TestServer, example: [&str; 2], hosts: &[&str], members: Value) -> String {
    let mut declared: Value = serde_json::from_str(example[1]).unwrap();
    declared["allowed_hosts"] = json!(hosts);
    reactor(server, example[0], declared, members).await
}

async fn application(server: &TestServer, permissions: &[&str]) -> Value {
    let rule = json!([{"description": "", "priority": 1, "container": "/", "transform": "reveal", "permissions": permissions}]);
    let body = json!({"name": "a", "type": "private", "permissions": [], "rules": rule});
    json!({ "id": server.management.post("/applications", body).await.expect(201)["id"] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_charged() {
    let (server, (base, seen)) = (TestServer::start_with(Setup::open()).await, stand_in().await);
    let host = base.strip_prefix("http://").unwrap();
    let configured =
        json!({"configuration": {"PROCESSOR_URL": base, "API_KEY": "sk_1", "SIGNING_SECRET": "s"}});
    let path = made(&server, CHARGE, &[host], configured).await;
    let card = |number: &str| json!({"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"});
    let good = server.private.token("card", card("4242424242424242")).await;
    let args = json!({"card": format!("{{{{ {good} }}}}"), "amount": 1250, "currency": "EUR", "reference": "order-9"});
    let answer = react(&server, &path, args.clone()).await.expect(200);
    assert_eq!(
        answer["raw"],
        json!({"id": "ch_1", "status": "captured", "amount": 1250, "last4": "4242"})
    );
    let token = &answer["tokens"]["network_token"];
    assert_eq!(
        (&token["type"], &token["metadata"]["reference"]),
        (&json!("token"), &json!("order-9"))
    );
    let id = token["id"].as_str().unwrap();
    let kept = server.revealing().await.get(&format!("/tokens/{id}")).await.expect(200);
    assert_eq!(
        (&kept["data"], &kept["containers"]),
        (&json!("ntk-secret"), &json!(["/pci/high/"]))
    );
    let sent = seen.lock().unwrap()[0].clone();
    assert_eq!(sent["uri"], "/v1/charges?expand=source");
    assert_eq!(sent["authorization"], "Basic c2tfMTo=");
    assert_eq!(
        sent["body"],
        json!({"amount": 1250, "currency": "eur", "reference": "order-9",
            "source": {"number": "4242424242424242", "expiry": "07/31", "cvc": "123"}})
    );
    assert_eq!(sent["signature"].as_str().unwrap().len(), 64);
    assert_eq!(sent["key"].as_str().unwrap().len(), 36);

    let poor = server.private.token("card", card("4000000000000002")).await;
    let mut declined = args.clone();
    declined["card"] = json!(format!("{{{{ {poor} }}}}"));
    let problem = react(&server, &path, declined).await.expect(402);
    assert_eq!(problem["detail"], "The card was declined: card_declined.");
    for (reference, status, detail, is_known) in [
        ("too-many", 429, "The processor takes no more requests for now.", true),
        ("away", 503, "The processor answered 502", false),
        ("no-code", 402, "The card was declined: no code.", true),
        ("no-json", 500, "The processor's answer cannot be understood", false),
    ] {
        let mut unanswered = args.clone();
        unanswered["reference"] = json!(reference);
        let problem = react(&server, &path, unanswered.clone()).await.expect(status);
        let told = problem["detail"].as_str().unwrap();
        if is_known {
            assert_eq!(told, detail);
            continue;
        }
        // It may have been charged: another try has the key that the processor knows.
        let unknown = "whether the card was charged is not known: to try again, send retry_of";
        let (before, key) = told.rsplit_once(' ').unwrap();
        assert_eq!(before, format!("{detail}; {unknown}"));
        let key = key.trim_end_matches('.');
        assert_eq!(seen.lock().unwrap().last().unwrap()["key"], key);
        unanswered["retry_of"] = json!(key);
        react(&server, &path, unanswered).await.expect(status);
        assert_eq!(seen.lock().unwrap().last().unwrap()["key"], key);
    }
    // It is charged, whether or not it has another name.
    let mut unnamed = args.clone();
    unnamed["reference"] = json!("no-name");
    let answer = react(&server, &path, unnamed).await.expect(200);
    assert_eq!((&answer["raw"]["id"], answer.get("tokens")), (&json!("ch_2"), None));
    let mut wrong = args;
    wrong["amount"] = json!(1.5);
    assert_eq!(react(&server, &path, wrong.clone()).await.faults(), ["args.amount"]);
    wrong["card"] = json!({});
    assert_eq!(react(&server, &path, wrong).await.faults().len(), 3);
    assert_eq!(seen.lock().unwrap().len(), 9);
}

/// No case can show it, since in those no processor answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_token_may_not_be_kept_is_found_in_the_log() {
    let (server, (base, seen)) = (TestServer::start_with(Setup::open()).await, stand_in().await);
    let host = base.strip_prefix("http://").unwrap();
    // Where a token would go that names no container: who may create some there alone makes none.
    let rule = json!([{"description": "", "priority": 1, "container": "/general/", "transform": "mask",
        "permissions": ["token:create"]}]);
    let body = json!({"name": "a", "type": "private", "permissions": [], "rules": rule});
    let application = server.management.post("/applications", body).await.expect(201)["id"].clone();
    let members = json!({"application": {"id": application},
        "configuration": {"PROCESSOR_URL": base, "API_KEY": "sk_1", "SIGNING_SECRET": "s"}});
    let path = made(&server, CHARGE, &[host], members).await;
    let card = json!({"number": "4242424242424242", "expiration_month": 7, "expiration_year": 2031, "cvc": "123"});
    react(&server, &path, json!({"card": card, "amount": 1250})).await.expect(403);
    assert_eq!(seen.lock().unwrap().len(), 1);

    let invocations = format!("{}/invocations", path.strip_suffix("/react").unwrap());
    let runs = server.management.get(&invocations).await.expect(200);
    let log = runs["data"][0]["log"].as_array().unwrap();
    assert!(log.iter().any(|line| line["message"] == "charged: ch_1"), "{log:?}");
    for hidden in ["4242424242424242", "ntk-secret"] {
        assert!(!runs.to_string().contains(hidden), "{log:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_file_is_built() {
    let server = TestServer::start().await;
    let application = application(&server, &["token:create", "token:read"]).await;
    let members = json!({"configuration": {"COMPANY_ID": "1234567890", "COMPANY_NAME": "Müller & Söhne"}, "application": application});
    let path = made(&server, BANK, &[], members).await;
    let mut payments = Vec::new();
    for (routing, account, name, amount) in [
        ("021000021", "9876543210", "Ada Lovelace", 1250),
        ("011401533", "1112223", "José Ñandú, Jr.", 99_999),
    ] {
        let bank = json!({"routing_number": routing, "account_number": account});
        let token = server.private.token("bank", bank).await;
        payments
            .push(json!({"account": format!("{{{{ {token} }}}}"), "name": name, "amount": amount}));
    }
    let args = json!({"payments": payments, "date": "2030-08-26"});
    let answer = react(&server, &path, args.clone()).await.expect(200);
    assert_eq!((&answer["raw"]["lines"], &answer["raw"]["total"]), (&json!(4), &json!("101249")));
    let token = answer["tokens"]["id"].as_str().unwrap();
    let revealing = server.revealing().await;
    let kept = revealing.get(&format!("/tokens/{token}")).await.expect(200);
    assert_eq!(kept["containers"], json!(["/bank/high/"]));
    let data = kept["data"].clone();
    let file = String::from_utf8(STANDARD.decode(data.as_str().unwrap()).unwrap()).unwrap();
    let lines: Vec<&str> = file.split_terminator("\r\n").collect();
    assert!(lines.iter().all(|line| line.len() == 80), "{file}");
    assert_eq!(lines[0].trim_end(), "11234567890MULLER  SOHNE          20300826");
    assert_eq!(
        lines[1].trim_end(),
        "60210000219876543210       0000001250ADA LOVELACE          0000001"
    );
    assert_eq!(
        lines[2].trim_end(),
        "60114015331112223          0000099999JOSE NANDU, JR.       0000002"
    );
    assert_eq!(lines[3].trim_end(), "90000020003240155000000101249");

    let mut wrong = args;
    wrong["payments"][1]["amount"] = json!(-1);
    wrong["payments"][0]["account"] = json!("none");
    let faults = react(&server, &path, wrong).await.faults();
    assert_eq!(faults, ["args.payments[0].account", "args.payments[1].amount"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_services_are_asked_and_their_answers_kept() {
    let (server, (base, seen)) = (TestServer::start_with(Setup::open()).await, stand_in().await);
    let host = base.strip_prefix("http://").unwrap();
    let application = application(&server, &["token:create", "token:search", "token:read"]).await;
    let members = json!({"configuration": {"CREDIT_URL": format!("{base}/credit"), "IDENTITY_URL": format!("{base}/identity"),
        "CUSTOMER_KEY": "one key of this test, of many bytes"},
        "application": application});
    let path = made(&server, FAN_OUT, &[host], members.clone()).await;
    let ssn = server.private.token("social_security_number", json!("123-45-6789")).await;
    let args = |name: &str, ssn: &str| json!({"person": {"name": name, "ssn": ssn}});
    let first = args("Ada King Lovelace", &format!("{{{{ {ssn} }}}}"));
    let answer = react(&server, &path, first.clone()).await.expect(200);
    assert_eq!(
        (&answer["raw"]["known"], &answer["raw"]["score"], &answer["raw"]["matched"]),
        (&json!(false), &json!(740), &json!(true))
    );
    let revealing = server.revealing().await;
    for (name, expected) in [
        ("report", json!({"accounts": 3})),
        ("identity", json!({"matched": true, "names": ["Ada", "King", "Lovelace"]})),
    ] {
        let id = answer["tokens"][name]["id"].as_str().unwrap();
        assert_eq!(revealing.get(&format!("/tokens/{id}")).await.expect(200)["data"], expected);
    }
    // They are asked beside each other, in any order.
    let asked = |uri: &str| seen.lock().unwrap().iter().any(|request| request["uri"] == uri);
    assert!(asked("/credit") && asked("/identity"));
    let told = |request: &Value| request["body"]["ssn"] == "123-45-6789";
    assert!(seen.lock().unwrap().iter().all(told));

    // Who is known is not asked about again.
    let again = react(&server, &path, first).await.expect(200);
    assert_eq!((&again["raw"]["known"], again.get("tokens")), (&json!(true), None));
    assert_eq!(seen.lock().unwrap().len(), 2);

    // By another key nobody is known, and who reads the code cannot tell whom a token is about.
    let mut other = members;
    other["configuration"]["CUSTOMER_KEY"] = json!("another key of this test, of many bytes");
    let other = made(&server, FAN_OUT, &[host], other).await;
    let anew = react(&server, &other, args("Ada King Lovelace", "123-45-6789")).await.expect(200);
    assert_eq!(anew["raw"]["known"], false);
    assert_ne!(anew["raw"]["customer"], answer["raw"]["customer"]);

    // One service may fail.
    let answer = react(&server, &path, args("Nobody", "987-65-4321")).await.expect(200);
    assert_eq!(answer["raw"]["matched"], json!(null));
    assert!(answer["tokens"].get("identity").is_none());
}
