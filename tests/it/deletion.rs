//! What was deleted, replaced or has ended is in no file once the store was compacted (decisions §3: delete erases the
//! sealed data from disk and from every index).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokamak::model::id::TenantId;
use tokamak::store::Record;

use crate::support::binary::Process;
use crate::support::operator::{TOKEN, done, occurrences, operate, record, records};
use crate::support::server::{Setup, open_store};
use crate::support::{Client, TestServer};

/// Bytes of a record that nothing else has: parts of its sealed body, and the terms and unique values of it alone.
fn traces(one: &Record, others: &[Record]) -> Vec<Vec<u8>> {
    let terms: HashSet<_> = others.iter().flat_map(|other| &other.terms).collect();
    let uniques: HashSet<_> = others.iter().flat_map(|other| &other.uniques).collect();
    let body =
        [40, one.body.len() / 2, one.body.len() - 32].map(|at| one.body[at..at + 32].to_vec());
    let terms = one.terms.iter().filter(|term| !terms.contains(term)).map(|term| term.0.to_vec());
    // Keys that lie beside each other in the store share their beginnings.
    let uniques = one.uniques.iter().filter(|unique| !uniques.contains(unique));
    body.into_iter().chain(terms).chain(uniques.map(|unique| unique.0[16..].to_vec())).collect()
}

