//! A copy that is read: the rows of one moment, for a backup. And how one is asked for ([`super::wanted`]).

#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sled::Tree;
use tokio::sync::oneshot;

use super::failure::{unavailable, unreadable};
use super::files::Files;
use super::live::Live;
use super::note::NOTE_KEY;
use super::rows::Address;
use super::wanted::One;
use super::{SledStore, packs, protect};
use crate::model::id::TenantId;
use crate::store::{Batch, Compacted, Kind, Record, Row, Snapshot, Store as _, StoreError};

/// What the files of a store take that has next to nothing.
const EMPTY_BYTES: u64 = 2 << 20;

/// What the files of one that has much take besides.
const FEW_BYTES: u64 = 36 << 20;

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
            // Of a journal that does not go with them.
            if key == NOTE_KEY {
                continue;
            }
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

/// Bytes that the files of a new tree take with all that is in this one, about.
fn live_bytes(tree: &Tree) -> Result<u64, StoreError> {
    let mut bytes = EMPTY_BYTES;
    for row in tree {
        let (key, value) = row.map_err(unreadable)?;
        bytes += (key.len() + value.len()) as u64;
    }
    // As measured: of little four times as much, of much a little more than twice.
    Ok((4 * bytes).min(2 * bytes + bytes / 5 + FEW_BYTES))
}

impl SledStore {
    /// Has the store's files made anew.
    pub(super) async fn make_anew(&self) -> Result<Compacted, StoreError> {
        let _one = self.compacting.lock().await;
        // What is removed already is not counted.
        self.commit(Batch::cleared()).await?;
        self.estimate_copy().await?;
        let (done, outcome) = oneshot::channel();
        *self.files.wishes.to_replace.lock() = Some(done);
        // The writer looks at what is wanted after each batch.
        if let Err(error) = self.commit(Batch::cleared()).await {
            drop(self.files.wishes.to_replace.lock().take());
            return Err(error);
        }
        outcome.await.map_err(|_| unavailable("the store is closed"))?
    }

    /// Notes how much a copy takes, about: as much as the files, or, where there is no room for that, what lives in them. Who
    /// has removed most of what filled a disk is to have it back.
    async fn estimate_copy(&self) -> Result<(), StoreError> {
        let live = self.files.live();
        let mut bytes = live.bytes().unwrap_or_default();
        if self.space.has_room_for(bytes) == Err(StoreError::Full) {
            let count = move || live_bytes(&live.tree);
            let living = tokio::task::spawn_blocking(count).await;
            bytes = bytes.min(living.map_err(|_| unavailable("what lives cannot be counted"))??);
        }
        self.files.wishes.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Has a copy made to be read.
    pub(super) async fn freeze(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let one = Arc::clone(&self.compacting).lock_owned().await;
        // What is removed already is not counted.
        self.commit(Batch::cleared()).await?;
        self.estimate_copy().await?;
        let (done, outcome) = oneshot::channel();
        *self.files.wishes.to_read.lock() = Some((done, one));
        if let Err(error) = self.commit(Batch::cleared()).await {
            drop(self.files.wishes.to_read.lock().take());
            return Err(error);
        }
        let (live, one) = outcome.await.map_err(|_| unavailable("the store is closed"))??;
        let (files, lock) = (Arc::clone(&self.files), Arc::clone(&self.lock));
        Ok(Box::new(Frozen { live: Some(live), files, _one: one, _lock: lock }))
    }
}
