//! Rules that hold for the whole interface at once (decisions §1, §2), each over all operations they are about.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests};

/// What whoever writes tokens may hold.
const WRITING: [&str; 2] = ["token:create", "token:update"];
/// What whoever reads or uses them may hold beside that.
const READING: [&str; 4] = ["token:read", "token:search", "token:delete", "token:use"];
/// What whoever manages everything else may hold.
const MANAGING: [&str; 13] = [
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
async fn unknown_members_of_a_change_are_ignored_at_every_level() {
    let server = TestServer::start().await;
    let management = &server.management;
    let with_unknown = |mut object: Value| {
        object["unknown"] = json!({"a": [1]});
        object
    };
    let rule = json!({"priority": 1, "container": "/a/", "transform": "mask",
        "permissions": ["token:read"]});
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    let body = json!({"name": "b", "rules": [with_unknown(rule.clone())], "key": "mine"});
    let changed = management.put(&path, with_unknown(body)).await.expect(200);
    assert_eq!((&changed["name"], &changed["rules"]), (&json!("b"), &json!([rule])));
    assert!(changed.get("unknown").is_none() && changed.get("key").is_none(), "{changed}");
    let body = with_unknown(json!({"key": "mine"}));
    let renewed = management.post(&format!("{path}/regenerate"), body).await.expect(200);
    assert!(renewed["key"].as_str().unwrap().starts_with("key_prv_"), "{renewed}");
    assert_ne!(renewed["key"], made["key"]);

    let formula = guests::formula(&server, "bare", json!({})).await;
    let parameter = json!({"name": "c", "type": "string", "optional": true});
    let body = json!({"name": "f", "configuration": [with_unknown(parameter.clone())],
        "request_parameters": [with_unknown(parameter.clone())], "status": "mine",
        "limits": with_unknown(json!({"memory_mb": 32}))});
    let path = format!("/reactor-formulas/{formula}");
    let changed = management.put(&path, with_unknown(body)).await.expect(200);
    for member in ["configuration", "request_parameters"] {
        assert_eq!(changed[member], json!([parameter]), "{member}");
    }
    assert_eq!(changed["limits"], json!({"memory_mb": 32}));
    assert_eq!((&changed["status"], changed.get("unknown")), (&json!("verified"), None));

    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let body = json!({"name": "r", "configuration": {}, "formula": {"id": "mine"}});
    let path = format!("/reactors/{reactor}");
    let changed = management.put(&path, with_unknown(body)).await.expect(200);
    assert_eq!((&changed["name"], &changed["formula"]["id"]), (&json!("r"), &json!(formula)));

    let rotate = "/webhooks/signing-secrets/rotate";
    let body = with_unknown(json!({"secret": "whsec_mine"}));
    let rotated = management.post(rotate, body).await.expect(200);
    assert_ne!(rotated[0]["secret"], "whsec_mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_are_ignored_of_sessions_and_of_runs() {
    let server = TestServer::start_with(Setup::open()).await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let body = json!({"unknown": 1, "nonce": "mine"});
    let opened = public.post("/sessions", body).await.expect(201);
    assert_ne!(opened["nonce"], "mine");
    let condition = json!({"attribute": "id", "operator": "equals", "value": "abc", "unknown": 1});
    let rule = json!({"priority": 1, "transform": "mask", "permissions": ["token:read"],
        "conditions": [condition], "unknown": 2});
    let grant = json!({"nonce": opened["nonce"], "rules": [rule], "unknown": 3, "id": "mine"});
    let granted = server.private.post("/sessions/authorize", grant).await.expect(200);
    assert!(granted["id"] != "mine" && !granted.to_string().contains("unknown"), "{granted}");

    let tokens = json!([{"type": "token", "data": 1, "unknown": 1, "fingerprint": "mine"}]);
    let made = server.private.post("/tokenize", tokens).await.expect(200);
    assert!(made[0].get("unknown").is_none() && made[0]["fingerprint"] != "mine", "{made}");
    let react = format!("/reactors/{}/react", guests::echo_reactor(&server).await);
    let receiver = Receiver::start().await;
    let body = json!({"callback_url": receiver.url(), "unknown": 1, "invocation_id": "mine"});
    let queued = server.private.post(&react, body).await;
    assert_ne!(queued.expect(202)["invocation_id"], "mine");
    receiver.wait(1).await;
    let redeliver = format!("{}/redeliver", queued.headers["location"].to_str().unwrap());
    let body = json!({"unknown": 1, "callback_url": "https://hooks.invalid/"});
    server.private.post(&redeliver, body).await.expect(202);
    // To the same receiver.
    receiver.wait(2).await;
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

/// The permissions that are listed, each with who may hold it.
async fn permissions(client: &Client, query: &str) -> BTreeMap<String, Value> {
    let listed = client.get(&format!("/permissions{query}")).await.expect(200);
    let listed = listed.as_array().unwrap();
    let row = |row: &Value| {
        assert!(!row["description"].as_str().unwrap().is_empty(), "{row}");
        (row["type"].as_str().unwrap().to_owned(), row["application_types"].clone())
    };
    let rows: BTreeMap<String, Value> = listed.iter().map(row).collect();
    assert_eq!(rows.len(), listed.len(), "each is listed once: {listed:?}");
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permissions_and_who_may_hold_them() {
    let server = TestServer::start().await;
    server.stranger().get("/permissions").await.expect(401);
    let public = server.application("public", &["token:create"], json!([])).await;
    let rows = |names: &[&str], holders: Value| -> BTreeMap<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), holders.clone())).collect()
    };
    let writing = rows(&WRITING, json!(["public", "private"]));
    let reading = rows(&READING, json!(["private"]));
    let managing = rows(&MANAGING, json!(["management"]));
    for (client, query, expected) in [
        (&public, "", vec![&writing, &reading, &managing]),
        (&server.private, "?application_type=public", vec![&writing]),
        (&server.private, "?application_type=private", vec![&writing, &reading]),
        (&server.private, "?application_type=management", vec![&managing]),
    ] {
        let expected: BTreeMap<String, Value> =
            expected.into_iter().flat_map(BTreeMap::clone).collect();
        assert_eq!(permissions(client, query).await, expected, "{query}");
    }
    let answer = server.private.get("/permissions?application_type=other").await;
    assert_eq!(answer.faults(), ["application_type"]);
    // What the table says is what an application is given.
    for (kind, others) in [
        ("public", [&READING[..], &MANAGING[..]].concat()),
        ("private", MANAGING.to_vec()),
        ("management", [&WRITING[..], &READING[..]].concat()),
    ] {
        for permission in others {
            let body = json!({"name": "n", "type": kind, "permissions": [permission]});
            let answer = server.management.post("/applications", body).await;
            assert_eq!(answer.faults(), ["permissions[0]"], "{kind} {permission}");
            assert!(answer.text().contains(permission), "{kind}: {}", answer.text());
        }
    }
}

