//! Who sees what: rules × containers × transforms, as a table a person can read (decisions §2).

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{Client, TestServer};

const CONTAINERS: &[&[&str]] =
    &[&["/pci/high/"], &["/pci/"], &["/pci-test/"], &["/bank/"], &["/pci/high/", "/bank/"], &["/"]];

/// Name, permissions and rules of an application.
fn applications() -> Vec<(&'static str, Vec<&'static str>, Value)> {
    let rule = |priority: u32, container: &str, transform: &str, permissions: &[&str]| {
        json!({"priority": priority, "container": container, "transform": transform,
            "permissions": permissions})
    };
    let all = ["token:create", "token:read", "token:delete", "token:use"];
    vec![
        ("permissions alone", all.to_vec(), json!([])),
        ("reveal on root", vec![], json!([rule(1, "/", "reveal", &all)])),
        ("reveal on /pci/", vec![], json!([rule(1, "/pci/", "reveal", &all)])),
        (
            "redact /pci/high/, then reveal root",
            vec![],
            json!([rule(5, "/", "reveal", &all), rule(1, "/pci/high/", "redact", &all)]),
        ),
        (
            "mask /bank/ and permissions",
            vec!["token:read"],
            json!([rule(1, "/bank/", "redact", &["token:read"])]),
        ),
        (
            "create on /pci/ and read on /bank/",
            vec![],
            json!([
                rule(1, "/pci/", "mask", &["token:create"]),
                rule(2, "/bank/", "reveal", &["token:read"])
            ]),
        ),
        ("use alone", vec!["token:use"], json!([])),
    ]
}

/// What a response shows of the token `"123-45-6789"`.
fn shown(status: u16, body: &Value) -> String {
    match (status, body.get("data").and_then(Value::as_str)) {
        (200 | 201, Some("123-45-6789")) => "reveal".to_owned(),
        (200 | 201, Some("XXX-XX-6789")) => "mask".to_owned(),
        (200 | 201, None) => "redact".to_owned(),
        (204, _) => "yes".to_owned(),
        (status, _) => status.to_string(),
    }
}

fn ssn(containers: &[&str]) -> Value {
    json!({"type": "social_security_number", "data": "123-45-6789", "containers": containers})
}

async fn used(client: &Client, reactor: &str, token: &str) -> String {
    let body = json!({"args": {"value": format!("{{{{ {token} }}}}")}});
    let answer = client.post(&format!("/reactors/{reactor}/react"), body).await;
    let status = answer.status.as_u16();
    if status != 200 {
        return status.to_string();
    }
    match answer.json()["raw"]["args"]["value"].as_str() {
        Some("123-45-6789") => "reveal".to_owned(),
        Some("XXX-XX-6789") => "mask".to_owned(),
        _ => "redact".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_matrix() {
    let server = TestServer::start().await;
    let reactor = crate::support::guests::echo_reactor(&server).await;
    let maker = server.revealing().await;
    let mut table = String::new();
    for (name, permissions, rules) in applications() {
        let client = server.application("private", &permissions, rules).await;
        let _ = writeln!(table, "{name}");
        for containers in CONTAINERS {
            let answer = client.post("/tokens", ssn(containers)).await;
            let created = shown(answer.status.as_u16(), &answer.json());
            let made = maker.post("/tokens", ssn(containers)).await.expect(201);
            let id = made["id"].as_str().unwrap();
            let path = format!("/tokens/{id}");
            let answer = client.get(&path).await;
            let read = shown(answer.status.as_u16(), &answer.json());
            let used = used(&client, &reactor, id).await;
            let answer = client.delete(&path).await;
            let deleted = shown(answer.status.as_u16(), &answer.json());
            let _ = writeln!(
                table,
                "  {:<20} create {created:<7} read {read:<7} use {used:<7} delete {deleted}",
                containers.join(" + "),
            );
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_a_mask_is_redacted_where_it_would_be_masked() {
    let server = TestServer::start().await;
    let body = json!({"type": "social_security_number", "data": "123-45-6789", "mask": null});
    let made = server.private.post("/tokens", body).await.expect(201);
    assert!(made.get("data").is_none() && made.get("mask").is_none());
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    assert!(server.private.get(&path).await.expect(200).get("data").is_none());
    assert_eq!(server.revealing().await.get(&path).await.expect(200)["data"], "123-45-6789");
}

#[tokio::test(flavor = "multi_thread")]
async fn redact_keeps_the_mask() {
    let server = TestServer::start().await;
    let made = server.private.post("/tokens", ssn(&["/pci/"])).await.expect(201);
    let rule = json!([{"priority": 1, "container": "/", "transform": "redact",
        "permissions": ["token:read"]}]);
    let client = server.application("private", &[], rule).await;
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let seen = client.get(&path).await.expect(200);
    assert!(seen.get("data").is_none());
    assert_eq!(seen["mask"], "{{ data | reveal_last: 4 }}");
}
