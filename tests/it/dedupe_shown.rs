//! How a duplicate is shown (decisions §2, §3): by the rule that lets its finder read, whatever the rule shows by which
//! it creates or updates.

use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer};

/// What the rule for creating and updating shows, and what the one for reading does.
const RULES: [(&str, &str); 5] = [
    ("reveal", "redact"),
    ("reveal", "mask"),
    ("redact", "reveal"),
    ("mask", "reveal"),
    ("mask", "redact"),
];

fn body(data: &str) -> Value {
    json!({"type": "token", "data": data, "mask": "{{ data | reveal_last: 4 }}",
        "metadata": {"k": "v"}, "deduplicate_token": true})
}

/// Contents that no other case has.
fn contents(case: usize) -> String {
    format!("secret-731{case}")
}

/// What is shown of contents, `null` for nothing.
fn shown(transform: &str, data: &str) -> Value {
    match transform {
        "reveal" => json!(data),
        "mask" => json!(format!("XXXXXX-{}", data.rsplit('-').next().unwrap())),
        _ => Value::Null,
    }
}

/// A caller of two rules for the same tokens.
async fn caller(server: &TestServer, writes: &str, reads: &str) -> Client {
    let rule = |priority: u32, transform: &str, permissions: &[&str]| {
        json!({"description": "", "priority": priority, "container": "/",
            "transform": transform, "permissions": permissions})
    };
    let rules = json!([
        rule(1, writes, &["token:create", "token:update"]),
        rule(2, reads, &["token:read"]),
    ]);
    server.application("private", &[], rules).await
}

/// Asserts that a token is told as a duplicate, with so much of its contents.
#[track_caller]
fn assert_found(answer: &Answer, found: &Value, id: &Value, transform: &str, data: &str) {
    assert_eq!(found["_extras"], json!({"deduplicated": true}), "{found}");
    assert_eq!((&found["id"], &found["metadata"]), (id, &json!({"k": "v"})), "{found}");
    assert_eq!(found["data"], shown(transform, data), "{transform}: {found}");
    assert_eq!(found.get("data").is_some(), transform != "redact", "{found}");
    assert_eq!(answer.text().contains(data), transform == "reveal", "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_to_be_made() {
    let server = TestServer::start().await;
    for (case, (writes, reads)) in RULES.into_iter().enumerate() {
        let (client, data) = (caller(&server, writes, reads).await, contents(case));
        let made = client.post("/tokens", body(&data)).await.expect(201);
        assert_eq!(made["data"], shown(writes, &data), "{made}");
        let answer = client.post("/tokens", body(&data)).await;
        assert_found(&answer, &answer.expect(200), &made["id"], reads, &data);
        // Nor does one who asks anew as somebody else see more.
        let again = caller(&server, writes, reads).await;
        let answer = again.post("/tokens", body(&data)).await;
        assert_found(&answer, &answer.expect(200), &made["id"], reads, &data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_value_that_is_tokenized() {
    let server = TestServer::start().await;
    for (case, (writes, reads)) in RULES.into_iter().enumerate() {
        let (client, data) = (caller(&server, writes, reads).await, contents(case));
        let made = client.post("/tokenize", json!({"it": body(&data)})).await.expect(200);
        assert_eq!(made["it"]["data"], shown(writes, &data), "{made}");
        assert!(made["it"].get("_extras").is_none(), "{made}");
        let answer = client.post("/tokenize", json!([body(&data)])).await;
        assert_found(&answer, &answer.expect(200)[0], &made["it"]["id"], reads, &data);
        // Beside a new one, which is shown by the other rule.
        let new = format!("secret-632{case}");
        let told = client.post("/tokenize", json!([body(&data), body(&new)])).await.expect(200);
        assert_eq!(told[1]["data"], shown(writes, &new), "{told}");
        assert_eq!(told[0], answer.json()[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_an_update_gives_way_to() {
    let server = TestServer::start().await;
    for (case, (writes, reads)) in RULES.into_iter().enumerate() {
        let (client, data) = (caller(&server, writes, reads).await, contents(case));
        let first = client.post("/tokens", body(&data)).await.expect(201);
        let second = client.post("/tokens", body("secret-0000")).await.expect(201);
        let path = format!("/tokens/{}", second["id"].as_str().unwrap());
        // Its own contents are shown by the rule by which it is updated.
        let own = client.patch(&path, json!({"data": "secret-0001"})).await.expect(200);
        assert_eq!(own["data"], shown(writes, "secret-0001"), "{own}");
        let answer = client.patch(&path, json!({"data": data})).await;
        assert_found(&answer, &answer.expect(200), &first["id"], reads, &data);
        client.get(&path).await.expect(404);
    }
}
