//! A walk over every route of the description: without a key, with a powerless key, with another tenant's key; and what
//! else keeps tenants apart.
//!
//! To add a route with an id in its path: nothing, unless it is an id of what `everything` does not make yet.

use std::collections::BTreeMap;

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
            let challenge = answer.headers.get("www-authenticate").cloned();
            let body = answer.expect(expected);
            assert_eq!(challenge.is_some(), !open, "{method} {path}");
            if !open {
                assert_eq!(challenge.unwrap(), "SVC-API-KEY realm=\"tokamak\"");
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
    let description = server.stranger().get("/openapi.json").await.expect(200);
    for (method, route) in routes(&server).await {
        let path = route.clone();
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
            let problem = answer.expect(403);
            assert_eq!(problem["title"], "Forbidden", "{method} {path}");
            // It is refused for what the description says that it needs.
            let operation = &description["paths"][&route][method.as_str().to_lowercase()];
            let detail = problem["detail"].as_str().unwrap();
            match operation["security"][0]["api_key"][0].as_str() {
                Some(needed) => assert!(detail.contains(needed), "{method} {path}: {detail}"),
                None => assert_eq!(route, "/sessions/authorize"),
            }
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

/// What a request carries: its content type and its bytes, or nothing.
type Carried = Option<(String, Vec<u8>)>;

/// Ids, by the segment of a path that stands before their place there.
type Ids = BTreeMap<&'static str, String>;

/// Every operation with an id in its path, once for each body that the description shows of it. Such a body is right,
/// so that it is the id that the answer is about.
async fn operations_on_ids(server: &TestServer) -> Vec<(Method, String, Carried)> {
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut operations = Vec::new();
    for (method, path) in routes(server).await {
        if path.contains('{') {
            let operation = &description["paths"][&path][method.as_str().to_lowercase()];
            let each = bodies(operation).into_iter();
            operations.extend(each.map(|body| (method.clone(), path.clone(), body)));
        }
    }
    assert!(operations.len() >= 20, "{}", operations.len());
    operations
}

fn bodies(operation: &Value) -> Vec<Carried> {
    let Some(contents) = operation["requestBody"]["content"].as_object() else { return vec![None] };
    let component = guests::component("bare");
    let mut bodies = Vec::new();
    for (kind, content) in contents {
        if !kind.ends_with("json") {
            bodies.push(Some((kind.clone(), component.to_vec())));
            continue;
        }
        for example in content["examples"].as_object().unwrap().values() {
            let mut body = example["value"].clone();
            // Shown cut short.
            if let Some(shown) = body.get_mut("component") {
                *shown = guests::upload(component)["component"].clone();
            }
            bodies.push(Some((kind.clone(), body.to_string().into_bytes())));
        }
    }
    bodies
}

async fn carry(client: &Client, method: &Method, path: &str, body: &Carried) -> Answer {
    let request = client.request(method.clone(), path);
    let request = match body {
        Some((kind, bytes)) => request.header("content-type", kind).body(bytes.clone()),
        None => request,
    };
    client.send(request).await
}

/// A private client of a tenant, with every permission that one may hold.
async fn private_of(management: &Client) -> Client {
    let listed = management.get("/permissions?application_type=private").await.expect(200);
    let permissions = listed.as_array().unwrap().iter().map(|one| &one["type"]);
    let permissions: Vec<&Value> = permissions.collect();
    let body = json!({"name": "p", "type": "private", "permissions": permissions});
    let made = management.post("/applications", body).await.expect(201);
    management.with_key(made["key"].as_str().unwrap())
}

/// Makes one of everything that has an id in a path.
async fn everything(management: &Client, private: &Client) -> Ids {
    let id = |made: &Value, member: &str| made[member].as_str().unwrap().to_owned();
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let application = management.post("/applications", body).await.expect(201);
    let formula = guests::send(management, "bare", json!({})).await;
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"callback_url": "https://hooks.invalid/"});
    let path = format!("/reactors/{}/react", id(&reactor, "id"));
    let run = private.post(&path, body).await.expect(202);
    BTreeMap::from([
        ("applications", id(&application, "id")),
        ("reactor-formulas", formula),
        ("reactors", id(&reactor, "id")),
        ("results", id(&run, "invocation_id")),
        ("tokens", private.token("token", json!("secret")).await),
    ])
}

