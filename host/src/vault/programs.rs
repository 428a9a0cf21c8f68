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
use crate::runtime::Program;

/// Programs kept in memory.
const KEPT_MAX: usize = 256;

type Slot = Arc<OnceCell<Program>>;

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
        if let Some(program) = slot.get() {
            return Ok(program.clone());
        }
        let runtime = self.0.runtime.clone();
        let (slot_to_fill, kept) = (Arc::clone(&slot), digest.to_owned());
        // Tasks of their own: whoever gives up waiting leaves the work to those that come after.
        let load = tokio::spawn(async move {
            let load = async || runtime.load(&kept).await.ok_or(());
            slot_to_fill.get_or_try_init(load).await.cloned()
        });
        if let Ok(program) = load.await.map_err(Error::internal)? {
            return Ok(program);
        }
        let bytes = bytes().await?;
        // The component may have been replaced since its digest was read. What is kept under a digest is what has it:
        // other formulas, of other tenants too, run by it.
        if sha256_hex(&bytes) != digest {
            return Err(Error::Conflict("The formula's component was just replaced."));
        }
        let runtime = self.0.runtime.clone();
        let compile = tokio::spawn(async move {
            let compile = async || Ok(runtime.compile(bytes).await?);
            slot.get_or_try_init(compile).await.cloned()
        });
        compile.await.map_err(Error::internal)?
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;

    use super::{KEPT_MAX, Programs, Vault, official};
    use crate::clock::ManualClock;
    use crate::crypto::entropy::SeededEntropy;
    use crate::crypto::keys::RootKey;
    use crate::runtime::{Compiler, Runtime, RuntimeConfig};
    use crate::store::sled::SledStore;
    use crate::vault::{Error, Foundation};

    async fn vault(folder: &std::path::Path) -> Vault {
        let runtime = RuntimeConfig { slots: 1, compiler: Compiler::Thread, cache: None };
        let foundation = Foundation {
            store: Arc::new(SledStore::open(folder, 1 << 20).unwrap()),
            runtime: Runtime::new(runtime).unwrap(),
            clock: Arc::new(ManualClock::new(0)),
            entropy: Arc::new(SeededEntropy::new(1)),
            root_key: RootKey::draw(&SeededEntropy::new(2)),
            fuel_per_ms: 1,
            react_timeout_ms: 1,
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
