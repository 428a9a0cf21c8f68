//! Reactors: making, reading, changing and deleting them (interface §4.5, decisions §7).

use serde_json::{Value, json};

use crate::support::{TestServer, guests};

async fn configured(server: &TestServer) -> String {
    let configuration = json!([
        {"name": "url", "type": "string"},
        {"name": "retries", "type": "number"},
        {"name": "live", "type": "boolean", "optional": true},
    ]);
    guests::formula(server, "probe", json!({"configuration": configuration})).await
}

fn body(formula: &str, configuration: Value) -> Value {
    json!({"name": "r", "formula": {"id": formula}, "configuration": configuration})
}

async fn application(server: &TestServer, kind: &str, permission: &str) -> String {
    let body = json!({"name": "a", "type": kind, "permissions": [permission]});
    let made = server.management.post("/applications", body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_must_satisfy_the_formula() {
    let server = TestServer::start().await;
    let formula = configured(&server).await;
    let table = [
        (json!({}), vec!["configuration.retries", "configuration.url"]),
        (json!({"url": "x"}), vec!["configuration.retries"]),
        (json!({"url": "x", "retries": "many"}), vec!["configuration.retries"]),
        (json!({"url": "x", "retries": 1, "live": "maybe"}), vec!["configuration.live"]),
        (json!({"url": "x", "retries": 1, "other": 1}), vec!["configuration.other"]),
        (json!({"url": {}, "retries": null}), vec!["configuration.retries", "configuration.url"]),
    ];
    for (configuration, expected) in table {
        let shown = configuration.to_string();
        let answer = server.management.post("/reactors", body(&formula, configuration)).await;
        assert_eq!(answer.faults(), expected, "{shown}");
    }
    // What can be cast is cast.
    let configuration = json!({"url": "x", "retries": "3", "live": "true"});
    let made = server.management.post("/reactors", body(&formula, configuration)).await.expect(201);
    assert_eq!(made["configuration"], json!({"url": "x", "retries": 3, "live": true}));
    assert_eq!(made["formula"]["id"], formula.as_str());
    assert!(made["formula"].get("component").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_checked_whole() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "probe", json!({})).await;
    let management = application(&server, "management", "log:read").await;
    let nothing = "00000000-0000-7000-8000-000000000000";
    let table = [
        (json!({}), vec!["configuration", "formula", "name"]),
        (
            json!({"name": "x".repeat(201), "formula": {"id": "x"}, "configuration": {}}),
            vec!["formula.id", "name"],
        ),
        (
            json!({"name": "r", "formula": {}, "configuration": []}),
            vec!["configuration", "formula.id"],
        ),
        (body(nothing, json!({})), vec!["formula.id"]),
    ];
    for (body, expected) in table {
        let shown = body.to_string();
        assert_eq!(server.management.post("/reactors", body).await.faults(), expected, "{shown}");
    }
    for application in [management.as_str(), nothing, "x"] {
        let mut body = body(&formula, json!({}));
        body["application"] = json!({"id": application});
        let answer = server.management.post("/reactors", body).await;
        assert_eq!(answer.faults(), ["application.id"], "{application}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_is_made_read_changed_listed_and_deleted() {
    let server = TestServer::start().await;
    let formula = configured(&server).await;
    let application = application(&server, "private", "token:read").await;
    let mut new = body(&formula, json!({"url": "x", "retries": 1}));
    new["application"] = json!({"id": application});
    let answer = server.management.post("/reactors", new).await;
    let made = answer.expect(201);
    let path = format!("/reactors/{}", made["id"].as_str().unwrap());
    assert_eq!(answer.headers["location"], path.as_str());
    assert_eq!(made["application"]["id"], application.as_str());
    assert!(made["application"].get("key").is_none());
    assert_eq!(server.management.get(&path).await.expect(200), made);
    // The application is held while the reactor needs it.
    let holder = format!("/applications/{application}");
    server.management.delete(&holder).await.expect(409);
    let change = json!({"name": "Second name", "configuration": {"url": "y", "retries": 2}, "formula": {"id": "ignored"}});
    let changed = server.management.put(&path, change).await.expect(200);
    assert_eq!(
        (&changed["name"], &changed["configuration"]["url"]),
        (&json!("Second name"), &json!("y"))
    );
    assert!(changed.get("application").is_none());
    server.management.delete(&holder).await.expect(204);
    let faulty = json!({"name": "n", "configuration": {"url": "y"}});
    assert_eq!(server.management.put(&path, faulty).await.faults(), ["configuration.retries"]);

    let count = async |query: &str| {
        let page = server.management.get(&format!("/reactors?{query}")).await.expect(200);
        page["pagination"]["total_items"].as_u64().unwrap()
    };
    assert_eq!((count("").await, count("name=*name").await, count("name=second").await), (1, 1, 0));
    let id = made["id"].as_str().unwrap();
    assert_eq!(count(&format!("id={id}&name=*")).await, 1);
    server.management.delete(&path).await.expect(204);
    server.management.get(&path).await.expect(404);
    assert_eq!(count("").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_reactors_and_applications_are_not_there() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let foreign = application(&server, "private", "token:read").await;
    let other = server.other_tenant().await;
    let path = format!("/reactors/{reactor}");
    other.get(&path).await.expect(404);
    other.delete(&path).await.expect(404);
    other.get(&format!("{path}/invocations")).await.expect(404);
    let official = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";
    let mut new = body(official, json!({}));
    new["application"] = json!({"id": foreign});
    assert_eq!(other.post("/reactors", new).await.faults(), ["application.id"]);
    let key = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let key = other.post("/applications", key).await.expect(201)["key"].clone();
    let user = server.client(key.as_str().unwrap());
    user.post(&format!("{path}/react"), json!({})).await.expect(404);
}
