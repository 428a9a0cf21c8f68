//! `svc`: what a formula may do with the vault (decisions §7).

use serde_json::{Value, json};

use crate::support::{TestServer, guests};

const ALL: [&str; 6] =
    ["token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"];

/// A server and a reactor that acts as an application with these rights; gives the application's id too.
async fn reactor(kind: &str, permissions: &[&str], rules: Value) -> (TestServer, String, String) {
    let server = TestServer::start().await;
    let body = json!({"name": "svc", "type": kind, "permissions": permissions, "rules": rules});
    let application = server.management.post("/applications", body).await.expect(201);
    let id = application["id"].as_str().unwrap().to_owned();
    let formula = guests::formula(&server, "probe", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({"application": {"id": id}})).await;
    (server, reactor, id)
}

async fn call(server: &TestServer, reactor: &str, operation: &str, input: Value) -> Value {
    let args = json!({"behaviour": "svc", "operation": operation, "input": input, "catch": true});
    let answer =
        server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await;
    answer.expect(200)["raw"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works() {
    let reveal = json!([{"description": "", "priority": 1, "container": "/", "transform": "reveal", "permissions": ALL}]);
    let (server, reactor, application) = reactor("private", &[], reveal).await;
    let call =
        async |operation: &str, input: Value| call(&server, &reactor, operation, input).await;
    let made = call("create", json!({"type": "card_number", "data": "4242424242424242"})).await;
    let id = made["id"].clone();
    assert_eq!(made["data"], "4242424242424242");
    assert_eq!(call("get", id.clone()).await, made);
    let changed = call("update", json!({"id": id, "patch": {"metadata": {"k": "v"}}})).await;
    assert_eq!(changed["id"], id);
    let listed = call("list", json!({"type": ["card_number"]})).await;
    assert_eq!((&listed["total"], &listed["tokens"][0]["id"]), (&json!(1), &id));
    let found = call("search", json!({"query": "metadata.k:V"})).await;
    assert_eq!(
        (&found["total"], &found["tokens"][0]["data"]),
        (&json!(1), &json!("4242424242424242"))
    );
    let tokens = call("tokenize", json!({"a": "x", "b": [1]})).await;
    let references = json!([
        format!("<< {} >>", tokens["a"].as_str().unwrap()),
        format!("<< {} >>", tokens["b"][0].as_str().unwrap())
    ]);
    assert_eq!(call("detokenize", references).await, json!(["x", 1]));
    assert_eq!(call("delete", id.clone()).await, Value::Null);
    let gone = call("get", id).await;
    assert_eq!((&gone["status"], &gone["title"]), (&json!(404), &json!("Not Found")));
    // The application acted, and the log says so.
    let logs = server.management.get("/logs?entity_type=token&size=50").await.expect(200);
    let by_it = logs["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["actor_id"] == application.as_str());
    assert!(by_it.count() >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_the_rights_of_the_application_and_no_more() {
    let rules = json!([{"description": "", "priority": 1, "container": "/pci/", "transform": "mask", "permissions": ["token:read", "token:search"]}]);
    let (server, reactor, _) = reactor("private", &["token:create"], rules).await;
    let make = async |container: &str| {
        let body =
            json!({"type": "card_number", "data": "4242424242424242", "containers": [container]});
        server.private.post("/tokens", body).await.expect(201)["id"].clone()
    };
    let (inside, outside) = (make("/pci/").await, make("/bank/").await);
    let call =
        async |operation: &str, input: Value| call(&server, &reactor, operation, input).await;
    assert_eq!(call("get", inside.clone()).await["data"], "XXXXXXXXXXXX4242");
    for (operation, input) in [
        ("get", outside.clone()),
        ("delete", inside.clone()),
        ("update", json!({"id": inside, "patch": {}})),
        ("detokenize", json!(format!("<< {} >>", inside.as_str().unwrap()))),
    ] {
        assert_eq!(call(operation, input).await["status"], 403, "{operation}");
    }
    assert_eq!(call("search", json!({"query": "type:card_number"})).await["total"], 1);
    assert_eq!(call("list", json!({})).await["total"], 1);
    let refused = call("search", json!({"query": "nonsense"})).await;
    assert_eq!((&refused["status"], &refused["errors"][0][0]), (&json!(400), &json!("query")));
    let refused = call("create", json!({"type": "card_number", "data": "1"})).await;
    assert_eq!((&refused["status"], &refused["errors"][0][0]), (&json!(400), &json!("data")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_becomes_the_formulas_error_and_without_application_there_is_no_svc() {
    let (server, reactor, _) = reactor("public", &["token:create"], json!([])).await;
    let args = json!({"behaviour": "svc", "operation": "get", "input": "x"});
    let answer =
        server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await;
    assert_eq!(answer.expect(403)["title"], "Forbidden");
    let without = guests::echo_reactor(&server).await;
    let answer =
        server.private.post(&format!("/reactors/{without}/react"), json!({"args": args})).await;
    assert_eq!(answer.expect(500)["detail"], "there is no svc");
    // What is tokenized is made by the reactor's application, whatever the caller may do.
    let user = server.application("private", &["token:use"], json!([])).await;
    let body = json!({"args": {"behaviour": "respond", "tokenize": "x"}});
    let made = user.post(&format!("/reactors/{reactor}/react"), body).await.expect(200);
    let id = made["tokens"].as_str().unwrap();
    server.private.get(&format!("/tokens/{id}")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_nowhere_in_what_a_formula_sees() {
    let (server, reactor, _) = reactor("private", &["token:create"], json!([])).await;
    let seen = server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await;
    assert_eq!(seen.expect(200)["raw"]["svc"], true);
    assert!(!seen.text().contains("key_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_ended_stops_its_reactors() {
    let server = TestServer::start().await;
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"], "expires_at": "2026-01-01T01:00:00Z"});
    let application = server.management.post("/applications", body).await.expect(201);
    let formula = guests::formula(&server, "probe", json!({})).await;
    let reactor =
        guests::reactor(&server, &formula, json!({"application": {"id": application["id"]}})).await;
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({})).await.expect(200);
    server.clock.advance_ms(3_600_000);
    server.private.post(&path, json!({})).await.expect(409);
}
