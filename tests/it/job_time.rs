//! What a run may take: computing time in proportion to its time, and ten seconds when it is waited for (decisions §7).

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::support::binary::Process;
use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{TestServer, guests};

/// Enough for a run to begin, and so little that a loop has used it up long before its time is over.
const FUEL_PER_MS: u64 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_more_time_may_compute_as_much_more() {
    let setup = Setup { fuel_per_ms: FUEL_PER_MS, ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    for (runs, timeout_ms) in [(1, 10_000), (2, 30_000)] {
        let body = json!({"args": {"behaviour": "loop"}, "timeout_ms": timeout_ms,
            "callback_url": receiver.url()});
        let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
        let id = queued.expect(202)["invocation_id"].clone();
        let told = receiver.wait(runs).await[runs - 1].json();
        assert_eq!(
            (&told["type"], &told["data"]["invocation_id"]),
            (&json!("reactor.failed"), &id)
        );
        // It was not the clock that ended it.
        let detail = told["data"]["error"]["detail"].as_str().unwrap();
        assert!(detail.contains("computing time"), "{told}");
        let listed = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
        let listed = listed.expect(200);
        let mut invocations = listed["data"].as_array().unwrap().iter();
        let run = invocations.find(|run| run["id"] == id).unwrap();
        assert_eq!(run["fuel"], FUEL_PER_MS * timeout_ms, "{run}");
    }
}

/// Asked of the real binary: servers within a test are told by it how long a run may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_waited_for_has_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let management = process.management();
    let formula = guests::send(&management, "probe", json!({})).await;
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let made = management.post("/reactors", body).await.expect(201);
    let reactor = format!("/reactors/{}", made["id"].as_str().unwrap());
    let body = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    let caller = management.with_key(made["key"].as_str().unwrap());
    let echo = json!({"args": {"behaviour": "echo"}});
    let answer = caller.post(&format!("{reactor}/react"), echo).await.expect(200);
    let deadline_ms = answer["raw"]["invocation"]["deadline_ms"].as_i64().unwrap();
    let listed = management.get(&format!("{reactor}/invocations")).await.expect(200);
    let began: DateTime<Utc> = listed["data"][0]["created_at"].as_str().unwrap().parse().unwrap();
    let time_ms = deadline_ms - began.timestamp_millis();
    assert!((9_001..=10_000).contains(&time_ms), "{time_ms}");
    assert_eq!(process.terminate(), Some(0));
}
