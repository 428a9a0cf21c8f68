//! What was acknowledged survives `kill -9` of the real binary under load.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::binary::{Process, assert_sound};

/// Kills of one run; each has its own moment.
const ROUNDS: u64 = 12;
const CLIENTS: usize = 8;

/// Writes until the server is gone; gives what was acknowledged.
async fn write(client: Client, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let body = json!({"type": "token", "data": {"n": acknowledged.len()}});
        let request = client.request(reqwest::Method::POST, "/tokens").json(&body);
        let Ok(response) = request.send().await else { break };
        if response.status() != 201 {
            break;
        }
        let Ok(made) = response.json::<Value>().await else { break };
        acknowledged.push(made["id"].as_str().unwrap().to_owned());
    }
    acknowledged
}

async fn private_key(process: &Process) -> String {
    let body =
        json!({"name": "load", "type": "private", "permissions": ["token:create", "token:read"]});
    let made = process.management().post("/applications", body).await.expect(201);
    made["key"].as_str().unwrap().to_owned()
}

/// Every id is there, and so is the log entry of its making.
async fn check(process: &Process, key: &str, acknowledged: &[String]) {
    let client = Client::new(process.address, Some(key));
    for id in acknowledged {
        client.get(&format!("/tokens/{id}")).await.expect(200);
        let entries = process.management().get(&format!("/logs?entity_id={id}")).await.expect(200);
        let entries = entries["data"].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["operation"] == "create"), "{id}");
    }
}

async fn round(folder: &Path, key: &str, after: Duration) -> Vec<String> {
    let process = Process::serve(folder);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let client = Client::new(process.address, Some(key));
            tokio::spawn(write(client, Arc::clone(&stop)))
        })
        .collect();
    tokio::time::sleep(after).await;
    process.kill();
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let key = private_key(&process).await;
    process.kill();
    let mut all = Vec::new();
    for number in 0..ROUNDS {
        // Different moments of a group commit, without a random test.
        let after = Duration::from_millis(60 + number * 17);
        all.extend(round(folder.path(), &key, after).await);
        let looked_at = assert_sound(folder.path());
        assert!(looked_at["log_entries"].as_u64().unwrap() >= all.len() as u64);
    }
    assert!(all.len() > 100, "only {} writes were acknowledged", all.len());
    let process = Process::serve(folder.path());
    check(&process, &key, &all).await;
    println!("{} acknowledged writes, {ROUNDS} kills, none lost", all.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_log_is_listed_by_whoever_asks_first_after_a_kill() {
    const TOKENS: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let key = private_key(&process).await;
    let client = Client::new(process.address, Some(&key));
    for number in 0..TOKENS {
        client.post("/tokens", json!({"type": "token", "data": number})).await.expect(201);
    }
    let logs = async |process: &Process| {
        let logs = process.management().get("/logs?entity_type=token&size=100").await.expect(200);
        (logs["pagination"]["total_items"].clone(), logs["data"].clone())
    };
    let before = logs(&process).await;
    assert_eq!(before.0, TOKENS);
    process.kill();
    let process = Process::serve(folder.path());
    // What is read once the server is ready is waited for, and what is written meanwhile is in it.
    let client = Client::new(process.address, Some(&key));
    assert_eq!(logs(&process).await, before);
    client.post("/tokens", json!({"type": "token", "data": "one more"})).await.expect(201);
    assert_eq!(logs(&process).await.0, TOKENS + 1);
    process.kill();
}
