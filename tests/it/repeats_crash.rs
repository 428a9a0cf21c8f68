//! What a caller may rely on whose request was cut off by `kill -9` of the real binary: sent again under its idempotency
//! key, it is carried out once (decisions §1).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::json;

use crate::support::Client;
use crate::support::binary::{MANAGEMENT_KEY, Process, assert_sound};

/// Kills of one run.
const ROUNDS: usize = 6;
/// Callers at the same time.
const CALLERS: usize = 8;
/// Answers of a round before the kill: the writers are in the middle of others then.
const ANSWERS: usize = 25;

/// Sends the request of this number; gives whether it was answered.
async fn send(client: &Client, number: usize) -> bool {
    let body = json!({"type": "token", "data": number, "metadata": {"number": number.to_string()}});
    let request = client.request(Method::POST, "/tokens").json(&body);
    let request = request.header("SVC-IDEMPOTENCY-KEY", format!("request-{number}"));
    match request.send().await {
        Ok(response) => response.status() == 201 && response.bytes().await.is_ok(),
        Err(_) => false,
    }
}

/// Sends requests until the server is gone; gives the numbers of all that were sent, answered or not.
async fn send_all(
    client: Client,
    next: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
) -> Vec<usize> {
    let mut sent = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        sent.push(number);
        if !send(&client, number).await {
            return sent;
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

async fn round(folder: &Path, key: &str, next: &Arc<AtomicUsize>) -> Vec<usize> {
    let process = Process::serve(folder);
    let answered = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let client = Client::new(process.address, Some(key));
            tokio::spawn(send_all(client, Arc::clone(next), Arc::clone(&answered)))
        })
        .collect();
    while answered.load(Ordering::Relaxed) < ANSWERS {
        assert!(!callers.iter().all(tokio::task::JoinHandle::is_finished), "nobody is answered");
        tokio::task::yield_now().await;
    }
    process.kill();
    let mut sent = Vec::new();
    for caller in callers {
        sent.extend(caller.await.unwrap());
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_repeated_after_kill_9_is_carried_out_once() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let body =
        json!({"name": "load", "type": "private", "permissions": ["token:create", "token:read"]});
    let made = process.management().post("/applications", body).await.expect(201);
    let key = made["key"].as_str().unwrap().to_owned();
    process.kill();
    let next = Arc::new(AtomicUsize::new(0));
    let mut sent = Vec::new();
    for _ in 0..ROUNDS {
        sent.extend(round(folder.path(), &key, &next).await);
    }
    assert_sound(folder.path());
    let process = Process::serve(folder.path());
    let client = Client::new(process.address, Some(&key));
    for number in &sent {
        assert!(send(&client, *number).await, "request {number}");
    }
    for number in &sent {
        let found = client.list(&format!("metadata.number={number}")).await;
        assert_eq!(found.len(), 1, "request {number} was carried out more than once");
    }
    // And told as made once: of each token there is one entry that it was.
    let total = client.get("/tokens?size=1").await.expect(200)["pagination"]["total_items"].clone();
    assert_eq!(total, sent.len());
    let management = Client::new(process.address, Some(MANAGEMENT_KEY));
    let logs = management.get("/logs?entity_type=token&size=1").await.expect(200);
    assert!(logs["pagination"]["total_items"].as_u64().unwrap() >= sent.len() as u64);
    assert_eq!(process.terminate(), Some(0));
}
