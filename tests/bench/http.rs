//! Requests over HTTP, with the load generator beside the server on the same machine.
//!
//! Each iteration is a burst of requests sent at the same time over kept connections. `echo` is the yardstick: a bare
//! axum handler that parses and writes the same JSON, driven the same way.
//!
//! `cargo bench --bench http`

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use divan::Bencher;
use divan::counter::ItemsCount;
use futures::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};
use tokamak::clock::SystemClock;
use tokamak::config::JobLimits;
use tokamak::crypto::entropy::SystemEntropy;
use tokamak::crypto::keys::RootKey;
use tokamak::egress::{Egress, EgressConfig};
use tokamak::http::{Parts, Rates, Scrapers, State, Stopping};
use tokamak::model::permission::ApplicationType;
use tokamak::runtime::{Runtime, RuntimeConfig};
use tokamak::store::sled::SledStore;
use tokamak::vault::{Foundation, Vault};
use tokio::net::TcpListener;

/// Requests sent at the same time.
const BURSTS: &[usize] = &[1, 64];

struct World {
    threads: tokio::runtime::Runtime,
    client: Client,
    server: String,
    echo: String,
    key: String,
    token: String,
    _folder: tempfile::TempDir,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let client = Client::builder().no_proxy().pool_max_idle_per_host(256).build().unwrap();
    let (server, echo, key, token) = threads.block_on(async {
        let vault = open(folder.path()).await;
        let made = vault.bootstrap(None).await.unwrap().unwrap();
        let kind = ApplicationType::Private;
        let key = vault.issue_application(made.tenant.id, kind, "bench").await.unwrap();
        let (listener, server) = listen().await;
        let state = State::from(Parts {
            vault,
            stopping: Stopping::default(),
            rates: Rates::default(),
            scrapers: Scrapers::default(),
        });
        tokio::spawn(tokamak::http::serve(listener, state, std::future::pending()));
        let (listener, echo) = listen().await;
        tokio::spawn(async { axum::serve(listener, echo_router()).await });
        let key = key.expose().to_owned();
        let made = client.post(format!("http://{server}/tokens")).header("SVC-API-KEY", &key);
        let made: Value = made.json(&card()).send().await.unwrap().json().await.unwrap();
        (server, echo, key, made["id"].as_str().unwrap().to_owned())
    });
    World {
        threads,
        client,
        server: format!("http://{server}"),
        echo: format!("http://{echo}"),
        key,
        token,
        _folder: folder,
    }
});

async fn open(folder: &std::path::Path) -> Vault {
    let foundation = Foundation {
        store: Arc::new(SledStore::open(&folder.join("store"), 256 << 20).unwrap()),
        runtime: Runtime::new(RuntimeConfig::new(16)).unwrap(),
        egress: Egress::new(EgressConfig::default()).unwrap(),
        stand_in: None,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::new().unwrap()),
        root_key: RootKey::draw(&SystemEntropy::new().unwrap()),
        fuel_per_ms: 10_000_000,
        react_timeout_ms: 10_000,
        allow_http_callbacks: false,
        jobs: JobLimits::default(),
        programs_bytes_max: 512 << 20,
        opened_bytes_max: 1 << 30,
    };
    Vault::open(foundation).await.unwrap()
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn echo_router() -> axum::Router {
    let echo = async |body: axum::body::Bytes| {
        let body: Value = serde_json::from_slice(&body).unwrap();
        ([("content-type", "application/json")], serde_json::to_vec(&body).unwrap())
    };
    axum::Router::new().route("/", axum::routing::post(echo))
}

fn card() -> Value {
    json!({"type": "card", "data": {"number": "4242424242424242", "expiration_month": 12,
        "expiration_year": 2030}})
}

fn burst(
    bencher: Bencher<'_, '_>,
    size: usize,
    request: impl Fn() -> reqwest::RequestBuilder + Sync,
) {
    let send = async || {
        let response = request().send().await.unwrap();
        assert!(response.status().is_success());
        response.bytes().await.unwrap()
    };
    bencher
        .counter(ItemsCount::new(size))
        .bench(|| WORLD.threads.block_on(join_all((0..size).map(|_| send()))));
}

#[divan::bench(args = BURSTS)]
fn echo(bencher: Bencher<'_, '_>, size: usize) {
    burst(bencher, size, || WORLD.client.post(&WORLD.echo).json(&card()));
}

#[divan::bench(args = BURSTS)]
fn token_create(bencher: Bencher<'_, '_>, size: usize) {
    let path = format!("{}/tokens", WORLD.server);
    burst(bencher, size, || {
        WORLD.client.post(&path).header("SVC-API-KEY", &WORLD.key).json(&card())
    });
}

#[divan::bench(args = BURSTS)]
fn token_get(bencher: Bencher<'_, '_>, size: usize) {
    let path = format!("{}/tokens/{}", WORLD.server, WORLD.token);
    burst(bencher, size, || WORLD.client.get(&path).header("SVC-API-KEY", &WORLD.key));
}

fn main() {
    LazyLock::force(&WORLD);
    divan::main();
}
