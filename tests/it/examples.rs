//! The examples of the description, told to a server in their order: it answers as they say. And those of `examples/curl`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::binary::{Process, command};
use crate::support::workshop::{is_there, root};
use crate::support::{Answer, Client, TestServer, guests};

/// Members whose values differ from run to run, beside ids and times.
const OTHER: &[&str] =
    &["key", "nonce", "session_key", "secret", "fingerprint", "next", "component_digest"];
const MEASURED: &[&str] =
    &["elapsed_us", "fuel", "memory_peak_bytes", "total_items", "total_pages", "attempts"];

fn differs(name: &str) -> bool {
    let id = name == "id" || name.ends_with("_id") || name.ends_with("_by");
    id || name.ends_with("_at") || OTHER.contains(&name) || MEASURED.contains(&name)
}

/// What stands in an example, and what this server gave in its place.
type Names = BTreeMap<String, String>;

/// Compares an answer with the example, and learns the names of what was made.
fn compare(name: &str, example: &Value, answer: &Value, names: &mut Names, at: &str) {
    match (example, answer) {
        (Value::Object(expected), Value::Object(found)) => {
            let keys = |members: &serde_json::Map<String, Value>| {
                members.keys().cloned().collect::<Vec<_>>()
            };
            assert_eq!(keys(expected), keys(found), "{at}");
            for (name, value) in expected {
                compare(name, value, &found[name], names, &format!("{at}.{name}"));
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            assert_eq!(expected.len(), found.len(), "{at}");
            for (expected, found) in expected.iter().zip(found) {
                compare(name, expected, found, names, at);
            }
        }
        (Value::String(expected), Value::String(found)) if expected != found => {
            let made = at.starts_with("tokenize.") || differs(name);
            assert!(made, "{at}: {expected:?} became {found:?}");
            names.insert(expected.clone(), found.clone());
        }
        (Value::Number(_), Value::Number(_)) if differs(name) => {}
        _ => assert_eq!(example, answer, "{at}"),
    }
}

/// The same with the names of this server.
fn renamed(text: &str, names: &Names) -> String {
    // Keys and ids are never part of one another.
    let named = names.iter().filter(|(example, _)| example.len() > 20);
    named.fold(text.to_owned(), |text, (example, found)| text.replace(example, found))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_are_what_happens() {
    let steps: Vec<Value> =
        serde_json::from_str(include_str!("../../host/src/http/examples.json")).unwrap();
    let server = TestServer::start().await;
    let mut keys = BTreeMap::from([("management".to_owned(), server.management.clone())]);
    let mut names = Names::new();
    for step in &steps {
        let text = |name: &str| step[name].as_str().unwrap();
        let path = renamed(text("path"), &names);
        let mut request = step.get("request").map(|request| {
            serde_json::from_str::<Value>(&renamed(&request.to_string(), &names)).unwrap()
        });
        // Shown cut short.
        if let Some(component) = request.as_mut().and_then(|request| request.get_mut("component")) {
            *component = json!(STANDARD.encode(guests::component("bare")));
        }
        let client = &keys[text("as")];
        let answer = match (text("method"), request) {
            ("GET", _) => get(client, &path, &step["until"]).await,
            ("DELETE", _) => client.delete(&path).await,
            ("PUT", None) => {
                let request = client.request(reqwest::Method::PUT, &path);
                let request = request.header("Content-Type", "application/wasm");
                client.send(request.body(guests::component("bare"))).await
            }
            ("PUT", Some(body)) => client.put(&path, body).await,
            ("PATCH", Some(body)) => client.patch(&path, body).await,
            ("POST", Some(body)) => client.post(&path, body).await,
            _ => client.send(client.request(reqwest::Method::POST, &path)).await,
        };
        let operation = text("operation");
        let status = u16::try_from(step["status"].as_u64().unwrap()).unwrap();
        assert_eq!(answer.status, status, "{operation}: {}", answer.text());
        if let Some(example) = step.get("response") {
            compare("", example, &answer.json(), &mut names, operation);
        }
        if let Some(name) = step.get("makes") {
            let key = answer.json()["key"].as_str().unwrap().to_owned();
            keys.insert(name.as_str().unwrap().to_owned(), server.client(&key));
        }
    }
}

/// Asks until the answer has these members, if there are any.
async fn get(client: &Client, path: &str, until: &Value) -> Answer {
    let has = |answer: &Value| match until {
        Value::Null => true,
        until => {
            let mut merged = answer.clone();
            json_patch::merge(&mut merged, until);
            merged == *answer
        }
    };
    let began = Instant::now();
    loop {
        let answer = client.get(path).await;
        if answer.status != 200 || has(&answer.json()) || began.elapsed() > Duration::from_mins(1) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every operation that takes or gives JSON shows an example of it.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_has_an_example() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut missing = Vec::new();
    for operations in description["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            let name = operation["operationId"].as_str().unwrap();
            let contents = |owner: &Value| {
                owner["content"].as_object().cloned().into_iter().flatten().collect::<Vec<_>>()
            };
            let responses = operation["responses"].as_object().unwrap();
            let answers = responses.iter().filter(|(status, _)| status.starts_with('2'));
            let answers = answers.flat_map(|(_, answer)| contents(answer));
            for (kind, content) in contents(&operation["requestBody"]).into_iter().chain(answers) {
                let shown = content["examples"].as_object().is_some_and(|shown| !shown.is_empty());
                if kind.ends_with("json") && !shown {
                    missing.push(name.to_owned());
                }
            }
        }
    }
    missing.sort();
    assert_eq!(missing, ["healthz", "readyz"]);
}

/// As its first lines say, against a server of `tokamak dev`.
#[test]
fn a_card_is_stored_and_a_formula_run_on_it_with_curl() {
    if !is_there("curl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
    let mut process = Process::start(dev);
    process.read_until("start again");
    let printed = |begins: &str| {
        let line = process.printed.iter().find(|line| line.contains(begins)).unwrap();
        line.split(begins).nth(1).unwrap().trim().to_owned()
    };
    let mut example = Command::new("sh");
    example.arg(root().join("examples/curl/store-and-react.sh"));
    example.env("BASE", format!("http://{}", process.address));
    example.env("PRIVATE", printed("private key")).env("REACTOR", &printed("/reactors/")[..36]);
    let ran = example.output().unwrap();
    let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    let [token, answer] = out.lines().collect::<Vec<_>>()[..] else { panic!("{out}") };
    let token = token.strip_prefix("token: ").unwrap();
    let ends = token.len() == 16 && token.starts_with("424242") && token.ends_with("4242");
    assert!(ends && token != "4242424242424242", "{out}");
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["raw"]["last4"], "4242");
}
