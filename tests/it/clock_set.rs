//! A clock that was set forward: what it must not give up for good (decisions §7, §8). What it must not remove is in
//! `audit.rs`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::clock::{Clock as _, ManualClock};
use tokamak::runtime::CompileBounds;
use tokamak::vault::Vault;

use crate::support::receiver::{Action, Receiver};
use crate::support::server::{Setup, foundation, runtime};
use crate::support::{Client, TestServer, guests};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Asks for a run; gives where its result is.
async fn queue(client: &Client, reactor: &str, url: &str) -> String {
    let body = json!({"args": {"a": 1}, "callback_url": url});
    let queued = client.post(&format!("/reactors/{reactor}/react"), body).await;
    queued.expect(202);
    queued.headers["location"].to_str().unwrap().to_owned()
}

/// Asks for a result until it is as wanted, while the clock stands still.
async fn result(client: &Client, place: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let result = client.get(place).await.expect(200);
        if wanted(&result) {
            return result;
        }
        assert!(began.elapsed() < Duration::from_mins(2), "{result}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets half an hour pass at most, until something is so.
async fn within_half_an_hour(server: &TestServer, what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..1_800 {
        if is_so().await {
            return;
        }
        server.clock.advance_ms(1_000);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within half an hour: {what}");
}

/// A receiver that fails until it is told otherwise.
async fn failing() -> (Receiver, Arc<AtomicBool>) {
    let takes = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&takes);
    let answer = move |_| Action::Answer(if told.load(Ordering::SeqCst) { 200 } else { 500 });
    (Receiver::with(answer).await, takes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_not_given_up_by_a_clock_that_was_set_forward_for_a_moment() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    for jump_ms in [2 * HOUR_MS, 2 * DAY_MS, 8 * DAY_MS] {
        let (receiver, takes) = failing().await;
        let place = queue(&server.private, &reactor, &receiver.url()).await;
        result(&server.private, &place, |result| result["delivery"]["attempts"] == 1).await;
        server.clock.set_by_ms(jump_ms);
        // By that clock it is due. One more try is only made once that one is noted.
        let tried = async || receiver.seen().len() >= 3;
        within_half_an_hour(&server, "tries by a clock that is ahead", tried).await;
        takes.store(true, Ordering::SeqCst);
        server.clock.set_by_ms(-jump_ms);
        let delivered = async || {
            server.private.get(&place).await.expect(200)["delivery"]["status"] == "delivered"
        };
        within_half_an_hour(&server, "a delivery once the clock is right", delivered).await;
        let hooks = receiver.seen();
        assert!(hooks.iter().all(|hook| hook.bytes == hooks[0].bytes), "{jump_ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_was_first_tried_by_a_clock_that_was_ahead_does_not_wait_for_that_time() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    for jump_ms in [2 * HOUR_MS, 2 * DAY_MS] {
        let (receiver, takes) = failing().await;
        server.clock.set_by_ms(jump_ms);
        // Whether the clock is right or not: of a machine that was suspended it is.
        let place = queue(&server.private, &reactor, &receiver.url()).await;
        result(&server.private, &place, |result| result["delivery"]["attempts"] == 1).await;
        takes.store(true, Ordering::SeqCst);
        server.clock.set_by_ms(-jump_ms);
        let delivered = async || {
            server.private.get(&place).await.expect(200)["delivery"]["status"] == "delivered"
        };
        within_half_an_hour(&server, "a delivery once the clock is right", delivered).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_ended_by_a_clock_in_doubt_is_named_as_what_is_in_the_way() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    let body = |text: &str, id: &str| json!({"type": "token", "data": text, "id": id, "deduplicate_token": true});
    let mut first = body("same", "first");
    first["expires_at"] = json!("2026-01-01T01:00:00Z");
    client.post("/tokens", first).await.expect(201);
    client.post("/tokens", body("other", "second")).await.expect(201);
    server.clock.set_by_ms(2 * HOUR_MS);
    client.get("/tokens/first").await.expect(404);
    let update = async || client.patch("/tokens/second", json!({"data": "same"})).await;
    for refused in [
        client.post("/tokens", body("same", "third")).await,
        client.post("/tokens", body("third", "first")).await,
        client.post("/tokenize", json!({"a": body("same", "third")})).await,
        update().await,
    ] {
        let problem = refused.expect(409);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("which was set forward"), "{problem}");
    }
    client.post("/tokens", body("other", "third")).await.expect(200);
    let taken = client.post("/tokens", body("third", "second")).await.expect(409);
    assert_eq!(taken["detail"], "A token with the id second exists already.");
    // A clock that was right after all is believed after a day.
    server.clock.advance_ms(DAY_MS.unsigned_abs());
    assert_eq!(update().await.expect(200)["id"], "second");
    client.post("/tokens", body("third", "first")).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_caller_has_ended_by_a_clock_in_doubt_waits_and_keeps_no_other_waiting() {
    let runtime = runtime(1, CompileBounds::default(), None);
    let setup = Setup { runtime: Some(runtime.clone()), ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let body = json!({"name": "short-lived", "type": "private", "permissions": ["token:use"],
        "expires_at": "2026-01-01T01:00:00Z"});
    let made = server.management.post("/applications", body).await.expect(201);
    let caller = server.client(made["key"].as_str().unwrap());
    let is = |status: &'static str| move |result: &Value| result["status"] == status;
    for is_mistaken in [true, false] {
        // Somebody else has the only slot: nothing begins.
        let slot = runtime.acquire(1, Duration::from_mins(1)).await.unwrap();
        let first = queue(&caller, &reactor, &receiver.url()).await;
        let second = queue(&server.private, &reactor, &receiver.url()).await;
        server.clock.set_by_ms(2 * HOUR_MS);
        drop(slot);
        // The oldest one's turn was before this one's.
        result(&server.private, &second, is("completed")).await;
        let waiting = server.private.get(&first).await.expect(200);
        assert_eq!(waiting["status"], "queued", "{waiting}");
        if is_mistaken {
            server.clock.set_by_ms(-2 * HOUR_MS);
            result(&server.private, &first, is("completed")).await;
        } else {
            // After a day the clock is believed.
            server.clock.advance_ms(DAY_MS.unsigned_abs());
            let ended = result(&server.private, &first, is("failed")).await;
            assert_eq!(ended["error"]["status"], 401, "{ended}");
        }
    }
    assert_eq!(receiver.wait(4).await.len(), 4);
}

/// A vault of a server that was stopped, by a clock that shows this time.
async fn opened(folder: &Path, at_ms: u64) -> (Vault, ManualClock) {
    let clock = ManualClock::new(at_ms);
    let vault = Vault::open(foundation(Setup::default(), folder, &clock).await).await.unwrap();
    vault.keep_log_for_days(30);
    (vault, clock)
}

/// What a clock in doubt writes is no evidence for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_does_not_trust_a_clock_for_what_was_written_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { folder: Some(folder.path().to_owned()), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let began_ms = server.clock.now_ms();
    let end_ms = i64::try_from(began_ms).unwrap() + 30 * DAY_MS;
    let end = chrono::DateTime::from_timestamp_millis(end_ms).unwrap().to_rfc3339();
    let token = json!({"id": "one", "type": "token", "data": "kept", "expires_at": end});
    server.private.post("/tokens", token).await.expect(201);
    server.vault.sweep().await.unwrap();
    server.clock.set_by_ms(60 * DAY_MS);
    let token = json!({"type": "token", "data": "by the wrong clock"});
    server.private.post("/tokens", token).await.expect(201);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.stop().await;

    let later = |days: i64| began_ms + u64::try_from(days * DAY_MS).unwrap();
    // It is still wrong, and set right afterwards.
    let (vault, clock) = opened(folder.path(), later(60)).await;
    assert_eq!(vault.sweep().await.unwrap().0, 0);
    clock.set_by_ms(-60 * DAY_MS);
    assert_eq!(vault.sweep().await.unwrap().0, 0);
    vault.close();
    drop(vault);
    // It is wrong again, by less than what was written.
    let (vault, _) = opened(folder.path(), later(45)).await;
    assert_eq!(vault.sweep().await.unwrap().0, 0);
    vault.close();
    drop(vault);
    // One that was off for a few days has gone on by the right clock.
    let (vault, clock) = opened(folder.path(), later(6)).await;
    vault.sweep().await.unwrap();
    clock.advance_ms(u64::try_from(25 * DAY_MS).unwrap());
    assert!(vault.sweep().await.unwrap().0 > 1);
    vault.close();
}

/// Nobody knows how long ago they were made, and they would stay for as long as the clock was ahead.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_stay_for_a_while_only_is_over_once_a_clock_that_was_ahead_is_right() {
    let server = TestServer::start().await;
    let revealing = server.revealing().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let card = json!({"id": "card-1", "type": "card", "data": {"number": "4242424242424242",
        "expiration_month": 12, "expiration_year": 2090, "cvc": "987"}});
    let open = async |wrong_ms: i64| {
        server.clock.set_by_ms(wrong_ms);
        revealing.post("/tokens", card.clone()).await.expect(201);
        let opened = public.post("/sessions", json!({})).await.expect(201);
        let nonce = json!({"nonce": opened["nonce"], "permissions": ["token:create"]});
        revealing.post("/sessions/authorize", nonce).await.expect(200);
        server.clock.set_by_ms(-wrong_ms);
        server.client(opened["session_key"].as_str().unwrap())
    };
    let cvc = async || revealing.get("/tokens/card-1").await.expect(200)["data"]["cvc"].clone();
    let token = json!({"type": "token", "data": 1});
    // A small correction changes nothing.
    let session = open(5 * 60_000).await;
    session.post("/tokens", token.clone()).await.expect(201);
    assert_eq!(cvc().await, "987");
    revealing.delete("/tokens/card-1").await.expect(204);

    let session = open(400 * DAY_MS).await;
    session.post("/tokens", token.clone()).await.expect(401);
    assert!(cvc().await.is_null());
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    assert!(cvc().await.is_null());
}
