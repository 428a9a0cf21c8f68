//! What is wrong with a request is told in one order: key, permission, content type and body, existence, rule
//! (decisions §1).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer, guests};

const NOTHING: &str = "00000000-0000-7000-8000-000000000000";

async fn send(client: &Client, method: &Method, path: &str, body: &Value) -> Answer {
    let request = client.request(method.clone(), path);
    let content_type = match *method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    client.send(request.header("content-type", content_type).body(body.to_string())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_before_what_is_not_there() {
    let server = TestServer::start().await;
    let (private, management) = (&server.private, &server.management);
    let (post, put, patch) = (Method::POST, Method::PUT, Method::PATCH);
    let formula = json!({"name": "x"});
    for (client, method, path, wrong, right) in [
        (private, &patch, "/tokens/{id}", json!({"containers": "x"}), json!({})),
        (private, &patch, "/tokens/{id}", json!({"expires_at": "1/1/2000"}), json!({"data": 1})),
        (private, &patch, "/tokens/{id}", json!({"data": null}), json!({"mask": null})),
        (
            private,
            &patch,
            "/tokens/{id}",
            json!({"search_indexes": ["{{ data | nothing }}"]}),
            json!({"data": 1}),
        ),
        (private, &post, "/reactors/{id}/react", json!({"args": 1}), json!({})),
        (private, &post, "/reactors/{id}/react", json!({"args": {"a": "{{ x | }}"}}), json!({})),
        (private, &post, "/reactors/{id}/react", json!({"timeout_ms": 1}), json!({"args": {}})),
        (
            management,
            &put,
            "/reactors/{id}",
            json!({"name": "", "configuration": {}}),
            json!({"name": "x", "configuration": {}}),
        ),
        (
            management,
            &put,
            "/applications/{id}",
            json!({"name": "x"}),
            json!({"name": "x", "permissions": ["token:read"]}),
        ),
        (management, &put, "/reactor-formulas/{id}", json!({"name": 1}), formula),
    ] {
        // Also one that cannot be an id.
        for id in [NOTHING, "not-an-id-of-anything"] {
            let path = path.replace("{id}", id);
            let answer = send(client, method, &path, &wrong).await;
            assert!(!answer.faults().is_empty(), "{method} {path} {wrong}");
            let answer = send(client, method, &path, &right).await;
            assert_eq!(answer.status, 404, "{method} {path} {right}: {}", answer.text());
        }
    }
    // The content type comes before both.
    let request = private.request(Method::PATCH, "/tokens/nothing").json(&json!({"data": null}));
    private.send(request).await.expect(415);
    management.get(&format!("/reactors/{NOTHING}/invocations?size=x")).await.expect(400);
    management.get(&format!("/reactors/{NOTHING}/invocations")).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn existence_comes_before_the_rule_and_the_body_before_both() {
    let server = TestServer::start().await;
    let rule = json!([{"description": "", "priority": 1, "container": "/elsewhere/",
        "transform": "reveal", "permissions": ["token:update"]}]);
    let narrow = server.application("private", &[], rule).await;
    let id = server.private.token("token", json!("x")).await;
    narrow.patch(&format!("/tokens/{id}"), json!({"metadata": 1})).await.expect(400);
    narrow.patch(&format!("/tokens/{id}"), json!({})).await.expect(403);
    narrow.patch("/tokens/nothing", json!({})).await.expect(404);
    // That it was denied is in the log once: what was wrong in itself came to no token.
    let logs = server.management.get(&format!("/logs?entity_id={id}")).await.text();
    assert_eq!(logs.matches("Denied: token:update").count(), 1, "{logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_wrong_with_an_update_is_named_at_once() {
    let server = TestServer::start().await;
    let card = json!({"number": "4242424242424242"});
    let id = server.private.token("card", card).await;
    let patch = json!({
        "containers": ["x"], "expires_at": "1/1/2000", "data": {"number": "4242424242424241"},
        "mask": {"a": "{{ data.number | nothing }}"}, "deduplicate_token": 1,
        "metadata": {"k": 1}, "search_indexes": ["{{ data.number | nothing }}"],
        "fingerprint_expression": "{{ data | nothing }}",
    });
    let answer = server.private.patch(&format!("/tokens/{id}"), patch.clone()).await;
    assert_eq!(
        answer.faults(),
        [
            "containers[0]",
            "data.number",
            "deduplicate_token",
            "expires_at",
            "fingerprint_expression",
            "mask.a",
            "metadata.k",
            "search_indexes[0]"
        ]
    );
    // Of no token at all: what is wrong whatever it is like.
    let answer = server.private.patch("/tokens/nothing", patch).await;
    let faults = answer.faults();
    assert!(
        faults.contains(&"containers[0]".to_owned()) && !faults.contains(&"data.number".to_owned())
    );
    let body = json!({"type": "card", "data": {"number": "1"}, "mask": "{{ x | nothing }}",
        "containers": [], "expires_at": "yesterday"});
    let answer = server.private.post("/tokens", body).await;
    assert_eq!(answer.faults(), ["containers", "data.number", "expires_at", "mask"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_comes_after_the_permission() {
    let server = TestServer::start().await;
    let powerless = server.application("private", &["token:read"], json!([])).await;
    let keyed = async |client: &Client, key: &str, path: &str, body: Value| {
        let request = client.request(Method::POST, path).json(&body);
        client.send(request.header("SVC-IDEMPOTENCY-KEY", key)).await
    };
    let token = json!({"type": "token", "data": 1});
    let long = "k".repeat(256);
    for path in ["/tokens", "/tokens/search", "/tokenize"] {
        keyed(&server.stranger(), &long, path, token.clone()).await.expect(401);
        keyed(&powerless, &long, path, token.clone()).await.expect(403);
        let problem = keyed(&server.private, &long, path, token.clone()).await.expect(400);
        assert!(problem["detail"].as_str().unwrap().contains("SVC-IDEMPOTENCY-KEY"), "{problem}");
    }
    for path in ["/sessions", "/sessions/authorize"] {
        keyed(&server.management, &long, path, json!({})).await.expect(403);
    }
    // A key that was used does not tell that before the right to use it is there.
    keyed(&server.private, "k", "/tokens", token.clone()).await.expect(201);
    let id = server.private.list("").await.remove(0);
    keyed(&powerless, "k", "/tokens", token.clone()).await.expect(403);
    keyed(&powerless, "k", "/tokens", json!({"type": "token", "data": 2})).await.expect(403);
    // Nor does it bring a body to be read that would not be.
    let long = json!({"type": "token", "data": "x".repeat(5 << 20)});
    keyed(&powerless, "another", "/tokens", long.clone()).await.expect(403);
    keyed(&server.private, "another", "/tokens", long).await.expect(413);
    let logs = server.management.get("/logs?entity_type=token&size=2").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Denied: token:create");
    assert_eq!(server.private.list("").await, [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_use_sessions_is_asked_before_the_body_is_read() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    for client in [&public, &server.management] {
        client.post("/sessions/authorize", json!({"rules": 1})).await.expect(403);
        let text = client.request(Method::POST, "/sessions/authorize").body("no JSON");
        client.send(text).await.expect(403);
    }
    server.private.post("/sessions/authorize", json!({"rules": 1})).await.expect(400);
    let text = server.private.request(Method::POST, "/sessions/authorize").body("no JSON");
    server.private.send(text).await.expect(415);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_without_a_body_may_carry_any_content_type() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let id = server.private.token("token", json!(1)).await;
    for content_type in [None, Some("text/plain"), Some("application/json")] {
        let send = async |client: &Client, path: &str| {
            let request = client.request(Method::POST, path);
            let request = match content_type {
                Some(content_type) => request.header("content-type", content_type),
                None => request,
            };
            client.send(request).await
        };
        let found = send(&server.private, "/tokens/search").await.expect(200);
        assert_eq!(found["data"][0]["id"], id.as_str(), "{content_type:?}");
        send(&server.private, &format!("/reactors/{reactor}/react")).await.expect(200);
        assert_eq!(send(&server.private, "/tokens").await.faults(), ["data", "type"]);
        let faults = send(&server.private, "/sessions/authorize").await.faults();
        assert!(faults.contains(&"nonce".to_owned()), "{faults:?}");
        send(&server.private, "/tokenize").await.expect(400);
        send(&server.management, "/reactors").await.expect(400);
    }
    // With one, the type counts; and a PUT has one.
    let text = server.private.request(Method::POST, "/tokens/search").body("{}");
    server.private.send(text.header("content-type", "text/plain")).await.expect(415);
    server
        .management
        .send(server.management.request(Method::PUT, "/tenants/self"))
        .await
        .expect(415);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_expression_and_a_configuration_are_named_with_all_the_rest() {
    let server = TestServer::start().await;
    let body = json!({"type": "token", "data": "ab", "id": "{{ data }}", "containers": ["x"],
        "search_indexes": ["{{ data | to_boolean }}"], "mask": "{{ data | to_number }}"});
    let answer = server.private.post("/tokens", body.clone()).await;
    assert_eq!(answer.faults(), ["containers[0]", "id", "mask", "search_indexes[0]"]);
    let answer =
        server.private.post("/tokenize", json!({"a": body, "b": {"type": "x", "data": 1}}));
    assert_eq!(
        answer.await.faults(),
        ["a.containers[0]", "a.id", "a.mask", "a.search_indexes[0]", "b.type"]
    );
    // What is wrong with the body comes before the rule that is missing for it.
    let narrow = json!([{"priority": 1, "container": "/a/", "transform": "mask",
        "permissions": ["token:create"]}]);
    let narrow = server.application("private", &[], narrow).await;
    let body = json!({"type": "token", "data": "ab", "id": "{{ data }}", "containers": ["/b/"]});
    assert_eq!(narrow.post("/tokens", body).await.faults(), ["id"]);

    let parameters = json!([{"name": "url", "type": "string"}, {"name": "n", "type": "number"}]);
    let formula = guests::formula(&server, "bare", json!({"configuration": parameters})).await;
    let wrong = json!({"configuration": {"n": "no number", "more": 1},
        "application": {"id": NOTHING}, "formula": {"id": formula}});
    let expected =
        ["application.id", "configuration.more", "configuration.n", "configuration.url", "name"];
    let answer = server.management.post("/reactors", wrong.clone()).await;
    assert_eq!(answer.faults(), expected);
    let right = json!({"configuration": {"url": "u", "n": 1}});
    let reactor =
        guests::reactor(&server, &formula, json!({"configuration": right["configuration"]}));
    let path = format!("/reactors/{}", reactor.await);
    assert_eq!(server.management.put(&path, wrong.clone()).await.faults(), expected);
    // Without a reactor, or a formula, there is no configuration to compare with.
    let path = format!("/reactors/{NOTHING}");
    let answer = server.management.put(&path, wrong.clone()).await;
    assert_eq!(answer.faults(), ["application.id", "name"]);
    let mut wrong = wrong;
    wrong["formula"]["id"] = json!(NOTHING);
    let answer = server.management.post("/reactors", wrong).await;
    assert_eq!(answer.faults(), ["application.id", "formula.id", "name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_of_a_tokenize_is_checked_before_the_rule_of_one_of_its_tokens() {
    let server = TestServer::start().await;
    let rule = json!([{"priority": 1, "container": "/a/", "transform": "mask",
        "permissions": ["token:create"]}]);
    let narrow = server.application("private", &[], rule).await;
    let denied = json!({"type": "token", "data": 1, "containers": ["/b/"]});
    let right = json!({"type": "token", "data": 1, "containers": ["/a/"]});
    let faulty = json!({"type": "card", "data": {"number": "1"}, "containers": ["/a/"]});
    for (value, faults) in [
        (json!([denied, faulty]), vec!["[1].data.number"]),
        (json!([faulty, denied]), vec!["[0].data.number"]),
        (json!([denied, faulty, faulty]), vec!["[1].data.number", "[2].data.number"]),
    ] {
        assert_eq!(narrow.post("/tokenize", value).await.faults(), faults);
    }
    let entries = async || {
        let logs = server.management.get("/logs?entity_type=token").await;
        logs.text().matches("Denied: token:create").count()
    };
    assert_eq!(entries().await, 0);
    narrow.post("/tokenize", json!([right, denied])).await.expect(403);
    assert_eq!(entries().await, 1);
    narrow.post("/tokenize", json!([right, right])).await.expect(200);
    assert_eq!(server.private.list("").await.len(), 2);
}
