//! The sweep (decisions §3): it ends, whatever time it becomes meanwhile; neither a full disk nor a failure keeps from
//! it what can be removed; and a request that wants what an ended token has removes that one alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokamak::clock::{Clock, ManualClock};
use tokamak::store::{Store, StoreError};
use tokamak::vault::{Foundation, Vault};

use crate::support::TestServer;
use crate::support::gate::Gate;
use crate::support::operator::TOKEN;
use crate::support::server::{Setup, foundation, open_store, store_with_disk};
use crate::support::wrapped::Wrapped;

const HOUR_MS: u64 = 3_600_000;
const MIB: u64 = 1 << 20;
/// An hour after a server starts here.
const IN_AN_HOUR: &str = "2026-01-01T01:00:00Z";

/// More milliseconds than a sweep with little to do looks at the clock.
const LOOKS_MAX: u64 = 24;
/// Longer than any sweep here takes.
const ENDS_WITHIN: Duration = Duration::from_mins(1);

/// A clock by which a millisecond passes with every look at it.
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn now_ms(&self) -> u64 {
        self.0.advance_ms(1);
        self.0.now_ms()
    }

    fn elapsed_ns(&self) -> u64 {
        self.0.elapsed_ns()
    }
}

/// How often the log says this of an entity.
async fn logged(server: &TestServer, id: &str, message: &str) -> usize {
    let log = server.management.get(&format!("/logs?size=100&entity_id={id}")).await.expect(200);
    log["data"].as_array().unwrap().iter().filter(|entry| entry["message"] == message).count()
}

fn card(id: &str) -> Value {
    json!({"id": id, "type": "card", "data": {"number": "4242424242424242", "cvc": "123"}})
}

fn ending(id: &str) -> Value {
    json!({"id": id, "type": "token", "data": id, "expires_at": IN_AN_HOUR})
}

