//! What was found, and is not so any more once it is read: the store asks its index for a page, and reads the records
//! then.
//!
//! What comes between is not left to chance: a page that was found waits until the other request is answered.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokamak::store::{Batch, Kind, Slice, StoreFuture};
use tokio::sync::oneshot;

use crate::support::gate::Gate;
use crate::support::operator::TOKEN;
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::{Hook, Wrapped};
use crate::support::{Answer, TestServer};

const SESSION: Kind = Kind(10);
const HOUR_MS: u64 = 3_600_000;

/// Holds pages between finding and reading, and commits too.
#[derive(Default)]
struct Pages {
    commits: Gate,
    watch: Mutex<Option<Watch>>,
}

/// The page that is waited for.
struct Watch {
    kind: Kind,
    /// So many others come first.
    before: usize,
    found: oneshot::Sender<()>,
    goes: oneshot::Receiver<()>,
}

/// A page that goes no further than to be found. When this is dropped, it goes on.
struct HeldPage {
    found: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Pages {
    /// Holds a page of a kind, after so many others; those with nothing on them do not count.
    fn hold_page(&self, kind: Kind, before: usize) -> HeldPage {
        let (found, is_found) = oneshot::channel();
        let (go, goes) = oneshot::channel();
        let watched = self.watch.lock().replace(Watch { kind, before, found, goes });
        assert!(watched.is_none(), "one page is waited for already");
        HeldPage { found: is_found, go }
    }

    /// Who waits for this page.
    fn take_watch(&self, kind: Kind, slice: &Slice) -> Option<Watch> {
        self.watch.lock().take_if(|watch| {
            let counts = watch.kind == kind && !slice.records.is_empty();
            let is_next = watch.before == 0;
            watch.before -= usize::from(counts && !is_next);
            counts && is_next
        })
    }
}

impl HeldPage {
    async fn found(&mut self) {
        (&mut self.found).await.unwrap();
    }

    /// Lets its records be read, as they are by now.
    fn let_go(self) {
        self.go.send(()).unwrap();
    }
}

impl Hook for Pages {
    fn before<'a>(&'a self, batch: Option<&'a Batch>) -> StoreFuture<'a, ()> {
        self.commits.before(batch)
    }

    fn found(&self, kind: Kind, slice: &Slice) -> Option<BoxFuture<'static, ()>> {
        let Watch { found, goes, .. } = self.take_watch(kind, slice)?;
        let others = async move {
            // Nobody waits any more when the test has failed.
            let _ = found.send(());
            let _ = goes.await;
        };
        Some(others.boxed())
    }
}

