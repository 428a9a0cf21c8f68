//! Places of connections: how many there are, who waits for one, who gets none of the last, and who makes room first.
//!
//! One of sixteen places is spare. A client crowds whose address has more than half as many connections as there are
//! places: it gets a place only as long as more are free than those that are spare, whether it comes or waits. So nobody
//! alone shuts out all others, and as long as there are places nobody is bounded. Behind a proxy all clients have one
//! address: it misses the spare places and nothing else, and one on this machine does not even miss those.
//!
//! Nor does anybody make room for who crowds. But others come, somebody else leaves for them, and once they have gone there
//! is a place more than before: who crowds would only have to wait, and in the end have all places of those who stay. So as
//! long as somebody crowds, its own connections make room first, and they alone do so for the sake of spare places.
//!
//! Whoever finds no place may wait for one, in a task of its own. Of those who wait there are only so many, and so there
//! are of those who read that there is none: they take files as all others do.

mod row;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

pub use self::row::Row;
use super::lockout::network;
use crate::limits::{CONNECTIONS_BESIDE_MAX, CONNECTIONS_TOLD_MAX};

/// A semaphore holds more than anybody's machine has ports.
const PLACES_MAX: usize = 1 << 20;
/// One of so many places is spare.
const SPARE_PART: usize = 16;
/// As many as one of so many places may wait for one.
const BESIDE_PART: usize = 4;
/// As many as one of so many places may read that there is none.
const TOLD_PART: usize = 8;
/// So many may in any case.
const BESIDE_MIN: usize = 16;

/// All places.
pub struct Places {
    all: usize,
    free: Arc<Free>,
    /// For those who wait for a place.
    beside: Arc<Semaphore>,
    /// For those who read that there is none.
    told: Arc<Semaphore>,
    clients: Arc<Mutex<Clients>>,
}

/// What becomes of a connection that has come.
pub enum Arrival {
    /// It has a place. There may be few left after it, so that room is to be made for those who come next: not after one
    /// that crowds, which takes none of the last.
    Placed { place: Place, few_left: bool },
    /// It may wait for one.
    Waiting(Waiting),
    /// There is none, and so many wait that it may not; nobody makes room for who crowds.
    Refused { crowds: bool },
}

/// What becomes of it when those who crowd are asked to make room.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// One of their connections is to leave.
    One,
    /// All of them were asked before.
    AllBefore,
    /// Nobody crowds.
    NoCrowd,
}

/// A place, until it is dropped: what it holds is dropped in this order.
pub struct Place {
    _permit: OwnedSemaphorePermit,
    counted: Option<Counted>,
    _freed: Freed,
}

/// One that has no place.
pub struct Waiting {
    free: Arc<Free>,
    crowds: bool,
    counted: Option<Counted>,
    _beside: OwnedSemaphorePermit,
    /// It may give up just as a place has come to it.
    _freed: Freed,
}

/// Places that nobody has.
struct Free {
    places: Arc<Semaphore>,
    /// So many of them are not for those who crowd.
    spare: usize,
    /// One at a time takes a place: else there would be fewer than who crowds has just seen.
    taking: Mutex<()>,
    /// Wakes one who crowds and waits.
    more: Notify,
}

/// Has those who crowd look again, once it is dropped.
struct Freed(Arc<Free>);

/// Those who have connections, by their networks.
struct Clients {
    by_network: HashMap<u64, Client>,
    /// Who has more connections than this crowds.
    half: usize,
    /// Those who do: they are very few.
    crowding: Vec<u64>,
}

#[derive(Default)]
struct Client {
    connections: usize,
    /// Those of them that have a place.
    row: Arc<Row>,
}

/// A connection, among those of its client until this is dropped.
struct Counted {
    network: u64,
    row: Arc<Row>,
    clients: Arc<Mutex<Clients>>,
}

impl Places {
    /// So many; none would be a server for nobody.
    pub fn new(wanted: usize) -> Self {
        let all = wanted.clamp(1, PLACES_MAX);
        let free = Free {
            places: Arc::new(Semaphore::new(all)),
            spare: all / SPARE_PART,
            taking: Mutex::default(),
            more: Notify::new(),
        };
        // Whoever has one connection does not crowd, however few places there are.
        let half = (all / 2).max(1);
        let clients = Clients { by_network: HashMap::new(), half, crowding: Vec::new() };
        Self {
            all,
            free: Arc::new(free),
            beside: Arc::new(Semaphore::new(beside(all))),
            told: Arc::new(Semaphore::new(told(all))),
            clients: Arc::new(Mutex::new(clients)),
        }
    }

