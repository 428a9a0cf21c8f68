//! Where components wait to be compiled, and how many uploads may.
//!
//! Compiling takes a core and much memory: one small and one large component at a time, so that a small one does not wait
//! for a large one. Runs go before uploads, since somebody waits for their answer; in each of both, owners take turns.
//! What is compiled ahead of its first use comes after all of that, in both lanes, and alone: it takes no computing time
//! from what somebody waits for. Once a run waits for it, it is in the row with the other runs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::limits::{UPLOADS_MAX, UPLOADS_PER_TENANT_MAX};

#[cfg(test)]
mod tests;

/// Components of at most so many bytes are compiled apart from larger ones.
const SMALL_BYTES_MAX: usize = 512 << 10;

/// For whom a component is compiled.
#[derive(Debug)]
pub struct Purpose {
    owner: u128,
    rank: Rank,
    /// What tells that a run has come to wait for the same component.
    wanted: Wanted,
    /// Of an upload; held until it is done.
    _place: Option<Place>,
    /// Bytes that its code may take, once it is loaded.
    pub(super) code_bytes_max: u64,
}

/// Who goes before whom, the first of these first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Run,
    Upload,
    Ahead,
}

impl Purpose {
    /// For a run of this owner, who cannot go on without.
    pub fn run(owner: u128) -> Self {
        Self::new(owner, Rank::Run, Wanted::default(), None)
    }

    /// For an upload, until it is `wanted`.
    pub fn upload(place: Place, wanted: Wanted) -> Self {
        Self::new(place.owner, Rank::Upload, wanted, Some(place))
    }

    /// For whoever may need it some day, until it is `wanted`.
    pub fn ahead(wanted: Wanted) -> Self {
        Self::new(0, Rank::Ahead, wanted, None)
    }

    fn new(owner: u128, rank: Rank, wanted: Wanted, place: Option<Place>) -> Self {
        Self { owner, rank, wanted, _place: place, code_bytes_max: u64::MAX }
    }

    /// The same of a component whose code may take no more than this. One that takes more is refused before it is loaded or
    /// kept: it would take the room of all others.
    #[must_use]
    pub fn within(self, code_bytes_max: u64) -> Self {
        Self { code_bytes_max, ..self }
    }
}

/// Whether a run waits for a component. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Wanted(Arc<watch::Sender<bool>>);

impl Default for Wanted {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Wanted {
    /// Tells that one does, from now on.
    pub fn tell(&self) {
        self.0.send_replace(true);
    }

    async fn told(&self) {
        // It ends in no other way: the sender is here.
        let _ = self.0.subscribe().wait_for(|wanted| *wanted).await;
    }
}

/// All lanes, and the places of uploads.
#[derive(Default)]
pub struct Lanes {
    queues: Arc<Queues>,
    uploads: Arc<Uploads>,
}

impl Lanes {
    /// Waits for the turn to compile a component of so many bytes. `None` never comes but when the process ends.
    pub async fn enter(&self, bytes: usize, purpose: &Purpose) -> Option<Turn> {
        let Purpose { owner, rank, wanted, .. } = purpose;
        let lane = usize::from(bytes > SMALL_BYTES_MAX);
        let own = self.wait(lane, *owner, *rank);
        if *rank == Rank::Run {
            return own.await;
        }
        tokio::select! {
            biased;
            turn = own => turn,
            () = wanted.told() => self.wait(lane, *owner, Rank::Run).await,
        }
    }

    async fn wait(&self, lane: usize, owner: u128, rank: Rank) -> Option<Turn> {
        let turn = {
            let mut queues = self.queues.0.lock();
            let in_the_way =
                |(at, queue): (usize, &Queue)| queue.taken && (at == lane || rank == Rank::Ahead);
            if !queues.iter().enumerate().any(in_the_way) {
                queues[lane].taken = true;
                return Some(Turn { queues: Arc::clone(&self.queues), lane });
            }
            let (sender, turn) = oneshot::channel();
            let waiting = queues[lane].of(rank);
            waiting.by_owner.entry(owner).or_default().push_back(sender);
            turn
        };
        turn.await.ok()
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

/// Those of both lanes.
#[derive(Default)]
struct Queues(Mutex<[Queue; 2]>);

/// One component at a time. Invariant: while nobody has the turn, neither runs nor uploads wait for it; while nobody has
/// either lane's, nobody waits at all.
#[derive(Default)]
struct Queue {
    taken: bool,
    runs: Waiting,
    uploads: Waiting,
    ahead: Waiting,
}

impl Queue {
    fn of(&mut self, rank: Rank) -> &mut Waiting {
        match rank {
            Rank::Run => &mut self.runs,
            Rank::Upload => &mut self.uploads,
            Rank::Ahead => &mut self.ahead,
        }
    }
}

/// Those that wait, by owner, each owner's in the order in which they came.
#[derive(Default)]
struct Waiting {
    by_owner: BTreeMap<u128, VecDeque<oneshot::Sender<Turn>>>,
    /// Who was served last.
    last: u128,
}

/// The turn to compile; the next one's when it is dropped.
pub struct Turn {
    queues: Arc<Queues>,
    lane: usize,
}

impl Queues {
    /// Takes a turn back; gives whose it is now, and in which lane.
    fn next(&self, lane: usize) -> Option<(usize, oneshot::Sender<Turn>)> {
        let mut queues = self.0.lock();
        let queue = &mut queues[lane];
        let next = queue.runs.next().or_else(|| queue.uploads.next());
        queue.taken = next.is_some();
        if let Some(next) = next {
            return Some((lane, next));
        }
        if queues.iter().any(|queue| queue.taken) {
            return None;
        }
        let ahead = |(lane, queue): (usize, &mut Queue)| {
            let next = queue.ahead.next()?;
            queue.taken = true;
            Some((lane, next))
        };
        queues.iter_mut().enumerate().find_map(ahead)
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
        if let Some((lane, next)) = self.queues.next(self.lane) {
            // Whoever just gave up waiting drops the turn, which passes it on.
            let _ = next.send(Turn { queues: Arc::clone(&self.queues), lane });
        }
    }
}
