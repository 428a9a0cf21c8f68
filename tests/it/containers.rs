//! How deep containers may be: those of a token are bounded, since all above them are kept with it; rules and searches may
//! name any (decisions §3).

use serde_json::{Value, json};
use tokamak::limits::{CONTAINER_SEGMENTS_MAX, CONTAINERS_MAX, CONTAINERS_SEGMENTS_MAX};

use crate::support::TestServer;

/// A container of so many segments, other than those with other numbers.
fn deep(number: usize, segments: usize) -> String {
    format!("/c{number}/{}", "s/".repeat(segments - 1))
}

fn body(containers: &[String]) -> Value {
    json!({"type": "token", "data": 1, "containers": containers})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lies_in_containers_of_so_many_segments_each_and_together() {
    let server = TestServer::start().await;
    let deepest = deep(0, CONTAINER_SEGMENTS_MAX);
    let made = server.private.post("/tokens", body(&[deepest])).await.expect(201);
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let most = CONTAINERS_SEGMENTS_MAX / CONTAINERS_MAX;
    let many: Vec<String> = (0..CONTAINERS_MAX).map(|number| deep(number, most)).collect();
    server.private.post("/tokens", body(&many)).await.expect(201);
    let too_deep = vec!["/a/".to_owned(), deep(0, CONTAINER_SEGMENTS_MAX + 1)];
    let too_many = [&many[1..], &[deep(0, most + 1)]].concat();
    for (containers, fault, message) in [
        (too_deep, "containers[1]", "must have at most 16 segments"),
        (too_many, "containers", "must have at most 160 segments together"),
    ] {
        for answer in [
            server.private.post("/tokens", body(&containers)).await,
            server.private.patch(&path, json!({"containers": containers})).await,
        ] {
            assert_eq!(answer.expect(400)["errors"], json!({fault: [message]}));
        }
        let answer = server.private.post("/tokenize", json!({"a": body(&containers)})).await;
        assert_eq!(answer.faults(), [format!("a.{fault}")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_searches_may_name_containers_that_are_deeper() {
    let server = TestServer::start().await;
    let token = server.private.post("/tokens", body(&[deep(0, CONTAINER_SEGMENTS_MAX)])).await;
    let token = token.expect(201)["id"].clone();
    let deeper = deep(0, CONTAINER_SEGMENTS_MAX + 1);
    let rules = json!([
        {"priority": 1, "container": deeper, "transform": "redact", "permissions": ["token:read"]},
        {"priority": 2, "container": deep(0, 1), "transform": "reveal",
            "permissions": ["token:read", "token:search"]},
    ]);
    let client = server.application("private", &[], rules).await;
    assert_eq!(client.list(&format!("container={deeper}")).await, [""; 0]);
    assert_eq!(client.search(&format!("container:\"{deeper}*\"")).await, [""; 0]);
    assert_eq!(client.list(&format!("container={}*", deep(0, 3))).await, [token]);
}

#[tokio::test(flavor = "multi_thread")]
async fn how_deep_they_may_be_is_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let container = &description["components"]["schemas"]["Container"]["description"];
    let text = container.as_str().unwrap();
    assert!(text.contains("16 segments each and 160 together"), "{text}");
}
