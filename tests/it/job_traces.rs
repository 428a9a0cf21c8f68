//! The problem that a run from the queue ends with names the request that asked for the run (decisions §1, §7, §8).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{Answer, TestServer, guests};

/// Queues a run that fails, with this trace id or without one.
async fn queue(server: &TestServer, reactor: &str, callback: &str, trace: Option<&str>) -> Answer {
    let args = json!({"behaviour": "fail", "kind": "bad_request", "detail": "no"});
    let body = json!({"args": args, "callback_url": callback});
    let path = format!("/reactors/{reactor}/react");
    let request = server.private.request(Method::POST, &path).json(&body);
    let request = match trace {
        Some(trace) => request.header("svc-trace-id", trace),
        None => request,
    };
    let queued = server.private.send(request).await;
    queued.expect(202);
    queued
}

#[tokio::test(flavor = "multi_thread")]
async fn the_problem_of_a_run_is_kept_and_told_with_the_trace_id_of_its_request() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    for trace in [Some("ours-7"), None] {
        let receiver = Receiver::start().await;
        let queued = queue(&server, &reactor, &receiver.url(), trace).await;
        let given = queued.headers["svc-trace-id"].to_str().unwrap();
        assert!(trace.is_none_or(|trace| trace == given), "{given}");
        let told: Value = receiver.wait(1).await[0].json();
        let expected =
            json!({"title": "Bad Request", "status": 400, "detail": "no", "trace_id": given});
        assert_eq!(told["data"]["error"], expected);
        let place = queued.headers["location"].to_str().unwrap();
        // Whoever asks for the result asks in a request of its own.
        let kept = server.private.get(place).await.expect(200);
        assert_eq!(kept["error"], expected);
    }
}
