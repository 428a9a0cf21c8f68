//! What comes of a run names the request that asked for it: the problem that a run from the queue ends with, its invocation,
//! and the entries of the log (decisions §1, §7, §8, §10).

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

/// A reactor that acts as an application which may do everything.
async fn acting_reactor(server: &TestServer) -> String {
    let all = ["token:create", "token:read", "token:search", "token:use"];
    let rule = json!({"description": "", "priority": 1, "container": "/", "transform": "reveal", "permissions": all});
    let body = json!({"name": "svc", "type": "private", "permissions": [], "rules": [rule]});
    let application = server.management.post("/applications", body).await.expect(201);
    let formula = guests::formula(server, "probe", json!({})).await;
    guests::reactor(server, &formula, json!({"application": {"id": application["id"]}})).await
}

/// The entries of the log with a trace id, oldest first: operation and type of entity.
async fn traced(server: &TestServer, trace: &str) -> Vec<String> {
    let page = server.management.get("/logs?size=100").await.expect(200);
    let entries = page["data"].as_array().unwrap().iter().rev();
    let of_trace = entries.filter(|entry| entry["trace_id"] == trace);
    let word = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let line = |entry| format!("{} {}", word(entry, "operation"), word(entry, "entity_type"));
    of_trace.map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_what_a_request_led_to_have_its_trace_id() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = acting_reactor(&server).await;
    let card = json!({"number": "4242424242424242", "cvc": "123"});
    let card = server.private.token("card", card).await;
    let path = format!("/reactors/{reactor}/react");
    let args = json!({"behaviour": "svc", "operation": "get", "input": card, "card": format!("{{{{ {card} }}}}")});
    let react = async |trace: &str, body: Value| {
        let request = server.private.request(Method::POST, &path).json(&body);
        server.private.send(request.header("svc-trace-id", trace)).await
    };
    react("waits-1", json!({"args": args})).await.expect(200);
    assert_eq!(
        traced(&server, "waits-1").await,
        ["use card", "invoke reactor", "read card", "invoke reactor"]
    );

    // What waits in the queue is still what that request asked for, and so is what the receiver is told.
    let receiver = Receiver::start().await;
    let queued = react("queued-1", json!({"args": args, "callback_url": receiver.url()})).await;
    let id = queued.expect(202)["invocation_id"].clone();
    receiver.wait(1).await;
    assert_eq!(
        traced(&server, "queued-1").await,
        ["invoke reactor", "use card", "invoke reactor", "read card", "invoke reactor"]
    );

    let invocations = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
    let invocations = invocations.expect(200)["data"].clone();
    assert_eq!((&invocations[0]["id"], &invocations[0]["trace_id"]), (&id, &json!("queued-1")));
    assert_eq!(invocations[1]["trace_id"], "waits-1");

    // One that was drawn is told in the response; what is refused has it, too.
    let denied = server.private.get("/logs").await;
    denied.expect(403);
    let drawn = denied.headers["svc-trace-id"].to_str().unwrap();
    assert_eq!(traced(&server, drawn).await, ["read tenant"]);
    // Nobody asked for what the server does by itself.
    server.clock.advance_ms(3_600_000);
    server.vault.sweep().await.unwrap();
    let logs = server.management.get(&format!("/logs?entity_id={card}&size=1")).await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Token members erased");
    assert!(logs["data"][0].get("trace_id").is_none(), "{logs}");
}