fn id_of<'i>(ids: &'i Ids, kind: &str) -> &'i str {
    ids.get(kind)
        .unwrap_or_else(|| panic!("`everything` makes nothing for a path with {kind}/{{id}}"))
}

/// A path with ids in its places, counted from 0: the caller's own, or where `foreign` has a bit, others.
fn filled<'i>(path: &str, foreign: u32, own: &'i Ids, other: impl Fn(&str) -> &'i str) -> String {
    let (mut place, mut before) = (0, "");
    let mut segments = Vec::new();
    for segment in path.split('/') {
        if segment.starts_with('{') {
            let is_own = (foreign >> place) & 1 == 0;
            segments.push(if is_own { id_of(own, before) } else { other(before) });
            place += 1;
        } else {
            segments.push(segment);
        }
        before = segment;
    }
    segments.join("/")
}

/// Asserts that one of the tenant's clients finds each of its things, by every address that shows one.
async fn assert_there(server: &TestServer, clients: [&Client; 2], ids: &Ids) {
    for (method, path) in routes(server).await {
        if method == Method::GET && path.contains('{') {
            let path = filled(&path, 0, ids, |_| NOTHING);
            let [one, other] = [clients[0].get(&path).await, clients[1].get(&path).await];
            let found = one.status == 200 || other.status == 200;
            assert!(found, "{path}: {} {}", one.text(), other.text());
        }
    }
}

