//! Removing compiled code that no formula has any more.
//!
//! A component is part of its tenant's data, and its machine code tells as much. So when a formula was deleted or got
//! another component, or a tenant was erased, the code goes that none of any tenant's formulas has: they may share one.
//! What has changed since the code was last looked through is not kept over a restart; the first sweep always looks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::formula::Formula;
use crate::runtime::script_runner_digest;
use crate::store::Filter;
use crate::vault::{Error, Vault, official};

/// Whether there may be code that no formula has.
pub struct Unused(AtomicBool);

impl Default for Unused {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Unused {
    /// Has the next sweep look: a formula has its code no more, or code was made that may become no formula's.
    pub fn look(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Vault {
    /// Removes code that no formula has, if there may be any. What cannot be removed is tried again with the next sweep.
    pub(in crate::vault) async fn sweep_compiled(&self) {
        let unused = &self.0.programs.unused;
        if !unused.0.swap(false, Ordering::AcqRel) {
            return;
        }
        match self.remove_unused().await {
            Ok(true) => {}
            Ok(false) => unused.look(),
            Err(error) => {
                tracing::warn!(%error, "compiled code that is not in use stays for now");
                unused.look();
            }
        }
    }

    /// Gives whether none is left.
    async fn remove_unused(&self) -> Result<bool, Error> {
        // Listed first: a formula that is made from here on may have code that is made from here on.
        let mut kept = self.0.runtime.kept_digests().await;
        kept.remove(script_runner_digest());
        for official in official::all() {
            kept.remove(&official.formula.component_digest);
        }
        if kept.is_empty() {
            return Ok(true);
        }
        for tenant in self.tenants().await? {
            let is_used = |formula: Formula| {
                kept.remove(&formula.component_digest);
            };
            match self.each::<Formula>(tenant.id, &Filter::All, is_used).await {
                // Or it was erased meanwhile.
                Ok(()) | Err(Error::TenantGone) => {}
                Err(error) => return Err(error),
            }
        }
        let count = kept.len();
        let gone = count == 0 || self.0.runtime.discard(kept).await;
        if gone && count > 0 {
            tracing::info!(count, "compiled code that no formula has was removed");
        }
        Ok(gone)
    }
}
