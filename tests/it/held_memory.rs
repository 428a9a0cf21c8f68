//! Runs for which there is no memory: what was queued waits for it, and what has acted by then is not told as if it could be
//! repeated (decisions §7).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::runtime::{Runtime, RuntimeConfig};

use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests, scripts};

/// Memory of all reactors: a tenant's may hold a little less than half of it.
const MEMORY_MB: u64 = 64;

async fn server() -> TestServer {
    let config = RuntimeConfig { memory_bytes: MEMORY_MB << 20, ..RuntimeConfig::new(8) };
    let runtime = Some(Runtime::new(config).unwrap());
    TestServer::start_with(Setup { runtime, react_timeout_ms: 60_000, ..Setup::open() }).await
}

async fn ended(client: &Client, place: &str) -> Value {
    let began = Instant::now();
    loop {
        let result = client.get(place).await.expect(200);
        if !["queued", "running"].contains(&result["status"].as_str().unwrap()) {
            return result;
        }
        assert!(began.elapsed() < Duration::from_mins(2), "{result}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_runs_that_hold_much_come_one_after_the_other() {
    let server = server().await;
    let receiver = Receiver::start().await;
    let formula = guests::formula(&server, "probe", json!({"limits": {"memory_mb": 128}})).await;
    let heavy = guests::reactor(&server, &formula, json!({})).await;
    let queue = async |reactor: &str, args: Value| {
        let body = json!({"args": args, "callback_url": receiver.url(), "timeout_ms": 60_000});
        let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
        queued.expect(202);
        queued.headers["location"].to_str().unwrap().to_owned()
    };
    let mut places = Vec::new();
    for _ in 0..6 {
        let hold = json!({"behaviour": "hold", "bytes": 18 << 20, "ms": 300});
        places.push(queue(&heavy, hold).await);
    }
    for place in &places {
        let result = ended(&server.private, place).await;
        assert_eq!(result["status"], "completed", "{result}");
    }
    // What is known to hold little goes on beside what holds all.
    places.clear();
    for _ in 0..8 {
        places.push(queue(&heavy, json!({"behaviour": "hold", "bytes": 1024, "ms": 100})).await);
    }
    for place in &places {
        assert_eq!(ended(&server.private, place).await["status"], "completed");
    }
}

/// Makes a token if it is told to, looks at some else, and then holds more than its tenant's runs may.
const GREEDY: &str = "module.exports = async ({args, svc}) => {
    if (args.acts) await svc.tokens.create({type: 'token', data: 1});
    else await svc.tokens.list({size: 1});
    const held = [];
    for (let mb = 0; mb < 60; mb++) held.push(new Uint8Array(1 << 20).fill(7));
    return {raw: held.length};
};";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_acted_and_lacks_memory_is_not_to_be_repeated_by_itself() {
    let server = server().await;
    let limits = json!({"limits": {"memory_mb": 128}});
    let formula = scripts::formula(&server, GREEDY, limits).await;
    let application =
        json!({"name": "svc", "type": "private", "permissions": ["token:create", "token:read"]});
    let application = server.management.post("/applications", application).await.expect(201);
    let acts = json!({"application": {"id": application["id"]}});
    let reactor = guests::reactor(&server, &formula, acts).await;
    let path = format!("/reactors/{reactor}/react");
    let greedy =
        async |acts: bool| server.private.post(&path, json!({"args": {"acts": acts}})).await;
    let repeatable = greedy(false).await;
    let problem = repeatable.expect(429);
    assert_eq!(problem["detail"], "The tenant's reactors hold all the memory they may.");
    assert!(repeatable.headers.contains_key("retry-after"));
    let over = greedy(true).await;
    let problem = over.expect(500);
    assert_eq!(problem["title"], "Reactor Interrupted");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("The tenant's reactors hold all the memory they may."), "{detail}");
    assert!(detail.ends_with("look into what it did before you repeat it."), "{detail}");
    assert!(!over.headers.contains_key("retry-after"));
    // It is no fault of the server's.
    let listed = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
    assert_eq!(listed.expect(200)["data"][0]["error"], "Reactor Interrupted");
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_one_that_has_sent_what_may_have_changed_something() {
    let server = server().await;
    let receiver = Receiver::start().await;
    let limits = json!({"allowed_hosts": ["*"], "limits": {"memory_mb": 128}});
    let formula = guests::formula(&server, "fetch", limits).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    for (method, status) in [("GET", 429), ("HEAD", 429), ("POST", 500), ("DELETE", 500)] {
        let args = json!({"method": method, "url": receiver.url(), "holds_bytes": 60 << 20});
        let path = format!("/reactors/{reactor}/react");
        let answer = server.private.post(&path, json!({"args": args})).await;
        let problem = answer.expect(status);
        assert_eq!(problem["title"] == "Reactor Interrupted", status == 500, "{method} {problem}");
    }
}
