//! Compiled components, by the digest of their bytes.
//!
//! The most recently used programs stay in memory, their code on disk; see `runtime::cache`. Compiling happens once per
//! component and engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{Error, Vault, official};
use crate::crypto::hash::sha256_hex;
use crate::runtime::{CompileError, ComponentError, Program};

/// Programs kept in memory.
const KEPT_MAX: usize = 256;

/// A program, or why there is none.
type Slot = Arc<OnceCell<Result<Program, ComponentError>>>;

/// Programs at hand.
#[derive(Default)]
pub struct Programs {
    slots: Mutex<HashMap<String, (u64, Slot)>>,
    uses: AtomicU64,
}

impl Programs {
    /// The slot of a digest, marked as just used; the longest unused one makes room.
    fn slot(&self, digest: &str) -> Slot {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        if let Some((used, slot)) = slots.get_mut(digest) {
            *used = now;
            return Arc::clone(slot);
        }
        if slots.len() >= KEPT_MAX {
            let oldest = slots.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) {
                slots.remove(&oldest);
            }
        }
        let slot = Slot::default();
        slots.insert(digest.to_owned(), (now, Arc::clone(&slot)));
        slot
    }

    /// Gives up a slot: whoever waits for it learns why, and whoever comes later tries again.
    fn forget(&self, digest: &str, slot: &Slot) {
        let mut slots = self.slots.lock();
        if slots.get(digest).is_some_and(|(_, kept)| Arc::ptr_eq(kept, slot)) {
            slots.remove(digest);
        }
    }
}

impl Vault {
    /// Compiles the formulas that ship with the product, ahead of their first use.
    pub async fn compile_official(&self) {
        for official in official::all() {
            let bytes = || std::future::ready(Ok(official.component.to_vec()));
            if let Err(error) = self.program(&official.formula.component_digest, bytes).await {
                tracing::error!(formula = official.formula.name, ?error, "does not compile");
            }
        }
    }

    /// The program of a digest: at hand, kept on disk, or compiled from `bytes`; requests for one digest load or compile it
    /// once.
    pub(super) async fn program<F>(
        &self,
        digest: &str,
        bytes: impl FnOnce() -> F,
    ) -> Result<Program, Error>
    where
        F: Future<Output = Result<Vec<u8>, Error>>,
    {
        let slot = self.0.programs.slot(digest);
        if let Some(known) = slot.get() {
            return Ok(known.clone()?);
        }
        // Tasks of their own: whoever gives up waiting leaves the work to those that come after.
        let loading = self.clone().load(digest.to_owned(), Arc::clone(&slot));
        if let Some(known) = tokio::spawn(loading).await.map_err(Error::internal)? {
            return Ok(known?);
        }
        let bytes = bytes().await?;
        // The component may have been replaced since its digest was read. What is kept under a digest is what has it:
        // other formulas, of other tenants too, run by it.
        if sha256_hex(&bytes) != digest {
            return Err(Error::Conflict("The formula's component was just replaced."));
        }
        let compiling = self.clone().compile(digest.to_owned(), slot, bytes);
        tokio::spawn(compiling).await.map_err(Error::internal)?
    }

    /// Fills a slot by what is kept on disk.
    async fn load(self, digest: String, slot: Slot) -> Option<Result<Program, ComponentError>> {
        let load = async || self.0.runtime.load(&digest).await.map(Ok).ok_or(());
        slot.get_or_try_init(load).await.ok().cloned()
    }

    /// Fills a slot by compiling. A component that is refused is so for all who wait: each of them trying again would take
    /// the compiler for hours.
    async fn compile(self, digest: String, slot: Slot, bytes: Vec<u8>) -> Result<Program, Error> {
        let compile = async || match self.0.runtime.compile(bytes).await {
            Ok(program) => Ok(Ok(program)),
            Err(CompileError::Component(refusal)) => Ok(Err(refusal)),
            Err(fault) => Err(Error::from(fault)),
        };
        let known = slot.get_or_try_init(compile).await?.clone();
        if known.is_err() {
            self.0.programs.forget(&digest, &slot);
        }
        Ok(known?)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;

    use super::{KEPT_MAX, Programs, Vault, official, sha256_hex};
    use crate::clock::ManualClock;
    use crate::config::JobLimits;
    use crate::crypto::entropy::SeededEntropy;
    use crate::crypto::keys::RootKey;
    use crate::egress::{Egress, EgressConfig};
    use crate::runtime::{ComponentError, Runtime, RuntimeConfig};
    use crate::store::sled::SledStore;
    use crate::vault::{Error, Foundation};

    async fn vault(folder: &std::path::Path) -> Vault {
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
        };
        Vault::open(foundation).await.unwrap()
    }

    #[tokio::test]
    async fn nothing_is_compiled_under_a_digest_that_is_not_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path()).await;
        let [one, other, ..] = &official::all().collect::<Vec<_>>()[..] else { panic!() };
        let digest = &one.formula.component_digest;
        let given = |bytes: &'static [u8]| move || ready(Ok(bytes.to_vec()));
        for wrong in [other.component, &one.component[..100], b""] {
            let refused = vault.program(digest, given(wrong)).await;
            assert!(matches!(refused, Err(Error::Conflict(_))));
        }
        vault.program(digest, given(one.component)).await.unwrap();
        // From now on it is at hand: nobody asks for the component.
        let unasked = || async { panic!("the component was read") };
        vault.program(digest, unasked).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_refused_takes_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path()).await;
        let wrong = b"no component";
        let digest = sha256_hex(wrong);
        for _ in 0..2 {
            let refused = vault.program(&digest, || ready(Ok(wrong.to_vec()))).await;
            assert!(matches!(refused, Err(Error::NotRunnable(ComponentError::NotWebAssembly))));
            assert!(vault.0.programs.slots.lock().is_empty());
        }
        // A slot that another one replaced is not that one's end.
        let old = vault.0.programs.slot("a");
        vault.0.programs.forget("a", &old);
        let new = vault.0.programs.slot("a");
        vault.0.programs.forget("a", &old);
        assert!(Arc::ptr_eq(&new, &vault.0.programs.slot("a")));
    }

    #[test]
    fn the_longest_unused_program_makes_room() {
        let programs = Programs::default();
        for number in 0..KEPT_MAX {
            programs.slot(&number.to_string());
        }
        let first = programs.slot("0");
        programs.slot("one more");
        let at_hand = |digest: &str| programs.slots.lock().contains_key(digest);
        assert!(at_hand("0") && !at_hand("1") && at_hand("2") && at_hand("one more"));
        assert_eq!(programs.slots.lock().len(), KEPT_MAX);
        assert!(Arc::ptr_eq(&first, &programs.slot("0")));
    }
}
