//! Deduplication (decisions §3).

use futures::future::{join, join_all};
use serde_json::{Value, json};

use crate::support::TestServer;

fn body(data: &str) -> Value {
    json!({"type": "token", "data": data, "deduplicate_token": true, "metadata": {"k": data}})
}

async fn total(server: &TestServer) -> usize {
    server.private.list("").await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_contents_give_the_token_that_was_there() {
    let server = TestServer::start().await;
    // One that did not ask for it counts too; of several, the oldest.
    let first = server.private.token("token", json!("same")).await;
    server.clock.advance_ms(1);
    server.private.token("token", json!("same")).await;
    let answer = server.private.post("/tokens", body("same")).await;
    let found = answer.expect(200);
    assert_eq!(found["id"], first.as_str());
    assert_eq!(found["_extras"], json!({"deduplicated": true}));
    assert!(!answer.headers.contains_key("location"));
    assert_eq!(total(&server).await, 2);
    let made = server.private.post("/tokens", body("other")).await.expect(201);
    assert!(made.get("_extras").is_none());
    assert_eq!(made["deduplicate_token"], true);
    // The same value as another type is another token.
    let number =
        json!({"type": "card_number", "data": "4242424242424242", "deduplicate_token": true});
    server.private.post("/tokens", body("4242424242424242")).await.expect(201);
    server.private.post("/tokens", number.clone()).await.expect(201);
    server.private.post("/tokens", number).await.expect(200);
}

/// What comes to the same text is the same, unless the expression tells it apart.
#[tokio::test(flavor = "multi_thread")]
async fn contents_of_another_kind_are_told_apart_by_an_expression() {
    let server = TestServer::start().await;
    let pairs = [
        (json!(5), json!("5")),
        (json!(true), json!("true")),
        (json!([]), json!("[]")),
        (json!({"a": 1}), json!("{\"a\":1}")),
    ];
    for (one, text) in pairs {
        for (expression, status) in
            [("{{ data | stringify }}", 200), ("{{ data | json_stringify }}", 201)]
        {
            let body = |data: &Value| {
                json!({"type": "token", "data": data, "fingerprint_expression": expression,
                    "deduplicate_token": true})
            };
            let first = server.private.post("/tokens", body(&one)).await.json();
            let second = server.private.post("/tokens", body(&text)).await.expect(status);
            assert_eq!(first["fingerprint"] == second["fingerprint"], status == 200, "{one}");
            server.private.post("/tokens", body(&one)).await.expect(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_the_token_sees_its_outline() {
    let server = TestServer::start().await;
    let made = server.private.post("/tokens", body("same")).await.expect(201);
    let public = server.application("public", &["token:create"], json!([])).await;
    let found = public.post("/tokens", body("same")).await.expect(200);
    assert_eq!(
        found,
        json!({"id": made["id"], "tenant_id": made["tenant_id"], "type": "token",
            "fingerprint": made["fingerprint"], "containers": ["/general/high/"],
            "_extras": {"deduplicated": true}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_the_oldest_that_the_caller_may_read_is_given() {
    let server = TestServer::start().await;
    for (id, container) in [("a-1", "/a/"), ("b-1", "/b/"), ("a-2", "/a/"), ("b-2", "/b/")] {
        let body = json!({"id": id, "type": "token", "data": "same", "containers": [container],
            "deduplicate_token": false});
        server.private.post("/tokens", body).await.expect(201);
        server.clock.advance_ms(1);
    }
    for (reads, expected) in [("/b/", "b-1"), ("/a/", "a-1"), ("/c/", "a-1"), ("/", "a-1")] {
        let rules = json!([
            {"description": "", "priority": 1, "permissions": ["token:create", "token:update"],
                "container": "/", "transform": "redact"},
            {"description": "", "priority": 2, "permissions": ["token:read"],
                "container": reads, "transform": "reveal"}]);
        let caller = server.application("private", &[], rules).await;
        let body = json!({"type": "token", "data": "same", "containers": ["/b/"],
            "deduplicate_token": true});
        let found = caller.post("/tokens", body).await.expect(200);
        assert_eq!(found["id"], expected, "{reads}");
        let other = server.private.token("token", json!("other")).await;
        let patch = json!({"data": "same", "deduplicate_token": true});
        let found = caller.patch(&format!("/tokens/{other}"), patch).await.expect(200);
        assert_eq!(found["id"], expected, "{reads}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_one_call_are_shown_as_if_they_had_come_one_after_the_other() {
    let server = TestServer::start().await;
    let both = json!([body("same"), body("same")]);
    let public = server.application("public", &["token:create"], json!([])).await;
    let made = public.post("/tokenize", both.clone()).await.expect(200);
    let [first, second] = [&made[0], &made[1]];
    assert_eq!(first["id"], second["id"]);
    assert!(first["created_at"].is_string() && first.get("_extras").is_none(), "{made}");
    let again = public.post("/tokens", body("same")).await.expect(200);
    assert_eq!((second, again.get("created_at")), (&again, None));
    let of_it = format!("/logs?entity_id={}", first["id"].as_str().unwrap());
    let entries = server.management.get(&of_it).await.expect(200)["data"].clone();
    let operations = entries.as_array().unwrap().iter().map(|entry| entry["operation"].clone());
    assert_eq!(operations.collect::<Vec<_>>(), ["read", "read", "create"]);
    // Who may read it sees it.
    let made = server.private.post("/tokenize", json!([body("other"), body("other")])).await;
    let made = made.expect(200);
    let read = server.private.get(&format!("/tokens/{}", made[0]["id"].as_str().unwrap())).await;
    let mut second = made[1].clone();
    assert_eq!(second["_extras"].take(), json!({"deduplicated": true}));
    second.as_object_mut().unwrap().remove("_extras");
    assert_eq!(second, read.expect(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_leave_one_token() {
    let server = TestServer::start().await;
    let answers = join_all((0..30).map(|_| server.private.post("/tokens", body("same")))).await;
    let mut ids: Vec<_> = answers.iter().map(|answer| answer.json()["id"].to_string()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!((made, answers.iter().all(|answer| answer.status.is_success())), (1, true));
    assert_eq!(total(&server).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenants_setting_decides_for_tokens_that_do_not_say() {
    let server = TestServer::start().await;
    let settings = json!({"name": "t", "settings": {"deduplicate_tokens": true}});
    server.management.put("/tenants/self", settings).await.expect(200);
    let token = json!({"type": "token", "data": "same"});
    let made = server.private.post("/tokens", token.clone()).await.expect(201);
    assert_eq!(made["deduplicate_token"], true);
    server.private.post("/tokens", token).await.expect(200);
    let not = json!({"type": "token", "data": "same", "deduplicate_token": false});
    server.private.post("/tokens", not).await.expect(201);
    // Equal values in one call become one token.
    let answer = server.private.post("/tokenize", json!(["x", "x", "same", "y"])).await.expect(200);
    let answer = answer.as_array().unwrap().clone();
    assert_eq!(answer[0], answer[1]);
    assert_eq!(answer[2], made["id"]);
    assert_eq!(total(&server).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_gives_way_to_the_token_of_the_same_contents() {
    let server = TestServer::start().await;
    let first = server.private.post("/tokens", body("first")).await.expect(201);
    let second = server.private.post("/tokens", body("second")).await.expect(201);
    let path = format!("/tokens/{}", second["id"].as_str().unwrap());
    let updater = server.application("public", &["token:update"], json!([])).await;
    let found = updater.patch(&path, json!({"data": "first"})).await.expect(200);
    assert_eq!(found["id"], first["id"]);
    assert_eq!(found["_extras"], json!({"deduplicated": true}));
    for hidden in ["data", "metadata", "fingerprint_expression", "search_indexes", "mask"] {
        assert!(found.get(hidden).is_none(), "{hidden}");
    }
    server.private.get(&path).await.expect(404);
    assert_eq!(server.private.search("metadata.k:second").await, Vec::<String>::new());
    // The other one is as it was, and found as it was.
    let kept = server.private.get(&format!("/tokens/{}", first["id"].as_str().unwrap())).await;
    assert_eq!(kept.expect(200), first);
    assert_eq!(server.private.search("metadata.k:first").await, [first["id"].as_str().unwrap()]);
    // One that asks for it only now gives way too.
    let third = server.private.token("token", json!("first")).await;
    let patch = json!({"deduplicate_token": true});
    let found = server.private.patch(&format!("/tokens/{third}"), patch).await.expect(200);
    assert_eq!((&found["id"], &found["metadata"]), (&first["id"], &json!({"k": "first"})));
    assert_eq!(total(&server).await, 1);
    // Its own contents are no duplicate.
    let path = format!("/tokens/{}", first["id"].as_str().unwrap());
    let kept = server.private.patch(&path, json!({"metadata": {"k": "new"}})).await.expect(200);
    assert!(kept.get("_extras").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_shows_who_may_not_read_the_other_token_its_outline_and_nothing_else() {
    let server = TestServer::start().await;
    // It has everything that a token can have.
    let whole = json!({"type": "token", "data": "first", "deduplicate_token": true,
        "metadata": {"k": "first"}, "mask": "{{ data | last4 }}", "containers": ["/a/"],
        "search_indexes": ["{{ data }}"], "fingerprint_expression": "{{ data }}!",
        "expires_at": "2099-01-01T00:00:00Z"});
    let first = server.private.post("/tokens", whole).await.expect(201);
    let path = format!("/tokens/{}", first["id"].as_str().unwrap());
    let first = server.private.patch(&path, json!({"metadata": {"l": "v"}})).await.expect(200);
    let elsewhere = json!([{"description": "", "priority": 1, "container": "/b/",
        "transform": "reveal", "permissions": ["token:read"]}]);
    let others = ["token:update", "token:search", "token:use"];
    for updater in [
        server.application("public", &["token:update"], json!([])).await,
        // Neither finding it nor using it nor reading others is reading it.
        server.application("private", &others, elsewhere).await,
    ] {
        let second = server.private.post("/tokens", body("second")).await.expect(201);
        let path = format!("/tokens/{}", second["id"].as_str().unwrap());
        let patch = json!({"data": "first", "fingerprint_expression": "{{ data }}!"});
        let found = updater.patch(&path, patch).await.expect(200);
        assert_eq!(
            found,
            json!({"id": first["id"], "tenant_id": first["tenant_id"], "type": "token",
                "fingerprint": first["fingerprint"], "containers": ["/a/"],
                "_extras": {"deduplicated": true}})
        );
        server.private.get(&path).await.expect(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_gone_is_no_duplicate() {
    let server = TestServer::start().await;
    let made = server.private.post("/tokens", body("same")).await.expect(201);
    server.private.delete(&format!("/tokens/{}", made["id"].as_str().unwrap())).await.expect(204);
    let mut expiring = body("same");
    expiring["expires_at"] = "2026-01-01T01:00:00Z".into();
    expiring["id"] = "again".into();
    server.private.post("/tokens", expiring).await.expect(201);
    server.clock.advance_ms(2 * 3_600_000);
    // It has ended but was not swept yet; neither its contents nor its id are in the way.
    let mut third = body("same");
    third["id"] = "again".into();
    server.private.post("/tokens", third).await.expect(201);
    assert_eq!(total(&server).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_tokens_that_change_places_at_once_one_is_left() {
    let server = TestServer::start().await;
    for round in 0..20 {
        let contents = [format!("one-{round}"), format!("two-{round}")];
        let mut paths = Vec::new();
        for data in &contents {
            let made = server.private.post("/tokens", body(data)).await.expect(201);
            paths.push(format!("/tokens/{}", made["id"].as_str().unwrap()));
        }
        let one = server.private.patch(&paths[0], json!({"data": contents[1]}));
        let two = server.private.patch(&paths[1], json!({"data": contents[0]}));
        let (one, two) = join(one, two).await;
        for answer in [&one, &two] {
            assert!([200, 409].contains(&answer.status.as_u16()), "{}", answer.text());
        }
        assert!(one.status == 200 || two.status == 200);
        assert_eq!(total(&server).await, round + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_beside_its_like_stays_until_its_contents_or_the_wish_change() {
    let server = TestServer::start().await;
    let wishing = server.private.post("/tokens", body("same")).await.expect(201);
    server.private.token("token", json!("same")).await;
    let path = format!("/tokens/{}", wishing["id"].as_str().unwrap());
    for patch in [
        json!({"metadata": {"k": "new"}}),
        json!({"containers": ["/elsewhere/"]}),
        json!({"data": "same"}),
        json!({"deduplicate_token": true}),
        json!({}),
    ] {
        let shown = patch.to_string();
        let kept = server.private.patch(&path, patch).await.expect(200);
        assert_eq!(kept["id"], wishing["id"], "{shown}");
        assert!(kept.get("_extras").is_none(), "{shown}");
    }
    assert_eq!(total(&server).await, 2);
    // The wish, withdrawn and made anew, is a change of it.
    server.private.patch(&path, json!({"deduplicate_token": false})).await.expect(200);
    let found = server.private.patch(&path, json!({"deduplicate_token": true})).await.expect(200);
    assert_ne!(found["id"], wishing["id"]);
    assert_eq!(total(&server).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenants_setting_decides_for_updates_too() {
    let server = TestServer::start().await;
    let first = server.private.token("token", json!("first")).await;
    let second = format!("/tokens/{}", server.private.token("token", json!("second")).await);
    let settings = json!({"name": "t", "settings": {"deduplicate_tokens": true}});
    server.management.put("/tenants/self", settings).await.expect(200);
    let noted = server.private.patch(&second, json!({"metadata": {"k": "v"}})).await.expect(200);
    assert!(noted.get("deduplicate_token").is_none());
    let found = server.private.patch(&second, json!({"data": "first"})).await.expect(200);
    assert_eq!((&found["id"], &found["_extras"]), (&json!(first), &json!({"deduplicated": true})));
    server.private.get(&second).await.expect(404);
    // What is changed under the setting keeps its mark, as what is made under it does.
    let first = format!("/tokens/{first}");
    let changed = server.private.patch(&first, json!({"data": "third"})).await.expect(200);
    assert_eq!(changed["deduplicate_token"], true);
    // One that says no is asked, not the setting.
    let not = json!({"type": "token", "data": "x", "deduplicate_token": false});
    let not = server.private.post("/tokens", not).await.expect(201);
    let not = format!("/tokens/{}", not["id"].as_str().unwrap());
    let changed = server.private.patch(&not, json!({"data": "third"})).await.expect(200);
    assert!(changed.get("_extras").is_none());
    // No longer saying so leaves it to the setting.
    let asked = server.private.patch(&not, json!({"deduplicate_token": null})).await.expect(200);
    assert_eq!(asked["_extras"], json!({"deduplicated": true}));
    assert_eq!(total(&server).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_may_take_the_contents_of_a_token_that_has_ended() {
    let server = TestServer::start().await;
    let mut expiring = body("first");
    expiring["expires_at"] = "2026-01-01T01:00:00Z".into();
    server.private.post("/tokens", expiring).await.expect(201);
    let second = server.private.post("/tokens", body("second")).await.expect(201);
    server.clock.advance_ms(2 * 3_600_000);
    // It was not swept yet.
    let path = format!("/tokens/{}", second["id"].as_str().unwrap());
    let changed = server.private.patch(&path, json!({"data": "first"})).await.expect(200);
    assert_eq!(changed["id"], second["id"]);
    assert!(changed.get("_extras").is_none());
    assert_eq!(total(&server).await, 1);
}