/// Makes an application that ends in an hour; gives its id.
async fn ending_application(server: &TestServer) -> String {
    let body = json!({"name": "ends", "type": "private", "permissions": ["token:read"],
        "expires_at": IN_AN_HOUR});
    let made = server.management.post("/applications", body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_ends_although_a_members_time_comes_while_it_looks() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(open_store(&folder.path().join("store")).await);
    let setup = || Setup { store: Some(Arc::clone(&store)), ..Setup::default() };
    let server = TestServer::start_with(setup()).await;
    // Another vault on the same store and by the same hands: only what it does takes time.
    let foundation = foundation(setup(), folder.path(), &server.clock).await;
    let clock = Arc::new(Ticking(server.clock.clone()));
    let vault = Vault::open(Foundation { clock, ..foundation }).await.unwrap();
    for left_ms in 0..LOOKS_MAX {
        let id = format!("card-{left_ms}");
        server.private.post("/tokens", card(&id)).await.expect(201);
        server.clock.advance_ms(HOUR_MS - left_ms);
        let swept = tokio::time::timeout(ENDS_WITHIN, vault.sweep_ended()).await;
        swept.unwrap_or_else(|_| panic!("{left_ms}: it does not end")).unwrap();
        // What was not due yet is by now.
        server.clock.advance_ms(LOOKS_MAX);
        vault.sweep_ended().await.unwrap();
        assert_eq!(logged(&server, &id, "Token members erased").await, 1, "{left_ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_keeps_nothing_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (store, free) = store_with_disk(&folder.path().join("store"));
    let setup = Setup { store: Some(store), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    server.private.post("/tokens", card("card")).await.expect(201);
    server.private.post("/tokens", ending("token")).await.expect(201);
    let application = ending_application(&server).await;
    free.store(100 * MIB, Ordering::SeqCst);
    server.private.post("/tokens", card("new")).await.expect(503);
    server.clock.advance_ms(2 * HOUR_MS);
    server.vault.sweep_ended().await.unwrap();
    assert_eq!(logged(&server, "card", "Token members erased").await, 1);
    assert_eq!(logged(&server, "token", "Token expired").await, 1);
    assert_eq!(logged(&server, &application, "Application expired").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_swept_keeps_nothing_else_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Wrapped::<Gate>::new(open_store(&folder.path().join("store")).await);
    let setup = Setup { store: Some(Arc::clone(&store) as _), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    server.private.post("/tokens", ending("token")).await.expect(201);
    let application = ending_application(&server).await;
    server.clock.advance_ms(2 * HOUR_MS);
    let mut held = store.hook.hold_next(TOKEN);
    let vault = server.vault.clone();
    let mut sweep = tokio::spawn(async move { vault.sweep_ended().await });
    tokio::select! {
        _ = held.arrived() => {}
        swept = &mut sweep => panic!("no token was swept: {swept:?}"),
    }
    held.refuse(StoreError::Full);
    // That it failed is told.
    assert!(sweep.await.unwrap().is_err());
    assert_eq!(logged(&server, "token", "Token expired").await, 0);
    assert_eq!(logged(&server, &application, "Application expired").await, 1);
    server.vault.sweep_ended().await.unwrap();
    assert_eq!(logged(&server, "token", "Token expired").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_tokens_remove_the_ended_ones_in_their_way_and_no_other() {
    let server = TestServer::start().await;
    for id in ["one", "two", "other"] {
        server.private.post("/tokens", ending(id)).await.expect(201);
    }
    let mut unlike = ending("unlike");
    unlike["deduplicate_token"] = true.into();
    server.private.post("/tokens", unlike.clone()).await.expect(201);
    server.clock.advance_ms(2 * HOUR_MS);
    // Two ids of one call, and contents that no other token may have.
    let token = |id: &str| json!({"id": id, "type": "token", "data": "new"});
    let made = server.private.post("/tokenize", json!([token("one"), token("two")])).await;
    let made = made.expect(200);
    assert_eq!((&made[0]["id"], &made[1]["id"]), (&json!("one"), &json!("two")));
    for member in ["id", "expires_at"] {
        unlike.as_object_mut().unwrap().remove(member);
    }
    server.private.post("/tokens", unlike).await.expect(201);
    for (id, times) in [("one", 1), ("two", 1), ("unlike", 1), ("other", 0)] {
        assert_eq!(logged(&server, id, "Token expired").await, times, "{id}");
    }
    // One that has not ended stays, and so does its id.
    server.private.post("/tokens", token("one")).await.expect(409);
    assert_eq!(server.vault.sweep_ended().await.unwrap().0, 1);
    assert_eq!(logged(&server, "other", "Token expired").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_erased_is_told_once_and_only_where_something_was() {
    const ERASED: &str = "Token members erased";
    let server = TestServer::start().await;
    for id in ["taken-out", "changed", "left", "written-anew"] {
        server.private.post("/tokens", card(id)).await.expect(201);
    }
    let taken_out = json!({"data": {"cvc": null}});
    server.private.patch("/tokens/taken-out", taken_out).await.expect(200);
    server.clock.advance_ms(HOUR_MS + 60_000);
    // Written before the sweep came to it.
    for id in ["changed", "written-anew"] {
        let metadata = json!({"metadata": {"changed": "yes"}});
        server.private.patch(&format!("/tokens/{id}"), metadata).await.expect(200);
        assert_eq!(logged(&server, id, ERASED).await, 1, "{id}");
    }
    let anew = json!({"data": {"cvc": "456"}});
    server.private.patch("/tokens/written-anew", anew).await.expect(200);
    for (hours, counts) in [(0, [0, 1, 1, 1]), (2, [0, 1, 1, 2]), (2, [0, 1, 1, 2])] {
        server.clock.advance_ms(hours * HOUR_MS);
        server.vault.sweep_ended().await.unwrap();
        for (id, count) in ["taken-out", "changed", "left", "written-anew"].iter().zip(counts) {
            assert_eq!(logged(&server, id, ERASED).await, count, "{id} {hours}");
        }
    }
    let log = server.management.get("/logs?entity_id=changed&size=100").await.expect(200);
    let entries = log["data"].as_array().unwrap();
    let at = |message: &str| entries.iter().position(|entry| entry["message"] == message).unwrap();
    // The newest comes first, and nobody asked for the other.
    assert!(at("Token updated") < at(ERASED));
    assert!(entries[at(ERASED)]["actor_id"].is_null() && entries[at(ERASED)]["trace_id"].is_null());
}
