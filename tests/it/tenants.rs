//! Tenants, settings, and what they change (decisions §2, §3).

use futures::future::join;
use serde_json::{Value, json};

use crate::support::TestServer;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_shows_and_changes_itself() {
    let server = TestServer::start().await;
    let tenant = server.management.get("/tenants/self").await.expect(200);
    assert_eq!(
        tenant["settings"],
        json!({"deduplicate_tokens": false, "cvc_retention_minutes": 60})
    );
    let body = json!({"name": "Shop", "settings": {"cvc_retention_minutes": 5}});
    let changed = server.management.put("/tenants/self", body).await.expect(200);
    assert_eq!((&changed["name"], &changed["id"]), (&json!("Shop"), &tenant["id"]));
    assert!(changed["modified_at"].is_string());
    assert_eq!(server.management.get("/tenants/self").await.expect(200), changed);
    let logs = server.management.get("/logs?entity_type=tenant&size=2").await.expect(200);
    assert_eq!(logs["data"][1]["operation"], "update");
    let wrong = json!({"settings": {"deduplicate_tokens": "yes", "cvc_retention_minutes": 0}});
    let faults = server.management.put("/tenants/self", wrong).await.faults();
    assert_eq!(faults, ["name", "settings.cvc_retention_minutes", "settings.deduplicate_tokens"]);
    server.private.get("/tenants/self").await.expect(403);
    // The other tenant is untouched.
    let other = server.other_tenant().await;
    assert_eq!(other.get("/tenants/self").await.expect(200)["name"], "other");
}

