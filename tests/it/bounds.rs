//! What a request may cost, whatever it holds: answers stay small, and nothing is kept that could not be read again.

use serde_json::{Value, json};

use tokamak::clock::Clock as _;

use crate::support::TestServer;

const ANSWER_BYTES_MAX: usize = 64 << 10;

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_nested_too_deep_is_refused_everywhere() {
    let server = TestServer::start().await;
    let table = [
        ("/tokens", json!({"type": "token", "data": 1, "mask": nested(64)})),
        ("/tokens", json!({"type": "token", "data": nested(64)})),
        ("/tokenize", nested(65)),
        ("/detokenize", nested(65)),
    ];
    for (path, body) in table {
        let answer = server.private.post(path, body).await;
        let problem = answer.expect(400);
        assert!(problem["detail"].as_str().unwrap().contains("64 levels"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_nested_as_deep_as_may_be_is_kept_and_ends() {
    let server = TestServer::start().await;
    let now = i64::try_from(server.clock.now_ms()).unwrap() + 5 * 60 * 1_000;
    let end = chrono::DateTime::from_timestamp_millis(now).unwrap().to_rfc3339();
    let body = json!({"id": "deep", "type": "token", "data": nested(63), "mask": nested(63),
        "expires_at": end});
    server.private.post("/tokens", body).await.expect(201);
    server.private.get("/tokens/deep").await.expect(200);
    assert_eq!(server.private.list("id=deep").await, ["deep"]);
    let patch = json!({"metadata": {"a": "b"}});
    server.private.patch("/tokens/deep", patch).await.expect(200);
    server.clock.advance_ms(10 * 60 * 1_000);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_named_up_to_a_number() {
    let server = TestServer::start().await;
    let name = "n".repeat(100_000);
    let requests = [
        ("/tokens", json!({"type": "token", "data": 1, "containers": vec![1; 100_000]})),
        (
            "/tokens",
            json!({"type": "token", "data": 1, "search_indexes": vec![json!({}); 100_000]}),
        ),
        ("/detokenize", json!({name.as_str(): vec!["{{ abc }}"; 10_000]})),
        ("/detokenize", json!(vec!["{{"; 100_000])),
        ("/tokenize", json!(vec![1; 100_000])),
        ("/tokenize", json!({name.as_str(): vec![json!({"type": 1, "data": 1}); 1_000]})),
    ];
    for (path, body) in requests {
        let answer = server.private.post(path, body).await;
        answer.expect(400);
        let bytes = answer.text().len();
        assert!(bytes < ANSWER_BYTES_MAX, "{path}: {bytes} bytes");
    }
    // Many places that hold nothing cost nothing.
    let holes = json!({name.as_str(): vec![Value::Null; 50_000]});
    server.private.post("/tokenize", holes).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_masks_are_worked_on_apart_and_end() {
    let server = TestServer::start().await;
    let slow = "{{ data | upcase | downcase | upcase | downcase | size }}";
    let body = json!({"type": "token", "data": "x".repeat(1_000_000), "mask": vec![slow; 20]});
    // More than an expression may cost.
    assert!(server.private.post("/tokens", body).await.faults()[0].starts_with("mask["));
    let body =
        json!({"id": "slow", "type": "token", "data": "x".repeat(200_000), "mask": [slow, slow]});
    let made = server.private.post("/tokens", body).await.expect(201);
    assert_eq!(made["data"], json!([200_000, 200_000]));
    assert_eq!(server.private.list("id=slow").await, ["slow"]);
}
