//! The audit log as it is kept: denied attempts, how long entries stay, exports (decisions §10).

use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokamak::clock::Clock as _;

use crate::support::TestServer;
use crate::support::binary::{Process, about, assert_sound};
use crate::support::server::{START_MS, Setup, store_with_disk};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

async fn server_in(folder: &Path) -> TestServer {
    TestServer::start_with(Setup { folder: Some(folder.to_owned()), ..Setup::default() }).await
}

async fn denied(server: &TestServer) -> Vec<Value> {
    let mut entries = Vec::new();
    for number in 1.. {
        let page =
            server.management.get(&format!("/logs?size=100&page={number}")).await.expect(200);
        let some = page["data"].as_array().unwrap();
        entries.extend(some.iter().cloned());
        if some.len() < 100 {
            break;
        }
    }
    entries.retain(|entry| entry["message"].as_str().unwrap().starts_with("Denied: "));
    entries
}

fn exported(folder: &Path, words: &[&str]) -> Vec<Value> {
    let (code, out, err) = about(folder, &[&["audit"], words].concat());
    assert_eq!(code, 0, "{err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_denied_attempts_is_a_few_entries() {
    let server = TestServer::start().await;
    let blind = server.application("private", &["token:create"], json!([])).await;
    let other = server.application("private", &["token:create"], json!([])).await;
    for number in 0..115 {
        blind.get(&format!("/tokens/number-{number}")).await.expect(403);
    }
    other.get("/tokens/number-1").await.expect(403);
    // Something else is counted by itself.
    blind.delete("/tokens/number-1").await.expect(403);
    let entries = denied(&server).await;
    assert_eq!(entries.len(), 100 + 1 + 1, "{entries:?}");
    assert_eq!(entries[2]["entity_id"], "number-99");
    assert_eq!(entries[2]["entity_type"], "token");
    assert_eq!(entries[2]["operation"], "read");
    assert_eq!(entries[2]["message"], "Denied: token:read");

    server.clock.advance_ms(60_000);
    server.vault.log_counted_denials(false).await.unwrap();
    let entries = denied(&server).await;
    assert_eq!(entries.len(), 103, "{entries:?}");
    assert_eq!(entries[0]["message"], "Denied: token:read, 15 more times");
    assert_eq!((&entries[0]["entity_id"], &entries[0]["operation"]), (&json!(""), &json!("read")));
    assert_eq!(entries[0]["actor_id"], entries[3]["actor_id"]);
    // Many requests led to it, and no one of them.
    assert!(entries[0].get("trace_id").is_none() && entries[3].get("trace_id").is_some());
    blind.get("/tokens/number-1").await.expect(403);
    assert_eq!(denied(&server).await.len(), 104);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_disk_does_not_take_of_denied_attempts_is_told_of_later() {
    let folder = tempfile::tempdir().unwrap();
    let (store, free) = store_with_disk(&folder.path().join("store"));
    let setup = Setup { store: Some(store), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let blind = server.application("private", &["token:create"], json!([])).await;
    free.store(0, Ordering::SeqCst);
    for number in 0..120 {
        let answer = blind.get("/tokens/somebodys").await;
        answer.expect(if number < 100 { 503 } else { 403 });
    }
    // Nor is the entry taken that is to tell of them, minute after minute.
    for _ in 0..2 {
        server.clock.advance_ms(60_000);
        assert!(server.vault.log_counted_denials(false).await.is_err());
    }
    free.store(1 << 40, Ordering::SeqCst);
    server.clock.advance_ms(60_000);
    server.vault.log_counted_denials(false).await.unwrap();
    let entries = denied(&server).await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["message"], "Denied: token:read, 120 more times");
    assert_eq!(entries[0]["operation"], "read");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_nobodys_are_counted() {
    let server = TestServer::start().await;
    let before = server.vault.unknown_keys();
    server.stranger().get("/tokens").await.expect(401);
    server.client("key_prv_nobodys").get("/tokens").await.expect(401);
    assert_eq!(server.vault.unknown_keys(), before + 2);
    assert_eq!(denied(&server).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_is_told_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path()).await;
    for _ in 0..103 {
        server.private.get("/applications").await.expect(403);
    }
    server.stop().await;
    let entries = exported(folder.path(), &["export"]);
    let last = entries.last().unwrap();
    assert_eq!(last["message"], "Denied: application:read, 3 more times");
    assert_sound(folder.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_go_at_the_end_of_their_time_and_the_rest_still_proves_itself() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path()).await;
    let old = server.private.token("token", json!("old")).await;
    for _ in 0..1_100 {
        server.private.get(&format!("/tokens/{old}")).await.expect(200);
    }
    server.clock.advance_ms(20 * DAY_MS);
    let new = server.private.token("token", json!("new")).await;
    // As long as nobody says otherwise they stay.
    server.vault.sweep().await.unwrap();
    let total = async || {
        let page = server.management.get("/logs?size=1").await.expect(200);
        page["pagination"]["total_items"].as_u64().unwrap()
    };
    assert!(total().await > 1_100);
    server.vault.keep_log_for_days(10);
    let swept = server.vault.sweep().await.unwrap().0;
    assert!(swept > 1_100, "{swept}");
    assert!(total().await < 20);
    let logs = server.management.get("/logs?size=100").await.expect(200).to_string();
    assert!(logs.contains(&new) && !logs.contains(&old));
    assert!(logs.contains("Log entries removed after 10 days: 500"), "{logs}");
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.stop().await;
    assert_sound(folder.path());
    let entries = exported(folder.path(), &["export"]);
    let numbers: Vec<u64> =
        entries.iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert!(numbers[0] > 1_100 && numbers.is_sorted());
    // All of it goes, and the chain goes on where it was.
    let server = server_in(folder.path()).await;
    server.vault.keep_log_for_days(1);
    // The clock is seen before it goes on: one that is first seen so far past the last entry is doubted.
    server.vault.sweep().await.unwrap();
    server.clock.advance_ms(40 * DAY_MS);
    server.vault.sweep().await.unwrap();
    server.stop().await;
    assert_sound(folder.path());
    let heads = exported(folder.path(), &["heads"]);
    let last = numbers.last();
    assert!(heads[0]["sequence"].as_u64() > last.copied(), "{heads:?} {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_exported_with_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path()).await;
    let own = server.management.get("/tenants/self").await.expect(200)["id"].clone();
    let token = server.private.token("token", json!("4242424242424242")).await;
    for _ in 0..520 {
        server.private.get(&format!("/tokens/{token}")).await.expect(200);
    }
    server.clock.advance_ms(DAY_MS);
    server.private.delete(&format!("/tokens/{token}")).await.expect(204);
    server.other_tenant().await.get("/tenants/self").await.expect(200);
    let total = server.management.get("/logs?size=1").await.expect(200);
    let total = total["pagination"]["total_items"].as_u64().unwrap();
    server.stop().await;

    let all = exported(folder.path(), &["export"]);
    let (mine, others): (Vec<_>, Vec<_>) = all.iter().partition(|entry| entry["tenant_id"] == own);
    assert!(!others.is_empty());
    assert_eq!(mine.len() as u64, total);
    let numbers = mine.iter().map(|entry| entry["sequence"].as_u64().unwrap());
    assert!(numbers.eq(1..=total));
    let heads = exported(folder.path(), &["heads"]);
    assert_eq!(heads.len(), 2);
    let head = heads.iter().find(|head| head["tenant"] == own).unwrap();
    let last = mine.last().unwrap();
    assert_eq!((&head["sequence"], &head["hash"]), (&last["sequence"], &last["hash"]));
    assert_eq!((head["hash"].as_str().unwrap().len(), &head["time"]), (64, &last["created_at"]));
    let tenant = own.as_str().unwrap();
    assert_eq!(exported(folder.path(), &["export", "--tenant", tenant]).len(), mine.len());
    let day = chrono::DateTime::from_timestamp_millis(i64::try_from(START_MS + DAY_MS).unwrap());
    let day = day.unwrap().to_rfc3339();
    let narrow = |words: &[&str]| {
        exported(folder.path(), &[&["export", "--tenant", tenant], words].concat())
    };
    let (before, after) = (narrow(&["--to", &day]), narrow(&["--from", &day]));
    assert_eq!(before.len() + after.len(), mine.len());
    assert_eq!(after[0]["operation"], "delete");
    let text = serde_json::to_string(&all).unwrap();
    assert!(!text.contains("4242424242424242"));
    let (code, _, err) = about(folder.path(), &["audit", "export", "--from", "yesterday"]);
    assert!(code == 2 && err.contains("--from"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_adjoin_exactly_while_entries_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let own = process.management().get("/tenants/self").await.expect(200)["id"].clone();
    let own = own.as_str().unwrap();
    let export =
        |words: &[&str]| exported(folder.path(), &[&["export", "--tenant", own], words].concat());
    let busy = (0..8).map(|_| {
        let client = process.management();
        tokio::spawn(async move {
            for _ in 0..60 {
                client.get("/applications").await.expect(200);
            }
        })
    });
    let busy: Vec<_> = busy.collect();
    let (mut entries, mut is_over) = (Vec::new(), false);
    while !is_over {
        is_over = busy.iter().all(tokio::task::JoinHandle::is_finished);
        let last = entries.last().map_or(0, |entry: &Value| entry["sequence"].as_u64().unwrap());
        entries.extend(export(&["--after", &last.to_string()]));
    }
    for one in busy {
        one.await.unwrap();
    }
    let numbers = entries.iter().map(|entry| entry["sequence"].as_u64().unwrap());
    let last = entries.len() as u64;
    assert!(last > 480 && numbers.eq(1..=last), "{last} entries");
    assert_eq!(export(&[]), entries);
    let at_end = last.to_string();
    assert!(export(&["--after", &at_end]).is_empty());
    let refused = |words: &[&str]| about(folder.path(), &[&["audit", "export"], words].concat());
    let (beyond, before) = ((last + 1).to_string(), (last - 1).to_string());
    let (code, out, err) = refused(&["--tenant", own, "--after", &beyond]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("ends before the entry to go on behind"), "{err}");
    let (code, _, err) = refused(&["--after", "1"]);
    assert!(code == 2 && err.contains("--tenant"), "{err}");
    let hash = entries[6]["hash"].as_str().unwrap();
    assert_eq!(export(&["--after", &format!("7:{hash}")]), entries[7..]);
    for (after, code, told) in [
        (format!("8:{hash}"), 1, "has another hash"),
        ("7:a7".to_owned(), 2, "64 hexadecimal digits"),
        ("x".to_owned(), 2, "must be a number"),
    ] {
        let (ended, out, err) = refused(&["--tenant", own, "--after", &after]);
        assert!((ended, out.as_str()) == (code, "") && err.contains(told), "{after}: {err}");
    }
    let times = ["--from", "2030-01-02T00:00:00Z", "--to", "2030-01-01T00:00:00Z"];
    let (code, _, err) = refused(&times);
    assert!(code == 1 && err.contains("is not before the other"), "{err}");
    assert_eq!(process.terminate(), Some(0));
    // Without a server the same is there, and what the server added when it ended at most.
    assert_eq!(export(&["--after", &before])[0], entries[entries.len() - 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_goes_on_where_entries_are_gone_gives_the_rest_and_tells_which() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_in(folder.path()).await;
    let own = server.management.get("/tenants/self").await.expect(200)["id"].clone();
    let own = own.as_str().unwrap();
    for _ in 0..20 {
        server.management.get("/applications").await.expect(200);
    }
    server.clock.advance_ms(20 * DAY_MS);
    server.management.get("/applications").await.expect(200);
    server.vault.keep_log_for_days(10);
    assert!(server.vault.sweep().await.unwrap().0 > 20);
    server.stop().await;

    let export = |words: &[&str]| {
        about(folder.path(), &[&["audit", "export", "--tenant", own], words].concat())
    };
    let (code, left, err) = export(&[]);
    assert_eq!(code, 0, "{err}");
    let first: Value = serde_json::from_str(left.lines().next().unwrap()).unwrap();
    let before = first["sequence"].as_u64().unwrap() - 1;
    assert!(before > 20, "{before}");
    let gone = "were removed before they could be exported";
    let told = || {
        let (code, out, err) = export(&["--after", "3"]);
        assert_eq!((code, &out), (4, &left), "{err}");
        assert!(err.contains(&format!("entries 4 to {before} of the log {gone}")), "{err}");
        // The export that ended with the last of those that are gone misses nothing.
        let (code, out, err) = export(&["--after", &before.to_string()]);
        assert_eq!((code, &out), (0, &left), "{err}");
        assert!(!err.contains(gone), "{err}");
    };
    told();
    let process = Process::serve(folder.path());
    told();
    assert_eq!(process.terminate(), Some(0));
}

/// What one bad step of a time server must not do.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_far_forward_removes_nothing_before_it_was_steady_for_a_day() {
    let server = TestServer::start().await;
    server.vault.keep_log_for_days(10);
    let end_ms = i64::try_from(server.clock.now_ms() + 30 * DAY_MS).unwrap();
    let end = chrono::DateTime::from_timestamp_millis(end_ms).unwrap().to_rfc3339();
    let body = json!({"id": "one", "type": "token", "data": "kept", "expires_at": end});
    server.private.post("/tokens", body).await.expect(201);
    server.vault.sweep().await.unwrap();
    let step_ms = i64::try_from(400 * DAY_MS).unwrap();
    let logs = async || server.management.get("/logs?size=100").await.expect(200).to_string();

    server.clock.set_by_ms(step_ms);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    // It is refused all the same, but neither removed nor made again.
    server.private.get("/tokens/one").await.expect(404);
    let again = json!({"id": "one", "type": "token", "data": "again"});
    server.private.post("/tokens", again).await.expect(409);
    server.clock.advance_ms(DAY_MS / 2);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    // Set right, everything is there.
    server.clock.set_by_ms(-step_ms);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.private.get("/tokens/one").await.expect(200);
    assert!(logs().await.contains("Token created"));

    // One that was really to be set goes on after a day.
    server.clock.set_by_ms(step_ms);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.clock.advance_ms(DAY_MS - 1);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.clock.advance_ms(1);
    assert!(server.vault.sweep().await.unwrap().0 > 1);
    assert!(!logs().await.contains("Token created"));
    server.private.get("/tokens/one").await.expect(404);
}
