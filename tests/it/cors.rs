//! Pages of other sites, as browsers let them: what public applications and sessions use is open to them, and nothing else.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Client, TestServer};

async fn asks(client: &Client, path: &str, method: &str) -> Answer {
    let request = client.request(Method::OPTIONS, path).header("origin", "https://shop.example");
    let request = request.header("access-control-request-method", method);
    client.send(request.header("access-control-request-headers", "content-type,svc-api-key")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_may_ask_without_a_key() {
    let server = TestServer::start().await;
    for (path, method) in [
        ("/tokens", "POST"),
        ("/tokens/", "POST"),
        ("/tokens/some-token", "PATCH"),
        ("/tokenize", "POST"),
        ("/sessions", "POST"),
        ("/applications/key", "GET"),
        ("/reactors/x/react", "POST"),
        ("/reactors/x/results/y/redeliver", "POST"),
        ("/permissions", "GET"),
    ] {
        let answer = asks(&server.stranger(), path, method).await;
        answer.expect(204);
        assert_eq!(answer.headers["access-control-allow-origin"], "*", "{path}");
        let methods = answer.headers["access-control-allow-methods"].to_str().unwrap();
        assert!(methods.split(", ").any(|open| open == method), "{path}: {methods}");
        let headers = answer.headers["access-control-allow-headers"].to_str().unwrap();
        for header in ["content-type", "svc-api-key", "svc-trace-id", "svc-idempotency-key"] {
            assert!(headers.split(", ").any(|open| open == header), "{path}: {headers}");
        }
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_manages_is_closed_to_pages() {
    let server = TestServer::start().await;
    for path in
        ["/applications", "/reactors", "/logs", "/tenants/self", "/sessions/authorize", "/nothing"]
    {
        let answer = asks(&server.stranger(), path, "POST").await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.status);
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{path}");
    }
    let request = server.management.request(Method::GET, "/applications");
    let answer = server.management.send(request.header("origin", "https://shop.example")).await;
    answer.expect(200);
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_answers_and_refusals() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let send = async |client: &Client, body| {
        let request = client.request(Method::POST, "/tokens").json(&body);
        client.send(request.header("origin", "null")).await
    };
    let token = json!({"type": "token", "data": 1});
    let made = send(&public, token.clone()).await;
    made.expect(201);
    let refused = [
        (send(&public, json!({})).await, 400),
        (send(&server.stranger(), token.clone()).await, 401),
        (send(&server.management, token).await, 403),
    ];
    for (answer, status) in refused {
        answer.expect(status);
        assert_eq!(answer.headers["access-control-allow-origin"], "*");
        assert!(answer.json()["trace_id"].is_string());
    }
    // Whatever refuses it, and of a HEAD too.
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let from = async |client: &Client, method, path: String| {
        client.send(client.request(method, &path).header("origin", "null")).await
    };
    let long = format!("/tokens?id={}", "x".repeat(17 << 10));
    for (answer, status) in [
        (from(&server.private, Method::GET, long).await, 414),
        (from(&server.private, Method::GET, "/tokens/none".to_owned()).await, 404),
        (from(&server.private, Method::HEAD, format!("/tokens/{id}")).await, 200),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["access-control-allow-origin"], "*", "{status}");
    }
    let exposed = made.headers["access-control-expose-headers"].to_str().unwrap();
    for header in ["location", "retry-after", "svc-trace-id", "svc-idempotent-replay"] {
        assert!(exposed.contains(header), "{exposed}");
    }
    // Who is no page is told nothing of it.
    let plain = public.post("/tokens", json!({"type": "token", "data": 2})).await;
    assert!(!plain.headers.contains_key("access-control-allow-origin"));
}
