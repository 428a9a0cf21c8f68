//! A vault of its own, for what is checked through one.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tokamak::clock::{Clock, ManualClock};
use tokamak::config::{JobLimits, RateLimits};
use tokamak::crypto::entropy::SeededEntropy;
use tokamak::crypto::keys::RootKey;
use tokamak::egress::{Egress, EgressConfig};
use tokamak::http::{Parts, Rates, Scrapers, State, Stopping};
use tokamak::model::permission::ApplicationType;
use tokamak::runtime::{Runtime, RuntimeConfig};
use tokamak::store::sled::SledStore;
use tokamak::vault::{Foundation, Vault};

const ROOT_KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
/// 2030-01-01.
const NOW_MS: u64 = 1_893_456_000_000;
/// Where files cost no disk.
const MEMORY: &str = "/dev/shm";

/// A vault with one tenant, whose clock stands still.
pub struct World {
    /// What it runs on: this thread.
    pub tokio: tokio::runtime::Runtime,
    pub vault: Vault,
    pub clock: ManualClock,
    /// The key of the first management application.
    pub management: String,
    /// The key of a private application with every permission.
    pub private: String,
    _folder: TempDir,
}

impl World {
    pub fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()).unwrap();
        let clock = ManualClock::new(NOW_MS);
        let (vault, management, private) = tokio.block_on(async {
            let vault = Vault::open(foundation(folder.path(), &clock)).await.unwrap();
            let made = vault.bootstrap(None).await.unwrap().unwrap();
            let (tenant, kind) = (made.tenant.id, ApplicationType::Private);
            let private = vault.issue_application(tenant, kind, "fuzz").await.unwrap();
            (vault, made.management_key.expose().to_owned(), private.expose().to_owned())
        });
        Self { tokio, vault, clock, management, private, _folder: folder }
    }

    /// What handlers work on: nobody's requests are counted.
    pub fn state(&self) -> State {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        State::from(Parts {
            vault: self.vault.clone(),
            stopping: Stopping::default(),
            rates: Rates::new(&RateLimits::default(), &clock),
            scrapers: Scrapers::default(),
        })
    }
}

fn foundation(folder: &Path, clock: &ManualClock) -> Foundation {
    Foundation {
        store: Arc::new(SledStore::open(&folder.join("store"), 64 << 20).unwrap()),
        runtime: Runtime::new(RuntimeConfig::new(1)).unwrap(),
        egress: Egress::new(EgressConfig::default()).unwrap(),
        stand_in: None,
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(1)),
        root_key: RootKey::parse(ROOT_KEY).unwrap(),
        fuel_per_ms: 1,
        react_timeout_ms: 1,
        allow_http_callbacks: false,
        jobs: JobLimits::default(),
        programs_bytes_max: 512 << 20,
        opened_bytes_max: 1 << 30,
    }
}
