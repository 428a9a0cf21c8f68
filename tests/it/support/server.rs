//! A server inside the test's process: port 0, an empty store, a clock that stands still.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokamak::clock::ManualClock;
use tokamak::config::{JobLimits, Network, RateLimits};
use tokamak::crypto::entropy::SeededEntropy;
use tokamak::crypto::hash;
use tokamak::crypto::keys::RootKey;
use tokamak::crypto::seal::Key;
use tokamak::egress::{Egress, EgressConfig};
use tokamak::http::{Parts, Rates, Scrapers, Serving, State, Stopping};
use tokamak::limits::OPENED_BYTES_MAX;
use tokamak::model::permission::{ApplicationType, Permission};
use tokamak::runtime::{CacheConfig, CompileBounds, Compiler, Runtime, RuntimeConfig};
use tokamak::store::Store;
use tokamak::store::sled::{SledStore, Space};
use tokamak::vault::{Foundation, Vault};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Client;

/// 2026-01-01T00:00:00Z, in milliseconds since the Unix epoch.
pub const START_MS: u64 = 1_767_225_600_000;
const CACHE_BYTES: u64 = 16 << 20;

/// How a test's server differs from the usual one.
pub struct Setup {
    /// Fuel of an invocation for each millisecond of its time.
    pub fuel_per_ms: u64,
    /// Time of a synchronous invocation, in milliseconds.
    pub react_timeout_ms: u64,
    /// Whether formulas may reach this machine.
    pub allow_private_networks: bool,
    /// Networks that they may reach in any case.
    pub allow_networks: Vec<Network>,
    /// Whether webhooks may go over plain http.
    pub allow_http_callbacks: bool,
    /// Where the store lies, if it is to outlive the server.
    pub folder: Option<PathBuf>,
    /// How often who may send what.
    pub rates: RateLimits,
    /// How many asynchronous runs go on and wait.
    pub jobs: JobLimits,
    /// Bytes that what is read for requests may take.
    pub opened_bytes_max: usize,
    /// How connections are served.
    pub serving: Serving,
    /// Where formulas run, if not where those of all tests do.
    pub runtime: Option<Runtime>,
    /// The root key, if not the usual one.
    pub root_key: Option<RootKey>,
    /// The store, if not one in the folder.
    pub store: Option<Arc<dyn Store>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            fuel_per_ms: 10_000_000,
            react_timeout_ms: 10_000,
            allow_private_networks: false,
            allow_networks: Vec::new(),
            allow_http_callbacks: false,
            folder: None,
            rates: RateLimits::default(),
            jobs: JobLimits::default(),
            opened_bytes_max: OPENED_BYTES_MAX,
            serving: Serving::default(),
            runtime: None,
            root_key: None,
            store: None,
        }
    }
}

impl Setup {
    /// With the way open to this machine, for formulas and for webhooks.
    pub fn open() -> Self {
        Self { allow_private_networks: true, allow_http_callbacks: true, ..Self::default() }
    }
}

/// A running server with one tenant, one management application and one private application that may do everything.
pub struct TestServer {
    address: SocketAddr,
    folder: PathBuf,
    /// The server's clock.
    pub clock: ManualClock,
    /// The vault behind it, for what only the operator can do.
    pub vault: Vault,
    /// Holds every management permission.
    pub management: Client,
    /// Holds every private permission; reads masked.
    pub private: Client,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<std::io::Result<()>>>,
    _temporary: Option<TempDir>,
}

impl TestServer {
    /// Starts a server.
    pub async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    /// Starts a server that differs from the usual one.
    pub async fn start_with(setup: Setup) -> Self {
        let temporary = setup.folder.is_none().then(|| tempfile::tempdir().unwrap());
        let folder = match (&setup.folder, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => unreachable!("there is a folder or a temporary one"),
        };
        let clock = ManualClock::new(START_MS);
        let (rates, serving) = (setup.rates, setup.serving.clone());
        let foundation = foundation(setup, &folder, &clock).await;
        let rates = Rates::new(&rates, &foundation.clock);
        let vault = Vault::open(foundation).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let state = State::from(Parts {
            vault: vault.clone(),
            stopping: Stopping::default(),
            rates,
            scrapers: Scrapers::default(),
        });
        let served = tokio::spawn(tokamak::http::serve_with(listener, state, serving, async {
            let _ = stopped.await;
        }));
        let (management, private) = first_clients(&vault, address).await;
        Self {
            address,
            folder,
            clock,
            vault,
            management,
            private,
            stop: Some(stop),
            served: Some(served),
            _temporary: temporary,
        }
    }

