//! No submitted value in the clear: not in log lines, not in errors, not in any file of the data folder.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokamak::expression::Arguments;
use tokamak::model::formula::Reactor;
use tokamak::runtime::{Failure, GuestResponse};
use tokamak::vault::{
    CreateToken, ReactRequest, ReactResponse, RunError, UpdateToken, WriteReactor,
};

use crate::support::Client;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};

/// Values to look for: data, a configuration's that is refused, a formula's argument, an index term; then what is kept
/// beside data: a configuration's that is taken, literals of a formula, of a mask and of an expression in arguments, a
/// value of metadata, and what a formula logs.
const CANARIES: &[&str] = &[
    "4000056655665556",
    "canary-configured",
    "canary-argument",
    "canary-data",
    "123-45-6788",
    "canary-setting",
    "canary-in-code",
    "canary-mask",
    "canary-expression",
    "canary-metadata",
    "canary-logged",
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

fn assert_free(what: &str, bytes: &[u8], values: &[&str]) {
    for value in values {
        let found = bytes.windows(value.len()).any(|window| window == value.as_bytes());
        assert!(!found, "{value} is in {what}");
    }
}

async fn use_everything(client: &Client, management: &Client) {
    let card = json!({"number": CANARIES[0], "cvc": "999"});
    let card = client.token("card", card).await;
    let ssn = client.token("social_security_number", json!(CANARIES[4])).await;
    let mut answers = Vec::new();
    for body in [
        json!({"type": "token", "data": "canary-data", "mask": "{{ data | to_number }}"}),
        json!({"type": "card", "data": {"number": "canary-data"}}),
        json!({"type": "token", "data": "canary-data", "search_indexes": ["{{ data | to_boolean }}"]}),
        json!({"type": "token", "data": "canary-data", "fingerprint_expression": "{{ data | json: '$' }}",
            "id": "{{ data | to_number }}"}),
        json!("canary-data"),
    ] {
        answers.push(client.post("/tokens", body).await);
    }
    let malformed = client.request(reqwest::Method::POST, "/tokens");
    let malformed = malformed.header("content-type", "application/json");
    answers.push(client.send(malformed.body("{\"data\": \"canary-data\" x")).await);
    let formulas = management.get("/reactor-formulas?name=card*").await.expect(200);
    let formula = formulas["data"][0]["id"].clone();
    let body =
        json!({"name": "r", "configuration": {"canary-configured": 1}, "formula": {"id": formula}});
    management.post("/reactors", body).await.expect(400);
    let body = json!({"name": "r", "configuration": {}, "formula": {"id": formula}});
    let reactor = management.post("/reactors", body).await.expect(201)["id"].clone();
    let path = format!("/reactors/{}/react", reactor.as_str().unwrap());
    for args in [
        json!({"card": format!("{{{{ {card} }}}}"), "more": "canary-argument"}),
        json!({"card": format!("{{{{ {ssn} }}}}"), "more": "canary-argument"}),
        json!({"card": "canary-argument {{ nothing-here }}"}),
        json!({"card": format!("{{{{ {card} | to_number }}}}")}),
    ] {
        answers.push(client.post(&path, json!({"args": args})).await);
    }
    for answer in &answers {
        assert!(answer.status.as_u16() < 500, "{}", answer.text());
        assert_free("an answer", &answer.bytes, CANARIES);
    }
}

/// A script that holds a literal, is configured, and logs what it is called with.
const SCRIPT: &str = "const secret = 'canary-in-code';\n\
    module.exports = ({ args, configuration }) => {\n\
      console.log('canary-logged', args.number, configuration.KEY);\n\
      if (args.fails) throw new Error(secret + args.number);\n\
      return { raw: [secret, configuration.KEY, args.number].map((text) => text.length), tokenize: args.number };\n\
    };";

/// Keeps values of every sort that is no token's data, and uses them: each is in what comes of it where it belongs, and
/// in nothing else. Gives what the server drew: keys, secrets and what a session is authorized by.
async fn use_what_is_kept_beside(client: &Client, management: &Client) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let body = json!({"type": "token", "data": {"n": CANARIES[0]}, "mask": {"shown": "canary-mask", "n": "{{ data.n | last4 }}"},
        "metadata": {"note": "canary-metadata"}, "search_indexes": ["canary-expression{{ data.n }}"]});
    let token = text(&client.post("/tokens", body).await.expect(201)["id"]);
    let found = client.search("metadata.note:canary-metadata").await;
    assert_eq!(found, [token.as_str()]);
    let formula = json!({"name": "script", "language": "javascript", "code": SCRIPT,
        "configuration": [{"name": "KEY", "type": "string"}]});
    let formula = management.post("/reactor-formulas", formula).await.expect(201)["id"].clone();
    let body = json!({"name": "r", "configuration": {"KEY": "canary-setting"}, "formula": {"id": formula}});
    let reactor = text(&management.post("/reactors", body).await.expect(201)["id"]);
    let path = format!("/reactors/{reactor}/react");
    let number = format!("{{{{ {token} | json: '$.n' | append: 'canary-expression' }}}}");
    let ran = client.post(&path, json!({"args": {"number": number}})).await.expect(200);
    assert_eq!(
        ran["raw"],
        json!(["canary-in-code".len(), "canary-setting".len(), 16 + "canary-expression".len()])
    );
    let failed = client.post(&path, json!({"args": {"number": number, "fails": true}})).await;
    failed.expect(500);
    assert_free("a failure", &failed.bytes, CANARIES);
    // One that waits in the queue, and one whose answer is kept.
    let queued = json!({"args": {"number": number}, "callback_url": "http://127.0.0.1:9/"});
    client.post(&path, queued).await.expect(202);
    let kept = client.request(reqwest::Method::POST, &path).header("svc-idempotency-key", "one");
    client.send(kept.json(&json!({"args": {"number": number}}))).await.expect(200);
    let runs = management.get(&format!("/reactors/{reactor}/invocations")).await;
    assert!(runs.text().contains("canary-logged"), "{}", runs.text());

    let mut drawn = Vec::new();
    let secrets = management.get("/webhooks/signing-secrets").await.expect(200);
    let rotated = management.post("/webhooks/signing-secrets/rotate", json!({})).await.expect(200);
    for secret in
        [&secrets, &rotated].into_iter().flat_map(strings).filter(|text| text.starts_with("whsec_"))
    {
        drawn.push(secret["whsec_".len()..].to_owned());
    }
    assert!(drawn.len() >= 2, "{secrets}");
    let public = json!({"name": "p", "type": "public", "permissions": ["token:create"]});
    let public = text(&management.post("/applications", public).await.expect(201)["key"]);
    let session = management.with_key(&public).post("/sessions", json!({})).await.expect(201);
    let grant = json!({"nonce": session["nonce"], "permissions": ["token:create"]});
    client.post("/sessions/authorize", grant).await.expect(200);
    let (key, nonce) = (text(&session["session_key"]), text(&session["nonce"]));
    let body = json!({"type": "token", "data": "canary-data"});
    management.with_key(&key).post("/tokens", body).await.expect(201);
    drawn.extend([public, key, nonce]);
    drawn
}