fn counts(folder: &Path, traces: &[Vec<u8>]) -> Vec<usize> {
    traces.iter().map(|trace| occurrences(folder, trace)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_and_expired_tokens_leave_no_byte_behind() {
    let folder = tempfile::tempdir().unwrap();
    let setup = || Setup { folder: Some(folder.path().to_owned()), ..Setup::default() };
    let server = TestServer::start_with(setup()).await;
    let make = async |id: &str, number: &str, more: Value| {
        let mut body = json!({"id": id, "type": "card", "data": {"number": number},
            "search_indexes": ["{{ data.number }}", "{{ data.number | last4 }}"],
            "metadata": {"customer": id}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.private.post("/tokens", body).await.expect(201);
    };
    make("deleted", "4242424242424242", json!({})).await;
    make("expired", "5555555555554444", json!({"expires_at": "2026-01-02T00:00:00Z"})).await;
    make("changed", "4000056655665556", json!({})).await;
    make("kept", "378282246310005", json!({})).await;
    let long = json!({"id": "deleted, long", "type": "token", "data": "x".repeat(50_000)});
    server.private.post("/tokens", long).await.expect(201);
    let own = server.management.get("/applications/key").await.expect(200);
    let tenant: TenantId = own["tenant_id"].as_str().unwrap().parse().unwrap();
    let (management, private) = (server.management.key.clone(), server.private.key.clone());
    server.stop().await;

    // What the store has of them.
    let store = open_store(&folder.path().join("store")).await;
    let all = records(&store, tenant).await;
    let mut gone = Vec::new();
    for id in ["deleted", "expired", "changed", "deleted, long"] {
        let one = record(&store, TOKEN, tenant, id).await.unwrap();
        let others: Vec<_> = all.iter().filter(|other| other.id != id).cloned().collect();
        gone.push((id, traces(&one, &others)));
    }
    let others: Vec<_> = all.iter().filter(|other| other.id != "kept").cloned().collect();
    let kept = record(&store, TOKEN, tenant, "kept").await.unwrap();
    let kept = [kept.body[40..72].to_vec(), traces(&kept, &others).last().unwrap().clone()];
    drop(store);
    for (id, traces) in &gone {
        assert!(counts(folder.path(), traces).iter().all(|count| *count > 0), "{id} was there");
        // Body, and (of cards) fingerprint, both indexes, metadata.
        assert!(traces.len() >= if id.contains("long") { 4 } else { 7 }, "{id}: {}", traces.len());
    }

    let server = TestServer::start_with(setup()).await;
    let private = server.client(&private.unwrap());
    for id in ["deleted", "deleted, long"] {
        private.delete(&format!("/tokens/{}", id.replace(' ', "%20"))).await.expect(204);
    }
    let other = json!({"data": {"number": "4111111111111111"}, "metadata": {"customer": "other"}});
    private.patch("/tokens/changed", other).await.expect(200);
    server.clock.advance_ms(2 * 86_400_000);
    server.vault.sweep().await.unwrap();
    server.vault.compact().await.unwrap();
    for (id, traces) in &gone {
        assert_eq!(counts(folder.path(), traces), vec![0; traces.len()], "{id}");
    }
    assert!(counts(folder.path(), &kept).iter().all(|count| *count > 0));
    private.get("/tokens/kept").await.expect(200);
    // The log keeps the reference.
    let management = server.client(&management.unwrap());
    let log = management.get("/logs?entity_id=deleted").await.expect(200);
    assert!(log["pagination"]["total_items"].as_u64().unwrap() >= 2, "{log}");
    server.stop().await;
    for (id, traces) in &gone {
        assert_eq!(counts(folder.path(), traces), vec![0; traces.len()], "{id}, after the stop");
    }
}

async fn private(process: &Process) -> Client {
    let body = json!({"name": "load", "type": "private",
        "permissions": ["token:create", "token:read", "token:delete"]});
    let made = process.management().post("/applications", body).await.expect(201);
    Client::new(process.address, made["key"].as_str())
}

/// Makes tokens and deletes every second; gives those that must be there and those that must not.
async fn churn(client: Client, stop: Arc<AtomicBool>) -> (Vec<String>, Vec<String>) {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Acquire) {
        let body = json!({"type": "token", "data": "x".repeat(900)});
        let request = client.request(reqwest::Method::POST, "/tokens").json(&body);
        let Ok(response) = request.send().await else { break };
        let Ok(made) = response.json::<Value>().await else { break };
        let id = made["id"].as_str().unwrap().to_owned();
        if there.len() > gone.len() {
            let request = client.request(reqwest::Method::DELETE, &format!("/tokens/{id}"));
            let Ok(response) = request.send().await else { break };
            assert_eq!(response.status(), 204);
            gone.push(id);
        } else {
            there.push(id);
        }
    }
    (there, gone)
}

#[tokio::test(flavor = "multi_thread")]
async fn compacting_under_load_loses_nothing_to_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::serve(folder.path());
    let key = private(&process).await.key.unwrap();
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for round in 0..6_u64 {
        let stop = Arc::new(AtomicBool::new(false));
        let client = || Client::new(process.address, Some(&key));
        let writers: Vec<_> =
            (0..4).map(|_| tokio::spawn(churn(client(), Arc::clone(&stop)))).collect();
        let data = folder.path().to_owned();
        let ended = Arc::clone(&stop);
        // Again and again, so that the kill meets some moment of it.
        let compacting = tokio::task::spawn_blocking(move || {
            let mut compacted = 0;
            while !ended.load(Ordering::Acquire) {
                compacted += u32::from(operate(&data, None, &["compact"]).0 == 0);
            }
            compacted
        });
        tokio::time::sleep(Duration::from_millis(500 + round * 90)).await;
        process.kill();
        stop.store(true, Ordering::Release);
        for writer in writers {
            let (made, deleted) = writer.await.unwrap();
            there.extend(made);
            gone.extend(deleted);
        }
        compacting.await.unwrap();
        process = Process::serve(folder.path());
    }
    let client = Client::new(process.address, Some(&key));
    for id in &there {
        client.get(&format!("/tokens/{id}")).await.expect(200);
    }
    for id in &gone {
        client.get(&format!("/tokens/{id}")).await.expect(404);
    }
    assert!(there.len() > 20 && gone.len() > 20, "{} {}", there.len(), gone.len());
    done(folder.path(), None, &["compact", "--json"]);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_compacts_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = crate::support::binary::command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--compact-seconds", "1", "--data-dir"]);
    serve.arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", crate::support::binary::ROOT_KEY);
    serve.env("TOKAMAK_BOOTSTRAP_KEY", crate::support::binary::MANAGEMENT_KEY);
    let process = Process::start(serve);
    // Its number tells how often; it may be more than once by the time somebody looks.
    let generation = || {
        let mut found = std::fs::read_dir(folder.path().join("store")).unwrap().flatten();
        found.find(|entry| entry.path().join("whole").exists())
    };
    crate::support::binary::eventually("compacted store", generation).await;
    private(&process).await.token("token", json!(1)).await;
    assert_eq!(process.terminate(), Some(0));
}
