//! What tests of the vault's inside stand on.

use std::path::Path;
use std::sync::Arc;

use super::{Foundation, Vault};
use crate::clock::ManualClock;
use crate::config::JobLimits;
use crate::crypto::entropy::SeededEntropy;
use crate::crypto::keys::RootKey;
use crate::egress::{Egress, EgressConfig};
use crate::runtime::{Runtime, RuntimeConfig};
use crate::store::sled::SledStore;

/// A vault on a folder, without a tenant.
pub(super) async fn vault(folder: &Path, programs_bytes_max: u64) -> Vault {
    let foundation = Foundation {
        store: Arc::new(SledStore::open(folder, 1 << 20).unwrap()),
        runtime: Runtime::new(RuntimeConfig::new(1)).unwrap(),
        egress: Egress::new(EgressConfig::default()).unwrap(),
        clock: Arc::new(ManualClock::new(0)),
        entropy: Arc::new(SeededEntropy::new(1)),
        root_key: RootKey::draw(&SeededEntropy::new(2)),
        fuel_per_ms: 1,
        react_timeout_ms: 1,
        allow_http_callbacks: false,
        jobs: JobLimits::default(),
        programs_bytes_max,
    };
    Vault::open(foundation).await.unwrap()
}
