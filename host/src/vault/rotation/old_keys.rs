//! What old keys left in the store's files.
//!
//! A rotation that has ended needs its old keys no more, but what they were wrapped and sealed in stays in the files until
//! those are made anew. So the commit that ends one leaves a note, and the store is compacted because of it, by this
//! process or by the next one, whatever `--compact-seconds` says. A rotation has ended all the same when that fails: the
//! note stays, and it is tried again.

use std::time::Duration;

use tokio::time::timeout;

use super::root::removal;
use crate::limits::SWEEP_INTERVAL_MS;
use crate::store::{Batch, Expect, Put, StoreError};
use crate::vault::record::kind;
use crate::vault::sealed_keys::{SYSTEM_TENANT, SealedKeys};
use crate::vault::{Error, Vault};

/// The note that the store's files hold what old keys were in.
pub const OLD_KEYS_ID: &str = "old keys in the files";

impl Vault {
    /// The note, for the commit that ends a rotation.
    pub(super) fn note_old_keys(&self) -> Result<Put, Error> {
        let sealed = SealedKeys { kind: kind::SYSTEM, tenant: SYSTEM_TENANT, id: OLD_KEYS_ID };
        let root = self.0.keyring.root()?;
        let put = sealed.put(&root, b"left", Expect::Any, self.0.entropy.as_ref());
        put.map_err(Error::internal)
    }

    /// The version of the note; `None` if there is none.
    pub(in crate::vault) async fn noted_old_keys(&self) -> Result<Option<u64>, Error> {
        let found = self.0.store.find(kind::SYSTEM, SYSTEM_TENANT, &[OLD_KEYS_ID]).await?;
        Ok(found.into_iter().flatten().next().map(|note| note.version))
    }

    /// Removes the note, unless a rotation has ended since it was read.
    pub(in crate::vault) async fn forget_old_keys(&self, version: u64) -> Result<(), Error> {
        let mut note = removal(kind::SYSTEM, SYSTEM_TENANT, OLD_KEYS_ID);
        note.expect = Expect::Version(version);
        let batch = Batch { removals: vec![note], urgent: true, ..Batch::default() };
        match self.0.store.commit(batch).await {
            Ok(()) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the store's files anew if old keys are in them. It may wait until a backup is taken.
    pub async fn sweep_old_keys(&self) -> Result<(), Error> {
        if self.noted_old_keys().await?.is_none() {
            return Ok(());
        }
        // While more is sealed anew, more keys come to be old. Whoever was erased is removed meanwhile.
        let bound = Duration::from_millis(SWEEP_INTERVAL_MS);
        let _ = timeout(bound, self.0.keyring.walking.lock()).await;
        let _one = self.0.keyring.sweeping.lock().await;
        if self.noted_old_keys().await?.is_some() {
            self.compact().await?;
            tracing::info!("no old key is in the store's files any more");
        }
        Ok(())
    }

    /// Waits until a rotation has ended.
    pub async fn old_keys_left(&self) {
        self.0.keyring.old_keys.notified().await;
    }
}
