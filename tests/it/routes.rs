//! A walk over every route of the description: without a key, with a powerless key, with another tenant's key.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer, guests};

/// Routes that answer without a key.
const OPEN: &[&str] = &["/healthz", "/readyz", "/metrics"];
/// Routes that answer whoever has any key.
const ANYONES: &[&str] = &["/applications/key", "/permissions"];
/// An id that nothing has.
const NOTHING: &str = "00000000-0000-7000-8000-000000000000";

async fn routes(server: &TestServer) -> Vec<(Method, String)> {
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut routes = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            routes.push((method, path.clone()));
        }
    }
    assert!(routes.len() >= 36, "{}", routes.len());
    routes
}

/// Sends something harmless: a body that is wrong wherever one is looked at.
async fn send(client: &Client, method: &Method, path: &str) -> Answer {
    let request = client.request(method.clone(), path);
    let request = match *method {
        Method::POST | Method::PUT => request.json(&json!({})),
        Method::PATCH => request.header("content-type", "application/merge-patch+json").body("{}"),
        _ => request,
    };
    client.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nothing_answers() {
    let server = TestServer::start().await;
    let strangers = [
        server.stranger(),
        server.client(""),
        server.client("key_mgt_00000000000000000000000000000000"),
        server.client(&"x".repeat(2_000)),
    ];
    for (method, path) in routes(&server).await {
        let open = OPEN.contains(&path.as_str());
        let path = path.replace("{id}", NOTHING);
        for stranger in &strangers {
            let answer = send(stranger, &method, &path).await;
            let expected = if open { 200 } else { 401 };
            if path == "/metrics" {
                // The one answer that is not JSON.
                assert_eq!(answer.status, 200);
                continue;
            }
            let body = answer.expect(expected);
            if !open {
                assert_eq!(body["title"], "Unauthorized", "{method} {path}");
                assert!(body.get("errors").is_none());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_powerless_key_nothing_but_itself_answers() {
    let server = TestServer::start().await;
    // It may create tokens in one container, and nothing else.
    let rule = json!([{"description": "", "priority": 1, "container": "/nowhere/",
        "transform": "redact", "permissions": ["token:create"]}]);
    let powerless = server.application("public", &[], rule).await;
    for (method, path) in routes(&server).await {
        let open = OPEN.contains(&path.as_str()) || ANYONES.contains(&path.as_str());
        let may_create =
            method == Method::POST && ["/tokens", "/tokenize"].contains(&path.as_str());
        let path = path.replace("{id}", NOTHING);
        let answer = send(&powerless, &method, &path).await;
        let status = answer.status.as_u16();
        if open {
            assert_eq!(status, 200, "{method} {path}");
        } else if path == "/sessions" {
            // Any public application may open one; it may do nothing.
            assert_eq!(status, 201);
        } else if may_create {
            // The body is looked at, and wrong; an empty one makes no token.
            assert!(status == 400 || (status == 200 && answer.json() == json!({})), "{path}");
        } else {
            assert_eq!(answer.expect(403)["title"], "Forbidden", "{method} {path}");
        }
    }
    // Each refusal is in the log.
    let logs = server.management.get("/logs?size=100").await.expect(200);
    let denied = logs["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["message"].as_str().unwrap().starts_with("Denied: "));
    assert!(denied.count() >= 20);
}

/// A private client of the other tenant, with every right over tokens that a walk needs.
async fn private_of(other: &Client) -> Client {
    let permissions = ["create", "read", "use", "delete", "update", "search"];
    let permissions = permissions.map(|right| format!("token:{right}"));
    let body = json!({"name": "p", "type": "private", "permissions": permissions});
    let key = other.post("/applications", body).await.expect(201)["key"].clone();
    other.with_key(key.as_str().unwrap())
}

/// What one tenant has, and how another one's clients ask for it.
async fn foreign<'c>(
    server: &TestServer,
    other: &'c Client,
    private: &'c Client,
    token: &str,
) -> Vec<(&'c Client, Method, String)> {
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let made = server.management.post("/applications", body).await.expect(201);
    let application = made["id"].as_str().unwrap();
    let formula = guests::formula(server, "bare", json!({})).await;
    let reactor = guests::reactor(server, &formula, json!({})).await;
    vec![
        (private, Method::GET, format!("/tokens/{token}")),
        (private, Method::PATCH, format!("/tokens/{token}")),
        (private, Method::DELETE, format!("/tokens/{token}")),
        (private, Method::POST, format!("/reactors/{reactor}/react")),
        (other, Method::GET, format!("/applications/{application}")),
        (other, Method::DELETE, format!("/applications/{application}")),
        (other, Method::POST, format!("/applications/{application}/regenerate")),
        (other, Method::GET, format!("/reactor-formulas/{formula}")),
        (other, Method::GET, format!("/reactor-formulas/{formula}/component")),
        (other, Method::DELETE, format!("/reactor-formulas/{formula}")),
        (other, Method::GET, format!("/reactors/{reactor}")),
        (other, Method::GET, format!("/reactors/{reactor}/invocations")),
        (other, Method::DELETE, format!("/reactors/{reactor}")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_ids_look_like_ids_that_never_were() {
    let server = TestServer::start().await;
    let token = server.private.token("token", json!("secret")).await;
    let other = server.other_tenant().await;
    let private = private_of(&other).await;
    let foreign = foreign(&server, &other, &private, &token).await;
    for (client, method, path) in &foreign {
        let there = without_trace(send(client, method, path).await.expect(404));
        let id = path.split('/').nth(2).unwrap();
        let nowhere = path.replace(id, NOTHING);
        let never = without_trace(send(client, method, &nowhere).await.expect(404));
        assert_eq!(there, never, "{method} {path}");
    }
    // A reference in a body is no other way in.
    for id in [token.as_str(), NOTHING] {
        let answer = private.post("/detokenize", json!([format!("{{{{ {id} }}}}")])).await;
        assert_eq!(answer.faults(), ["[0]"], "{}", answer.text());
        assert!(answer.text().contains("does not exist"));
    }
    // Nothing of the first tenant is in the other one's lists, and all of it is still there.
    for path in ["/applications", "/reactors", "/reactor-formulas", "/logs?size=100"] {
        let text = other.get(path).await.text();
        for (_, _, path) in &foreign {
            let id = path.split('/').nth(2).unwrap();
            assert!(!text.contains(id), "{path}");
        }
    }
    for list in [
        private.get("/tokens").await,
        private.get(&format!("/tokens?id={token}")).await,
        private.post("/tokens/search", json!({"query": format!("id:{token}")})).await,
        private.post("/tokens/search", json!({"query": "NOT type:card"})).await,
    ] {
        assert_eq!(list.expect(200)["pagination"]["total_items"], 0);
    }
    server.private.get(&format!("/tokens/{token}")).await.expect(200);
}

fn without_trace(mut body: Value) -> Value {
    body.as_object_mut().unwrap().remove("trace_id").unwrap();
    body
}