/// Of the tenant as of its signing secrets.
#[tokio::test(flavor = "multi_thread")]
async fn reading_and_changing_are_two_permissions() {
    let server = TestServer::start().await;
    let secrets = "/webhooks/signing-secrets";
    let held = ["tenant:read", "tenant:update", "webhook:read", "webhook:update"];
    // Each row: who holds this permission alone, and the statuses of reading and changing the one, then the other.
    for (permission, statuses) in [
        ("log:read", [403, 403, 403, 403]),
        (held[0], [200, 403, 403, 403]),
        (held[1], [403, 200, 403, 403]),
        (held[2], [403, 403, 200, 403]),
        (held[3], [403, 403, 403, 200]),
    ] {
        let client = server.application("management", &[permission], json!([])).await;
        let answers = [
            client.get("/tenants/self").await,
            client.put("/tenants/self", json!({"name": permission})).await,
            client.get(secrets).await,
            client.post(&format!("{secrets}/rotate"), json!({})).await,
        ];
        let found = answers.map(|answer| answer.status.as_u16());
        assert_eq!(found, statuses, "{permission}");
    }
    // What was refused has changed nothing, and is in the log.
    let tenant = server.management.get("/tenants/self").await.expect(200);
    assert_eq!(tenant["name"], "tenant:update");
    let signing = server.management.get(secrets).await.expect(200);
    assert_eq!(signing.as_array().unwrap().len(), 2);
    let log = server.management.get("/logs?size=100").await.expect(200);
    let entries = log["data"].as_array().unwrap();
    for permission in held {
        let denied = format!("Denied: {permission}");
        let denied = entries.iter().filter(|entry| entry["message"] == denied.as_str());
        assert_eq!(denied.count(), 4, "{permission}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_changed_at_once_are_in_force_as_they_are_stored() {
    let server = TestServer::start().await;
    for round in 0..20 {
        let change = |deduplicate: bool| {
            let body = json!({"name": "t", "settings": {"deduplicate_tokens": deduplicate}});
            server.management.put("/tenants/self", body)
        };
        let (one, other) = join(change(true), change(false)).await;
        for answer in [one, other] {
            assert!([200, 409].contains(&answer.status.as_u16()), "{}", answer.text());
        }
        let stored = server.management.get("/tenants/self").await.expect(200);
        let token = json!({"type": "token", "data": round});
        let made = server.private.post("/tokens", token).await.expect(201);
        let in_force = made.get("deduplicate_token").cloned().unwrap_or(Value::Bool(false));
        assert_eq!(stored["settings"]["deduplicate_tokens"], in_force);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cards_cvc_is_erased_in_time() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let card = json!({"id": "card", "type": "card",
        "data": {"number": "4242424242424242", "cvc": "123"},
        "mask": "{{ data.cvc }}-{{ data.number | last4 }}",
        "search_indexes": ["{{ data.number | last4 }}"]});
    server.private.post("/tokens", card).await.expect(201);
    server.clock.advance_ms(HOUR_MS - 1);
    assert_eq!(reader.get("/tokens/card").await.expect(200)["data"]["cvc"], "123");
    // Other members may change without giving the cvc more time.
    server
        .private
        .patch("/tokens/card", json!({"data": {"expiration_month": 1}}))
        .await
        .expect(200);
    server.clock.advance_ms(1);
    let erased = json!({"number": "4242424242424242", "expiration_month": 1});
    assert_eq!(reader.get("/tokens/card").await.expect(200)["data"], erased);
    // A mask that is one text with it shows nothing instead of failing.
    assert!(server.private.get("/tokens/card").await.expect(200).get("data").is_none());
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    assert_eq!(reader.get("/tokens/card").await.expect(200)["data"], erased);
    assert_eq!(server.private.search("data:4242").await, ["card"]);
    // Written anew, it stays its time again.
    let mask = json!({"data": {"cvc": "456"}});
    server.private.patch("/tokens/card", mask).await.expect(200);
    server.clock.advance_ms(HOUR_MS - 1);
    assert_eq!(reader.get("/tokens/card").await.expect(200)["data"]["cvc"], "456");
    server.clock.advance_ms(1);
    assert!(reader.get("/tokens/card").await.expect(200)["data"].get("cvc").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cvc_that_is_erased_hides_nothing_else_of_a_mask() {
    let server = TestServer::start().await;
    let mask = json!({"n": "{{ data.number | last4 }}", "c": "{{ data.cvc }}",
        "both": ["{{ data.cvc | reveal_last: 1 }}", "{{ data.number | slice: 0, 6 }}"]});
    let card = json!({"id": "card", "type": "card",
        "data": {"number": "4242424242424242", "cvc": "123"}, "mask": mask});
    let made = server.private.post("/tokens", card).await.expect(201);
    let before = json!({"n": "4242", "c": "123", "both": ["XX3", "424242"]});
    assert_eq!(made["data"], before);
    server.clock.advance_ms(HOUR_MS);
    let after = json!({"n": "4242", "both": [null, "424242"]});
    assert_eq!(server.private.get("/tokens/card").await.expect(200)["data"], after);
    let found = server.private.post("/tokens/search", json!({"query": "type:card"})).await;
    assert_eq!(found.expect(200)["data"][0]["data"], after);
    // Whoever writes one is told all the same.
    let patch = json!({"mask": {"n": "{{ data.number | last4 }}", "c": "{{ data.cvc }}!"}});
    let refused = server.private.patch("/tokens/card", patch).await;
    assert_eq!(refused.faults(), ["mask.both[0]", "mask.c"]);
    let without = json!({"type": "card", "data": {"number": "4242424242424242"}, "mask": mask});
    let refused = server.private.post("/tokens", without).await;
    assert_eq!(refused.faults(), ["mask.both[0]", "mask.c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cvc_stays_for_as_long_as_was_set_when_it_was_written() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let set = async |minutes: u64| {
        let body = json!({"name": "t", "settings": {"cvc_retention_minutes": minutes}});
        server.management.put("/tenants/self", body).await.expect(200);
    };
    let make = async |id: &str| {
        let data = json!({"number": "4242424242424242", "cvc": "123"});
        let body = json!({"id": id, "type": "card", "data": data});
        server.private.post("/tokens", body).await.expect(201);
    };
    set(5).await;
    make("short").await;
    // From now on; what was written before stays as long as it was to stay.
    set(1_440).await;
    make("long").await;
    let cvcs = async || {
        let cvc = async |path: &str| reader.get(path).await.expect(200)["data"]["cvc"].clone();
        [cvc("/tokens/short").await, cvc("/tokens/long").await]
    };
    let (old, new, none) = (json!("123"), json!("456"), Value::Null);
    server.clock.advance_ms(5 * MINUTE_MS - 1);
    assert_eq!(cvcs().await, [old.clone(), old.clone()]);
    server.clock.advance_ms(1);
    assert_eq!(cvcs().await, [none.clone(), old.clone()]);
    // One that an update brings stays as long as one of a new token.
    let patch = json!({"data": {"cvc": "456"}});
    server.private.patch("/tokens/short", patch).await.expect(200);
    server.clock.advance_ms(56 * MINUTE_MS);
    assert_eq!(cvcs().await, [new.clone(), old.clone()]);
    server.clock.advance_ms(24 * HOUR_MS - 61 * MINUTE_MS - 1);
    assert_eq!(cvcs().await, [new.clone(), old]);
    server.clock.advance_ms(1);
    assert_eq!(cvcs().await, [new.clone(), none.clone()]);
    server.clock.advance_ms(5 * MINUTE_MS - 1);
    assert_eq!(cvcs().await, [new, none.clone()]);
    server.clock.advance_ms(1);
    assert_eq!(cvcs().await, [none.clone(), none]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_stays_depends_on_a_cvc() {
    let server = TestServer::start().await;
    let data = json!({"number": "4242424242424242", "cvc": "123"});
    let path = format!("/tokens/{}", server.private.token("card", data.clone()).await);
    let card = |members: Value| {
        let mut body = json!({"type": "card", "data": data});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    let last4 = "{{ data.number | last4 }}";
    let table = [
        (json!({"search_indexes": [last4, "{{ data.cvc }}"]}), "search_indexes[1]"),
        (json!({"search_indexes": ["{{ data.cvc | last4 }}-x"]}), "search_indexes[0]"),
        (json!({"search_indexes": ["{{ data | stringify }}"]}), "search_indexes[0]"),
        (json!({"fingerprint_expression": "{{ data | stringify }}"}), "fingerprint_expression"),
        (
            json!({"fingerprint_expression": "{{ data.number }}{{ data.cvc }}"}),
            "fingerprint_expression",
        ),
    ];
    for (members, expected) in table {
        let made = server.private.post("/tokens", card(members.clone())).await;
        let changed = server.private.patch(&path, members.clone()).await;
        for answer in [made, changed] {
            assert_eq!(answer.faults(), [expected], "{members}");
            let body = answer.json();
            let messages = json!(["must not depend on cvc, which is erased"]);
            assert_eq!(body["errors"][expected], messages, "{members}");
        }
    }
    // The id stays too, in addresses and in the log.
    for id in ["{{ data.cvc }}-{{ data.number | last4 }}", "c-{{ data | stringify | size }}"] {
        let made = server.private.post("/tokens", card(json!({"id": id}))).await;
        assert_eq!(made.faults(), ["id"], "{id}");
        let made = server.private.post("/tokenize", json!({"a": [card(json!({"id": id}))]})).await;
        assert_eq!(made.faults(), ["a[0].id"], "{id}");
    }
    server
        .private
        .post("/tokens", card(json!({"id": "c-{{ data.number | last4 }}"})))
        .await
        .expect(201);
    // Without a cvc there is nothing to depend on; bringing one later is refused.
    let whole = "{{ data | stringify }}";
    let body = json!({"id": "whole", "type": "card", "fingerprint_expression": whole,
        "data": {"number": "4242424242424242", "cvc": null}});
    server.private.post("/tokens", body).await.expect(201);
    let answer = server.private.patch("/tokens/whole", json!({"data": {"cvc": "123"}})).await;
    assert_eq!(answer.faults(), ["fingerprint_expression"]);
    server.private.patch("/tokens/whole", json!({"metadata": {"k": "v"}})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_can_be_changed_after_its_cvc_was_erased() {
    let server = TestServer::start().await;
    let body = json!({"id": "card", "type": "card", "mask": "{{ data.cvc }}-{{ data.number }}",
        "data": {"number": "4242424242424242", "cvc": "123"}});
    server.private.post("/tokens", body).await.expect(201);
    let path = "/tokens/card";
    for (key, is_swept) in [("due", false), ("erased", true)] {
        server.clock.advance_ms(HOUR_MS);
        if is_swept {
            server.vault.sweep().await.unwrap();
        }
        // The mask wants what is no longer there; that is no fault of this change.
        let patch = json!({"metadata": {key: "x"}, "data": {"expiration_month": 1}});
        let changed = server.private.patch(path, patch).await.expect(200);
        assert_eq!((changed.get("data"), &changed["metadata"][key]), (None, &json!("x")));
        // Of this one it is.
        let mask = json!({"mask": "{{ data.cvc }}"});
        assert_eq!(server.private.patch(path, mask).await.faults(), ["mask"]);
        let cvc = json!({"data": {"cvc": "456"}});
        let shown = server.private.patch(path, cvc).await.expect(200);
        assert_eq!(shown["data"], "456-4242424242424242");
    }
    // A mask that could be evaluated must be so still.
    server.private.patch(path, json!({"mask": "{{ data.expiration_month }}"})).await.expect(200);
    let without = json!({"data": {"expiration_month": null}});
    assert_eq!(server.private.patch(path, without).await.faults(), ["mask"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_end_in_every_form_of_expires_at() {
    let server = TestServer::start().await;
    let forms = [
        ("2030-08-26T19:23:57+02:00", "2030-08-26T17:23:57.000+00:00"),
        ("2030-08-26T19:23:57", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030", "2030-08-26T00:00:00.000+00:00"),
        ("8/26/2030 7:23:57 PM -02:00", "2030-08-26T21:23:57.000+00:00"),
    ];
    for (given, shown) in forms {
        let body = json!({"type": "token", "data": 1, "expires_at": given});
        assert_eq!(server.private.post("/tokens", body).await.expect(201)["expires_at"], shown);
    }
    let soon = json!({"id": "soon", "type": "token", "data": 1, "metadata": {"s": "1"},
        "expires_at": "2026-01-01T12:00:00Z"});
    server.private.post("/tokens", soon).await.expect(201);
    server.clock.advance_ms(24 * HOUR_MS);
    server.private.get("/tokens/soon").await.expect(404);
    server.private.patch("/tokens/soon", json!({})).await.expect(404);
    server.private.delete("/tokens/soon").await.expect(404);
    assert_eq!(server.private.list("").await.len(), 4);
    assert_eq!(server.private.search("metadata.s:1").await, Vec::<String>::new());
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    let logs = server.management.get("/logs?entity_id=soon&size=1").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Token expired");
}
