//! Where components wait to be compiled, and how many uploads may.
//!
//! Compiling takes a core and much memory: one small and one large component at a time, so that a small one does not wait
//! for a large one. Runs go before uploads, since somebody waits for their answer; in each of both, owners take turns.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::limits::{UPLOADS_MAX, UPLOADS_PER_TENANT_MAX};

#[cfg(test)]
mod tests;

/// Components of at most so many bytes are compiled apart from larger ones.
const SMALL_BYTES_MAX: usize = 512 << 10;

/// For whom a component is compiled.
#[derive(Debug)]
pub struct Purpose {
    owner: u128,
    /// Of an upload; held until it is done.
    place: Option<Place>,
}

impl Purpose {
    /// For a run of this owner, who cannot go on without.
    pub fn run(owner: u128) -> Self {
        Self { owner, place: None }
    }

    /// For an upload.
    pub fn upload(place: Place) -> Self {
        Self { owner: place.owner, place: Some(place) }
    }
}

/// All lanes, and the places of uploads.
#[derive(Default)]
pub struct Lanes {
    lanes: [Lane; 2],
    uploads: Arc<Uploads>,
}

impl Lanes {
    /// Waits for the turn to compile a component of so many bytes.
    pub async fn enter(&self, bytes: usize, purpose: &Purpose) -> Option<Turn> {
        self.lanes[usize::from(bytes > SMALL_BYTES_MAX)].enter(purpose).await
    }

    /// A place for an upload of this owner, if not too many have one.
    pub fn place(&self, owner: u128) -> Option<Place> {
        let mut held = self.uploads.0.lock();
        let of_all: usize = held.values().sum();
        let own = held.entry(owner).or_default();
        if of_all >= UPLOADS_MAX || *own >= UPLOADS_PER_TENANT_MAX {
            return None;
        }
        *own += 1;
        drop(held);
        Some(Place { uploads: Arc::clone(&self.uploads), owner })
    }
}

/// How many uploads of each owner there are.
#[derive(Debug, Default)]
struct Uploads(Mutex<HashMap<u128, usize>>);

/// The place of an upload: each holds a component in memory. Free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    uploads: Arc<Uploads>,
    owner: u128,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.uploads.0.lock();
        if let Some(own) = held.get_mut(&self.owner) {
            *own -= 1;
        }
        held.retain(|_, own| *own > 0);
    }
}

/// One component at a time.
#[derive(Clone, Default)]
struct Lane(Arc<Mutex<Queue>>);

/// Invariant: while nobody has the turn, nobody waits.
#[derive(Default)]
struct Queue {
    taken: bool,
    runs: Waiting,
    uploads: Waiting,
}

/// Those that wait, by owner, each owner's in the order in which they came.
#[derive(Default)]
struct Waiting {
    by_owner: BTreeMap<u128, VecDeque<oneshot::Sender<Turn>>>,
    /// Who was served last.
    last: u128,
}

/// The turn to compile; the next one's when it is dropped.
pub struct Turn(Lane);

impl Lane {
    /// `None` never comes but when the process ends.
    async fn enter(&self, purpose: &Purpose) -> Option<Turn> {
        let turn = {
            let mut queue = self.0.lock();
            if !queue.taken {
                queue.taken = true;
                return Some(Turn(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            let waiting =
                if purpose.place.is_some() { &mut queue.uploads } else { &mut queue.runs };
            waiting.by_owner.entry(purpose.owner).or_default().push_back(sender);
            turn
        };
        turn.await.ok()
    }

    fn next(&self) -> Option<oneshot::Sender<Turn>> {
        let mut queue = self.0.lock();
        let next = queue.runs.next().or_else(|| queue.uploads.next());
        queue.taken = next.is_some();
        next
    }
}

impl Waiting {
    /// The next one who still waits: the first of the owner after the one who was served last.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        loop {
            let later = (Bound::Excluded(self.last), Bound::Unbounded);
            let next = self.by_owner.range(later).next().or_else(|| self.by_owner.iter().next());
            let owner = *next?.0;
            self.last = owner;
            let own = self.by_owner.get_mut(&owner)?;
            let next = own.pop_front();
            if own.is_empty() {
                self.by_owner.remove(&owner);
            }
            if let Some(next) = next.filter(|next| !next.is_closed()) {
                return Some(next);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(next) = self.0.next() {
            // Whoever just gave up waiting drops the turn, which passes it on.
            let _ = next.send(Turn(self.0.clone()));
        }
    }
}
