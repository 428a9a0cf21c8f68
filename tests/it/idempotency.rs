//! `SVC-IDEMPOTENCY-KEY` (decisions §1).

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer};

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
