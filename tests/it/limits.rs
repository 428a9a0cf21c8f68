//! Limits of each key and each tenant: past them 429 with `Retry-After`, and nobody else notices (decisions §1).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokamak::config::{JobLimits, Rate, RateLimits};
use tokamak::runtime::{Runtime, RuntimeConfig};

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer, guests};

/// A server with these rates.
async fn limited(rates: RateLimits) -> TestServer {
    TestServer::start_with(Setup { rates, ..Setup::default() }).await
}

/// Seconds to wait, from a 429 whose detail holds this text.
#[track_caller]
fn refused(answer: &Answer, part: &str) -> u64 {
    let problem = answer.expect(429);
    assert_eq!(problem["title"], "Too Many Requests");
    assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    assert!(problem["trace_id"].is_string());
    let seconds = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(seconds > 0);
    seconds
}

fn token() -> Value {
    json!({"type": "token", "data": "x"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_past_its_rate_waits_and_others_do_not() {
    let server =
        limited(RateLimits { write: "1:3".parse().unwrap(), ..RateLimits::default() }).await;
    let other = server.application("private", &["token:create"], json!([])).await;
    for _ in 0..3 {
        server.private.post("/tokens", token()).await.expect(201);
    }
    let answer = server.private.post("/tokens", token()).await;
    let seconds = refused(&answer, "more than 1 requests of the class `write` in a second");
    assert_eq!(seconds, 1);
    // Whatever else writes counts in the same class; what is not found counts too.
    refused(&server.private.post("/tokenize", json!({})).await, "`write`");
    refused(&server.private.delete("/tokens/none").await, "`write`");
    // Another class, and another key of the same tenant.
    server.private.get("/tokens").await.expect(200);
    other.post("/tokens", token()).await.expect(201);
    // Nothing came of what was refused.
    assert_eq!(server.private.list("").await.len(), 4);
    server.clock.advance_ms(seconds * 1_000);
    server.private.post("/tokens", token()).await.expect(201);
    refused(&server.private.post("/tokens", token()).await, "`write`");
    // A new key of the same application is the same caller.
    let made = json!({"name": "a", "type": "private", "permissions": ["token:create"]});
    let made = server.management.post("/applications", made).await.expect(201);
    let old = server.client(made["key"].as_str().unwrap());
    for _ in 0..3 {
        old.post("/tokens", token()).await.expect(201);
    }
    let path = format!("/applications/{}/regenerate", made["id"].as_str().unwrap());
    let renewed = server.management.post(&path, json!({})).await.expect(200);
    let renewed = server.client(renewed["key"].as_str().unwrap());
    refused(&renewed.post("/tokens", token()).await, "`write`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_no_more_requests_for_having_more_keys() {
    let limits = RateLimits { tenant: "1:4".parse().unwrap(), ..RateLimits::default() };
    let server = limited(limits).await;
    let mut clients = vec![server.private.clone()];
    for _ in 0..4 {
        let made = server.application("private", &["token:create", "token:read"], json!([])).await;
        clients.push(made);
    }
    for client in &clients[..4] {
        client.post("/tokens", token()).await.expect(201);
    }
    let told = "The keys of the tenant send more than 1 requests in a second";
    refused(&clients[4].post("/tokens", token()).await, told);
    refused(&clients[0].get("/tokens/none").await, told);
    // Whoever ends one of them does not wait, nor does another tenant.
    server.management.get("/logs").await.expect(200);
    let other = server.other_tenant().await;
    let body = json!({"name": "a", "type": "private", "permissions": ["token:create"]});
    let made = other.post("/applications", body).await.expect(201);
    server.client(made["key"].as_str().unwrap()).post("/tokens", token()).await.expect(201);
    server.clock.advance_ms(1_000);
    clients[4].post("/tokens", token()).await.expect(201);
    refused(&clients[4].post("/tokens", token()).await, told);
}

/// One request of each class.
async fn send(server: &TestServer, class: &str) -> Answer {
    match class {
        "read" => server.private.get("/tokens/none").await,
        "search" => server.private.post("/tokens/search", json!({})).await,
        "write" => server.private.post("/tokens", token()).await,
        "invoke" => server.private.post("/reactors/none/react", json!({})).await,
        "manage" => server.management.get("/logs").await,
        _ => panic!("{class} is no class"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_class_has_its_own_rate() {
    let one: Rate = 1.into();
    let none = RateLimits::default();
    let limits = [
        ("read", RateLimits { read: one, ..none }),
        ("search", RateLimits { search: one, ..none }),
        ("write", RateLimits { write: one, ..none }),
        ("invoke", RateLimits { invoke: one, ..none }),
        // Making the private application of the test's server was one already.
        ("manage", RateLimits { manage: "1:2".parse().unwrap(), ..none }),
    ];
    for (limited_class, rates) in limits {
        let server = limited(rates).await;
        for class in ["read", "search", "write", "invoke", "manage"] {
            assert_ne!(send(&server, class).await.status, 429, "{class}");
            let second = send(&server, class).await;
            if class == limited_class {
                refused(&second, &format!("`{class}`"));
            } else {
                assert_ne!(second.status, 429, "{class} is limited by {limited_class}");
            }
        }
        server.clock.advance_ms(1_000);
        assert_ne!(send(&server, limited_class).await.status, 429, "{limited_class}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_limited_unless_the_operator_says_so() {
    let server = TestServer::start().await;
    for _ in 0..200 {
        server.private.get("/permissions").await.expect(200);
        server.stranger().get("/permissions").await.expect(401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_comes_before_permission_and_is_not_kept() {
    let server = limited(RateLimits { write: 1.into(), ..RateLimits::default() }).await;
    // Denied attempts count too, and one past the rate is neither denied nor logged.
    let blind = server.application("private", &["token:read"], json!([])).await;
    blind.post("/tokens", token()).await.expect(403);
    refused(&blind.post("/tokens", token()).await, "`write`");
    let denied = server.management.get("/logs").await.text().matches("Denied: ").count();
    assert_eq!(denied, 1);

    let keyed = async |key: &str| {
        let request = server.private.request(Method::POST, "/tokens").json(&token());
        server.private.send(request.header("svc-idempotency-key", key)).await
    };
    // One request counts once, although two places ask who sends it.
    let first = keyed("a").await.expect(201);
    refused(&keyed("b").await, "`write`");
    // A repetition is a request as well.
    refused(&keyed("a").await, "`write`");
    server.clock.advance_ms(1_000);
    let repeated = keyed("a").await;
    assert_eq!(repeated.expect(201)["id"], first["id"]);
    assert_eq!(repeated.headers["svc-idempotent-replay"], "true");
    server.clock.advance_ms(1_000);
    let later = keyed("b").await;
    assert_ne!(later.expect(201)["id"], first["id"]);
    assert!(!later.headers.contains_key("svc-idempotent-replay"));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_valid_key_are_counted_by_address() {
    let rates = RateLimits { unauthenticated: "1:3".parse().unwrap(), ..RateLimits::default() };
    let server = limited(rates).await;
    let wrong = server.client("key_prv_00000000000000000000000000000000");
    wrong.get("/tokens").await.expect(401);
    server.stranger().get("/tokens").await.expect(401);
    wrong.post("/tokens", token()).await.expect(401);
    let seconds = refused(&wrong.get("/tokens").await, "1 requests without a valid key");
    refused(&server.stranger().get("/logs").await, "without a valid key");
    // Valid keys from the same address, and what needs none.
    server.private.get("/tokens").await.expect(200);
    server.stranger().get("/healthz").await.expect(200);
    server.clock.advance_ms(seconds * 1_000);
    wrong.get("/tokens").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_past_its_rate_waits_and_others_of_its_opener_do_not() {
    let server =
        limited(RateLimits { write: "1:3".parse().unwrap(), ..RateLimits::default() }).await;
    let opener = server.application("public", &["token:create"], json!([])).await;
    let session = async || server.session(&opener).await;
    let (one, other) = (session().await, session().await);
    // To open them and to grant them something counted too, of others.
    server.clock.advance_ms(3_000);
    for _ in 0..3 {
        one.post("/tokens", token()).await.expect(201);
    }
    refused(&one.post("/tokens", token()).await, "`write`");
    other.post("/tokens", token()).await.expect(201);
    opener.post("/sessions", json!({})).await.expect(201);
}

/// Whether one of several requests in a row is past a limit of one a second.
async fn is_limited(client: &Client, path: &str) -> bool {
    for _ in 0..10 {
        let answer = client.get(path).await;
        if answer.status == 429 {
            refused(&answer, "more than 1 requests");
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_limits_by_flag_variable_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("options.toml");
    let text =
        "rate-limit-read = 1\nrate-limit-search = \"1000:2000\"\nreactor-slots-per-tenant = 3\n";
    std::fs::write(&file, text).unwrap();
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--rate-limit-manage", "1:1"]);
    serve.arg("--data-dir").arg(folder.path().join("data")).arg("--config").arg(&file);
    serve.args(["--reactor-queue-per-tenant", "5"]);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.env("TOKAMAK_RATE_LIMIT_UNAUTHENTICATED", "1");
    let process = Process::start(serve);
    let management = process.management();
    assert!(is_limited(&management, "/logs").await);
    assert!(is_limited(&management, "/permissions").await);
    assert!(is_limited(&Client::new(process.address, None), "/tokens").await);
    assert!(!is_limited(&management, "/tokens").await);
    assert_eq!(process.terminate(), Some(0));

    for wrong in ["0.5", "\"often\"", "-1", "[1]"] {
        std::fs::write(&file, format!("rate-limit-read = {wrong}\n")).unwrap();
        let output = command().arg("serve").arg("--config").arg(&file).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains("must be RATE or"), "{stderr}");
    }
    for (option, value) in [
        ("--rate-limit-read", "often"),
        ("--rate-limit-write", "5:0"),
        ("--reactor-slots-per-tenant", "-1"),
    ] {
        let mut serve = command();
        let output = serve.args(["serve", &format!("{option}={value}")]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(option), "{stderr}");
    }
}

/// A server of its own sandbox, with a reactor of `probe` for each of two tenants.
struct Two {
    server: TestServer,
    /// May run the reactors of each tenant.
    clients: [Client; 2],
    paths: [String; 2],
}

async fn two_tenants(config: RuntimeConfig) -> Two {
    two_tenants_with(config, JobLimits::default()).await
}

async fn two_tenants_with(config: RuntimeConfig, jobs: JobLimits) -> Two {
    let runtime = Some(Runtime::new(config).unwrap());
    let setup = Setup { runtime, jobs, react_timeout_ms: 120_000, ..Setup::open() };
    let mut server = TestServer::start_with(setup).await;
    let mut made = Vec::new();
    for management in [server.management.clone(), server.other_tenant().await] {
        server.management = management.clone();
        let reactor = guests::echo_reactor(&server).await;
        let client = server.application("private", &["token:use"], json!([])).await;
        let path = format!("/reactors/{reactor}/react");
        client.post(&path, json!({})).await.expect(200);
        made.push((client, path));
    }
    let [(a, a_path), (b, b_path)] = <[_; 2]>::try_from(made).unwrap();
    Two { server, clients: [a, b], paths: [a_path, b_path] }
}

impl Two {
    /// Sends so many calls of one tenant that hold their slots for a while.
    fn hold(
        &self,
        tenant: usize,
        calls: usize,
        args: &Value,
    ) -> Vec<tokio::task::JoinHandle<Answer>> {
        let call = |_| {
            let (client, path) = (self.clients[tenant].clone(), self.paths[tenant].clone());
            let body = json!({ "args": args });
            tokio::spawn(async move { client.post(&path, body).await })
        };
        (0..calls).map(call).collect()
    }

    async fn react(&self, tenant: usize) -> Answer {
        self.clients[tenant].post(&self.paths[tenant], json!({"args": {"ping": 1}})).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_past_its_slots_and_its_queue_is_refused_and_others_are_not() {
    let config = RuntimeConfig {
        slots_per_owner: Some(2),
        queue_per_owner: Some(1),
        ..RuntimeConfig::new(4)
    };
    let two = two_tenants(config).await;
    let held = two.hold(0, 4, &json!({"behaviour": "sleep", "ms": 8_000}));
    // Two run, one waits; the fourth is refused while the others are under way.
    let refused_one = async {
        loop {
            if let Some(one) = held.iter().position(tokio::task::JoinHandle::is_finished) {
                return one;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let one = refused_one.await;
    // The other tenant's slots are free, and so is its queue.
    let others = two.hold(1, 2, &json!({"behaviour": "sleep", "ms": 50}));
    two.react(1).await.expect(200);
    for other in others {
        other.await.unwrap().expect(200);
    }
    assert_eq!(refused(&two.react(0).await, "As many reactors of the tenant run and wait"), 1);
    for (at, call) in held.into_iter().enumerate() {
        let answer = call.await.unwrap();
        if at == one {
            refused(&answer, "As many reactors of the tenant run and wait");
        } else {
            answer.expect(200);
        }
    }
    // Its slots are free again.
    two.react(0).await.expect(200);
    two.server.stop().await;
}

/// No run begins with so little time left that it could only be cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_no_slot_is_free_for_in_time_says_that_it_did_not_begin() {
    let config = RuntimeConfig { slots_per_owner: Some(1), ..RuntimeConfig::new(2) };
    let runtime = Some(Runtime::new(config).unwrap());
    let setup = Setup { runtime, react_timeout_ms: 4_000, ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let path = format!("/reactors/{}/react", guests::echo_reactor(&server).await);
    server.private.post(&path, json!({"args": {"ping": 1}})).await.expect(200);
    let sleep = async |ms: u64| {
        let body = json!({"args": {"behaviour": "sleep", "ms": ms}});
        server.private.post(&path, body).await
    };
    // The slot is free again when the other has a twentieth of its time left.
    let other = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        sleep(0).await
    };
    let (holder, waited) = tokio::join!(sleep(3_900), other);
    assert!([200, 504].contains(&holder.status.as_u16()), "{}", holder.text());
    let problem = waited.expect(504);
    assert_eq!(problem["title"], "Reactor Timeout");
    assert!(problem["detail"].as_str().unwrap().contains("did not begin"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn short_calls_are_answered_while_another_tenants_loops_take_all_of_its_slots() {
    let config = RuntimeConfig::new(64);
    let two = two_tenants(config).await;
    // Half of the slots loop without end, and as many again wait.
    let loops = two.hold(0, 64, &json!({"behaviour": "loop"}));
    let began = Instant::now();
    let mut times = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        two.react(1).await.expect(200);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    // A machine that is busy with something else may hold up one or the other.
    let usual = times[times.len() / 2];
    let took = began.elapsed();
    assert!(loops.iter().filter(|call| !call.is_finished()).count() >= 32, "{took:?}");
    // Each would wait for dozens of slices at each step if loops had the threads to themselves. Far above what it takes.
    assert!(usual < Duration::from_secs(2), "{times:?}, {took:?} in all");
    loops.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_are_called_back_have_their_turn_beside_those_that_are_waited_for() {
    let config = RuntimeConfig {
        slots_per_owner: Some(0),
        queue_per_owner: Some(100),
        ..RuntimeConfig::new(2)
    };
    let two = two_tenants(config).await;
    // One tenant's calls take every slot, and some always wait for the next one.
    let over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let (client, path, over) =
                (two.clients[0].clone(), two.paths[0].clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let body = json!({"args": {"behaviour": "sleep", "ms": 200}});
                    client.post(&path, body).await.expect(200);
                }
            })
        })
        .collect();
    let receiver = Receiver::start().await;
    let body = json!({"args": {"ping": 1}, "callback_url": receiver.url()});
    for told in 1..=2 {
        two.clients[1].post(&two.paths[1], body.clone()).await.expect(202);
        receiver.wait(told).await;
    }
    over.store(true, Ordering::Relaxed);
    for busy in busy {
        busy.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_are_called_back_leave_slots_to_those_that_are_waited_for() {
    let config = RuntimeConfig { slots_per_owner: Some(0), ..RuntimeConfig::new(4) };
    let two = two_tenants_with(config, JobLimits::new(None, Some(0), None)).await;
    let receiver = Receiver::start().await;
    let body = json!({"args": {"behaviour": "sleep", "ms": 200_000}, "timeout_ms": 210_000,
        "callback_url": receiver.url()});
    let mut places = Vec::new();
    for _ in 0..6 {
        let queued = two.clients[0].post(&two.paths[0], body.clone()).await;
        queued.expect(202);
        places.push(queued.headers["location"].to_str().unwrap().to_owned());
    }
    let running = async || {
        let mut running = 0;
        for place in &places {
            let result = two.clients[0].get(place).await.expect(200);
            running += usize::from(result["status"] == "running");
        }
        running
    };
    let began = Instant::now();
    while running().await < 3 {
        assert!(began.elapsed() < Duration::from_mins(2), "the runs do not begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..5 {
        two.react(1).await.expect(200);
        two.react(0).await.expect(200);
    }
    assert_eq!(running().await, 3);
}
