//! What a repeated request finds (decisions §1), for every operation that takes an idempotency key: the answer is kept in
//! the commit of what it tells of, and getting it again is in the log (decisions §10).

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::{Ending, Wrapped};
use crate::support::{Answer, Client, TestServer, guests};

/// A server whose store can be ended after so many commits.
struct Mortal {
    server: TestServer,
    store: Arc<Wrapped<Ending>>,
    folder: tempfile::TempDir,
}

impl Mortal {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Wrapped::new(open_store(&folder.path().join("store")).await);
        let server =
            TestServer::start_with(Setup { store: Some(store.clone()), ..Setup::open() }).await;
        Self { server, store, folder }
    }

    /// Sends a request with as many commits left as it may need, then as if the process had ended there: its repetition.
    async fn twice(&self, client: &Client, operation: &Operation) -> (Answer, Answer) {
        for _ in 0..100 {
            self.store.hook.end_after(operation.commits);
            let first = operation.send(client).await;
            self.store.hook.end_after(usize::MAX);
            // The sweep or a worker may have had the commit: then nothing was done, and it is tried anew.
            if first.status != 503 {
                return (first, operation.send(client).await);
            }
        }
        panic!("{} {} needs more than {}", operation.method, operation.path, operation.commits);
    }
}

/// A request under a key of its own.
struct Operation {
    method: Method,
    path: String,
    body: Vec<u8>,
    content_type: &'static str,
    /// Commits that it may take.
    commits: usize,
    /// What the log says of its repetition: the type of the first entity it is about.
    about: &'static str,
}

impl Operation {
    fn json(method: Method, path: impl Into<String>, body: &Value, about: &'static str) -> Self {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let (path, body) = (path.into(), body.to_string().into_bytes());
        Self { method, path, body, content_type, commits: 1, about }
    }

    async fn send(&self, client: &Client) -> Answer {
        let request = client.request(self.method.clone(), &self.path).body(self.body.clone());
        let request = request.header("content-type", self.content_type);
        let key = format!("{} {}", self.method, self.path);
        client.send(request.header("SVC-IDEMPOTENCY-KEY", key)).await
    }
}

async fn logged(server: &TestServer) -> Vec<Value> {
    let logs = server.management.get("/logs?size=100").await.expect(200);
    logs["data"].as_array().unwrap().clone()
}

/// Asserts that a repetition is the first answer again, and a read in the log.
async fn assert_repeated(mortal: &Mortal, client: &Client, operation: &Operation) -> Value {
    let name = format!("{} {}", operation.method, operation.path);
    let (first, again) = mortal.twice(client, operation).await;
    assert!(first.status.is_success(), "{name}: {}", first.text());
    assert_eq!(again.status, first.status, "{name}: {}", again.text());
    assert_eq!(again.headers["svc-idempotent-replay"], "true", "{name}");
    assert_eq!(again.headers.get("location"), first.headers.get("location"), "{name}");
    let entry = logged(&mortal.server).await.remove(0);
    assert_eq!(entry["operation"], "read", "{name}: {entry}");
    assert_eq!(entry["entity_type"], operation.about, "{name}: {entry}");
    let message = entry["message"].as_str().unwrap();
    assert!(
        ["Answer repeated", "Token read for a repeated request"].contains(&message),
        "{name}: {entry}"
    );
    first.json()
}

