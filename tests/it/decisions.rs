//! Rules that hold for the whole interface at once (decisions §1, §2), each over all operations they are about.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, TestServer, guests};

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_paged_alike() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    for number in 0..3 {
        server.private.token("token", json!(number)).await;
        server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await.expect(200);
        guests::formula(&server, "bare", json!({})).await;
    }
    let invocations = format!("/reactors/{reactor}/invocations");
    for (client, path) in [
        (&server.private, "/tokens"),
        (&server.management, "/logs"),
        (&server.management, "/applications"),
        (&server.management, "/reactors"),
        (&server.management, "/reactor-formulas"),
        (&server.management, invocations.as_str()),
    ] {
        let page = client.get(path).await.expect(200);
        let about = &page["pagination"];
        assert_eq!((&about["page_number"], &about["page_size"]), (&json!(1), &json!(20)), "{path}");
        let count = page["data"].as_array().unwrap().len() as u64;
        let total = about["total_items"].as_u64().unwrap();
        assert_eq!(
            (count, about["total_pages"].as_u64()),
            (total.min(20), Some(total.div_ceil(20)))
        );
        assert_eq!(about.get("next").is_some(), total > 20, "{path} {about}");
        // One at a time, by number and by cursor, the same entries in the same order. Reading the log writes none.
        let mut cursor = String::new();
        for number in 1..=total.min(3) {
            let one = client.get(&format!("{path}?size=1&page={number}")).await.expect(200);
            let by_cursor = client.get(&format!("{path}?size=1{cursor}")).await.expect(200);
            if path != "/logs" {
                assert_eq!(one, by_cursor, "{path}");
            }
            assert_eq!(one["data"].as_array().unwrap().len(), 1, "{path}");
            if let Some(next) = by_cursor["pagination"]["next"].as_str() {
                cursor = format!("&start={next}");
            }
        }
        for (wrong, faults) in [
            ("size=0", vec!["size"]),
            ("size=101", vec!["size"]),
            ("size=x&page=0", vec!["page", "size"]),
            ("page=-1", vec!["page"]),
            ("start=nothing!", vec!["start"]),
        ] {
            let answer = client.get(&format!("{path}?{wrong}")).await;
            assert_eq!(answer.faults(), faults, "{path}?{wrong}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_are_ignored_wherever_there_is_a_body() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({"unknown": {"a": [1]}})).await;
    let reactor = guests::reactor(&server, &formula, json!({"unknown": 1, "formulas": 2})).await;
    let application = json!({"name": "n", "type": "private", "permissions": ["token:use"],
        "unknown": null, "keys": []});
    let application = server.management.post("/applications", application).await.expect(201);
    assert!(application.get("unknown").is_none());
    let token = json!({"type": "token", "data": 1, "unknown": {"x": 1}, "fingerprint": "mine"});
    let token = server.private.post("/tokens", token).await.expect(201);
    assert!(token.get("unknown").is_none() && token["fingerprint"] != "mine");
    let id = token["id"].as_str().unwrap();
    let patch = json!({"unknown": 1, "type": "card", "id": "other"});
    let patched = server.private.patch(&format!("/tokens/{id}"), patch).await.expect(200);
    assert_eq!((&patched["id"], &patched["type"]), (&token["id"], &token["type"]));
    let tenant = json!({"name": "n", "unknown": 1, "settings": {"unknown": 2}});
    server.management.put("/tenants/self", tenant).await.expect(200);
    let search = json!({"query": "", "unknown": 1});
    server.private.post("/tokens/search", search).await.expect(200);
    let react = json!({"args": {}, "unknown": 1});
    server.private.post(&format!("/reactors/{reactor}/react"), react).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trailing_slash_is_ignored_on_every_method() {
    let server = TestServer::start().await;
    let made = server.private.post("/tokens/", json!({"type": "token", "data": 1})).await;
    let path = format!("/tokens/{}/", made.expect(201)["id"].as_str().unwrap());
    server.private.get("/tokens/?size=1").await.expect(200);
    server.private.get(&path).await.expect(200);
    server.private.patch(&path, json!({})).await.expect(200);
    server.private.delete(&path).await.expect(204);
    server.management.put("/tenants/self/", json!({"name": "n"})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permissions_and_who_may_hold_them() {
    let server = TestServer::start().await;
    let held_by = async |client: &Client, query: &str| -> Vec<(String, Value)> {
        let listed = client.get(&format!("/permissions{query}")).await.expect(200);
        let rows = listed.as_array().unwrap().iter().map(|row| {
            assert!(!row["description"].as_str().unwrap().is_empty());
            (row["type"].as_str().unwrap().to_owned(), row["application_types"].clone())
        });
        rows.collect()
    };
    server.stranger().get("/permissions").await.expect(401);
    let public = server.application("public", &["token:create"], json!([])).await;
    let all = held_by(&public, "").await;
    let writing = ["token:create", "token:update"];
    let reading = ["token:read", "token:search", "token:delete", "token:use"];
    let managing = [
        "application:create",
        "application:read",
        "application:update",
        "application:delete",
        "reactor:create",
        "reactor:read",
        "reactor:update",
        "reactor:delete",
        "log:read",
        "tenant:read",
        "tenant:update",
        "webhook:read",
        "webhook:update",
    ];
    let mut names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let mut expected: Vec<&str> =
        writing.iter().chain(&reading).chain(&managing).copied().collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for (query, expected) in [
        ("?application_type=public", writing.to_vec()),
        ("?application_type=private", [&writing[..], &reading[..]].concat()),
        ("?application_type=management", managing.to_vec()),
    ] {
        let mut expected = expected;
        expected.sort_unstable();
        let mut names: Vec<String> =
            held_by(&server.private, query).await.into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, expected, "{query}");
    }
    let answer = server.private.get("/permissions?application_type=other").await;
    assert_eq!(answer.faults(), ["application_type"]);
    // What the table says is what an application is given.
    for (kind, others) in [
        ("public", [&reading[..], &managing[..]].concat()),
        ("private", managing.to_vec()),
        ("management", [&writing[..], &reading[..]].concat()),
    ] {
        for permission in others {
            let body = json!({"name": "n", "type": kind, "permissions": [permission]});
            let answer = server.management.post("/applications", body).await;
            assert_eq!(answer.faults(), ["permissions[0]"], "{kind} {permission}");
            assert!(answer.text().contains(permission) || answer.text().contains("cannot"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_body_is_named_by_line_and_column_on_every_operation_with_one() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let id = server.private.token("token", json!(1)).await;
    let (private, management) = (&server.private, &server.management);
    for (client, method, path) in [
        (private, Method::POST, "/tokens".to_owned()),
        (private, Method::POST, "/tokens/search".to_owned()),
        (private, Method::POST, "/tokenize".to_owned()),
        (private, Method::POST, "/detokenize".to_owned()),
        (private, Method::PATCH, format!("/tokens/{id}")),
        (private, Method::POST, "/sessions/authorize".to_owned()),
        (private, Method::POST, format!("/reactors/{reactor}/react")),
        (management, Method::POST, "/applications".to_owned()),
        (management, Method::POST, "/reactors".to_owned()),
        (management, Method::POST, "/reactor-formulas".to_owned()),
        (management, Method::PUT, format!("/reactors/{reactor}")),
        (management, Method::PUT, "/tenants/self".to_owned()),
    ] {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = client.request(method.clone(), &path).body("{\n  \"secret\": oops}");
        let problem = client.send(request.header("content-type", content_type)).await.expect(400);
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("line 2") && detail.contains("column"),
            "{method} {path}: {detail}"
        );
        assert!(!detail.contains("secret") && !detail.contains("oops"), "{detail}");
    }
}

/// The paths of all members that are `null`.
fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Array(items) => items.iter().for_each(|item| nulls(item, path, found)),
        Value::Object(members) => {
            for (name, member) in members {
                nulls(member, &format!("{path}.{name}"), found);
            }
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_leaves_out_what_is_absent() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    server.private.token("token", json!(1)).await;
    for (client, path) in [
        (&server.private, "/tokens".to_owned()),
        (&server.private, "/applications/key".to_owned()),
        (&server.management, "/logs".to_owned()),
        (&server.management, "/applications".to_owned()),
        (&server.management, format!("/reactors/{reactor}")),
        (&server.management, "/reactor-formulas".to_owned()),
        (&server.management, "/tenants/self".to_owned()),
        (&server.management, "/webhooks/signing-secrets".to_owned()),
    ] {
        let mut found = Vec::new();
        nulls(&client.get(&path).await.expect(200), "", &mut found);
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}
