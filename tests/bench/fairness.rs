//! What one tenant notices of another one that saturates its slots with endless loops.
//!
//! One client runs a small formula over HTTP, one call after the other: first while the server is quiet, then while
//! another tenant keeps more loops under way than it has slots. Both latencies and their ratio are of one run; look at
//! the ratio. Clients have threads of their own, but share the machine with the server.
//!
//! `cargo bench --bench fairness`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark fails by panicking and prints what it found"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Client;
use serde_json::{Value, json};
use tokamak::clock::SystemClock;
use tokamak::config::JobLimits;
use tokamak::crypto::entropy::SystemEntropy;
use tokamak::crypto::keys::RootKey;
use tokamak::egress::{Egress, EgressConfig};
use tokamak::http::{Parts, Rates, Scrapers, State, Stopping};
use tokamak::limits::{FUEL_PER_MS_DEFAULT, REACT_TIMEOUT_MS, REACTOR_SLOTS_DEFAULT};
use tokamak::model::permission::ApplicationType;
use tokamak::runtime::{Runtime, RuntimeConfig};
use tokamak::store::sled::SledStore;
use tokamak::vault::{Foundation, NewTenant, Vault};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

#[path = "../../host/build/guests.rs"]
#[allow(dead_code, reason = "the build script uses the rest of it")]
mod build;

/// The formula `card-insights`, which ships with the product.
const CARD_INSIGHTS: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";
/// Calls that are measured, of each kind.
const CALLS: usize = 2_000;
/// Calls ahead of those, so that everything is compiled and connected.
const WARM_UP: usize = 200;
/// Loops that one tenant keeps under way: its half of the slots, and some that wait.
const LOOPS: usize = REACTOR_SLOTS_DEFAULT as usize / 2 + 32;
/// How long the loops have to take all slots before the measuring begins.
const SETTLING: Duration = Duration::from_secs(2);

/// One tenant's reactor, and a key that may run it.
#[derive(Clone)]
struct Reactor {
    client: Client,
    path: String,
    key: String,
    body: Value,
}

impl Reactor {
    async fn run(&self) -> u16 {
        let request = self.client.post(&self.path).header("SVC-API-KEY", &self.key);
        let response = request.json(&self.body).send().await.unwrap();
        let status = response.status().as_u16();
        response.bytes().await.unwrap();
        status
    }
}

async fn open(folder: &Path) -> Vault {
    let foundation = Foundation {
        store: Arc::new(SledStore::open(&folder.join("store"), 256 << 20).unwrap()),
        runtime: Runtime::new(RuntimeConfig::new(REACTOR_SLOTS_DEFAULT)).unwrap(),
        egress: Egress::new(EgressConfig::default()).unwrap(),
        stand_in: None,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::new().unwrap()),
        root_key: RootKey::draw(&SystemEntropy::new().unwrap()),
        fuel_per_ms: FUEL_PER_MS_DEFAULT,
        react_timeout_ms: REACT_TIMEOUT_MS,
        allow_http_callbacks: false,
        jobs: JobLimits::default(),
        programs_bytes_max: 512 << 20,
        opened_bytes_max: 1 << 30,
    };
    Vault::open(foundation).await.unwrap()
}

async fn serve(vault: Vault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = State::from(Parts {
        vault,
        stopping: Stopping::default(),
        rates: Rates::default(),
        scrapers: Scrapers::default(),
    });
    tokio::spawn(tokamak::http::serve(listener, state, std::future::pending()));
    address
}

/// The component of `probe`, which loops when it is told to.
fn hostile_component() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/guests");
    let target_dir = build::shared_target_dir(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let packages = ["probe".to_owned()];
    let project = build::Project { root: &root, packages: &packages, target_dir: &target_dir };
    let folder = project.build().unwrap();
    fs::read(folder.join(build::component_file("probe"))).unwrap()
}

async fn post(client: &Client, url: String, key: &str, body: Value) -> Value {
    let response = client.post(url).header("SVC-API-KEY", key).json(&body).send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    response.json().await.unwrap()
}

