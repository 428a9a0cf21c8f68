//! Applications (interface §2.3, §4.4; decisions §2).

use serde_json::{Value, json};

use crate::support::TestServer;

fn private() -> Value {
    json!({"name": "checkout", "type": "private", "permissions": ["token:use"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seven_operations() {
    let server = TestServer::start().await;
    let management = &server.management;
    let answer = management.post("/applications", private()).await;
    let made = answer.expect(201);
    let id = made["id"].as_str().unwrap();
    assert_eq!(answer.headers["location"], format!("/applications/{id}"));
    assert_eq!(made["created_at"], "2026-01-01T00:00:00.000+00:00");
    assert_eq!(made["rules"], json!([]));
    assert!(made["created_by"].is_string());
    assert!(made.get("modified_at").is_none() && made.get("expires_at").is_none());
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("key_prv_") && key.len() == 40, "{key}");

    let path = format!("/applications/{id}");
    let read = management.get(&path).await.expect(200);
    assert!(read.get("key").is_none(), "a key is shown once");
    let client = server.client(key);
    assert_eq!(client.get("/applications/key").await.expect(200), read);

    let list = management.get(&format!("/applications?id={id}&id[]={id}")).await.expect(200);
    assert_eq!(list["data"], json!([read]));
    assert_eq!(list["pagination"]["total_items"], 1);

    let body = json!({"name": "renamed", "permissions": ["token:create"]});
    let updated = management.put(&path, body).await.expect(200);
    assert_eq!(updated["name"], "renamed");
    assert_eq!(updated["permissions"], json!(["token:create"]));
    assert!(updated["modified_at"].is_string() && updated["modified_by"].is_string());
    // The new rights hold at once.
    client.post("/tokens", json!({"type": "token", "data": 1})).await.expect(201);

    let renewed = management.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    let new_key = renewed["key"].as_str().unwrap();
    assert_ne!(new_key, key);
    client.get("/applications/key").await.expect(401);
    server.client(new_key).get("/applications/key").await.expect(200);

    assert_eq!(management.delete(&path).await.expect(204), Value::Null);
    management.get(&path).await.expect(404);
    management.delete(&path).await.expect(404);
    server.client(new_key).get("/applications/key").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_new_application_is_named() {
    let server = TestServer::start().await;
    let rule = |change: Value| {
        let mut rule = json!({"description": "d", "priority": 1, "container": "/a/",
            "transform": "mask", "permissions": ["token:read"]});
        rule.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"name": "n", "type": "private", "rules": [rule]})
    };
    let long = "n".repeat(201);
    for (body, expected) in [
        (json!({}), vec!["name", "permissions", "type"]),
        (json!({"name": "", "type": "private", "permissions": ["token:use"]}), vec!["name"]),
        (json!({"name": long, "type": "private", "permissions": ["token:use"]}), vec!["name"]),
        (json!({"name": "n", "type": "other", "permissions": ["token:use"]}), vec!["type"]),
        (json!({"name": "n", "type": "private"}), vec!["permissions"]),
        (
            json!({"name": "n", "type": "private", "permissions": [], "rules": []}),
            vec!["permissions"],
        ),
        (
            json!({"name": "n", "type": "private", "permissions": ["token:use", "a", "log:read"]}),
            vec!["permissions[1]", "permissions[2]"],
        ),
        (
            json!({"name": "n", "type": "public", "permissions": ["token:read"]}),
            vec!["permissions[0]"],
        ),
        (
            json!({"name": "n", "type": "management", "permissions": ["token:create"]}),
            vec!["permissions[0]"],
        ),
        (
            json!({"name": "n", "type": "private", "permissions": ["token:use"], "expires_at": "soon"}),
            vec!["expires_at"],
        ),
        (
            json!({"name": "n", "type": "private", "permissions": ["token:use"],
            "expires_at": "2025-12-31T23:59:59Z"}),
            vec!["expires_at"],
        ),
        (
            json!({"name": "n", "type": "management", "permissions": ["log:read"],
            "rules": [{"priority": 1, "container": "/", "transform": "mask",
                "permissions": ["token:read"]}]}),
            vec!["rules", "rules[0].permissions[0]"],
        ),
        (rule(json!({"priority": 0})), vec!["rules[0].priority"]),
        (rule(json!({"priority": null})), vec!["rules[0].priority"]),
        (rule(json!({"container": "a"})), vec!["rules[0].container"]),
        (rule(json!({"container": null})), vec!["rules[0].container"]),
        (rule(json!({"transform": "show"})), vec!["rules[0].transform"]),
        (rule(json!({"permissions": []})), vec!["rules[0].permissions"]),
        (rule(json!({"permissions": ["token:fly"]})), vec!["rules[0].permissions[0]"]),
        (rule(json!({"conditions": [{"attribute": "id"}]})), vec!["rules[0].conditions"]),
        (json!({"name": "n", "type": "private", "rules": [1]}), vec!["rules[0]"]),
    ] {
        let answer = server.management.post("/applications", body.clone()).await;
        assert_eq!(answer.faults(), expected, "{body}");
    }
    // A permission that does not fit is named, with the type that may not hold it.
    let body = json!({"name": "n", "type": "public", "permissions": ["token:read"]});
    let text = server.management.post("/applications", body).await.text();
    assert!(text.contains("token:read cannot be held by public applications"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn priorities_are_unique() {
    let server = TestServer::start().await;
    let rule = |priority: u32| {
        json!({"priority": priority, "container": "/", "transform": "mask",
        "permissions": ["token:read"]})
    };
    let body = json!({"name": "n", "type": "private", "rules": [rule(2), rule(1), rule(2)]});
    let answer = server.management.post("/applications", body).await;
    assert_eq!(answer.faults(), ["rules[2].priority"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_neither_deletes_nor_disarms_itself() {
    let server = TestServer::start().await;
    let own = server.management.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}", own["id"].as_str().unwrap());
    server.management.delete(&path).await.expect(409);
    let body = json!({"name": "n", "permissions": ["application:read"]});
    assert_eq!(server.management.put(&path, body).await.faults(), ["permissions"]);
    let body = json!({"name": "n", "permissions": ["application:update"]});
    server.management.put(&path, body).await.expect(200);
    server.management.get("/applications").await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_fails_at_once_and_the_record_goes() {
    let server = TestServer::start().await;
    let mut body = private();
    body["expires_at"] = json!("2026-01-01T01:00:00+00:00");
    let made = server.management.post("/applications", body).await.expect(201);
    assert_eq!(made["expires_at"], "2026-01-01T01:00:00.000+00:00");
    let client = server.client(made["key"].as_str().unwrap());
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    server.clock.advance_ms(3_599_999);
    client.get("/applications/key").await.expect(200);
    server.clock.advance_ms(1);
    client.get("/applications/key").await.expect(401);
    server.management.get(&path).await.expect(404);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    let logs = server.management.get("/logs?entity_type=application&size=1").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Application expired");
    assert_eq!(logs["data"][0]["operation"], "delete");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_newest_first() {
    let server = TestServer::start().await;
    for index in 0..7 {
        let mut body = private();
        body["name"] = json!(format!("app {index}"));
        server.management.post("/applications", body).await.expect(201);
        server.clock.advance_ms(1);
    }
    // Two of the server's own come before these.
    let first = server.management.get("/applications?size=4").await.expect(200);
    let names = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().unwrap();
        data.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["app 6", "app 5", "app 4", "app 3"]);
    let pagination = &first["pagination"];
    let expected = json!({"total_items": 9, "page_number": 1, "page_size": 4, "total_pages": 3,
        "next": pagination["next"]});
    assert_eq!(*pagination, expected);
    let next = pagination["next"].as_str().unwrap();
    // What is made meanwhile does not shift what follows a cursor.
    server.management.post("/applications", private()).await.expect(201);
    let second = server.management.get(&format!("/applications?size=4&start={next}")).await;
    let second = second.expect(200);
    assert_eq!(names(&second)[..3], ["app 2", "app 1", "app 0"]);
    assert_eq!(second["pagination"]["page_number"], 2);
    let last = server.management.get("/applications?size=4&page=3").await.expect(200);
    assert_eq!(names(&last).len(), 2);
    assert!(last["pagination"].get("next").is_none());
    let beyond = server.management.get("/applications?size=4&page=99").await.expect(200);
    assert_eq!(beyond["data"], json!([]));
    for wrong in ["page=0", "size=101", "size=0", "page=x", "start=!", "id=x"] {
        let name = wrong.split('=').next().unwrap();
        let answer = server.management.get(&format!("/applications?{wrong}")).await;
        assert_eq!(answer.faults(), [name], "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_loses_a_race_is_made_anew() {
    let server = TestServer::start().await;
    let made = server.management.post("/applications", private()).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    for round in 0..10 {
        let body = json!({"name": format!("n {round}"), "permissions": ["token:use"]});
        let renew = format!("{path}/regenerate");
        let (changed, renewed) = tokio::join!(
            server.management.put(&path, body),
            server.management.post(&renew, json!({}))
        );
        // Of two, one loses at most once, and neither undoes the other.
        changed.expect(200);
        let key = renewed.expect(200)["key"].as_str().unwrap().to_owned();
        let own = server.client(&key).get("/applications/key").await.expect(200);
        assert_eq!(own["name"], format!("n {round}"));
    }
}
