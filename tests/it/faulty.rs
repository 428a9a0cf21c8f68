//! A disk that fails or is slow, and a clock that jumps, below the real binary.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Client;
use crate::support::binary::{Process, about, assert_sound};
use crate::support::faults::Faults;

const DAY_S: i64 = 24 * 60 * 60;
/// What a disk says that is broken.
const EIO: i64 = 5;

async fn private(process: &Process) -> Client {
    let rule = json!([{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read", "token:search", "token:delete"]}]);
    let body = json!({"name": "p", "type": "private", "permissions": [], "rules": rule});
    let made = process.management().post("/applications", body).await.expect(201);
    process.management().with_key(made["key"].as_str().unwrap())
}

fn token(id: &str) -> serde_json::Value {
    json!({"type": "token", "id": id, "data": id})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_is_told_and_started_again_nothing_acknowledged_is_lost() {
    const EROFS: i64 = 30;
    for errno in [EIO, EROFS] {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::none(folder.path());
        let process = Faults::serve(folder.path());
        let (client, stranger) = (private(&process).await, Client::new(process.address, None));
        client.post("/tokens", token("before")).await.expect(201);
        stranger.get("/readyz").await.expect(200);
        faults.fail_writes(errno);
        client.post("/tokens", token("during")).await.expect(503);
        for probe in ["/readyz", "/healthz"] {
            let told = stranger.get(probe).await.expect(503);
            let detail = told["detail"].as_str().unwrap();
            assert!(detail.contains("until the server is started again"), "{probe}: {detail}");
        }
        // What a failed write left is not known: neither is anything added to it once the disk is well again, nor is
        // anything shown without its entry in the log.
        faults.fail_writes(0);
        client.post("/tokens", token("after")).await.expect(503);
        client.get("/tokens/before").await.expect(503);
        stranger.get("/openapi.json").await.expect(200);
        assert!(process.terminate().is_some());
        // The next start is told, and reads the files anew from the disk.
        let note = folder.path().join("data/store/failed");
        assert!(note.exists());

        let process = Process::serve(&folder.path().join("data"));
        let client = Client::new(process.address, client.key.as_deref());
        client.get("/tokens/before").await.expect(200);
        assert!(!note.exists());
        client.get("/tokens/after").await.expect(404);
        client.post("/tokens", token("after")).await.expect(201);
        Client::new(process.address, None).get("/healthz").await.expect(200);
        assert_eq!(process.terminate(), Some(0));
        assert_sound(&folder.path().join("data"));
    }
}

/// What was acknowledged lies on the disk, and what the failure was told of does not count: the process ends without any
/// more of a chance to write.
async fn is_there_after_a_kill(folder: &Path, process: Process, client: &Client, made: &[String]) {
    assert!(folder.join("data/store/failed").exists());
    process.kill();
    let process = Process::serve(&folder.join("data"));
    let client = Client::new(process.address, client.key.as_deref());
    for id in made {
        assert_eq!(client.get(&format!("/tokens/{id}")).await.expect(200)["data"], *id);
    }
    client.post("/tokens", token("after")).await.expect(201);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&folder.join("data"));
}

/// A request that cannot be answered because the store takes no more, and one that asks nothing of it.
async fn is_told(client: &Client, process: &Process) {
    let stranger = Client::new(process.address, None);
    for probe in ["/readyz", "/healthz"] {
        let told = stranger.get(probe).await.expect(503);
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.contains("until the server is started again"), "{probe}: {detail}");
    }
    client.post("/tokens", token("later")).await.expect(503);
    stranger.get("/openapi.json").await.expect(200);
}

/// A disk that takes what is written and does not bring it to where it stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_fails_by_itself_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::none(folder.path());
    let process = Faults::serve(folder.path());
    let client = private(&process).await;
    client.post("/tokens", token("before")).await.expect(201);
    faults.fail_syncs(EIO);
    client.post("/tokens", token("during")).await.expect(503);
    // The system tells of it once: that the next one succeeds says nothing of what this one was to bring to the disk.
    faults.fail_syncs(0);
    is_told(&client, &process).await;
    is_there_after_a_kill(folder.path(), process, &client, &["before".to_owned()]).await;
}

/// The tree is synced beside what is acknowledged, which the journal holds: it fails some requests later.
#[tokio::test(flavor = "multi_thread")]
async fn a_sync_of_the_tree_that_fails_takes_nothing_with_it_that_was_acknowledged() {
    const TRIED_MAX: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::none(folder.path());
    let process = Faults::serve(folder.path());
    let client = private(&process).await;
    faults.fail_tree_syncs(EIO);
    let mut made = Vec::new();
    let failed = loop {
        let id = format!("one-{}", made.len());
        let status = client.post("/tokens", token(&id)).await.status.as_u16();
        if status != 201 {
            break status;
        }
        made.push(id);
        assert!(made.len() < TRIED_MAX, "the tree is never synced");
    };
    assert_eq!(failed, 503);
    // Otherwise this would be a test of the one above.
    assert!(!made.is_empty());
    faults.fail_tree_syncs(0);
    is_told(&client, &process).await;
    is_there_after_a_kill(folder.path(), process, &client, &made).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_makes_writes_wait_together_and_loses_none() {
    const CLIENTS: u32 = 40;
    const EACH: u32 = 5;
    const SYNC_MS: i64 = 500;
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::none(folder.path());
    let process = Faults::serve(folder.path());
    let client = private(&process).await;
    faults.slow_syncs(SYNC_MS);
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client::new(process.address, client.key.as_deref());
            tokio::spawn(async move {
                for which in 0..EACH {
                    let id = format!("{number}-{which}");
                    client.post("/tokens", token(&id)).await.expect(201);
                }
            })
        })
        .collect();
    // Whoever does not write does not wait for the disk.
    Client::new(process.address, None).get("/readyz").await.expect(200);
    for client in clients {
        client.await.unwrap();
    }
    let one_by_one = Duration::from_millis(SYNC_MS.unsigned_abs()) * (CLIENTS * EACH);
    assert!(began.elapsed() < one_by_one, "each write was synced by itself");
    process.kill();
    let process = Process::serve(&folder.path().join("data"));
    let client = Client::new(process.address, client.key.as_deref());
    let listed = client.get("/tokens?size=1").await.expect(200);
    assert_eq!(listed["pagination"]["total_items"], CLIENTS * EACH);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&folder.path().join("data"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_loses_nothing_and_breaks_no_order_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::none(folder.path());
    let process = Faults::serve(folder.path());
    let client = private(&process).await;
    let mut made = BTreeSet::new();
    for (number, days) in [0, 2, -30, 0, 400, -1, 0].into_iter().enumerate() {
        faults.set_clock_ahead(days * DAY_S);
        for which in 0..5 {
            let id = format!("{number}-{which}");
            client.post("/tokens", token(&id)).await.expect(201);
            client.get(&format!("/tokens/{id}")).await.expect(200);
            made.insert(id);
        }
        // Whatever was made before is found, whichever time it is now.
        for id in &made {
            client.get(&format!("/tokens/{id}")).await.expect(200);
        }
        let listed: BTreeSet<_> = client.list("size=100").await.into_iter().collect();
        assert_eq!(listed, made);
        // A run of its own time: what expires tomorrow of that time is there.
        let id = format!("{number}-expires");
        let mut body = token(&id);
        let tomorrow = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs()
            .checked_add_signed((days + 1) * DAY_S)
            .unwrap();
        body["expires_at"] = rfc3339(tomorrow).into();
        client.post("/tokens", body).await.expect(201);
        client.get(&format!("/tokens/{id}")).await.expect(200);
        faults.set_clock_ahead((days + 2) * DAY_S);
        client.get(&format!("/tokens/{id}")).await.expect(404);
        faults.set_clock_ahead(days * DAY_S);
        client.delete(&format!("/tokens/{id}")).await;
    }
    assert_eq!(process.terminate(), Some(0));
    // The numbers of the log go on whatever the clock says, and each is there once.
    let looked_at = assert_sound(&folder.path().join("data"));
    let (code, out, err) = about(&folder.path().join("data"), &["audit", "export"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(looked_at["log_entries"], out.lines().count());
    let process = Process::serve(&folder.path().join("data"));
    let client = Client::new(process.address, client.key.as_deref());
    let listed: BTreeSet<_> = client.list("size=100").await.into_iter().collect();
    assert_eq!(listed, made);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_for_which_there_is_no_space_hinders_no_later_one() {
    const ENOSPC: i64 = 28;
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::none(folder.path());
    let process = Faults::serve(folder.path());
    let client = private(&process).await;
    client.post("/tokens", token("before")).await.expect(201);
    assert_eq!(process.terminate(), Some(0));
    faults.fail_snapshots(ENOSPC);
    for _ in 0..2 {
        assert!(Faults::try_serve(folder.path()).is_none());
        // What sled was writing when it failed.
        let files = std::fs::read_dir(folder.path().join("data/store")).unwrap();
        let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert!(names.any(|name| name.ends_with(".generating")));
    }
    faults.fail_snapshots(0);
    let process = Faults::serve(folder.path());
    let client = Client::new(process.address, client.key.as_deref());
    client.get("/tokens/before").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&folder.path().join("data"));
}

/// Seconds since the Unix epoch as a time of RFC 3339.
fn rfc3339(seconds: u64) -> String {
    tokamak::model::time::Timestamp(seconds * 1_000).to_string()
}
