//! What a stopped server knew, the next one knows: tokens, applications, keys, reactors, logs.

use serde_json::{Value, json};

use tokamak::clock::Clock as _;

use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests, tamper};

fn setup(folder: &std::path::Path) -> Setup {
    Setup { folder: Some(folder.to_owned()), ..Setup::default() }
}

/// What the server tells of itself, by the keys of its first run.
async fn told(management: &Client, private: &Client, paths: &[String]) -> Vec<Value> {
    let mut told = Vec::new();
    for path in paths {
        let client = if path.starts_with("/tokens") { private } else { management };
        told.push(client.get(path).await.expect(200));
    }
    told
}

/// What was done to an entity, as the log tells it: what was done last comes first.
async fn operations_on(management: &Client, id: &str) -> Vec<String> {
    let logs = management.get(&format!("/logs?size=100&entity_id={id}")).await.expect(200);
    let entries = logs["data"].as_array().unwrap().iter();
    entries.map(|entry| entry["operation"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestServer::start_with(setup(folder.path())).await;
    let token = first.private.token("card", json!({"number": "4242424242424242"})).await;
    let gone = first.private.token("token", json!("gone")).await;
    first.private.delete(&format!("/tokens/{gone}")).await.expect(204);
    let reactor = guests::echo_reactor(&first).await;
    let paths = [
        format!("/tokens/{token}"),
        format!("/reactors/{reactor}"),
        "/reactors".to_owned(),
        "/reactor-formulas?name=*".to_owned(),
        "/applications".to_owned(),
    ];
    let before = told(&first.management, &first.private, &paths).await;
    let (management, private) = (first.management.key.clone(), first.private.key.clone());
    assert_eq!(first.folder(), folder.path());
    first.stop().await;

    let second = TestServer::start_with(setup(folder.path())).await;
    let management = second.client(&management.unwrap());
    let private = second.client(&private.unwrap());
    assert_eq!(told(&management, &private, &paths).await, before);
    private.get(&format!("/tokens/{gone}")).await.expect(404);
    let args = json!({"args": {"number": format!("{{{{ {token} | json: '$.number' }}}}")}});
    let answer = private.post(&format!("/reactors/{reactor}/react"), args).await.expect(200);
    assert_eq!(answer["raw"]["args"]["number"], "4242424242424242");
    assert_eq!(operations_on(&management, &gone).await, ["delete", "create"]);
    second.stop().await;
}

/// A record that somebody tampered with keeps no other one from its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_does_not_open_stops_no_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestServer::start_with(setup(folder.path())).await;
    let now = i64::try_from(first.clock.now_ms()).unwrap() + 5 * 60 * 1_000;
    let end = chrono::DateTime::from_timestamp_millis(now).unwrap().to_rfc3339();
    for id in ["older", "damaged", "newer"] {
        let body = json!({"id": id, "type": "token", "data": id, "expires_at": end});
        first.private.post("/tokens", body).await.expect(201);
    }
    let management = first.management.key.clone().unwrap();
    first.stop().await;
    tamper::change(&folder.path().join("store"), tamper::TOKEN, "damaged");
    let second = TestServer::start_with(setup(folder.path())).await;
    second.clock.advance_ms(10 * 60 * 1_000);
    // The server sweeps by itself when it starts, and may be the first to find them.
    assert!(second.vault.sweep().await.unwrap().0 <= 2);
    let management = second.client(&management);
    for id in ["older", "newer"] {
        let removed = async || operations_on(&management, id).await == ["delete", "create"];
        for _ in 0..300 {
            if removed().await {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(removed().await, "{id}");
    }
    assert_eq!(operations_on(&management, "damaged").await, ["create"]);
    assert_eq!(second.vault.sweep().await.unwrap().0, 0);
}
