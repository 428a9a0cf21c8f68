//! Scripts that are replaced while a run begins: before it has its script the new one is run, as of components, and then the
//! old one.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokamak::store::Kind;

use crate::support::gate::Gate;
use crate::support::receiver::Receiver;
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::Wrapped;
use crate::support::{TestServer, guests, scripts};

const LOG: Kind = Kind(9);
const JOB: Kind = Kind(12);

const BEFORE: &str = "module.exports = () => ({ raw: 'before' });";
const AFTER: &str = "module.exports = () => ({ raw: 'after' });";

/// A server whose commits can be held, and a formula that was never run.
struct World {
    server: TestServer,
    store: Arc<Wrapped<Gate>>,
    formula: String,
    /// Where its reactor is run.
    path: String,
    _folder: TempDir,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Wrapped::<Gate>::new(open_store(&folder.path().join("store")).await);
        let setup = Setup { store: Some(Arc::clone(&store) as _), ..Setup::open() };
        let server = TestServer::start_with(setup).await;
        let members = json!({"allowed_hosts": ["example.com"]});
        let formula = scripts::formula(&server, BEFORE, members).await;
        let reactor = guests::reactor(&server, &formula, json!({})).await;
        let path = format!("/reactors/{reactor}/react");
        Self { server, store, formula, path, _folder: folder }
    }

    async fn replace(&self, undeclared: &str) {
        let body = json!({"name": "script", "code": AFTER, "allowed_hosts": ["example.com"],
            "undeclared_arguments": undeclared});
        let path = format!("/reactor-formulas/{}", self.formula);
        self.server.management.put(&path, body).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_replaced_once_a_call_has_it_is_run_as_it_was() {
    let world = World::start().await;
    let token = world.server.private.token("token", json!("x")).await;
    let args = json!({"args": {"a": format!("{{{{ {token} }}}}")}});
    // What may send something out is logged before it runs, when it is known which script it is.
    let mut held = world.store.hook.hold_next(LOG);
    let mut call = pin!(world.server.private.post(&world.path, args.clone()));
    tokio::select! {
        _ = held.arrived() => {}
        answer = call.as_mut() => panic!("answered before: {}", answer.text()),
    }
    world.replace("forward").await;
    held.let_go();
    assert_eq!(call.await.expect(200)["raw"], "before");
    assert_eq!(world.server.private.post(&world.path, args).await.expect(200)["raw"], "after");
}

/// The result of an asynchronous run whose script is replaced while it begins, by one that does this with arguments.
async fn replaced_while_it_begins(undeclared: &str) -> Value {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let body = json!({"args": {}, "callback_url": receiver.url()});
    let mut queued = world.store.hook.hold_next(JOB);
    let mut call = pin!(world.server.private.post(&world.path, body));
    tokio::select! {
        _ = queued.arrived() => {}
        answer = call.as_mut() => panic!("answered before: {}", answer.text()),
    }
    let mut begins = world.store.hook.hold_next(JOB);
    queued.let_go();
    let accepted = call.await;
    accepted.expect(202);
    begins.arrived().await;
    world.replace(undeclared).await;
    begins.let_go();
    let place = accepted.headers["location"].to_str().unwrap();
    let began = Instant::now();
    let over = |result: &Value| result["status"] == "completed" || result["status"] == "failed";
    loop {
        let result = world.server.private.get(place).await.expect(200);
        if over(&result) {
            return result;
        }
        assert!(began.elapsed() < Duration::from_mins(2), "{result}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_replaced_while_an_asynchronous_run_begins_is_run_as_it_is_by_then() {
    let result = replaced_while_it_begins("forward").await;
    assert_eq!(result["response"]["raw"], "after", "{result}");
}

/// The arguments were bound by the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_takes_arguments_otherwise_is_not_run_with_those_of_the_one_before() {
    let result = replaced_while_it_begins("drop").await;
    assert_eq!(result["response"]["raw"], "before", "{result}");
}
