//! Compiled components, by the digest of their bytes.
//!
//! Compiling takes tens of milliseconds and happens once per component and process, on a thread that may block. The
//! most recently used programs stay.

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

    /// The program of a digest, compiled from `bytes` at first need; requests for one digest compile it once.
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
        let bytes = bytes().await?;
        // The component may have been replaced since its digest was read. What is kept under a digest is what has it:
        // other formulas, of other tenants too, run by it.
        if sha256_hex(&bytes) != digest {
            return Err(Error::Conflict("The formula's component was just replaced."));
        }
        let runtime = self.0.runtime.clone();
        // A task of its own: whoever gives up waiting leaves the work to those that come after.
        let compile = tokio::spawn(async move {
            let compile = || async {
                let compiled = tokio::task::spawn_blocking(move || runtime.compile(&bytes)).await;
                Ok::<_, Error>(compiled.map_err(Error::internal)??)
            };
            slot.get_or_try_init(compile).await.cloned()
        });
        compile.await.map_err(Error::internal)?
    }
}