/// Status and body of a problem, but for its trace and for these ids.
fn told(answer: &Answer, ids: &Ids) -> (u16, Value) {
    let text = ids.values().fold(answer.text(), |text, id| text.replace(id, NOTHING));
    let mut body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    body.as_object_mut().unwrap().remove("trace_id").unwrap();
    (answer.status.as_u16(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_ids_look_like_ids_that_never_were() {
    let server = TestServer::start().await;
    let theirs = everything(&server.management, &server.private).await;
    let other = server.other_tenant().await;
    let private = private_of(&other).await;
    let own = everything(&other, &private).await;
    assert_there(&server, [&other, &private], &own).await;
    for (method, path, body) in operations_on_ids(&server).await {
        // Where a path has places for several ids, each may be the caller's own.
        for foreign in 1..1 << path.matches('{').count() {
            let there = filled(&path, foreign, &own, |kind| id_of(&theirs, kind));
            let nowhere = filled(&path, foreign, &own, |_| NOTHING);
            let mut permitted = 0;
            for client in [&other, &private] {
                let never = carry(client, &method, &nowhere, &body).await;
                if never.status == 403 {
                    continue;
                }
                permitted += 1;
                assert_eq!(never.status, 404, "{method} {nowhere}: {}", never.text());
                let found = carry(client, &method, &there, &body).await;
                assert_eq!(found.status, 404, "{method} {there}: {}", found.text());
                assert_eq!(told(&found, &theirs), told(&never, &theirs), "{method} {there}");
            }
            assert!(permitted > 0, "no client of these tests may {method} {path}");
        }
    }
    assert_no_other_way_in(&other, &private, &own, &theirs).await;
    assert_not_listed(&server, [&other, &private], &theirs).await;
    assert_eq!(private.search("NOT type:card").await, [id_of(&own, "tokens")]);
    let query = format!("id:{}", id_of(&theirs, "tokens"));
    assert_eq!(private.search(&query).await, Vec::<String>::new());
    assert_there(&server, [&server.management, &server.private], &theirs).await;
}

/// A reference in a body is refused as one to what never was.
async fn assert_no_other_way_in(management: &Client, private: &Client, own: &Ids, theirs: &Ids) {
    let reference = format!("{{{{ {NOTHING} }}}}");
    let react = format!("/reactors/{}/react", id_of(own, "reactors"));
    let formula = id_of(own, "reactor-formulas");
    let reactor =
        |formula: &str| json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let mut acting = reactor(formula);
    acting["application"] = json!({"id": NOTHING});
    for (client, path, body, kind, fault) in [
        (private, "/detokenize", json!([reference]), "tokens", "[0]"),
        (private, react.as_str(), json!({"args": {"a": reference}}), "tokens", "args.a"),
        (management, "/reactors", reactor(NOTHING), "reactor-formulas", "formula.id"),
        (management, "/reactors", acting, "applications", "application.id"),
    ] {
        let never = client.post(path, body.clone()).await;
        assert_eq!(never.faults(), [fault], "{path}");
        let foreign = body.to_string().replace(NOTHING, id_of(theirs, kind));
        let found = client.post(path, serde_json::from_str(&foreign).unwrap()).await;
        assert_eq!(told(&found, theirs), told(&never, theirs), "{path} {fault}");
    }
}

/// Nothing of the first tenant is in any list of the other one: not in its log either, after all that was attempted.
async fn assert_not_listed(server: &TestServer, clients: [&Client; 2], theirs: &Ids) {
    let mut narrowed = 0;
    for (method, path) in routes(server).await {
        if method != Method::GET || path.contains('{') {
            continue;
        }
        for client in clients {
            let answer = client.get(&format!("{path}?size=100")).await;
            if answer.status == 403 {
                continue;
            }
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            for id in theirs.values() {
                assert!(!answer.text().contains(id), "{path} {id}");
            }
            if let Some(id) = theirs.get(path.trim_start_matches('/')) {
                let page = client.get(&format!("{path}?id={id}")).await.expect(200);
                assert_eq!(page["pagination"]["total_items"], 0, "{path}");
                narrowed += 1;
            }
        }
    }
    assert!(narrowed >= 4, "{narrowed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_and_contents_of_one_tenant_are_free_in_another() {
    let server = TestServer::start().await;
    let other = server.other_tenant().await;
    let private = private_of(&other).await;
    let named = |data: &str| json!({"id": "the-id", "type": "token", "data": data});
    let like = |data: &str| json!({"type": "token", "data": data, "deduplicate_token": true});
    let theirs = server.private.post("/tokens", named("same")).await.expect(201);
    server.private.post("/tokens", like("beside")).await.expect(201);
    // Where they are, the id is taken and the contents are found.
    server.private.post("/tokens", named("new")).await.expect(409);
    let found = server.private.post("/tokens", like("same")).await.expect(200);
    assert_eq!(found["id"], "the-id");
    // Elsewhere they are not.
    let made = private.post("/tokens", like("same")).await.expect(201);
    assert!(made["id"] != "the-id" && made.get("_extras").is_none(), "{made}");
    assert_ne!(made["tenant_id"], theirs["tenant_id"]);
    assert_ne!(made["fingerprint"], theirs["fingerprint"]);
    let own = private.post("/tokens", named("other")).await.expect(201);
    assert_eq!((&own["id"], &own["tenant_id"]), (&json!("the-id"), &made["tenant_id"]));
    private.post("/tokens", named("new")).await.expect(409);
    // The tenant's own are found, by a create and by an update.
    assert_eq!(private.post("/tokens", like("same")).await.expect(200)["id"], made["id"]);
    let patch = json!({"data": "beside", "deduplicate_token": true});
    let patched = private.patch("/tokens/the-id", patch).await.expect(200);
    assert!(patched["id"] == "the-id" && patched.get("_extras").is_none(), "{patched}");
    let patch = json!({"data": "same"});
    assert_eq!(private.patch("/tokens/the-id", patch).await.expect(200)["id"], made["id"]);
    private.get("/tokens/the-id").await.expect(404);
    // What became of it elsewhere is nothing to the token of the same id.
    assert_eq!(server.private.get("/tokens/the-id").await.expect(200), theirs);
    assert_eq!((server.private.list("").await.len(), private.list("").await.len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_wish_for_one_token_of_a_kind_is_about_its_own() {
    let server = TestServer::start().await;
    let settings = json!({"name": "t", "settings": {"deduplicate_tokens": true}});
    let other = server.other_tenant().await;
    let private = private_of(&other).await;
    for management in [&server.management, &other] {
        management.put("/tenants/self", settings.clone()).await.expect(200);
    }
    let theirs = server.private.token("token", json!("same")).await;
    let made = private.post("/tokenize", json!(["same", "same"])).await.expect(200);
    assert_eq!(made[0], made[1]);
    assert_ne!(made[0], json!(theirs));
    assert_eq!(private.list("").await, [made[0].as_str().unwrap()]);
    assert_eq!(server.private.list("").await, [theirs]);
}