/// Makes a reactor of a formula, or of a component that is not there yet, and a key to run it.
async fn reactor(
    (vault, address): (&Vault, SocketAddr),
    tenant: NewTenant,
    component: Option<Vec<u8>>,
    body: Value,
) -> Reactor {
    let client = Client::builder().no_proxy().pool_max_idle_per_host(LOOPS).build().unwrap();
    let management = tenant.management_key.expose();
    let formula = match component {
        None => CARD_INSIGHTS.to_owned(),
        Some(component) => {
            let formula = json!({"name": "loop", "component": STANDARD.encode(component)});
            let url = format!("http://{address}/reactor-formulas");
            let made = post(&client, url, management, formula).await;
            made["id"].as_str().unwrap().to_owned()
        }
    };
    let reactor = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let url = format!("http://{address}/reactors");
    let made = post(&client, url, management, reactor).await;
    let path = format!("http://{address}/reactors/{}/react", made["id"].as_str().unwrap());
    let kind = ApplicationType::Private;
    let key = vault.issue_application(tenant.tenant.id, kind, "bench").await.unwrap();
    Reactor { client, path, key: key.expose().to_owned(), body }
}

/// Latencies of calls one after the other, the shortest first.
async fn measure(reactor: &Reactor) -> Vec<Duration> {
    let mut latencies = Vec::with_capacity(CALLS);
    for call in 0..WARM_UP + CALLS {
        let began = Instant::now();
        assert_eq!(reactor.run().await, 200);
        if call >= WARM_UP {
            latencies.push(began.elapsed());
        }
    }
    latencies.sort_unstable();
    latencies
}

fn percentiles(latencies: &[Duration]) -> [f64; 2] {
    [50, 99].map(|percent| latencies[latencies.len() * percent / 100].as_secs_f64() * 1_000.0)
}

fn main() {
    let component = hostile_component();
    let folder = tempfile::tempdir().unwrap();
    let server = Builder::new_multi_thread().enable_all().build().unwrap();
    let attacker = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let victim = Builder::new_current_thread().enable_all().build().unwrap();
    let (small, hostile) = server.block_on(async {
        let vault = open(folder.path()).await;
        let address = serve(vault.clone()).await;
        let at = (&vault, address);
        let card = json!({"number": "4242424242424242", "expiration_month": 12,
            "expiration_year": 2030});
        let tenant = vault.bootstrap(None).await.unwrap().unwrap();
        let small = reactor(at, tenant, None, json!({"args": {"card": card}})).await;
        let tenant = vault.create_tenant("hostile", None).await.unwrap();
        let body = json!({"args": {"behaviour": "loop"}});
        (small, reactor(at, tenant, Some(component), body).await)
    });
    // Connections belong to the threads that made them.
    let fresh = |reactor: Reactor| Reactor {
        client: Client::builder().no_proxy().pool_max_idle_per_host(LOOPS).build().unwrap(),
        ..reactor
    };
    let (small, hostile) = (fresh(small), fresh(hostile));

    let quiet = percentiles(&victim.block_on(measure(&small)));
    for _ in 0..LOOPS {
        let hostile = hostile.clone();
        attacker.spawn(async move {
            loop {
                let status = hostile.run().await;
                assert_eq!(status, 504);
            }
        });
    }
    std::thread::sleep(SETTLING);
    let saturated = percentiles(&victim.block_on(measure(&small)));

    println!("{LOOPS} endless loops of another tenant; {CALLS} calls of a small formula over HTTP");
    for (name, [p50, p99]) in [("quiet", quiet), ("saturated", saturated)] {
        println!("{name:<10} p50 {p50:>8.3} ms   p99 {p99:>8.3} ms");
    }
    let [p50, p99] = [saturated[0] / quiet[0], saturated[1] / quiet[1]];
    println!("{:<10} p50 {p50:>8.2}      p99 {p99:>8.2}", "ratio");
    attacker.shutdown_background();
    server.shutdown_background();
}
