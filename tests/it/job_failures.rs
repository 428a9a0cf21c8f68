//! Asynchronous runs whose worker breaks, or whose end is not stored: one result each all the same (decisions §7).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokamak::store::{Batch, Expect, Kind, StoreError, StoreFuture};

use crate::support::gate::Gate;
use crate::support::receiver::Receiver;
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::{Hook, Wrapped};
use crate::support::{TestServer, guests};

const JOB: Kind = Kind(12);
const DELIVERY: Kind = Kind(13);

/// Breaks the task that is about to note that a run has begun, so many times.
#[derive(Default)]
struct Breaking {
    left: AtomicUsize,
    broken: AtomicUsize,
}

impl Hook for Breaking {
    fn before<'a>(&'a self, batch: Option<&'a Batch>) -> StoreFuture<'a, ()> {
        let begins = |batch: &Batch| {
            let of = |kind: Kind| batch.puts.iter().find(|put| put.record.kind == kind);
            let changed = of(JOB).is_some_and(|put| matches!(put.expect, Expect::Version(_)));
            // Its end makes a delivery.
            changed && of(DELIVERY).is_none()
        };
        let is_left = || {
            let one_less = |left: usize| left.checked_sub(1);
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
        };
        if batch.is_some_and(begins) && is_left() {
            self.broken.fetch_add(1, Ordering::SeqCst);
            panic!("a worker is to break here");
        }
        async { Ok(()) }.boxed()
    }
}

/// A server on a store with a hook, and a reactor of `probe`.
struct World<H> {
    server: TestServer,
    store: Arc<Wrapped<H>>,
    reactor: String,
    receiver: Receiver,
    _folder: TempDir,
}

impl<H: Hook + Default> World<H> {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Wrapped::<H>::new(open_store(&folder.path().join("store")).await);
        let setup = Setup { store: Some(Arc::clone(&store) as _), ..Setup::open() };
        let server = TestServer::start_with(setup).await;
        let reactor = guests::echo_reactor(&server).await;
        let receiver = Receiver::start().await;
        Self { server, store, reactor, receiver, _folder: folder }
    }

    /// Asks for a run; gives where its result is.
    async fn queue(&self, args: Value) -> String {
        let body = json!({"args": args, "callback_url": self.receiver.url()});
        let path = format!("/reactors/{}/react", self.reactor);
        let queued = self.server.private.post(&path, body).await;
        queued.expect(202);
        queued.headers["location"].to_str().unwrap().to_owned()
    }

    /// The result of a run, once it is told, which it is once.
    async fn told(&self, place: &str) -> Value {
        let began = Instant::now();
        loop {
            let result = self.server.private.get(place).await.expect(200);
            if result["delivery"]["status"] == "delivered" {
                assert_eq!(self.receiver.seen().len(), 1);
                return result;
            }
            assert!(began.elapsed() < Duration::from_mins(2), "{result}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl World<Breaking> {
    fn broken(&self) -> usize {
        self.store.hook.broken.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_worker_broke_before_it_began_is_begun_anew_and_left_to_end() {
    let world = World::<Breaking>::start().await;
    world.store.hook.left.store(1, Ordering::SeqCst);
    // Longer than the workers leave anything alone.
    let place = world.queue(json!({"behaviour": "sleep", "ms": 3_000})).await;
    let result = world.told(&place).await;
    assert_eq!((&result["status"], world.broken()), (&json!("completed"), 1), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_worker_always_breaks_ends_after_so_many_tries() {
    let world = World::<Breaking>::start().await;
    world.store.hook.left.store(usize::MAX, Ordering::SeqCst);
    let place = world.queue(json!({"behaviour": "echo"})).await;
    let result = world.told(&place).await;
    let detail = "The run could not be begun in 5 tries.";
    assert_eq!(
        (&result["status"], &result["error"]["detail"], world.broken()),
        (&json!("failed"), &json!(detail), 5)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_end_loses_against_another_change_has_a_result() {
    let world = World::<Gate>::start().await;
    let mut queued = world.store.hook.hold_next(JOB);
    let mut request = pin!(world.queue(json!({"behaviour": "echo"})));
    tokio::select! {
        _ = queued.arrived() => {}
        place = request.as_mut() => panic!("accepted before it is stored: {place}"),
    }
    let mut begins = world.store.hook.hold_next(JOB);
    queued.let_go();
    let place = request.await;
    begins.arrived().await;
    let mut ends = world.store.hook.hold_next(JOB);
    begins.let_go();
    ends.arrived().await;
    ends.refuse(StoreError::Conflict { kind: JOB, id: "it".to_owned() });
    let result = world.told(&place).await;
    assert_eq!(
        (&result["status"], &result["error"]["title"]),
        (&json!("failed"), &json!("Reactor Interrupted"))
    );
}