    /// A client with this key.
    pub fn client(&self, key: &str) -> Client {
        Client::new(self.address, Some(key))
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client without a key.
    pub fn stranger(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Where the store lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A client of a new application with these `permissions` and `rules`.
    pub async fn application(
        &self,
        kind: &str,
        permissions: &[&str],
        rules: serde_json::Value,
    ) -> Client {
        let body = json!({
            "name": "test", "type": kind, "permissions": permissions, "rules": rules,
        });
        let answer = self.management.post("/applications", body).await;
        self.client(answer.expect(201)["key"].as_str().unwrap())
    }

    /// A client of a session that this public application opens, and that may make tokens.
    pub async fn session(&self, opener: &Client) -> Client {
        let opened = opener.post("/sessions", json!({})).await.expect(201);
        let grant = json!({"nonce": opened["nonce"], "permissions": ["token:create"]});
        self.private.post("/sessions/authorize", grant).await.expect(200);
        self.client(opened["session_key"].as_str().unwrap())
    }

    /// A private client that sees every token in plaintext.
    pub async fn revealing(&self) -> Client {
        let rule = json!([{
            "description": "everything", "priority": 1, "container": "/", "transform": "reveal",
            "permissions": ["token:create", "token:read", "token:update", "token:delete",
                "token:search", "token:use"],
        }]);
        self.application("private", &[], rule).await
    }

    /// The management client of another tenant.
    pub async fn other_tenant(&self) -> Client {
        let made = self.vault.create_tenant("other", None).await.unwrap();
        self.client(made.management_key.expose())
    }

    /// Stops the server and waits until its store is closed.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(served) = self.served.take() {
            served.await.unwrap().unwrap();
        }
    }
}

/// What a vault is opened on.
pub async fn foundation(setup: Setup, folder: &Path, clock: &ManualClock) -> Foundation {
    let store = match setup.store {
        Some(store) => store,
        None => Arc::new(open_store(&folder.join("store")).await),
    };
    let config = EgressConfig {
        allow_private_networks: setup.allow_private_networks,
        allow_networks: setup.allow_networks,
    };
    Foundation {
        store,
        runtime: setup.runtime.unwrap_or_else(shared_runtime),
        egress: Egress::new(config).unwrap(),
        stand_in: None,
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(rand_seed())),
        root_key: setup.root_key.unwrap_or_else(root_key),
        fuel_per_ms: setup.fuel_per_ms,
        react_timeout_ms: setup.react_timeout_ms,
        allow_http_callbacks: setup.allow_http_callbacks,
        jobs: setup.jobs,
        programs_bytes_max: 512 << 20,
        opened_bytes_max: setup.opened_bytes_max,
    }
}

/// The usual root key.
pub fn root_key() -> RootKey {
    RootKey::parse("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=").unwrap()
}

/// Opens the store; the connections of a server that just stopped may hold it a moment longer.
pub async fn open_store(folder: &Path) -> SledStore {
    for _ in 0..1_200 {
        match SledStore::open(folder, CACHE_BYTES) {
            Ok(store) => return store,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    SledStore::open(folder, CACHE_BYTES).unwrap()
}

/// A store in a folder, and how many bytes its disk has free: as many as the test says.
pub fn store_with_disk(folder: &Path) -> (Arc<dyn Store>, Arc<AtomicU64>) {
    let free = Arc::new(AtomicU64::new(1 << 40));
    let measured = Arc::clone(&free);
    let space = Space::measured(move || Some(measured.load(Ordering::SeqCst)));
    (Arc::new(SledStore::open_within(folder, CACHE_BYTES, space).unwrap()), free)
}

/// One sandbox for all tests of the process: each reserves much address space.
pub fn shared_runtime() -> Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let cache = || CacheConfig {
        folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled"),
        key: key_of_this_build(),
        bytes_max: 256 << 20,
        alone: false,
    };
    let shared = || runtime(64, CompileBounds::default(), Some(cache()));
    RUNTIME.get_or_init(shared).clone()
}

/// A sandbox that compiles as the server does: in processes of the real binary.
pub fn runtime(slots: u32, bounds: CompileBounds, cache: Option<CacheConfig>) -> Runtime {
    let program = env!("CARGO_BIN_EXE_tokamak").into();
    let compiler = Compiler::Process { program, bounds };
    Runtime::new(RuntimeConfig { compiler, cache, ..RuntimeConfig::new(slots) }).unwrap()
}

/// What was compiled by another build of the tests does not count in this one.
fn key_of_this_build() -> Key {
    let build = std::env::current_exe().and_then(std::fs::metadata).unwrap().modified().unwrap();
    let built = build.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    Key::from(hash::keyed(&Key::default(), &[&built.to_be_bytes()]))
}

async fn first_clients(vault: &Vault, address: SocketAddr) -> (Client, Client) {
    let Some(made) = vault.bootstrap(None).await.unwrap() else {
        // The folder held a tenant already: the test brings its own keys.
        return (Client::new(address, None), Client::new(address, None));
    };
    let management = Client::new(address, Some(made.management_key.expose()));
    let private = ApplicationType::Private;
    let held = Permission::ALL.iter().filter(|held| held.holders().contains(&private));
    let permissions: Vec<_> = held.map(|held| held.as_str()).collect();
    let body = json!({"name": "private", "type": "private", "permissions": permissions});
    let answer = management.post("/applications", body).await;
    let key = answer.expect(201)["key"].as_str().unwrap().to_owned();
    (management, Client::new(address, Some(&key)))
}

/// Servers of one process draw different ids and keys.
fn rand_seed() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