/// A server whose commits and pages can be held.
struct World {
    server: TestServer,
    store: Arc<Wrapped<Pages>>,
    _folder: TempDir,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Wrapped::<Pages>::new(open_store(&folder.path().join("store")).await);
        let setup = Setup { store: Some(Arc::clone(&store) as _), ..Setup::default() };
        let server = TestServer::start_with(setup).await;
        Self { server, store, _folder: folder }
    }

    /// Sends a request a millisecond before what it changes ends, which is so far from now; the change is stored once a
    /// sweep has found that, and before the sweep reads it.
    async fn change_beneath_a_sweep(
        &self,
        kind: Kind,
        ends_in_ms: u64,
        request: impl Future<Output = Answer> + Send + 'static,
    ) {
        self.server.clock.advance_ms(ends_in_ms - 1);
        let mut held = self.store.hook.commits.hold_next(kind);
        let mut request = tokio::spawn(request);
        tokio::select! {
            _ = held.arrived() => {}
            answer = &mut request => panic!("answered before: {}", answer.unwrap().text()),
        }
        self.server.clock.advance_ms(1);
        let mut page = self.store.hook.hold_page(kind, 0);
        let vault = self.server.vault.clone();
        let mut sweep = tokio::spawn(async move { vault.sweep_ended().await });
        tokio::select! {
            () = page.found() => {}
            swept = &mut sweep => panic!("nothing was found: {swept:?}"),
        }
        held.let_go();
        request.await.unwrap().expect(200);
        page.let_go();
        assert_eq!(sweep.await.unwrap().unwrap().0, 0);
    }

    /// What the log says of an entity, newest first.
    async fn messages(&self, id: &str) -> Vec<Value> {
        let path = format!("/logs?size=100&entity_id={id}");
        let log = self.server.management.get(&path).await.expect(200);
        log["data"].as_array().unwrap().iter().map(|entry| entry["message"].clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_whose_end_is_put_off_beneath_a_sweep_stays() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let body =
        json!({"id": "late", "type": "token", "data": 1, "expires_at": "2026-01-01T01:00:00Z"});
    client.post("/tokens", body).await.expect(201);
    let sender = client.clone();
    let later = async move {
        sender.patch("/tokens/late", json!({"expires_at": "2026-01-02T00:00:00Z"})).await
    };
    world.change_beneath_a_sweep(TOKEN, HOUR_MS, later).await;
    assert_eq!(world.messages("late").await, ["Token updated", "Token created"]);
    client.get("/tokens/late").await.expect(200);
    // It goes at its new end.
    world.server.clock.advance_ms(24 * HOUR_MS);
    assert_eq!(world.server.vault.sweep_ended().await.unwrap().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cvc_that_is_written_anew_beneath_a_sweep_stays() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let data = json!({"number": "4242424242424242", "cvc": "123"});
    let body = json!({"id": "card", "type": "card", "data": data});
    client.post("/tokens", body).await.expect(201);
    let sender = client.clone();
    let anew = async move { sender.patch("/tokens/card", json!({"data": {"cvc": "456"}})).await };
    world.change_beneath_a_sweep(TOKEN, HOUR_MS, anew).await;
    assert_eq!(world.messages("card").await, ["Token updated", "Token created"]);
    assert_eq!(client.get("/tokens/card").await.expect(200)["data"]["cvc"], "456");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_authorized_beneath_a_sweep_lives() {
    let world = World::start().await;
    let public = world.server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let session = world.server.client(opened["session_key"].as_str().unwrap());
    let sender = world.server.private.clone();
    let grant = json!({"nonce": opened["nonce"], "permissions": ["token:read"],
        "expires_at": "2026-01-01T01:00:00Z"});
    let authorize = async move { sender.post("/sessions/authorize", grant).await };
    world.change_beneath_a_sweep(SESSION, HOUR_MS / 20, authorize).await;
    session.get("/tokens").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_like_a_token_that_is_deleted_between_them_are_made_once() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let first = client.token("token", json!("same")).await;
    let body = json!({"type": "token", "data": "same", "deduplicate_token": true});
    // It is found for the first of the values, and gone when its like is read for the second.
    let mut page = world.store.hook.hold_page(TOKEN, 1);
    let sender = client.clone();
    let values = json!([body, body, body]);
    let mut request = tokio::spawn(async move { sender.post("/tokenize", values).await });
    tokio::select! {
        () = page.found() => {}
        answer = &mut request => panic!("answered before: {}", answer.unwrap().text()),
    }
    client.delete(&format!("/tokens/{first}")).await.expect(204);
    page.let_go();
    let made = request.await.unwrap().expect(200);
    let deduplicated = json!({"deduplicated": true});
    assert_eq!((&made[0]["id"], &made[0]["_extras"]), (&json!(first), &deduplicated));
    let second = made[1]["id"].as_str().unwrap();
    assert_eq!(client.get(&format!("/tokens/{second}")).await.expect(200), made[1]);
    assert_eq!((&made[2]["id"], &made[2]["_extras"]), (&json!(second), &deduplicated));
    assert_eq!(client.list("").await, [second]);
}

/// Deletes the oldest of three equal tokens once a request that is to be deduplicated has found it and before it is read;
/// gives the answer.
async fn beneath_a_look(
    world: &World,
    request: impl Future<Output = Answer> + Send + 'static,
) -> Value {
    let client = world.server.revealing().await;
    for id in ["oldest", "kept", "newest"] {
        let body = json!({"id": id, "type": "token", "data": "same", "deduplicate_token": false});
        client.post("/tokens", body).await.expect(201);
        world.server.clock.advance_ms(1);
    }
    let mut page = world.store.hook.hold_page(TOKEN, 0);
    let mut request = tokio::spawn(request);
    tokio::select! {
        () = page.found() => {}
        answer = &mut request => panic!("answered before: {}", answer.unwrap().text()),
    }
    client.delete("/tokens/oldest").await.expect(204);
    page.let_go();
    request.await.unwrap().expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_goes_while_it_is_read_is_not_the_only_one() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let create = async move {
        let body = json!({"type": "token", "data": "same", "deduplicate_token": true});
        client.post("/tokens", body).await
    };
    let found = beneath_a_look(&world, create).await;
    assert_eq!((&found["id"], &found["_extras"]), (&json!("kept"), &json!({"deduplicated": true})));

    let world = World::start().await;
    let client = world.server.revealing().await;
    let other = json!({"id": "other", "type": "token", "data": "other"});
    client.post("/tokens", other).await.expect(201);
    let sender = client.clone();
    let patch = json!({"data": "same", "deduplicate_token": true});
    let update = async move { sender.patch("/tokens/other", patch).await };
    let found = beneath_a_look(&world, update).await;
    assert_eq!((&found["id"], &found["_extras"]), (&json!("kept"), &json!({"deduplicated": true})));
    client.get("/tokens/other").await.expect(404);
}
