//! `SVC-IDEMPOTENCY-KEY` (decisions §1).

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer, guests};

async fn send(client: &Client, key: &str, method: Method, path: &str, body: Value) -> Answer {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = client.request(method, path).body(body.to_string());
    let request = request.header("content-type", content_type);
    client.send(request.header("SVC-IDEMPOTENCY-KEY", key)).await
}

fn token(data: &str) -> Value {
    json!({"type": "token", "data": data})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_gets_the_first_answer() {
    let server = TestServer::start().await;
    let post = async |body: Value| send(&server.private, "k1", Method::POST, "/tokens", body).await;
    let first = post(token("a")).await;
    let made = first.expect(201);
    assert!(!first.headers.contains_key("svc-idempotent-replay"));
    let again = post(token("a")).await;
    assert_eq!(again.expect(201), made);
    assert_eq!(again.headers["svc-idempotent-replay"], "true");
    assert_eq!(again.headers["location"], first.headers["location"]);
    assert_eq!(server.private.list("").await.len(), 1);
    // Another body, path or method under the same key.
    post(token("b")).await.expect(422);
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    send(&server.private, "k1", Method::PATCH, &path, json!({})).await.expect(422);
    send(&server.private, "k1", Method::POST, "/tokenize", token("a")).await.expect(422);
    // Another application's key is another key.
    let other = server.application("private", &["token:create"], json!([])).await;
    send(&other, "k1", Method::POST, "/tokens", token("b")).await.expect(201);
    // PATCH and PUT too.
    let patch = json!({"metadata": {"k": "v"}});
    let first = send(&server.private, "k2", Method::PATCH, &path, patch.clone()).await.expect(200);
    server.clock.advance_ms(1_000);
    let again = send(&server.private, "k2", Method::PATCH, &path, patch).await.expect(200);
    assert_eq!(first, again);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_kept_for_a_day_and_a_failure_not_at_all() {
    let server = TestServer::start().await;
    let post = async |body: Value| send(&server.private, "k", Method::POST, "/tokens", body).await;
    post(json!({"type": "token"})).await.expect(400);
    let made = post(token("a")).await.expect(201);
    server.clock.advance_ms(24 * 3_600_000 - 1);
    assert_eq!(post(token("a")).await.expect(201), made);
    server.clock.advance_ms(1);
    assert_ne!(post(token("b")).await.expect(201), made);
    server.clock.advance_ms(24 * 3_600_000);
    assert!(server.vault.sweep().await.unwrap().0 >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_requests_one_is_carried_out() {
    let server = TestServer::start().await;
    let post = || send(&server.private, "k", Method::POST, "/tokens", token("a"));
    let answers = join_all((0..20).map(|_| post())).await;
    assert!(answers.iter().all(|answer| [201, 409].contains(&answer.status.as_u16())));
    assert!(answers.iter().any(|answer| answer.status == 201));
    assert_eq!(server.private.list("").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_repetitions_of_what_was_carried_out_all_get_its_answer() {
    let server = TestServer::start().await;
    let repeat = || send(&server.private, "key", Method::POST, "/tokens", token("a"));
    let id = repeat().await.expect(201)["id"].clone();
    for _ in 0..20 {
        for answer in join_all((0..16).map(|_| repeat())).await {
            assert_eq!(answer.expect(201)["id"], id);
            assert!(is_replay(&answer));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_gets_no_answer_and_what_is_no_key_is_refused() {
    let server = TestServer::start().await;
    send(&server.stranger(), "k", Method::POST, "/tokens", token("a")).await.expect(401);
    let long = "k".repeat(256);
    send(&server.private, &long, Method::POST, "/tokens", token("a")).await.expect(400);
    send(&server.private, "", Method::POST, "/tokens", token("a")).await.expect(400);
    // It means nothing on a GET.
    let request = server.private.request(Method::GET, "/tokens").header("SVC-IDEMPOTENCY-KEY", "k");
    let answer = server.private.send(request).await;
    answer.expect(200);
    send(&server.private, "k", Method::POST, "/tokens", token("a")).await.expect(201);
    // Of several it must not be open which counts.
    for (other, status) in [("k", 201), ("l", 400)] {
        let request = server.private.request(Method::POST, "/tokens").json(&token("a"));
        let request =
            request.header("SVC-IDEMPOTENCY-KEY", "k").header("SVC-IDEMPOTENCY-KEY", other);
        server.private.send(request).await.expect(status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let setup = || crate::support::server::Setup {
        folder: Some(folder.path().to_owned()),
        ..Default::default()
    };
    let first = TestServer::start_with(setup()).await;
    let key = first.private.key.clone().unwrap();
    let made = send(&first.private, "k", Method::POST, "/tokens", token("a")).await.expect(201);
    first.stop().await;
    let second = TestServer::start_with(setup()).await;
    let again = send(&second.client(&key), "k", Method::POST, "/tokens", token("a")).await;
    assert_eq!(again.expect(201), made);
    assert_eq!(again.headers["svc-idempotent-replay"], "true");
}

/// Whether an answer says that it is a repetition.
fn is_replay(answer: &Answer) -> bool {
    answer.headers.get("svc-idempotent-replay").is_some_and(|value| value == "true")
}

/// What is kept of a token.
fn outline(token: &Value) -> Value {
    let kept = ["id", "tenant_id", "type", "fingerprint", "containers"];
    kept.iter().map(|name| ((*name).to_owned(), token[name].clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_reads_is_carried_out_again() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let id = reader.token("token", json!("a")).await;
    let search = async |query: &str| {
        let answer =
            send(&reader, "k", Method::POST, "/tokens/search", json!({"query": query})).await;
        assert!(!is_replay(&answer));
        answer.expect(200)["pagination"]["total_items"].clone()
    };
    assert_eq!(search("type:token").await, 1);
    reader.token("token", json!("b")).await;
    assert_eq!(search("type:token").await, 2);
    assert_eq!(search("type:card").await, 0);
    let reference = json!([format!("{{{{ {id} }}}}")]);
    let show = async || send(&reader, "k", Method::POST, "/detokenize", reference.clone()).await;
    assert_eq!(show().await.expect(200), json!(["a"]));
    reader.delete(&format!("/tokens/{id}")).await.expect(204);
    show().await.expect(400);
    // What is no key is refused there too.
    for path in ["/detokenize", "/tokens/search"] {
        let long = "k".repeat(1_000);
        send(&reader, &long, Method::POST, path, json!({})).await.expect(400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_in_the_first_answer_only() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let body = json!({"name": "n", "type": "private", "permissions": ["token:use"]});
    let other = server.management.post("/applications", body.clone()).await.expect(201);
    let regenerate = format!("/applications/{}/regenerate", other["id"].as_str().unwrap());
    for (client, path, body, status, secrets) in [
        (&server.management, "/applications", body, 201, vec!["key"]),
        (&server.management, regenerate.as_str(), json!({}), 200, vec!["key"]),
        (&public, "/sessions", json!({}), 201, vec!["session_key", "nonce"]),
    ] {
        let first = send(client, path, Method::POST, path, body.clone()).await;
        let again = send(client, path, Method::POST, path, body).await;
        let mut expected = first.expect(status);
        let key = expected[secrets[0]].as_str().unwrap().to_owned();
        for secret in secrets {
            let removed = expected.as_object_mut().unwrap().remove(secret);
            assert!(removed.is_some_and(|secret| secret.is_string()), "{path}");
        }
        assert_eq!(again.expect(status), expected, "{path}");
        assert!(is_replay(&again) && !is_replay(&first), "{path}");
        assert_eq!(again.headers.get("location"), first.headers.get("location"), "{path}");
        // The first key is still the one.
        server.client(&key).get("/applications/key").await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_shows_a_token_as_it_is_by_then() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let card = json!({"id": "my card", "type": "card",
        "data": {"number": "4242424242424242", "cvc": "123"}});
    let post = async || send(&reader, "k", Method::POST, "/tokens", card.clone()).await;
    let first = post().await;
    assert_eq!(first.expect(201)["data"]["cvc"], "123");
    assert_eq!(first.json(), post().await.expect(201));
    server.clock.advance_ms(61 * 60_000);
    let again = post().await;
    assert_eq!(again.expect(201)["data"], json!({"number": "4242424242424242"}));
    assert!(is_replay(&again));
    assert_eq!(again.headers["location"], first.headers["location"]);
    reader.delete("/tokens/my%20card").await.expect(204);
    let gone = post().await;
    gone.expect(404);
    assert!(!is_replay(&gone));
    // Of one that was there before, the repetition says so too.
    let twin = json!({"type": "token", "data": "x", "deduplicate_token": true});
    reader.post("/tokens", twin.clone()).await.expect(201);
    let first = send(&reader, "twin", Method::POST, "/tokens", twin.clone()).await.expect(200);
    assert_eq!(first["_extras"], json!({"deduplicated": true}));
    let again = send(&reader, "twin", Method::POST, "/tokens", twin).await;
    assert_eq!(again.expect(200), first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_is_not_about_another_token_that_has_the_id() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    let made = json!({"id": "one", "type": "token", "data": "first"});
    let make = async || send(&client, "k", Method::POST, "/tokens", made.clone()).await;
    let first = make().await.expect(201);
    let patch = json!({"metadata": {"a": "b"}});
    let change = async || send(&client, "p", Method::PATCH, "/tokens/one", patch.clone()).await;
    change().await.expect(200);
    let repeated = make().await.expect(201);
    assert_eq!(
        (&repeated["created_at"], &repeated["metadata"]),
        (&first["created_at"], &patch["metadata"])
    );
    assert!(repeated.get("_made").is_none());
    server.clock.advance_ms(1);
    client.delete("/tokens/one").await.expect(204);
    let other = json!({"id": "one", "type": "token", "data": "another's"});
    client.post("/tokens", other).await.expect(201);
    for answer in [make().await, change().await] {
        assert!(!answer.text().contains("another's"));
        answer.expect(404);
    }
    // Who may not read gets the outline, and nothing that is kept beside it.
    let blind = server.application("private", &["token:create"], json!([])).await;
    let body = json!({"type": "token", "data": "x"});
    send(&blind, "k", Method::POST, "/tokens", body.clone()).await.expect(201);
    let again = send(&blind, "k", Method::POST, "/tokens", body).await.expect(201);
    assert_eq!(again, outline(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_shows_no_more_than_the_caller_may_read_by_then() {
    let server = TestServer::start().await;
    let rules = |container: &str, transform: &str, permissions: &[&str]| {
        json!({"name": "n", "type": "private", "rules": [{"description": "", "priority": 1,
            "container": container, "transform": transform, "permissions": permissions}]})
    };
    let all = rules("/", "reveal", &["token:create", "token:read", "token:update"]);
    let made = server.management.post("/applications", all).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    let client = server.client(made["key"].as_str().unwrap());
    let body = json!({"id": "tok", "type": "token", "data": "first", "metadata": {"k": "v"}});
    let post = async || send(&client, "k1", Method::POST, "/tokens", body.clone()).await;
    let patch =
        async || send(&client, "k2", Method::PATCH, "/tokens/tok", json!({"data": "second"})).await;
    let posted = post().await.expect(201);
    let patched = patch().await.expect(200);
    assert_eq!((&posted["data"], &patched["data"]), (&json!("first"), &json!("second")));
    assert_eq!(post().await.expect(201), patched);
    let redacted = rules("/", "redact", &["token:create", "token:read"]);
    server.management.put(&path, redacted).await.expect(200);
    for (answer, status) in [(post().await, 201), (patch().await, 200)] {
        let token = answer.expect(status);
        assert!(is_replay(&answer) && token.get("data").is_none());
        assert_eq!(token["metadata"], json!({"k": "v"}));
    }
    for powerless in [
        rules("/", "reveal", &["token:create"]),
        rules("/elsewhere/", "reveal", &["token:create", "token:read"]),
    ] {
        server.management.put(&path, powerless).await.expect(200);
        assert_eq!(post().await.expect(201), outline(&posted));
        assert_eq!(patch().await.expect(200), outline(&patched));
    }
    // It asked to read nothing: no refusal is in the log.
    let logs = server.management.get("/logs?size=100").await.expect(200);
    let mut entries = logs["data"].as_array().unwrap().iter();
    assert!(entries.all(|entry| !entry["message"].as_str().unwrap().starts_with("Denied")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_tokenize_gives_its_tokens_in_outline() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let value = json!({
        "card": {"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}},
        "list": ["a", null, {"type": "token", "data": {"x": "y"}, "metadata": {"k": "v"}}],
        "own": {"id": 1, "tenant_id": "t", "type": "x", "more": {"data": "z"}},
    });
    let post = async || send(&reader, "k", Method::POST, "/tokenize", value.clone()).await;
    let mut expected = post().await.expect(200);
    assert_eq!(expected["card"]["data"]["cvc"], "123");
    expected["card"] = outline(&expected["card"]);
    expected["list"][2] = outline(&expected["list"][2]);
    assert!(expected["own"]["more"]["data"].is_string());
    let again = post().await;
    assert_eq!(again.expect(200), expected);
    assert!(is_replay(&again));
    assert_eq!(reader.list("").await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_run_shows_tokens_that_are_gone_in_outline() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let client = server.revealing().await;
    let token = json!({"type": "token", "data": "secret"});
    let body = json!({"args": {"behaviour": "respond", "tokenize": {"a": token, "b": token}}});
    let path = format!("/reactors/{reactor}/react");
    let react = async || send(&client, "k", Method::POST, &path, body.clone()).await;
    let first = react().await.expect(200);
    assert_eq!(react().await.expect(200), first);
    let id = first["tokens"]["a"]["id"].as_str().unwrap();
    client.delete(&format!("/tokens/{id}")).await.expect(204);
    let again = react().await;
    assert_eq!(again.headers["svc-idempotent-replay"], "true");
    let again = again.expect(200);
    assert_eq!(again["tokens"]["b"], first["tokens"]["b"]);
    assert_eq!(again["tokens"]["a"]["id"], id);
    assert!(again["tokens"]["a"].get("data").is_none(), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nonce_that_was_used_under_a_key_answers_again() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let body = json!({"nonce": opened["nonce"], "permissions": ["token:create"]});
    let authorize = async |key: &str, body: Value| {
        send(&server.private, key, Method::POST, "/sessions/authorize", body).await
    };
    let first = authorize("k", body.clone()).await.expect(200);
    let again = authorize("k", body.clone()).await;
    assert_eq!(again.headers["svc-idempotent-replay"], "true");
    assert_eq!(again.expect(200), first);
    // It was carried out once, and a failure is not kept.
    let logs = server.management.get("/logs?entity_type=session").await.text();
    assert_eq!(logs.matches("Session authorized").count(), 1);
    assert_eq!(authorize("other", body.clone()).await.faults(), ["nonce"]);
    let other = public.post("/sessions", json!({})).await.expect(201);
    let body = json!({"nonce": other["nonce"], "permissions": ["token:create"]});
    authorize("other", body).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_run_is_not_repeated_to_who_may_run_none_any_more() {
    let server = TestServer::start().await;
    let path = format!("/reactors/{}/react", guests::echo_reactor(&server).await);
    let body = json!({"name": "n", "type": "private", "permissions": ["token:use"]});
    let made = server.management.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    let run = async || {
        send(&client, "k", Method::POST, &path, json!({"args": {"secret": "echoed"}})).await
    };
    let first = run().await.expect(200);
    let again = run().await;
    assert!(is_replay(&again));
    assert_eq!(again.expect(200), first);
    let application = format!("/applications/{}", made["id"].as_str().unwrap());
    let allow = async |permission: &str| {
        let body = json!({"name": "n", "permissions": [permission]});
        server.management.put(&application, body).await.expect(200);
    };
    allow("token:create").await;
    let refused = run().await;
    refused.expect(403);
    assert!(!is_replay(&refused) && !refused.text().contains("echoed"));
    allow("token:use").await;
    assert!(is_replay(&run().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_of_one_application_have_their_own_keys() {
    let server = TestServer::start().await;
    let opener = server.application("public", &["token:create"], json!([])).await;
    let session = async || server.session(&opener).await;
    let sessions = [(session().await, "a"), (session().await, "b")];
    let mut made = Vec::new();
    for (client, data) in &sessions {
        let first = send(client, "k", Method::POST, "/tokens", token(data)).await;
        made.push(first.expect(201)["id"].clone());
        assert!(!is_replay(&first), "{data}");
    }
    assert_ne!(made[0], made[1]);
    for ((client, data), id) in sessions.iter().zip(made) {
        let again = send(client, "k", Method::POST, "/tokens", token(data)).await;
        assert_eq!(again.expect(201)["id"], id);
        assert!(is_replay(&again), "{data}");
    }
    assert_eq!(server.private.list("").await.len(), 2);
}

/// Who asks for nothing that there is is told so, whatever stands in its header.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_changes_nothing_where_nothing_is_carried_out() {
    let server = TestServer::start().await;
    let stranger = server.stranger();
    for (path, status) in [("/nope", 404), ("/permissions", 405), ("/tokens", 401)] {
        let request = stranger.request(Method::POST, path).json(&json!({}));
        stranger.send(request.header("SVC-IDEMPOTENCY-KEY", "a")).await.expect(status);
    }
}
