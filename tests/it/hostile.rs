//! Hostile formulas: each ends in its proper problem, within its time, while others are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::server::Setup;
use crate::support::{TestServer, guests};

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
async fn tables_do_not_grow_without_bound() {
    let (server, _) = server().await;
    let formula = guests::formula(&server, "tables", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let answer = server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await;
    assert!([500, 504].contains(&answer.status.as_u16()), "{}", answer.text());
    assert_ne!(answer.json()["title"], "Internal Server Error");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_answered_meanwhile() {
    let (server, reactor) = server().await;
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({})).await.expect(200);
    let token = server.private.token("token", json!("x")).await;
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
    let began = Instant::now();
    let mut answered = 0;
    while answered < 20 {
        assert!(began.elapsed() < Duration::from_mins(5), "{answered} were answered");
        server.private.get(&format!("/tokens/{token}")).await.expect(200);
        let ping = server.private.post(&path, json!({"args": {"ping": answered}})).await;
        // On a machine that is busy with more than this, its second may be too short now and then.
        if ping.status != 504 {
            ping.expect(200);
            answered += 1;
        }
    }
    over.store(true, Ordering::Relaxed);
    for run in attack {
        assert!(run.await.unwrap().iter().all(|status| [500, 504].contains(status)));
    }
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