/// Every operation that reads a body as JSON if one comes, and its content type. Places in paths have an id that nothing
/// has: a body is looked at before that.
async fn operations_with_a_body(server: &TestServer) -> Vec<(Method, String, &'static str)> {
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut operations = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        let nothing = "00000000-0000-7000-8000-000000000000";
        let there = path.replace("{id}", nothing).replace("{invocation_id}", nothing);
        for name in methods.as_object().unwrap().keys() {
            let content_type = match name.as_str() {
                "post" | "put" => "application/json",
                "patch" => "application/merge-patch+json",
                _ => continue,
            };
            // A component is no JSON.
            if !path.ends_with("/component") {
                let method = Method::from_bytes(name.to_uppercase().as_bytes()).unwrap();
                operations.push((method, there.clone(), content_type));
            }
        }
    }
    assert!(operations.len() >= 18, "{operations:?}");
    operations
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_body_is_named_by_line_and_column_on_every_operation_with_one() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    for (method, path, content_type) in operations_with_a_body(&server).await {
        let mut permitted = 0;
        for client in [&server.management, &server.private, &public] {
            let request = client.request(method.clone(), &path).body("{\n  \"secret\": oops}");
            let answer = client.send(request.header("content-type", content_type)).await;
            if answer.status == 403 {
                continue;
            }
            permitted += 1;
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text());
            let problem = answer.json();
            let detail = problem["detail"].as_str().unwrap();
            assert!(
                detail.contains("line 2") && detail.contains("column"),
                "{method} {path}: {detail}"
            );
            assert!(!answer.text().contains("secret") && !answer.text().contains("oops"));
        }
        assert!(permitted > 0, "no client of this test may {method} {path}");
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
