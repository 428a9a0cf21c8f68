//! A clock that was set forward: what it must not give up for good (decisions §7, §8). What it must not remove is in
//! `audit.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::runtime::CompileBounds;

use crate::support::receiver::{Action, Receiver};
use crate::support::server::{Setup, runtime};
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
    assert_eq!(taken["detail"], "A token with this id exists already.");
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
