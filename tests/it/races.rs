//! Requests that meet: one that loses nothing of its caller's is tried again, and not refused.

use serde_json::json;

use crate::support::TestServer;

const ROUNDS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_deleted_beside_an_update() {
    let server = TestServer::start().await;
    for round in 0..ROUNDS {
        let id = server.private.token("token", json!({"round": round})).await;
        let path = format!("/tokens/{id}");
        let patch = server.private.patch(&path, json!({"data": {"more": 1}}));
        let (deleted, patched) = tokio::join!(server.private.delete(&path), patch);
        deleted.expect(204);
        assert!([200, 404].contains(&patched.status.as_u16()), "{}", patched.text());
        server.private.get(&path).await.expect(404);
    }
    // The index knows of none of them either.
    assert!(server.private.list("").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_changed_twice_at_once() {
    let server = TestServer::start().await;
    for round in 0..ROUNDS {
        let change = |name: &str| {
            let body = json!({"name": format!("{name} {round}"), "settings": {"deduplicate_tokens": false}});
            let client = server.management.clone();
            async move { client.put("/tenants/self", body).await }
        };
        let (one, other) = tokio::join!(change("one"), change("other"));
        one.expect(200);
        other.expect(200);
    }
    let name = server.management.get("/tenants/self").await.expect(200)["name"].clone();
    assert!(name.as_str().unwrap().ends_with(&(ROUNDS - 1).to_string()), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_reactors_beside_deletions_fails_never() {
    let server = TestServer::start().await;
    let formula = json!({"id": "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01"});
    for _ in 0..ROUNDS {
        let body = json!({"name": "r", "formula": formula, "configuration": {}});
        let made = server.management.post("/reactors", body).await.expect(201);
        let path = format!("/reactors/{}", made["id"].as_str().unwrap());
        let (deleted, listed) =
            tokio::join!(server.management.delete(&path), server.management.get("/reactors"));
        deleted.expect(204);
        listed.expect(200);
    }
}
