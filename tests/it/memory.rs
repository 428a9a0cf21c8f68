//! What formulas take of the machine together: memory while they run, uploads that wait for the compiler, and time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::runtime::{CompileBounds, Runtime, RuntimeConfig};
use tokio::task::JoinHandle;

use crate::support::binary::{compiling, eventually};
use crate::support::hostile_components::{slow, variant};
use crate::support::server::{Setup, runtime};
use crate::support::{Answer, Client, TestServer, guests};

/// A reactor of `probe`, and who may run it.
#[derive(Clone)]
struct Probe {
    client: Client,
    path: String,
}

impl Probe {
    async fn make(server: &TestServer, management: Client) -> Self {
        let member = json!({"name": "probe", "limits": {"memory_mb": 256}});
        let formula = guests::send(&management, "probe", member).await;
        let body = json!({"name": "a", "formula": {"id": formula}, "configuration": {}});
        let reactor = management.post("/reactors", body).await.expect(201);
        let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
        let application = management.post("/applications", body).await.expect(201);
        let client = server.client(application["key"].as_str().unwrap());
        let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
        client.post(&path, json!({})).await.expect(200);
        Self { client, path }
    }

    async fn run(&self, args: Value) -> Answer {
        self.client.post(&self.path, json!({"args": args})).await
    }

    async fn hold(&self, mb: u64) -> Answer {
        self.run(json!({"behaviour": "hold", "bytes": mb << 20})).await
    }

    /// Holds 24 MiB for a while, beside whatever else is done; gives the run once it does.
    async fn hold_on(&self) -> JoinHandle<Answer> {
        let begin = || {
            let probe = self.clone();
            let args = json!({"behaviour": "hold", "bytes": 24 << 20, "ms": 15_000});
            tokio::spawn(async move { probe.run(args).await })
        };
        let mut held = begin();
        while self.hold(20).await.status != 429 {
            // What looks whether it is there may have been in its way.
            if held.is_finished() {
                held = begin();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        held
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_share_the_servers_memory_and_a_tenants_share_half_of_it() {
    let config = RuntimeConfig { memory_bytes: 64 << 20, ..RuntimeConfig::new(8) };
    let runtime = Some(Runtime::new(config).unwrap());
    let setup = Setup { runtime, react_timeout_ms: 120_000, ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let a = Probe::make(&server, server.management.clone()).await;
    let b = Probe::make(&server, server.other_tenant().await).await;
    let third = server.vault.create_tenant("third", None).await.unwrap();
    let c = Probe::make(&server, server.client(third.management_key.expose())).await;
    let refused = async |probe: &Probe, mb: u64, status: u16, part: &str| {
        let answer = probe.hold(mb).await;
        let problem = answer.expect(status);
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
        assert!(answer.headers.contains_key("retry-after"));
    };
    // The formula's own bound is one thing, the tenant's part another; what a run held is given back, often enough.
    for _ in 0..3 {
        a.hold(20).await.expect(200);
        refused(&a, 40, 429, "The tenant's reactors hold all the memory").await;
    }
    let held = [a.hold_on().await, b.hold_on().await];
    refused(&c, 20, 503, "The server has no memory left for the formula.").await;
    refused(&a, 20, 429, "The tenant's reactors hold all the memory").await;
    // Small ones run as ever, of whomever.
    for probe in [&a, &b, &c] {
        probe.run(json!({"ping": 1})).await.expect(200);
    }
    for held in held {
        held.await.unwrap().expect(200);
    }
    for probe in [&a, &b, &c] {
        probe.hold(20).await.expect(200);
    }
    // Runs that are given up, and that end badly, give back what they held.
    a.hold_on().await.abort();
    refused(&a, 100, 429, "The tenant's reactors hold all the memory").await;
    a.run(json!({"behaviour": "memory"})).await.expect(429);
    let again = async { while a.hold(24).await.status != 200 {} };
    tokio::time::timeout(Duration::from_mins(3), again).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_wait_are_bounded_for_each_tenant() {
    let runtime = Some(runtime(4, CompileBounds { memory_mb: 1_536, cpu_seconds: 3_600 }, None));
    let server = TestServer::start_with(Setup { runtime, ..Setup::default() }).await;
    let other = server.other_tenant().await;
    // Made before the first is sent: none is to be compiled to its end before the last one comes.
    let component = slow();
    let bodies: Vec<_> =
        (0..5).map(|number| guests::upload(&variant(&component, &[number]))).collect();
    let upload = |body| {
        let client = server.management.clone();
        tokio::spawn(async move { client.post("/reactor-formulas", body).await })
    };
    let mut uploads: Vec<_> = bodies.into_iter().map(upload).collect();
    let refused = loop {
        if let Some(at) = uploads.iter().position(JoinHandle::is_finished) {
            break uploads.swap_remove(at).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let problem = refused.expect(429);
    assert!(problem["detail"].as_str().unwrap().contains("Too many components"), "{problem}");
    assert_eq!(refused.headers["retry-after"], "1");
    // Another tenant uploads, what is known needs no compiler, and nothing else is held up.
    let large = variant(guests::component("bare"), &vec![0; 600 << 10]);
    other.post("/reactor-formulas", guests::upload(&large)).await.expect(201);
    let known = guests::upload(&large);
    server.management.post("/reactor-formulas", known).await.expect(201);
    assert_eq!(uploads.iter().filter(|upload| !upload.is_finished()).count(), 4);
    uploads.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runs_time_is_that_of_the_whole() {
    const TIME: Duration = Duration::from_secs(20);
    let folder = tempfile::tempdir().unwrap();
    let setup = |react_timeout_ms, bounds| Setup {
        folder: Some(folder.path().to_owned()),
        react_timeout_ms,
        runtime: Some(runtime(4, bounds, None)),
        ..Setup::default()
    };
    let first = TestServer::start_with(setup(20_000, CompileBounds::default())).await;
    let reactor = guests::echo_reactor(&first).await;
    let keys = [&first.management, &first.private].map(|client| client.key.clone().unwrap());
    first.stop().await;
    let bounds = CompileBounds { memory_mb: 1_536, cpu_seconds: 10 };
    let time_ms = u64::try_from(TIME.as_millis()).unwrap();
    let second = TestServer::start_with(setup(time_ms, bounds)).await;
    let [management, private] = keys.map(|key| second.client(&key));
    // The compiler is busy for ten seconds at least, and the program is not there before.
    let uploading = tokio::spawn({
        let (client, body) = (management.clone(), guests::upload(&slow()));
        async move { client.post("/reactor-formulas", body).await }
    });
    let at_work = || compiling(std::process::id(), "--cpu-seconds 10").pop();
    eventually("process that compiles", at_work).await;
    let began = Instant::now();
    let body = json!({"args": {"behaviour": "sleep", "ms": 60_000}});
    let path = format!("/reactors/{reactor}");
    let problem = private.post(&format!("{path}/react"), body).await.expect(504);
    let took = began.elapsed();
    assert_eq!(problem["detail"], "The formula ran past its deadline.");
    // Twice its time, less what the compiler took at least, would be thirty seconds.
    assert!(took >= TIME && took < TIME + Duration::from_secs(9), "{took:?}");
    // What is told of it is the whole, too.
    let runs = management.get(&format!("{path}/invocations")).await.expect(200);
    let told = Duration::from_micros(runs["data"][0]["elapsed_us"].as_u64().unwrap());
    assert!(told >= TIME && told <= took, "{told:?} of {took:?}");
    uploading.await.unwrap().expect(422);
}
