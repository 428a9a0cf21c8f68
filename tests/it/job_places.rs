//! Places of asynchronous runs: long ones of one tenant keep no other from its turn (decisions §7).

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokamak::config::JobLimits;
use tokamak::runtime::CompileBounds;

use crate::support::receiver::Receiver;
use crate::support::server::{Setup, runtime};
use crate::support::{Client, TestServer, guests};

/// How long a long run sleeps: a short one is over long before.
const LONG_MS: u64 = 9_000;

/// A key of another tenant that may have runs, and its reactor.
async fn another(server: &TestServer) -> (Client, String) {
    let management = server.other_tenant().await;
    let component = STANDARD.encode(guests::component("probe"));
    let body = json!({"name": "probe", "component": component});
    let formula = management.post("/reactor-formulas", body).await.expect(201);
    let body = json!({"name": "r", "formula": {"id": formula["id"]}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    (client, reactor["id"].as_str().unwrap().to_owned())
}

/// Queues a run; gives where its result is.
async fn queue(client: &Client, reactor: &str, args: Value, url: &str) -> String {
    let body = json!({"args": args, "callback_url": url});
    let queued = client.post(&format!("/reactors/{reactor}/react"), body).await;
    queued.expect(202);
    queued.headers["location"].to_str().unwrap().to_owned()
}

async fn status(client: &Client, place: &str) -> Value {
    client.get(place).await.expect(200)["status"].clone()
}

/// Has one tenant queue long runs until no more of them begin, and another a short one, which is not to wait for any of them.
async fn a_short_run_does_not_wait_for_long_ones(setup: Setup, long: usize) {
    let server = TestServer::start_with(setup).await;
    let receiver = Receiver::start().await;
    let (client, own) = another(&server).await;
    let reactor = guests::echo_reactor(&server).await;
    // Both are compiled before.
    for (client, reactor) in [(&server.private, &reactor), (&client, &own)] {
        let body = json!({"args": {"behaviour": "echo"}});
        client.post(&format!("/reactors/{reactor}/react"), body).await.expect(200);
    }
    let mut places = Vec::new();
    for _ in 0..long {
        let args = json!({"behaviour": "sleep", "ms": LONG_MS});
        places.push(queue(&server.private, &reactor, args, &receiver.url()).await);
    }
    let began = Instant::now();
    while status(&server.private, &places[0]).await == "queued" {
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Whatever else begins has begun by then.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let place = queue(&client, &own, json!({"behaviour": "echo"}), &receiver.url()).await;
    while status(&client, &place).await != "completed" {
        assert_eq!(status(&server.private, &places[0]).await, "running", "it waits for long ones");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_slot_of_its_tenants_takes_no_place() {
    let runtime = Some(runtime(4, CompileBounds::default(), None));
    a_short_run_does_not_wait_for_long_ones(Setup { runtime, ..Setup::open() }, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_places_are_for_tenants_that_have_none() {
    let jobs = JobLimits::new(Some(8), Some(8), None);
    a_short_run_does_not_wait_for_long_ones(Setup { jobs, ..Setup::open() }, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_place_is_for_tenants_that_have_none_however_few_there_are() {
    let jobs = JobLimits::new(Some(3), Some(3), None);
    a_short_run_does_not_wait_for_long_ones(Setup { jobs, ..Setup::open() }, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_half_of_the_places_that_there_are_slots_for() {
    // Of 64 runs, for which there are 8 slots, of which runs that nobody waits for take 6.
    let runtime = Some(runtime(8, CompileBounds::default(), None));
    let setup = Setup { runtime, jobs: JobLimits::new(None, None, None), ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let receiver = Receiver::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let mut places = Vec::new();
    for _ in 0..6 {
        let args = json!({"behaviour": "sleep", "ms": LONG_MS});
        places.push(queue(&server.private, &reactor, args, &receiver.url()).await);
    }
    let began = Instant::now();
    let running = async || {
        let mut running = 0;
        for place in &places {
            running += usize::from(status(&server.private, place).await == "running");
        }
        running
    };
    while running().await < 3 {
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(running().await, 3);
}
