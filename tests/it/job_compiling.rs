//! Asynchronous runs whose formula is not compiled yet: they wait in the queue, and have all of their time once it is.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokamak::config::JobLimits;
use tokamak::runtime::CompileBounds;

use crate::support::binary::{compiling, eventually};
use crate::support::hostile_components::slow;
use crate::support::receiver::Receiver;
use crate::support::server::{Setup, runtime};
use crate::support::{Client, TestServer, guests};

// More than the ten seconds that a run has.
const COMPILING_SECONDS: u64 = 16;
// More than a tenant may have in hand.
const OTHERS: usize = 70;
// Reactors of one formula, more than there are places on a server of four slots.
const REACTORS: usize = 8;

/// Asks for a run; gives where its result is.
async fn queue(private: &Client, reactor: &str, receiver: &Receiver) -> String {
    let body = json!({"args": {"a": 1}, "callback_url": receiver.url(), "timeout_ms": 10_000});
    let request = private.request(Method::POST, &format!("/reactors/{reactor}/react")).json(&body);
    let queued = private.send(request).await;
    queued.expect(202);
    queued.headers["location"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_formula_is_not_compiled_in_its_time_waits_and_then_runs() {
    let folder = tempfile::tempdir().unwrap();
    let setup = |bounds| Setup {
        folder: Some(folder.path().to_owned()),
        runtime: Some(runtime(4, bounds, None)),
        jobs: JobLimits::new(None, Some(32), None),
        ..Setup::open()
    };
    let first = TestServer::start_with(setup(CompileBounds::default())).await;
    let waiting = guests::formula(&first, "probe", json!({})).await;
    let mut reactors = Vec::new();
    for _ in 0..REACTORS {
        reactors.push(guests::reactor(&first, &waiting, json!({})).await);
    }
    let formula = guests::formula(&first, "bare", json!({})).await;
    let ready = guests::reactor(&first, &formula, json!({})).await;
    let keys = [&first.management, &first.private].map(|client| client.key.clone().unwrap());
    first.stop().await;
    // Nothing is kept of what was compiled, and the compiler is busy with something else once one is.
    let bounds = CompileBounds { memory_mb: 1_536, cpu_seconds: COMPILING_SECONDS };
    let second = TestServer::start_with(setup(bounds)).await;
    let [management, private] = keys.map(|key| second.client(&key));
    private.post(&format!("/reactors/{ready}/react"), json!({"args": {}})).await.expect(200);
    let uploading =
        tokio::spawn(
            async move { management.post("/reactor-formulas", guests::upload(&slow())).await },
        );
    let at_work = || compiling(std::process::id(), "--cpu-seconds 16");
    let child = eventually("process that compiles", || at_work().pop()).await;

    let receiver = Receiver::start().await;
    let place = queue(&private, &reactors[0], &receiver).await;
    for number in 0..OTHERS {
        queue(&private, &reactors[number % REACTORS], &receiver).await;
    }
    // They wait in nobody's place: a run of what is compiled is called back before they are.
    queue(&private, &ready, &receiver).await;
    eventually("webhook of the run that can begin", || receiver.seen().pop()).await;
    assert!(at_work().contains(&child), "it waited for the compiler");
    loop {
        let result = private.get(&place).await.expect(200);
        // The formula's turn comes when that process is gone.
        if !at_work().contains(&child) {
            break;
        }
        assert_eq!(result["status"], "queued", "{result}");
        assert!(result.get("started_at").is_none(), "{result}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    uploading.await.unwrap().expect(422);
    let began = Instant::now();
    let result = loop {
        let result = private.get(&place).await.expect(200);
        if result["delivery"]["status"] == "delivered" {
            break result;
        }
        assert!(began.elapsed() < Duration::from_mins(3), "{result}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(result["status"], "completed", "{result}");
    assert!(result["started_at"].is_string(), "{result}");
    eventually("every webhook", || (receiver.seen().len() == 2 + OTHERS).then_some(())).await;
}
