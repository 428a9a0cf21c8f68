//! How long log entries are kept (decisions §10).
//!
//! They go in the order of the chain, from its beginning on; the tenant's ledger says where it begins from then on, so
//! that what is left still proves itself. That entries went is an entry. Nothing goes while the clock is in doubt
//! ([`super::steady`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::audit::{Actor, Event};
use super::record::kind;
use super::retry::TRIES;
use super::steady::latest;
use super::{Error, Vault};
use crate::limits::LOG_ENTRIES_REMOVED_AT_ONCE;
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::model::time::{DAY_MS, Timestamp};
use crate::store::StoreError;

/// How long, in days; 0 for ever.
#[derive(Default)]
pub struct Retention(AtomicU32);

impl Vault {
    /// Lets the sweep remove log entries of so many days ago; 0 keeps them for ever, as is usual.
    pub fn keep_log_for_days(&self, days: u32) {
        self.0.retention.0.store(days, Ordering::Relaxed);
    }

    /// Whether log entries of this time and of all later ones are still kept.
    pub(super) fn keeps_log_of(&self, time: Timestamp) -> bool {
        self.log_ends().is_none_or(|before_ms| time.0 >= before_ms)
    }

    /// Before which time log entries are to go.
    fn log_ends(&self) -> Option<u64> {
        let days = self.0.retention.0.load(Ordering::Relaxed);
        (days > 0).then(|| self.now().0.saturating_sub(u64::from(days) * DAY_MS))
    }

    /// Removes a tenant's entries whose time is over.
    pub(super) async fn sweep_log(&self, tenant: TenantId) -> Result<usize, Error> {
        let days = self.0.retention.0.load(Ordering::Relaxed);
        let Some(before_ms) = self.log_ends() else { return Ok(0) };
        if !self.clock_is_believed()? {
            return Ok(0);
        }
        let (mut removed, mut lost) = (0, 0);
        loop {
            let at_once = LOG_ENTRIES_REMOVED_AT_ONCE;
            let store = Arc::clone(&self.0.store);
            // One dated later was made by a clock that was ahead.
            let kept_ms = before_ms..=latest(self.now().0, 0);
            let look = move || store.oldest_entries(kind::LOG, tenant, kept_ms, at_once);
            // Where the first entry is among others of another time, this reads through many.
            let removals = tokio::task::spawn_blocking(look).await.map_err(Error::internal)??;
            if removals.is_empty() {
                return Ok(removed);
            }
            let count = removals.len();
            let mut change = self.change(tenant).await?;
            change.batch.removals = removals;
            let message = format!("Log entries removed after {days} days: {count}");
            let event = Event::done(EntityType::Tenant, tenant, Operation::Delete, message);
            match change.try_commit(Actor::SERVER, vec![event]).await? {
                Ok(()) => (removed, lost) = (removed + count, 0),
                // Somebody else removed them meanwhile: look again.
                Err(StoreError::Conflict { .. }) if lost < TRIES => lost += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
