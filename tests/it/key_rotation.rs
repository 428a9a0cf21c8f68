//! Tenants' keys change under load and `kill -9`: nothing acknowledged is lost, and the old key is gone (decisions §9).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokamak::crypto::keys::RootKey;
use tokamak::crypto::seal::{self, Place};
use tokamak::model::id::TenantId;
use tokamak::runtime::{Runtime, RuntimeConfig};

use crate::support::binary::{Process, ROOT_KEY};
use crate::support::operator::{
    NOBODY, TENANT_KEYS, copy, done, occurrences, record, records, tenant_keys,
};
use crate::support::receiver::Receiver;
use crate::support::server::{Setup, open_store};
use crate::support::{Client, TestServer, guests};

const CLIENTS: usize = 6;
const KILLS: u64 = 5;

/// What a client wrote last to each of its tokens, as far as that was acknowledged; `None` where the last answer is
/// missing.
type Written = BTreeMap<String, Option<u64>>;

async fn answered(client: &Client, method: Method, path: &str, body: Value) -> Option<Value> {
    let request = client.request(method, path);
    let request = request.header("content-type", "application/merge-patch+json");
    let response = request.body(body.to_string()).send().await.ok()?;
    let status = response.status().as_u16();
    let answer = response.json::<Value>().await.ok()?;
    assert!([200, 201].contains(&status), "{status} {answer}");
    Some(answer)
}

/// Makes tokens, changes and reads them until the server is gone or it is told to stop.
async fn write(client: Client, mut written: Written, stop: Arc<AtomicBool>) -> Written {
    for step in 0_u64.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let known = written.iter().nth(usize::try_from(step * 7).unwrap() % written.len().max(1));
        let known = known.map(|(id, _)| id.clone());
        match known.filter(|_| step % 3 != 0) {
            None => {
                let request = client.request(Method::POST, "/tokens");
                let body = json!({"type": "token", "data": {"n": step}});
                let Ok(response) = request.json(&body).send().await else { break };
                assert_eq!(response.status(), 201);
                let Ok(made) = response.json::<Value>().await else { break };
                written.insert(made["id"].as_str().unwrap().to_owned(), Some(step));
            }
            Some(id) => {
                let path = format!("/tokens/{id}");
                let body = json!({"data": {"n": step}});
                written.insert(id.clone(), None);
                let Some(_) = answered(&client, Method::PATCH, &path, body).await else { break };
                written.insert(id, Some(step));
            }
        }
    }
    written
}

async fn check(client: &Client, written: &Written) {
    for (id, n) in written {
        let read = client.get(&format!("/tokens/{id}")).await.expect(200);
        if let Some(n) = n {
            assert_eq!(read["data"]["n"], *n, "{id}");
        }
    }
}

async fn key(process: &Process) -> String {
    let rule = json!([{"description": "all", "priority": 1, "container": "/",
        "transform": "reveal", "permissions": ["token:create", "token:read", "token:update"]}]);
    let body = json!({"name": "load", "type": "private", "permissions": [], "rules": rule});
    let made = process.management().post("/applications", body).await.expect(201);
    made["key"].as_str().unwrap().to_owned()
}

fn status(folder: &Path) -> Value {
    serde_json::from_str(&done(folder, None, &["keys", "status", "--json"])).unwrap()
}

