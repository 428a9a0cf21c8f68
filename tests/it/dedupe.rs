//! Deduplication (decisions §3).

use futures::future::join_all;
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
