//! What a copy of the store is wanted for.
//!
//! One copy at a time, whether it is to replace the store's files or to be read: the next one would be made in the same
//! place. So whoever wants one holds [`One`], and a copy that is read has it until it is gone.

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::live::Live;
use crate::store::{Compacted, StoreError};

/// The right to have a copy made.
pub type One = OwnedMutexGuard<()>;
/// Who wants a copy to read. The right goes with it: whoever asked may have gone.
pub type ToRead = (oneshot::Sender<Result<(Live, One), StoreError>>, One);

/// Who wants the store's files made anew, and is told of the outcome.
pub type ToReplace = oneshot::Sender<Result<Compacted, StoreError>>;

/// What a copy is wanted for, and who is told.
pub enum Wanted {
    /// To replace the store's files.
    ToReplace(ToReplace),
    /// To be read.
    ToRead(ToRead),
}

impl Wanted {
    /// Whether the copy replaces the store's files.
    pub fn replaces(&self) -> bool {
        matches!(self, Self::ToReplace(_))
    }

    /// Whether nobody waits for it any more. Files that are made anew are so for all.
    pub fn is_nobodys(&self) -> bool {
        matches!(self, Self::ToRead((done, _)) if done.is_closed())
    }

    /// Tells that there will be no copy. Nobody may wait for it any more.
    pub fn refuse(self, error: StoreError) {
        match self {
            Self::ToReplace(done) => drop(done.send(Err(error))),
            Self::ToRead((done, _)) => drop(done.send(Err(error))),
        }
    }
}

/// What is wanted and not yet begun.
#[derive(Default)]
pub struct Wishes {
    /// Whoever wants a copy to read.
    pub to_read: Mutex<Option<ToRead>>,
    /// Whoever wants the files made anew.
    pub to_replace: Mutex<Option<ToReplace>>,
    /// Bytes that a copy takes, about.
    pub bytes: AtomicU64,
}

impl Wishes {
    /// What is wanted now.
    pub fn take(&self) -> Option<Wanted> {
        // Who gave up waiting holds the others off no more. A copy begun for nobody would have the number of one that is
        // being read, and each would remove the other's files.
        let to_read = self.to_read.lock().take().filter(|(done, _)| !done.is_closed());
        let to_replace = || self.to_replace.lock().take().filter(|done| !done.is_closed());
        to_read.map(Wanted::ToRead).or_else(|| to_replace().map(Wanted::ToReplace))
    }

    /// Forgets what is wanted; whoever waits is told that nothing will come.
    pub fn forget(&self) {
        drop(self.to_read.lock().take());
        drop(self.to_replace.lock().take());
    }
}