/// All texts in a value.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(members) => members.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_is_left_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let data = folder.path().join("data");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "trace", "--log-format", "json"]);
    serve.args(["--allow-http-callbacks", "--allow-private-networks"]);
    serve.arg("--data-dir").arg(&data).stderr(Stdio::from(fs::File::create(&log).unwrap()));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(serve);
    let management = process.management();
    let rule = json!([{"priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read", "token:search", "token:use"]}]);
    let body = json!({"name": "p", "type": "private", "rules": rule});
    let made = management.post("/applications", body).await.expect(201);
    let key = made["key"].as_str().unwrap().to_owned();
    let client = Client::new(process.address, Some(&key));
    use_everything(&client, &management).await;
    let drawn = use_what_is_kept_beside(&client, &management).await;
    assert_eq!(process.terminate(), Some(0));

    let drawn = drawn.iter().map(String::as_str);
    let values = CANARIES.iter().copied().chain([key.as_str(), MANAGEMENT_KEY, ROOT_KEY]);
    let values: Vec<&str> = values.chain(drawn).collect();
    let mut log_text = Vec::new();
    fs::File::open(&log).unwrap().read_to_end(&mut log_text).unwrap();
    assert!(log_text.len() > 1_000, "the log was on");
    assert_free("the log", &log_text, &values);
    let files = files(&data);
    assert!(!files.is_empty());
    for file in files {
        assert_free(&file.display().to_string(), &fs::read(&file).unwrap(), &values);
    }
}

/// What a developer prints while looking for a fault shows no more than a name.
#[test]
fn what_holds_plaintext_does_not_show_it_for_debugging() {
    fn shown<T: serde::de::DeserializeOwned + std::fmt::Debug>(body: serde_json::Value) -> String {
        let value: T = serde_json::from_value(body).unwrap();
        format!("{value:?} {value:#?}")
    }
    let secret = CANARIES[0];
    let token = json!({"type": "token", "data": {"a": secret}, "metadata": {"k": secret}});
    for text in [
        shown::<CreateToken>(token.clone()),
        shown::<UpdateToken>(token),
        shown::<ReactRequest>(json!({"args": {"n": secret}})),
        shown::<ReactResponse>(json!({"raw": secret, "tokens": {"a": secret}})),
        shown::<WriteReactor>(json!({"name": "r", "configuration": {"key": secret}})),
        shown::<Reactor>(json!({
            "id": "00000000-0000-7000-8000-000000000000", "name": "r",
            "tenant_id": "00000000-0000-7000-8000-000000000000",
            "formula_id": "00000000-0000-7000-8000-000000000000",
            "configuration": {"key": secret}, "created_at": "2026-01-01T00:00:00.000+00:00",
        })),
        format!("{:?}", Arguments::parse(&json!({"a": [secret, "{{ abc }}"]})).unwrap()),
        format!("{:?}", GuestResponse { raw: Some(json!(secret)), tokenize: None }),
        format!("{:?}", Failure::Custom { status: 400, headers: Vec::new(), body: json!(secret) }),
        format!("{:?}", RunError::Custom { status: 400, headers: Vec::new(), body: json!(secret) }),
    ] {
        assert!(!text.contains(secret) && !text.contains("number"), "{text}");
    }
}
