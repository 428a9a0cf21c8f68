//! What a copy is wanted for, and the copy that is read: the rows of one moment, for a backup.
//!
//! One copy at a time, whether it is to replace the store's files or to be read: the next one would be made in the same
//! place. So whoever wants one holds [`One`], and a copy that is read has it until it is gone.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, oneshot};

use super::files::{Files, Live};
use super::folder::unreadable;
use super::rows::Address;
use super::{SledStore, packs, protect, unavailable};
use crate::model::id::TenantId;
use crate::store::{Batch, Compacted, Kind, Record, Row, Snapshot, Store as _, StoreError};

/// The right to have a copy made.
pub type One = OwnedMutexGuard<()>;
/// Who wants a copy to read. The right goes with it: whoever asked may have gone.
pub type ToRead = (oneshot::Sender<Result<(Live, One), StoreError>>, One);

/// What a copy is wanted for, and who is told.
pub enum Wanted {
    /// To replace the store's files.
    ToReplace(oneshot::Sender<Result<Compacted, StoreError>>),
    /// To be read.
    ToRead(ToRead),
}

impl Wanted {
    /// What is wanted now.
    pub fn take(files: &Files) -> Option<Self> {
        let to_read = files.wanted_to_read.lock().take().map(Self::ToRead);
        // Who gave up waiting holds the others off no more. A copy begun for nobody would have the number of one that is
        // being read, and each would remove the other's files.
        let awaited = || files.wanted.lock().take().filter(|done| !done.is_closed());
        to_read.or_else(|| awaited().map(Self::ToReplace))
    }

    /// Whether the copy replaces the store's files.
    pub fn replaces(&self) -> bool {
        matches!(self, Self::ToReplace(_))
    }

    /// Tells that there will be no copy. Nobody may wait for it any more.
    pub fn refuse(self, error: StoreError) {
        match self {
            Self::ToReplace(done) => drop(done.send(Err(error))),
            Self::ToRead((done, _)) => drop(done.send(Err(error))),
        }
    }
}

/// A copy that is read, removed when dropped.
struct Frozen {
    live: Option<Live>,
    files: Arc<Files>,
    _one: One,
    // Nobody else opens the folder as long as there is something in it to be removed.
    _lock: Arc<File>,
}

impl Frozen {
    fn live(&self) -> Result<&Live, StoreError> {
        self.live.as_ref().ok_or_else(|| unavailable("the copy is gone"))
    }
}

impl Snapshot for Frozen {
    fn rows(&self, behind: Option<&[u8]>, bytes: usize) -> Result<Vec<Row>, StoreError> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut rows, mut taken) = (Vec::new(), 0);
        for row in self.live()?.tree.range::<&[u8], _>((from, Bound::Unbounded)) {
            let (key, value) = row.map_err(unreadable)?;
            taken += key.len() + value.len();
            rows.push((key.to_vec(), value.to_vec()));
            if taken >= bytes {
                break;
            }
        }
        Ok(rows)
    }

    fn find(&self, kind: Kind, tenant: TenantId, id: &str) -> Result<Option<Record>, StoreError> {
        let (tree, address) = (&self.live()?.tree, Address { kind, tenant, id: id.to_owned() });
        let value = packs::head_value(tree, &address)?;
        value.map(|value| Ok(protect::record(tree, address, &value)?.0)).transpose()
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            self.files.discard(live);
        }
    }
}

impl SledStore {
    /// Has the store's files made anew.
    pub(super) async fn make_anew(&self) -> Result<Compacted, StoreError> {
        let _one = self.compacting.lock().await;
        let (done, outcome) = oneshot::channel();
        *self.files.wanted.lock() = Some(done);
        // The writer looks at what is wanted after each batch.
        if let Err(error) = self.commit(Batch::default()).await {
            drop(self.files.wanted.lock().take());
            return Err(error);
        }
        outcome.await.map_err(|_| unavailable("the store is closed"))?
    }

    /// Has a copy made to be read.
    pub(super) async fn freeze(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let one = Arc::clone(&self.compacting).lock_owned().await;
        let (done, outcome) = oneshot::channel();
        *self.files.wanted_to_read.lock() = Some((done, one));
        if let Err(error) = self.commit(Batch::default()).await {
            drop(self.files.wanted_to_read.lock().take());
            return Err(error);
        }
        let (live, one) = outcome.await.map_err(|_| unavailable("the store is closed"))??;
        let (files, lock) = (Arc::clone(&self.files), Arc::clone(&self.lock));
        Ok(Box::new(Frozen { live: Some(live), files, _one: one, _lock: lock }))
    }
}
