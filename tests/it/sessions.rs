//! Sessions (decisions §2).

use serde_json::{Value, json};

use crate::support::{Client, TestServer};

const HOUR_MS: u64 = 3_600_000;

fn rule(container: &str, transform: &str, permissions: &[&str]) -> Value {
    json!({"description": "", "priority": 1, "container": container, "transform": transform,
        "permissions": permissions})
}

/// A server, a public application, a private one with these rights, a session and its nonce.
async fn session(permissions: &[&str], rules: Value) -> (TestServer, Client, Client, String) {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let private = server.application("private", permissions, rules).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let key = opened["session_key"].as_str().unwrap();
    assert!(key.starts_with("key_ses_"));
    let session = server.client(key);
    (server, private, session, opened["nonce"].as_str().unwrap().to_owned())
}

async fn authorize(private: &Client, nonce: &str, grant: Value) -> crate::support::Answer {
    let mut body = grant;
    body["nonce"] = nonce.into();
    private.post("/sessions/authorize", body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_do_nothing_until_it_is_authorized() {
    let (server, private, session, nonce) =
        session(&["token:create", "token:read"], json!([])).await;
    let token = json!({"type": "token", "data": "x", "mask": "masked"});
    session.post("/tokens", token.clone()).await.expect(403);
    session.get("/applications/key").await.expect(200);
    let grant = json!({"permissions": ["token:create", "token:read"]});
    let granted = authorize(&private, &nonce, grant.clone()).await.expect(200);
    for member in ["id", "application_id", "expires_at", "created_at"] {
        assert!(granted[member].is_string(), "{member}");
    }
    let made = session.post("/tokens", token).await.expect(201);
    assert_eq!(made["data"], "masked");
    assert_eq!(made["created_by"], granted["application_id"]);
    // The nonce works once.
    assert_eq!(authorize(&private, &nonce, grant).await.faults(), ["nonce"]);
    let logs = server.management.get("/logs?entity_type=token&size=1").await.expect(200);
    let entry = &logs["data"][0];
    assert_eq!((&entry["actor_type"], &entry["actor_id"]), (&json!("session"), &granted["id"]));
    let logs = server.management.get("/logs?entity_type=session").await.expect(200);
    let messages =
        logs["data"].as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap());
    let messages: Vec<_> = messages.collect();
    assert!(messages[0].starts_with("Session authorized: granted token:"), "{messages:?}");
    assert_eq!(messages[1..], ["Session created"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_and_who_authorizes() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    let grant = json!({"nonce": nonce, "permissions": ["token:read"]});
    let public = server.application("public", &["token:create"], json!([])).await;
    for client in [&private, &server.management, &session] {
        client.post("/sessions", json!({})).await.expect(403);
    }
    for client in [&public, &server.management, &session] {
        client.post("/sessions/authorize", grant.clone()).await.expect(403);
    }
    // Another tenant's application does not know the nonce.
    let other = server.other_tenant().await;
    let body = json!({"name": "p", "type": "private", "permissions": ["token:read"]});
    let stranger = other.post("/applications", body).await.expect(201);
    let stranger = server.client(stranger["key"].as_str().unwrap());
    let answer = stranger.post("/sessions/authorize", grant).await;
    assert_eq!(answer.faults(), ["nonce"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_grants_only_what_it_holds() {
    let rules = json!([
        {"description": "", "priority": 1, "container": "/pci/high/", "transform": "redact",
            "permissions": ["token:read"]},
        {"description": "", "priority": 2, "container": "/pci/", "transform": "mask",
            "permissions": ["token:read", "token:use"]},
    ]);
    let (server, private, _, nonce) = session(&["token:search"], rules).await;
    let refused = [
        json!({"permissions": ["token:read"]}),
        json!({"permissions": ["token:delete"]}),
        json!({"rules": [rule("/", "mask", &["token:read"])]}),
        json!({"rules": [rule("/bank/", "redact", &["token:read"])]}),
        json!({"rules": [rule("/pci/low/", "reveal", &["token:read"])]}),
        json!({"rules": [rule("/pci/high/", "mask", &["token:read"])]}),
        // Within it lies a container that the application sees redacted.
        json!({"rules": [rule("/pci/", "mask", &["token:read"])]}),
        json!({"rules": [rule("/", "reveal", &["token:search"])]}),
        json!({"rules": [rule("/pci/low/", "mask", &["token:read", "token:update"])]}),
        json!({"rules": [{"description": "", "priority": 1, "transform": "mask", "permissions": ["token:read"],
            "conditions": [{"attribute": "id", "operator": "equals", "value": "abc"}]}]}),
    ];
    for grant in refused {
        let place = if grant.get("rules").is_some() { "`rules[0]`" } else { "`permissions`" };
        let problem = authorize(&private, &nonce, grant).await.expect(403);
        assert!(problem["detail"].as_str().unwrap().contains(place), "{problem}");
    }
    // The log names the first permission that goes too far.
    let logs = server.management.get("/logs?entity_type=session&size=100").await.expect(200);
    let denied = logs["data"].as_array().unwrap().iter().rev().filter_map(|entry| {
        let (session, permission) = entry["message"].as_str().unwrap().split_once("Denied: ")?;
        assert!(session.is_empty() && entry["operation"] == "update");
        Some(permission)
    });
    let (read, delete, search) = ("token:read", "token:delete", "token:search");
    let expected = [read, delete, read, read, read, read, read, search, "token:update", read];
    assert_eq!(denied.collect::<Vec<_>>(), expected);
    let grant = json!({"permissions": ["token:search"], "rules": [
        rule("/pci/low/", "mask", &["token:read", "token:use"]),
        {"description": "", "priority": 2, "container": "/pci/high/", "transform": "redact", "permissions": ["token:read"]},
    ]});
    authorize(&private, &nonce, grant).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_grants_its_own_rights_as_they_are() {
    let rules = json!([
        {"description": "", "priority": 1, "container": "/pci/high/", "transform": "redact",
            "permissions": ["token:read"]},
        {"description": "", "priority": 2, "container": "/pci/", "transform": "reveal",
            "permissions": ["token:read"]},
    ]);
    let (_server, private, _, nonce) = session(&["token:search"], rules.clone()).await;
    let without = json!({"permissions": ["token:search"], "rules": [rules[1]]});
    let problem = authorize(&private, &nonce, without).await.expect(403);
    assert!(problem["detail"].as_str().unwrap().contains("in all that this covers"), "{problem}");
    let whole = json!({"permissions": ["token:search"], "rules": rules});
    authorize(&private, &nonce, whole).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_grant_is_named() {
    let (_server, private, _, nonce) = session(&["token:read"], json!([])).await;
    let condition = |attribute: &str, operator: &str, value: &str| json!({"attribute": attribute, "operator": operator, "value": value});
    let conditional = |conditions: Value| json!({"rules": [{"priority": 1, "transform": "mask", "permissions": ["token:read"], "conditions": conditions}]});
    let table = [
        (json!({}), vec!["permissions"]),
        (json!({"permissions": ["log:read"]}), vec!["permissions[0]"]),
        (json!({"permissions": ["nothing"]}), vec!["permissions[0]"]),
        (json!({"permissions": ["token:read"], "expires_at": "2001-01-01"}), vec!["expires_at"]),
        (conditional(json!([])), vec!["rules[0].conditions"]),
        (
            conditional(json!([condition("type", "equals", "x")])),
            vec!["rules[0].conditions[0].attribute"],
        ),
        (
            conditional(json!([condition("id", "like", "x")])),
            vec!["rules[0].conditions[0].operator"],
        ),
        (conditional(json!([condition("id", "equals", "")])), vec!["rules[0].conditions[0].value"]),
        (
            conditional(json!([condition("container", "starts_with", "/pc")])),
            vec!["rules[0].conditions[0].value"],
        ),
        (
            json!({"rules": [{"priority": 1, "transform": "mask", "permissions": ["token:read"]}]}),
            vec!["rules[0].conditions"],
        ),
        (
            json!({"rules": [{"priority": 1, "transform": "mask", "permissions": ["token:read"], "container": "/",
            "conditions": [condition("id", "equals", "x")]}]}),
            vec!["rules[0].conditions"],
        ),
    ];
    for (grant, expected) in table {
        let shown = grant.to_string();
        assert_eq!(authorize(&private, &nonce, grant).await.faults(), expected, "{shown}");
    }
    // What is wrong with one member hides nothing of the others, and each is told what is wrong.
    let long = "x".repeat(401);
    let whole = "must be a whole container: it must start and end with /";
    for (condition, member, reason) in [
        (condition("container", "like", "/pci"), "operator", whole),
        (json!({"attribute": "container", "value": "/pci"}), "operator", whole),
        (condition("type", "equals", ""), "attribute", "must not be empty"),
        (condition("id", "like", &long), "operator", "must have at most 400 characters"),
    ] {
        let shown = condition.to_string();
        let answer = authorize(&private, &nonce, conditional(json!([condition]))).await;
        let [member, value] = [member, "value"].map(|of| format!("rules[0].conditions[0].{of}"));
        assert_eq!(answer.faults(), [member, value.clone()], "{shown}");
        assert_eq!(answer.json()["errors"][value], json!([reason]), "{shown}");
    }
    let alone = authorize(&private, &nonce, conditional(json!([condition("id", "equals", &long)])));
    assert_eq!(alone.await.faults(), ["rules[0].conditions[0].value"]);
    let without = private.post("/sessions/authorize", json!({"permissions": ["token:read"]})).await;
    assert_eq!(without.faults(), ["nonce"]);
    let longest = conditional(json!([condition("id", "equals", &long[1..])]));
    authorize(&private, &nonce, longest).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_bound_what_a_session_sees() {
    let all = ["token:create", "token:read", "token:search", "token:update", "token:delete"];
    let (server, private, session, nonce) = session(&[], json!([rule("/", "reveal", &all)])).await;
    for (id, container) in
        [("cart-1", "/web/"), ("cart-2", "/web/eu/"), ("order-1", "/web/"), ("cart-3", "/shop/")]
    {
        let body = json!({"id": id, "type": "token", "data": id, "containers": [container]});
        server.private.post("/tokens", body).await.expect(201);
    }
    let grant = json!({"rules": [{"description": "", "priority": 1, "transform": "reveal", "permissions": all, "conditions": [
        {"attribute": "id", "operator": "starts_with", "value": "cart-"},
        {"attribute": "container", "operator": "starts_with", "value": "/web/"},
    ]}]});
    authorize(&private, &nonce, grant).await.expect(200);
    assert_eq!(session.list("").await, ["cart-2", "cart-1"]);
    assert_eq!(session.search("NOT id:cart-1").await, ["cart-2"]);
    assert_eq!(session.get("/tokens/cart-1").await.expect(200)["data"], "cart-1");
    for hidden in ["order-1", "cart-3"] {
        session.get(&format!("/tokens/{hidden}")).await.expect(403);
    }
    let new = |id: &str, container: &str| json!({"id": id, "type": "token", "data": 1, "containers": [container]});
    session.post("/tokens", new("cart-9", "/web/")).await.expect(201);
    session.post("/tokens", new("order-9", "/web/")).await.expect(403);
    session.post("/tokens", new("cart-8", "/shop/")).await.expect(403);
    session.patch("/tokens/cart-9", json!({"containers": ["/shop/"]})).await.expect(403);
    session.delete("/tokens/cart-9").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_and_never_outlives_or_outgrows_its_grantor() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    server.clock.advance_ms(60_000);
    let grant = json!({"permissions": ["token:read"], "expires_at": "2099-01-01T00:00:00Z"});
    authorize(&private, &nonce, grant).await.expect(200);
    session.get("/tokens").await.expect(200);
    // The grantor loses the permission: so does the session, at once.
    let own = private.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}", own["id"].as_str().unwrap());
    let less = json!({"name": "p", "permissions": ["token:search"]});
    server.management.put(&path, less).await.expect(200);
    session.get("/tokens").await.expect(403);
    let more = json!({"name": "p", "permissions": ["token:read"]});
    server.management.put(&path, more).await.expect(200);
    session.get("/tokens").await.expect(200);
    server.clock.advance_ms(24 * HOUR_MS);
    session.get("/tokens").await.expect(401);
    // What it asked for may go on for minutes, and looks at it.
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.clock.advance_ms(HOUR_MS);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lives_a_day_at_most_and_the_answer_says_so() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    // The day begins when it was opened, not when it was authorized.
    server.clock.advance_ms(60_000);
    let grant = json!({"permissions": ["token:read"], "expires_at": "2099-01-01T00:00:00Z"});
    let granted = authorize(&private, &nonce, grant).await.expect(200);
    assert_eq!(granted["created_at"], "2026-01-01T00:00:00.000+00:00");
    assert_eq!(granted["expires_at"], "2026-01-02T00:00:00.000+00:00");
    server.clock.advance_ms(24 * HOUR_MS - 60_000 - 1);
    session.get("/tokens").await.expect(200);
    server.clock.advance_ms(1);
    session.get("/tokens").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_grant_says() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    let grant = json!({"permissions": ["token:read"], "expires_at": "2026-01-01T01:00:00Z"});
    let granted = authorize(&private, &nonce, grant).await.expect(200);
    assert_eq!(granted["expires_at"], "2026-01-01T01:00:00.000+00:00");
    server.clock.advance_ms(HOUR_MS - 1);
    session.get("/tokens").await.expect(200);
    server.clock.advance_ms(1);
    session.get("/tokens").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_an_end_leaves_a_session_its_three_minutes() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    server.clock.advance_ms(60_000);
    let grant = json!({"permissions": ["token:read"]});
    let granted = authorize(&private, &nonce, grant).await.expect(200);
    assert_eq!(granted["expires_at"], "2026-01-01T00:03:00.000+00:00");
    server.clock.advance_ms(119_999);
    session.get("/tokens").await.expect(200);
    server.clock.advance_ms(1);
    session.get("/tokens").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_opens_a_session_is_told_when_it_ends() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    server.clock.advance_ms(61_234);
    let opened = public.post("/sessions", json!({})).await.expect(201);
    assert_eq!(opened["expires_at"], "2026-01-01T00:04:01.234+00:00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_said_to_end_with_the_applications_behind_it() {
    let server = TestServer::start().await;
    let made = async |kind: &str, end: &str| {
        let body =
            json!({"name": kind, "type": kind, "permissions": ["token:create"], "expires_at": end});
        let made = server.management.post("/applications", body).await.expect(201);
        server.client(made["key"].as_str().unwrap())
    };
    let ends = "2026-01-01T00:01:00.000+00:00";
    let short = [made("public", ends).await, made("private", ends).await];
    let late = "2026-01-01T00:30:00.000+00:00";
    let long = [made("public", late).await, made("private", late).await];
    // By either of them, and by the earlier one.
    for (public, private, opened, granted) in [
        (&short[0], &long[1], ends, ends),
        (&long[0], &short[1], "2026-01-01T00:03:00.000+00:00", ends),
        (&long[0], &long[1], "2026-01-01T00:03:00.000+00:00", late),
    ] {
        let session = public.post("/sessions", json!({})).await.expect(201);
        assert_eq!(session["expires_at"], opened);
        let grant = json!({"permissions": ["token:create"], "expires_at": "2026-01-01T01:00:00Z"});
        let nonce = session["nonce"].as_str().unwrap();
        let session = authorize(private, nonce, grant).await.expect(200);
        assert_eq!(session["expires_at"], granted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_nobody_authorizes_lives_three_minutes() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    server.clock.advance_ms(179_999);
    session.get("/permissions").await.expect(200);
    server.clock.advance_ms(1);
    session.get("/permissions").await.expect(401);
    let answer = authorize(&private, &nonce, json!({"permissions": ["token:read"]})).await;
    assert_eq!(answer.faults(), ["nonce"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_the_applications_behind_it() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    authorize(&private, &nonce, json!({"permissions": ["token:read"]})).await.expect(200);
    session.get("/tokens").await.expect(200);
    let own = private.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}", own["id"].as_str().unwrap());
    server.management.delete(&path).await.expect(204);
    session.get("/tokens").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_the_application_that_opened_it_and_is_not_authorized_then() {
    let (server, private, _, _) = session(&["token:read"], json!([])).await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let open = async || public.post("/sessions", json!({})).await.expect(201);
    let (first, second) = (open().await, open().await);
    let nonce = |opened: &Value| opened["nonce"].as_str().unwrap().to_owned();
    let grant = || json!({"permissions": ["token:read"]});
    authorize(&private, &nonce(&first), grant()).await.expect(200);
    let session = server.client(first["session_key"].as_str().unwrap());
    session.get("/tokens").await.expect(200);
    let own = public.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}", own["id"].as_str().unwrap());
    server.management.delete(&path).await.expect(204);
    session.get("/tokens").await.expect(401);
    let refused = authorize(&private, &nonce(&second), grant()).await.expect(400);
    assert_eq!(refused["errors"]["nonce"][0], "is unknown, expired or used already");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_the_key_that_granted_it() {
    let (server, private, session, nonce) = session(&["token:read"], json!([])).await;
    authorize(&private, &nonce, json!({"permissions": ["token:read"]})).await.expect(200);
    session.get("/tokens").await.expect(200);
    let own = private.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}", own["id"].as_str().unwrap());
    // A change that leaves the key as it is leaves the session, with no more than its grantor has.
    for (permission, status) in [("token:delete", 403), ("token:read", 200)] {
        let body = json!({"name": "p", "permissions": [permission]});
        server.management.put(&path, body).await.expect(200);
        let answer = session.get("/tokens").await.expect(status);
        let why = "Whoever granted the session its rights does not hold token:read any more.";
        assert_eq!(answer["detail"] == why, status == 403, "{answer}");
    }
    let anew = server.management.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    // Whoever stole the key may have granted it.
    session.get("/tokens").await.expect(401);
    let public = server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let private = server.client(anew["key"].as_str().unwrap());
    let grant = json!({"permissions": ["token:read"]});
    authorize(&private, opened["nonce"].as_str().unwrap(), grant).await.expect(200);
    server.client(opened["session_key"].as_str().unwrap()).get("/tokens").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stays_within_its_ids_when_another_one_is_drawn() {
    let all = ["token:create", "token:read"];
    let (server, private, session, nonce) = session(&[], json!([rule("/", "reveal", &all)])).await;
    let grant = json!({"rules": [{"description": "", "priority": 1, "transform": "reveal",
    "permissions": all, "conditions": [
        {"attribute": "id", "operator": "starts_with", "value": "cart-"},
    ]}]});
    authorize(&private, &nonce, grant).await.expect(200);
    let body = json!({"id": "{{ data }}", "type": "token", "data": "cart-7"});
    assert_eq!(session.post("/tokens", body.clone()).await.expect(201)["id"], "cart-7");
    // The expression gives no other id, and one of our own is not the session's to have.
    session.post("/tokens", body.clone()).await.expect(403);
    let logs = server.management.get("/logs?entity_type=token&size=1").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Denied: token:create");
    session.post("/tokenize", json!([body])).await.expect(403);
    assert_eq!(server.private.list("").await, ["cart-7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_grantor_expires() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let session = server.client(opened["session_key"].as_str().unwrap());
    let expiring = json!({"name": "p", "type": "private", "permissions": ["token:read"],
        "expires_at": "2026-01-01T01:00:00Z"});
    let private = server.management.post("/applications", expiring).await.expect(201);
    let private = server.client(private["key"].as_str().unwrap());
    let grant = json!({"permissions": ["token:read"], "expires_at": "2026-01-01T12:00:00Z"});
    authorize(&private, opened["nonce"].as_str().unwrap(), grant).await.expect(200);
    server.clock.advance_ms(HOUR_MS - 1);
    session.get("/tokens").await.expect(200);
    // At once, although nothing was swept.
    server.clock.advance_ms(1);
    private.get("/tokens").await.expect(401);
    session.get("/tokens").await.expect(401);
}