/// Waits until nothing needs an older key, and the files hold none.
async fn settled(folder: &Path) -> Value {
    for _ in 0..1_200 {
        let now = status(folder);
        let all = now["tenants"].as_array().unwrap().iter().chain([&now["system"]]);
        let left = now["old_keys_in_files"].as_bool().unwrap();
        if !left && all.into_iter().all(|one| one["older_versions"] == json!([])) {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("older keys are needed still: {}", status(folder));
}

struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<tokio::task::JoinHandle<Written>>,
}

impl Load {
    fn start(process: &Process, key: &str, written: &mut Vec<Written>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let begin = |written| {
            let client = Client::new(process.address, Some(key));
            tokio::spawn(write(client, written, Arc::clone(&stop)))
        };
        let writers = written.drain(..).map(begin).collect();
        Self { stop, writers }
    }

    async fn end(self) -> Vec<Written> {
        self.stop.store(true, Ordering::Release);
        let mut written = Vec::new();
        for writer in self.writers {
            written.push(writer.await.unwrap());
        }
        written
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_keys_change_under_load_and_kills() {
    let folder = tempfile::tempdir().unwrap();
    let (data, before) = (folder.path().join("data"), folder.path().join("before"));
    let process = Process::serve(&data);
    let key = key(&process).await;
    let mut written = vec![Written::new(); CLIENTS];
    let load = Load::start(&process, &key, &mut written);
    tokio::time::sleep(Duration::from_millis(400)).await;
    written = load.end().await;
    assert_eq!(process.terminate(), Some(0));
    copy(&data, &before);

    let process = Process::serve(&data);
    let load = Load::start(&process, &key, &mut written);
    done(&data, None, &["keys", "rotate", "--all-tenants"]);
    process.kill();
    written = load.end().await;
    // Each goes on where the last ended.
    for kill in 1..=KILLS {
        let process = Process::serve(&data);
        let load = Load::start(&process, &key, &mut written);
        tokio::time::sleep(Duration::from_millis(30 + kill * 40)).await;
        process.kill();
        written = load.end().await;
    }

    let process = Process::serve(&data);
    let load = Load::start(&process, &key, &mut written);
    let settled = settled(&data).await;
    written = load.end().await;
    let client = Client::new(process.address, Some(&key));
    for written in &written {
        check(&client, written).await;
    }
    assert!(settled["tenants"].as_array().unwrap().iter().all(|one| one["version"] == 2));
    assert_eq!(process.terminate(), Some(0));
    old_key_is_gone(&before, &data, written.iter().map(Written::len).sum()).await;
}

/// What was copied before, with its key, opens nothing of what is there now; and that key is in no file.
async fn old_key_is_gone(before: &Path, data: &Path, tokens: usize) {
    let root = RootKey::parse(ROOT_KEY).unwrap();
    let old = open_store(&before.join("store")).await;
    let now = open_store(&data.join("store")).await;
    let listed = records(&now, NOBODY).await;
    let tenants = listed.iter().filter(|one| one.kind.0 == 1);
    let tenants: Vec<TenantId> =
        tenants.map(|one| one.id.parse().unwrap()).chain([NOBODY]).collect();
    let mut sealed = 0;
    for tenant in tenants {
        let old_keys = tenant_keys(&old, tenant, &root).await.unwrap();
        let now_keys = tenant_keys(&now, tenant, &root).await.unwrap();
        assert!(now_keys.older.is_empty() && now_keys.opening_key(1).is_none());
        let wrapped = record(&old, TENANT_KEYS, tenant, "keys").await.unwrap().body;
        assert!(occurrences(before, &wrapped) > 0);
        assert_eq!(occurrences(data, &wrapped), 0);
        for record in records(&now, tenant).await {
            if seal::version_of(&record.body) == Some(2) {
                let place =
                    Place { kind: record.kind.0, tenant: tenant.0.as_bytes(), id: &record.id };
                // Whatever version is asked for: the old key is all there is.
                let old_key = old_keys.opening_key(1);
                assert!(seal::open_enveloped(|_| old_key, place, &record.body).is_err());
                let opened = seal::open_enveloped(|v| now_keys.opening_key(v), place, &record.body);
                assert!(opened.is_ok());
                sealed += 1;
            } else {
                assert!([0, 2].contains(&record.kind.0), "{:?}", record.kind);
            }
        }
    }
    assert!(sealed >= tokens && tokens > 20, "{sealed} records, {tokens} tokens");
}

/// A run that had begun is sealed anew under its worker's hands, and ends as if nothing had been.
#[tokio::test(flavor = "multi_thread")]
async fn runs_that_have_begun_are_not_disturbed() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let args = json!({"behaviour": "sleep", "ms": 4_000});
    let body = json!({"args": args, "callback_url": receiver.url()});
    let mut places = Vec::new();
    for _ in 0..6 {
        let queued = server.private.post(&format!("/reactors/{reactor}/react"), body.clone()).await;
        queued.expect(202);
        places.push(queued.headers["location"].to_str().unwrap().to_owned());
    }
    let wait = async |place: &str, wanted: &[&str]| {
        for _ in 0..1_200 {
            let result = server.private.get(place).await.expect(200);
            if wanted.iter().any(|wanted| result["status"] == *wanted) {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{place} is not {wanted:?}");
    };
    wait(&places[0], &["running", "completed", "failed"]).await;
    for version in 2..4 {
        let (drawn, skipped) = server.vault.rotate_all_tenant_keys().await.unwrap();
        assert_eq!((drawn, skipped.len()), (2, 0), "to {version}");
        server.vault.reseal().await.unwrap();
    }
    for place in &places {
        let result = wait(place, &["completed", "failed"]).await;
        assert_eq!(result["status"], "completed", "{result}");
    }
    // Each is told once.
    let hooks = receiver.wait(places.len()).await;
    let mut ids: Vec<_> = hooks.iter().map(|hook| hook.header("webhook-id").to_owned()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), places.len());
    // A record that was sealed anew can be removed and made again under its id, and changed then.
    let token = json!({"id": "again", "type": "token", "data": 1});
    server.private.post("/tokens", token.clone()).await.expect(201);
    server.vault.rotate_all_tenant_keys().await.unwrap();
    server.vault.reseal().await.unwrap();
    server.private.delete("/tokens/again").await.expect(204);
    server.private.post("/tokens", token).await.expect(201);
    server.private.patch("/tokens/again", json!({"data": 2})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_job_was_sealed_anew_before_it_began_ends_as_any_other() {
    let runtime = Runtime::new(RuntimeConfig::new(1)).unwrap();
    let setup = Setup { runtime: Some(runtime), react_timeout_ms: 60_000, ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let receiver = Receiver::start().await;
    // It has the only slot while the job is taken from the queue and sealed anew.
    let held = tokio::spawn({
        let (client, path) = (server.private.clone(), path.clone());
        let body = json!({"args": {"behaviour": "sleep", "ms": 4_000}});
        async move { client.post(&path, body).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let queued = server.private.post(&path, json!({"callback_url": receiver.url()})).await;
    queued.expect(202);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.vault.rotate_all_tenant_keys().await.unwrap();
    server.vault.reseal().await.unwrap();
    held.await.unwrap().expect(200);
    assert_eq!(receiver.wait(1).await[0].json()["type"], "reactor.completed");
    let place = queued.headers["location"].to_str().unwrap();
    assert_eq!(server.private.get(place).await.expect(200)["status"], "completed");
}

/// The entry of a rotation is sealed with the key that it tells of, and may be read before anything else knows of that.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_read_while_keys_rotate() {
    let server = TestServer::start().await;
    let tenant = server.management.get("/tenants/self").await.expect(200);
    let tenant: TenantId = tenant["id"].as_str().unwrap().parse().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (client, stop) = (server.management.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut read = 0;
                while !stop.load(Ordering::Acquire) {
                    client.get("/logs?size=1&entity_type=tenant").await.expect(200);
                    read += 1;
                }
                read
            })
        })
        .collect();
    for _ in 0..40 {
        server.vault.rotate_tenant_key(tenant).await.unwrap();
        server.vault.reseal().await.unwrap();
    }
    stop.store(true, Ordering::Release);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    let entries = server.management.get("/logs?size=100&entity_type=tenant").await.text();
    assert_eq!(entries.matches("Key rotated").count(), 40);
}
