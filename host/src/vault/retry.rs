//! A change that loses against another made at the same time is made anew (decisions §1).

use std::time::Duration;

use futures::future::BoxFuture;

use super::{Error, Vault, let_go_of_all_but, opened_so_far};
use crate::store::StoreError;

/// Tries of a change that only another change of the same entity can get in the way of.
pub const TRIES: usize = 2;
/// Tries of a change that writes what others write too although they change something else: reactors their formula and
/// their application, of which a key must end in spite of them.
pub const HOLDING_TRIES: usize = 8;
/// Half of the longest pause before the second try, in milliseconds; it doubles with every further one.
const PAUSE_MS: u64 = 4;

impl Vault {
    /// Does a step until it is done, at most so often. A step reads anew what it changes; it gives `None` when that was
    /// changed meanwhile.
    pub(super) async fn retried<'s, T>(
        &self,
        tries: usize,
        mut step: impl FnMut() -> BoxFuture<'s, Result<Option<T>, Error>>,
    ) -> Result<T, Error> {
        let before = opened_so_far();
        for lost in 0..tries {
            if lost > 0 {
                // What the try before has read is gone.
                let_go_of_all_but(before);
                self.pause(lost).await;
            }
            if let Some(done) = step().await? {
                return Ok(done);
            }
        }
        Err(Error::Conflict("Other requests changed the entity at the same time."))
    }

    /// Waits a random while, so that those who lost together do not all meet again.
    pub(super) async fn pause(&self, lost: usize) {
        let mut random = [0; 8];
        self.0.entropy.fill(&mut random);
        let longest_ms = PAUSE_MS << lost;
        let pause_ms = u64::from_be_bytes(random) % longest_ms;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// What a commit ends in: what was done, or `None` when something in it was changed meanwhile.
pub fn unless_lost<T>(committed: Result<(), StoreError>, done: T) -> Result<Option<T>, Error> {
    match committed {
        Ok(()) => Ok(Some(done)),
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