    /// What becomes of a connection from there.
    pub fn arrive(&self, address: IpAddr) -> Arrival {
        let (counted, crowds) = self.count(address);
        if let Some(permit) = self.free.take(crowds) {
            let place = Place::new(permit, counted, &self.free);
            let few_left = self.free.left() < self.free.spare;
            return Arrival::Placed { place, few_left };
        }
        // Nor is the row for those alone who crowd.
        if crowds && self.beside.available_permits() <= beside(self.all) / 2 {
            return Arrival::Refused { crowds };
        }
        let Some(permit) = free(&self.beside) else { return Arrival::Refused { crowds } };
        Arrival::Waiting(Waiting {
            free: Arc::clone(&self.free),
            crowds,
            counted,
            _beside: permit,
            _freed: Freed(Arc::clone(&self.free)),
        })
    }

    /// One more that has waited and reads that there is no place, if there may be one more.
    pub fn tell(&self) -> Option<OwnedSemaphorePermit> {
        free(&self.told)
    }

    /// Asks who crowds to make room, whichever of its connections has been there longest.
    pub fn ask_who_crowds(&self) -> Asked {
        let clients = self.clients.lock();
        if clients.crowding.is_empty() {
            return Asked::NoCrowd;
        }
        let mut crowds = clients.crowding.iter().filter_map(|crowd| clients.by_network.get(crowd));
        if crowds.any(|client| client.row.ask()) { Asked::One } else { Asked::AllBefore }
    }

    /// Waits until all places are free.
    pub async fn all_free(&self) {
        let all = u32::try_from(self.all).unwrap_or(u32::MAX);
        // Nobody closes them: there is no other outcome.
        let _all = self.free.places.acquire_many(all).await;
    }

    /// Counts a connection; says whether its client crowds with it. What comes from this machine is not counted.
    fn count(&self, address: IpAddr) -> (Option<Counted>, bool) {
        if address.to_canonical().is_loopback() {
            return (None, false);
        }
        let network = network(address);
        let (row, crowds) = self.clients.lock().come(network);
        (Some(Counted { network, row, clients: Arc::clone(&self.clients) }), crowds)
    }
}

impl Free {
    /// How many there are.
    fn left(&self) -> usize {
        self.places.available_permits()
    }

    /// One of them, if there is one for who comes. Who waits and does not crowd has what is freed before it is seen here.
    fn take(&self, crowds: bool) -> Option<OwnedSemaphorePermit> {
        let _alone = self.taking.lock();
        if crowds && self.left() <= self.spare {
            return None;
        }
        free(&self.places)
    }

    /// One of them, once there are more than are spare.
    async fn take_of_more(&self) -> OwnedSemaphorePermit {
        loop {
            let mut more = pin!(self.more.notified());
            // What is freed after the look wakes it.
            more.as_mut().enable();
            if let Some(permit) = self.take(true) {
                return permit;
            }
            more.await;
        }
    }
}

impl Drop for Freed {
    fn drop(&mut self) {
        if self.0.left() > self.0.spare {
            self.0.more.notify_one();
        }
    }
}

impl Place {
    fn new(permit: OwnedSemaphorePermit, counted: Option<Counted>, free: &Arc<Free>) -> Self {
        Self { _permit: permit, counted, _freed: Freed(Arc::clone(free)) }
    }

    /// Waits until it is asked to make room: in this row, or as one of those that its client has.
    pub async fn asked(&self, row: &Row) {
        let Some(counted) = &self.counted else { return row.asked().await };
        tokio::select! {
            () = row.asked() => {}
            () = counted.row.asked() => {}
        }
    }
}

impl Waiting {
    /// Whether it is of those for whom nobody makes room.
    pub fn crowds(&self) -> bool {
        self.crowds
    }

    /// Waits for a place: in one row with all others, or behind them if it crowds.
    pub async fn place(&mut self) -> Option<Place> {
        let permit = if self.crowds {
            self.free.take_of_more().await
        } else {
            // Nobody closes them.
            Arc::clone(&self.free.places).acquire_owned().await.ok()?
        };
        Some(Place::new(permit, self.counted.take(), &self.free))
    }
}

impl Clients {
    /// One more connection of a client: the row of those it has, and whether it crowds now.
    fn come(&mut self, network: u64) -> (Arc<Row>, bool) {
        let client = self.by_network.entry(network).or_default();
        client.connections += 1;
        if client.connections == self.half + 1 {
            self.crowding.push(network);
        }
        (Arc::clone(&client.row), client.connections > self.half)
    }

    /// One less.
    fn go(&mut self, network: u64) {
        let Entry::Occupied(mut entry) = self.by_network.entry(network) else { return };
        let client = entry.get_mut();
        if client.connections == self.half + 1 {
            self.crowding.retain(|crowd| *crowd != network);
        }
        client.connections -= 1;
        if client.connections == 0 {
            entry.remove();
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.clients.lock().go(self.network);
    }
}

fn free(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(places).try_acquire_owned().ok()
}

/// How many may wait for a place.
fn beside(all: usize) -> usize {
    (all / BESIDE_PART).clamp(BESIDE_MIN, CONNECTIONS_BESIDE_MAX)
}

/// How many may read that there is none.
fn told(all: usize) -> usize {
    (all / TOLD_PART).clamp(BESIDE_MIN, CONNECTIONS_TOLD_MAX)
}

#[cfg(test)]
mod tests;
