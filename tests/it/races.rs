//! Requests that meet: one that loses nothing of its caller's is tried again, and not refused.

use futures::future::{join, join_all};
use serde_json::json;

use crate::support::{Answer, Client, TestServer};

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

fn deduplicated(data: &str) -> serde_json::Value {
    json!({"type": "token", "data": data, "deduplicate_token": true})
}

/// Makes so many tokens of different contents that give way to their like; gives where they are.
async fn different(client: &Client, round: usize, count: usize) -> Vec<String> {
    let mut paths = Vec::new();
    for n in 0..count {
        let made = client.post("/tokens", deduplicated(&format!("{round}-{n}"))).await.expect(201);
        paths.push(format!("/tokens/{}", made["id"].as_str().unwrap()));
    }
    paths
}

/// Asserts that of those answered with success one has the contents and the others were told so; gives where it is.
async fn assert_one_has(client: &Client, contents: &str, answers: &[&Answer]) -> String {
    let told: Vec<_> = answers.iter().map(|answer| answer.json()).collect();
    let own: Vec<_> = told.iter().filter(|token| token.get("_extras").is_none()).collect();
    assert_eq!(own.len(), 1, "{told:?}");
    let all = told.iter().all(|token| token["id"] == own[0]["id"] && token["data"] == contents);
    assert!(all, "{told:?}");
    let path = format!("/tokens/{}", own[0]["id"].as_str().unwrap());
    let kept = client.get(&path).await.expect(200);
    assert_eq!(kept["data"], contents, "{kept}");
    let found = client.search(&format!("fingerprint:{}", kept["fingerprint"])).await;
    assert_eq!(found, [own[0]["id"].as_str().unwrap()]);
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tokens_are_given_the_same_contents() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    for round in 0..ROUNDS {
        let (paths, same) = (different(&client, round, 2).await, format!("same {round}"));
        let patch = |path: &str| {
            let (client, path, patch) = (client.clone(), path.to_owned(), json!({"data": same}));
            async move { client.patch(&path, patch).await }
        };
        let (one, other) = join(patch(&paths[0]), patch(&paths[1])).await;
        one.expect(200);
        other.expect(200);
        let kept = assert_one_has(&client, &same, &[&one, &other]).await;
        let gone = paths.iter().find(|path| **path != kept).unwrap();
        client.get(gone).await.expect(404);
    }
    assert_eq!(client.list("").await.len(), ROUNDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_given_the_contents_of_one_that_is_being_made() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    for round in 0..ROUNDS {
        let (paths, same) = (different(&client, round, 1).await, format!("same {round}"));
        let patch = client.patch(&paths[0], json!({"data": same}));
        let (patched, made) = join(patch, client.post("/tokens", deduplicated(&same))).await;
        patched.expect(200);
        assert!([200, 201].contains(&made.status.as_u16()), "{}", made.text());
        let kept = assert_one_has(&client, &same, &[&patched, &made]).await;
        let status = if kept == paths[0] { 200 } else { 404 };
        client.get(&paths[0]).await.expect(status);
    }
    assert_eq!(client.list("").await.len(), ROUNDS);
}

/// Nobody changes these tokens but their own requests: none of them is refused for what becomes of the others.
#[tokio::test(flavor = "multi_thread")]
async fn many_tokens_are_given_the_same_contents_while_some_are_made_of_them() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    for round in 0..ROUNDS / 2 {
        let (paths, same) = (different(&client, round, 6).await, format!("same {round}"));
        let patches = join_all(paths.iter().map(|path| client.patch(path, json!({"data": same}))));
        let posts = join_all((0..3).map(|_| client.post("/tokens", deduplicated(&same))));
        let (patched, made) = join(patches, posts).await;
        let mut done: Vec<&Answer> = made.iter().collect();
        for answer in &made {
            assert!([200, 201].contains(&answer.status.as_u16()), "{}", answer.text());
        }
        for answer in &patched {
            answer.expect(200);
            done.push(answer);
        }
        let kept = assert_one_has(&client, &same, &done).await;
        for path in paths.iter().filter(|path| **path != kept) {
            client.get(path).await.expect(404);
        }
    }
    assert_eq!(client.list("").await.len(), ROUNDS / 2);
}
