//! Hostile formulas: each ends in its proper problem, within its time, while others are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests};

/// Little fuel and little time, so that the tests are fast.
async fn server() -> (TestServer, String) {
    let setup = Setup { fuel_per_ms: 50_000, react_timeout_ms: 1_000, ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let formula = guests::formula(&server, "probe", json!({"limits": {"memory_mb": 16}})).await;
    let application = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let application = server.management.post("/applications", application).await.expect(201);
    let members = json!({"application": {"id": application["id"]}});
    let reactor = guests::reactor(&server, &formula, members).await;
    (server, reactor)
}

/// The status, a part of the detail, and the arguments of each.
fn behaviours() -> Vec<(u16, &'static str, Value)> {
    vec![
        (504, "computing time", json!({"behaviour": "loop"})),
        (500, "out of memory", json!({"behaviour": "memory"})),
        (500, "trapped", json!({"behaviour": "recursion"})),
        (500, "stack overflowed", json!({"behaviour": "recursion", "flat": true})),
        (500, "panicked or aborted", json!({"behaviour": "panic", "message": "4242424242424242"})),
        (500, "panicked or aborted", json!({"behaviour": "abort"})),
        (500, "exited", json!({"behaviour": "exit", "code": 3})),
        (500, "exited", json!({"behaviour": "exit", "code": 0})),
        (504, "", json!({"behaviour": "log_forever"})),
        (504, "", json!({"behaviour": "print_forever"})),
        (504, "", json!({"behaviour": "svc_forever"})),
        (504, "", json!({"behaviour": "clock_forever"})),
        (504, "deadline", json!({"behaviour": "sleep", "ms": 60_000})),
        (500, "out of memory", json!({"behaviour": "hold", "bytes": 20 << 20})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_ends_in_its_problem_within_its_time() {
    let (server, reactor) = server().await;
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({})).await.expect(200);
    for (status, part, args) in behaviours() {
        let began = Instant::now();
        let answer = server.private.post(&path, json!({"args": args})).await;
        let took = began.elapsed();
        let shown = args["behaviour"].as_str().unwrap();
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
        let problem = answer.json();
        let title = if status == 504 { "Reactor Timeout" } else { "Reactor Runtime Error" };
        assert_eq!(problem["title"], title, "{shown}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{shown}: {problem}");
        assert!(!answer.text().contains("4242"), "{shown}");
        // Its second and what a loaded machine adds; far from never.
        assert!(took < Duration::from_secs(50), "{shown} took {took:?}");
    }
    // Nothing of it stays.
    server.private.post(&path, json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_host_does_for_a_formula_ends_slices_and_runs_too() {
    let (server, _) = server().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let path = format!("/reactors/{reactor}/react");
    let began = Instant::now();
    // More than there are threads. None burns the fuel of a slice in minutes.
    let threads = std::thread::available_parallelism().unwrap().get();
    let body = json!({"args": {"log": "for ever"}});
    let runs = (0..2 * threads).map(|_| server.private.post(&path, body.clone()));
    for answer in join_all(runs).await {
        let problem = answer.expect(504);
        assert!(problem["detail"].as_str().unwrap().contains("deadline"), "{problem}");
    }
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_over_at_once_is_bounded() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({"limits": {"memory_mb": 64}})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let path = format!("/reactors/{reactor}/react");
    let log = async |bytes: u32| server.private.post(&path, json!({"args": {"log": bytes}})).await;
    // Twice as much as the largest answer, and some less or more.
    log(8_300_000).await.expect(200);
    let problem = log(8_400_000).await.expect(500);
    assert!(problem["detail"].as_str().unwrap().contains("is too large"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_do_not_grow_without_bound() {
    let (server, _) = server().await;
    let formula = guests::formula(&server, "tables", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let answer = server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await;
    assert!([500, 504].contains(&answer.status.as_u16()), "{}", answer.text());
    assert_ne!(answer.json()["title"], "Internal Server Error");
}

/// Reads a token and runs a formula until both were answered so often.
async fn answered(client: Client, path: String, times: u32) {
    let token = client.token("token", json!("x")).await;
    let (began, mut answered) = (Instant::now(), 0);
    while answered < times {
        assert!(began.elapsed() < Duration::from_mins(5), "{answered} were answered");
        client.get(&format!("/tokens/{token}")).await.expect(200);
        let ping = client.post(&path, json!({"args": {"ping": answered}})).await;
        // On a machine that is busy with more than this, its second may be too short now and then.
        if ping.status != 504 {
            ping.expect(200);
            answered += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_answered_meanwhile() {
    let (server, reactor) = server().await;
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({})).await.expect(200);
    let (other, other_path) = tenant(&server).await;
    other.post(&other_path, json!({})).await.expect(200);
    // It goes on until others were answered so often: who is faster does not matter.
    let over = Arc::new(AtomicBool::new(false));
    let bodies = behaviours().into_iter().map(|(_, _, args)| json!({"args": args}));
    let attack: Vec<_> = bodies
        .chain((0..10).map(|_| json!({"args": {"behaviour": "loop"}})))
        .map(|body| {
            let (client, path, over) = (server.private.clone(), path.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut ended = Vec::new();
                while ended.is_empty() || !over.load(Ordering::Relaxed) {
                    ended.push(client.post(&path, body.clone()).await.status.as_u16());
                }
                ended
            })
        })
        .collect();
    // Of the same tenant and of another one.
    let own = tokio::spawn(answered(server.private.clone(), path, 20));
    answered(other, other_path, 20).await;
    own.await.unwrap();
    over.store(true, Ordering::Relaxed);
    for run in attack {
        assert!(run.await.unwrap().iter().all(|status| [500, 504].contains(status)));
    }
}

/// A private client of another tenant, and where its reactor of `probe` is invoked.
async fn tenant(server: &TestServer) -> (Client, String) {
    let management = server.other_tenant().await;
    let formula = guests::send(&management, "probe", json!({})).await;
    let body = json!({"name": "other", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "other", "type": "private",
        "permissions": ["token:create", "token:read", "token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    (server.client(made["key"].as_str().unwrap()), path)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_formula_logged_before_it_ended_badly_is_kept_with_the_invocation() {
    let (server, reactor) = server().await;
    let path = format!("/reactors/{reactor}/react");
    let runs = format!("/reactors/{reactor}/invocations?size=1");
    for (status, _, mut args) in behaviours() {
        let shown = args["behaviour"].as_str().unwrap().to_owned();
        args["say"] = format!("before {shown}").into();
        server.private.post(&path, json!({"args": args})).await.expect(status);
        let run = server.management.get(&runs).await.expect(200)["data"][0].clone();
        let title = if status == 504 { "Reactor Timeout" } else { "Reactor Runtime Error" };
        assert_eq!((&run["status"], &run["error"]), (&json!("failed"), &json!(title)), "{shown}");
        let line = json!({"level": "info", "message": format!("before {shown}")});
        assert_eq!(run["log"][0], line, "{shown}: {run}");
        // What it poured out until it was ended is there up to the bound, and nowhere past it.
        let is_flood = ["log_forever", "print_forever"].contains(&shown.as_str());
        assert_eq!(run["log_truncated"], is_flood, "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_a_formula_does_without_is_told_of_only_if_it_ends_badly() {
    let (server, reactor) = server().await;
    let path = format!("/reactors/{reactor}/react");
    let run = |args: Value| {
        let (client, path) = (server.private.clone(), path.clone());
        async move { client.post(&path, json!({"args": args})).await }
    };
    run(json!({"wish": 20 << 20})).await.expect(200);
    let reported =
        json!({"wish": 20 << 20, "behaviour": "fail", "kind": "bad_request", "detail": "its own"});
    assert_eq!(run(reported).await.expect(400)["detail"], "its own");
    let trapped = run(json!({"wish": 20 << 20, "behaviour": "abort"})).await.expect(500);
    assert_eq!(trapped["detail"], "The formula ran out of memory.");
    // Each run begins anew.
    let trapped = run(json!({"wish": 1 << 20, "behaviour": "abort"})).await.expect(500);
    assert!(trapped["detail"].as_str().unwrap().contains("panicked or aborted"), "{trapped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_holds_the_memory_it_was_promised() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "probe", json!({"limits": {"memory_mb": 128}})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let path = format!("/reactors/{reactor}/react");
    let hold = |mb: u64| json!({"args": {"behaviour": "hold", "bytes": mb << 20}});
    assert_eq!(server.private.post(&path, hold(100)).await.expect(200)["raw"]["held"], 100 << 20);
    server.private.post(&path, hold(128)).await.expect(500);
    let large = json!({"args": {"behaviour": "output", "bytes": 3 << 20}});
    assert_eq!(
        server.private.post(&path, large).await.expect(200)["raw"].as_str().unwrap().len(),
        3 << 20
    );
}