fn id(of: &Value) -> &str {
    of["id"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_tokens_are_kept_with_them() {
    let mortal = Mortal::start().await;
    let private = mortal.server.revealing().await;
    let one = |method, path: String, body: Value| Operation::json(method, path, &body, "token");
    let body = json!({"type": "token", "data": "a"});
    let made = assert_repeated(&mortal, &private, &one(Method::POST, "/tokens".into(), body)).await;
    let path = format!("/tokens/{}", id(&made));
    let patch = one(Method::PATCH, path, json!({"data": "b"}));
    assert_repeated(&mortal, &private, &patch).await;
    let value = json!({"card": {"type": "card", "data": {"number": "4242424242424242"}}, "x": "y"});
    let tokenize = Operation::json(Method::POST, "/tokenize", &value, "token");
    assert_repeated(&mortal, &private, &tokenize).await;
    // Both tokens of it are in the log as read.
    let types = logged(&mortal.server).await;
    let types: Vec<&Value> = types[..2].iter().map(|entry| &entry["entity_type"]).collect();
    assert_eq!(types, ["token", "card"]);
    // Carried out once each.
    assert_eq!(private.list("").await.len(), 3);
    // One that gives way to another of the same contents is gone, and so told again.
    let twin = json!({"type": "token", "data": "c", "deduplicate_token": true});
    private.post("/tokens", twin).await.expect(201);
    let patch = json!({"data": "c", "deduplicate_token": true});
    let patch = Operation::json(Method::PATCH, format!("/tokens/{}?", id(&made)), &patch, "token");
    let shown = assert_repeated(&mortal, &private, &patch).await;
    assert_eq!(shown["_extras"]["deduplicated"], true);
    private.get(&format!("/tokens/{}", id(&made))).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_everything_else_are_kept_with_it() {
    let mortal = Mortal::start().await;
    let (server, management) = (&mortal.server, &mortal.server.management);
    let (post, put) = (Method::POST, Method::PUT);
    let body = json!({"name": "n", "type": "public", "permissions": ["token:create"]});
    let operation = Operation::json(post.clone(), "/applications", &body, "application");
    let made = assert_repeated(&mortal, management, &operation).await;
    let public = server.client(made["key"].as_str().unwrap());
    let path = format!("/applications/{}", id(&made));
    let operation = Operation::json(put.clone(), &path, &body, "application");
    assert_repeated(&mortal, management, &operation).await;
    let operation = Operation::json(post.clone(), "/sessions", &json!({}), "session");
    let opened = assert_repeated(&mortal, &public, &operation).await;
    let grant = json!({"nonce": opened["nonce"], "permissions": ["token:create"]});
    let operation = Operation::json(post.clone(), "/sessions/authorize", &grant, "session");
    assert_repeated(&mortal, &server.private, &operation).await;
    let regenerate = format!("{path}/regenerate");
    let operation = Operation::json(post.clone(), regenerate, &json!({}), "application");
    assert_repeated(&mortal, management, &operation).await;
    let tenant = json!({"name": "renamed"});
    let operation = Operation::json(put.clone(), "/tenants/self", &tenant, "tenant");
    assert_repeated(&mortal, management, &operation).await;
    management.get("/webhooks/signing-secrets").await.expect(200);
    let rotate = "/webhooks/signing-secrets/rotate";
    let operation = Operation::json(post.clone(), rotate, &json!({}), "webhook");
    assert_repeated(&mortal, management, &operation).await;
    let secrets = management.get("/webhooks/signing-secrets").await.expect(200);
    assert_eq!(secrets.as_array().unwrap().len(), 2, "rotated once");

    let formula = guests::upload(guests::component("bare"));
    let operation = Operation::json(post.clone(), "/reactor-formulas", &formula, "reactor_formula");
    let formula = assert_repeated(&mortal, management, &operation).await;
    let path = format!("/reactor-formulas/{}", id(&formula));
    let operation =
        Operation::json(put.clone(), &path, &json!({"name": "other"}), "reactor_formula");
    assert_repeated(&mortal, management, &operation).await;
    let operation = Operation {
        method: put.clone(),
        path: format!("{path}/component"),
        body: guests::component("probe").to_vec(),
        content_type: "application/wasm",
        commits: 1,
        about: "reactor_formula",
    };
    assert_repeated(&mortal, management, &operation).await;
    let body = json!({"name": "r", "formula": {"id": formula["id"]}, "configuration": {}});
    let operation = Operation::json(post, "/reactors", &body, "reactor");
    let reactor = assert_repeated(&mortal, management, &operation).await;
    let path = format!("/reactors/{}", id(&reactor));
    let operation = Operation::json(put, path, &body, "reactor");
    assert_repeated(&mortal, management, &operation).await;
    drop(mortal.folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_run_is_kept_with_it() {
    let mortal = Mortal::start().await;
    let server = &mortal.server;
    let private = server.revealing().await;
    let reactor = guests::echo_reactor(server).await;
    let used = private.token("token", json!("secret")).await;
    let path = format!("/reactors/{reactor}/react");
    // Compiled before, which takes no commit but time.
    private.post(&path, json!({"args": {}})).await.expect(200);
    let body = json!({"args": {"behaviour": "respond", "raw": format!("{{{{ {used} }}}}"),
        "tokenize": {"a": {"type": "token", "data": 1}}}});
    let operation = Operation::json(Method::POST, &path, &body, "reactor");
    let first = assert_repeated_run(&mortal, &private, &operation).await;
    assert_eq!(first["raw"], "secret");
    assert_eq!(private.list("").await.len(), 2, "tokenized once");

    let receiver = Receiver::start().await;
    let body = json!({"args": {"behaviour": "respond", "raw": 1}, "callback_url": receiver.url()});
    let operation = Operation::json(Method::POST, format!("{path}/"), &body, "reactor");
    let queued = assert_repeated_run(&mortal, &private, &operation).await;
    assert_eq!(queued["status"], "queued");
    receiver.wait(1).await;
    let run = queued["invocation_id"].as_str().unwrap();
    let place = format!("/reactors/{reactor}/results/{run}");
    for _ in 0..1_200 {
        let result = private.get(&place).await.expect(200);
        if result["delivery"]["status"] == "delivered" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let redeliver =
        Operation::json(Method::POST, format!("{place}/redeliver"), &json!({}), "reactor");
    assert_repeated_run(&mortal, &private, &redeliver).await;
    let hooks = receiver.wait(2).await;
    assert_eq!(hooks.len(), 2, "delivered once, and once more");
}

/// As [`assert_repeated`], where others write log entries at the same time.
async fn assert_repeated_run(mortal: &Mortal, client: &Client, operation: &Operation) -> Value {
    let count = async || {
        let entries = logged(&mortal.server).await.into_iter();
        entries.filter(|entry| entry["message"] == "Answer repeated").collect::<Vec<_>>()
    };
    let before = count().await.len();
    let (first, again) = mortal.twice(client, operation).await;
    assert!(first.status.is_success(), "{}: {}", operation.path, first.text());
    assert_eq!(again.headers["svc-idempotent-replay"], "true", "{}", operation.path);
    assert_eq!((again.status, again.json()), (first.status, first.json()), "{}", operation.path);
    assert_eq!(again.headers.get("location"), first.headers.get("location"));
    let entries = count().await;
    assert!(entries.len() > before);
    let about = entries[..entries.len() - before].iter().map(|entry| &entry["entity_type"]);
    assert!(about.clone().any(|about| about == operation.about), "{}", operation.path);
    first.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_room_for_no_larger_body() {
    let server = TestServer::start().await;
    let mebibytes = |count: usize| json!({"type": "token", "data": "x".repeat(count << 20)});
    let reactor = guests::echo_reactor(&server).await;
    for path in ["/tokens", "/tokenize", &format!("/reactors/{reactor}/react")] {
        let operation = Operation::json(Method::POST, path, &mebibytes(5), "");
        let refused = operation.send(&server.private).await;
        let detail = refused.expect(413)["detail"].as_str().unwrap().to_owned();
        assert_eq!(detail, "The body must have at most 4194304 bytes.", "{path}");
    }
    // A formula's may have more: this one is read, and is no component.
    let body = json!({"name": "n", "component": "A".repeat(5 << 20)});
    let operation = Operation::json(Method::POST, "/reactor-formulas", &body, "");
    operation.send(&server.management).await.expect(422);
}
