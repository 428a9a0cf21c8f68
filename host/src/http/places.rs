//! Places of connections: how many there are, who waits for one, and who gets none of the last.
//!
//! One of sixteen places is spare: these are taken when no other is left, and not by a client's address that has more than
//! half as many connections as there are places. So nobody alone shuts out all others, and as long as there are places
//! nobody is bounded. Behind a proxy all clients have one address: it misses the spare places and nothing else, and one on
//! this machine does not even miss those. Nor does anybody make room for who has more than half: it gets what is free.
//!
//! Whoever finds no place may wait for one, in a task of its own. Of those who wait there are only so many, and so there
//! are of those who read that there is none: they take files as all others do.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

/// Connections of each client, by its network.
type Counts = Arc<Mutex<HashMap<u64, usize>>>;

/// All places.
pub struct Places {
    all: usize,
    /// For everybody.
    common: Arc<Semaphore>,
    /// For those who do not crowd.
    spare: Arc<Semaphore>,
    /// For those who wait for a place.
    beside: Arc<Semaphore>,
    /// For those who read that there is none.
    told: Arc<Semaphore>,
    counts: Counts,
}

/// What becomes of a connection that has come.
pub enum Arrival {
    /// It has a place. There may be few left after it, so that room is to be made for those who come next.
    Placed { place: Place, few_left: bool },
    /// It may wait for one.
    Waiting(Waiting),
    /// There is none, and so many wait that it may not; nobody makes room for who crowds.
    Refused { crowds: bool },
}

/// A place, until it is dropped.
pub struct Place {
    _permit: OwnedSemaphorePermit,
    _counted: Option<Counted>,
}

/// One that has no place.
pub struct Waiting {
    common: Arc<Semaphore>,
    /// Unless these are not for it.
    spare: Option<Arc<Semaphore>>,
    counted: Option<Counted>,
    _beside: OwnedSemaphorePermit,
}

/// A connection, among those of its client until this is dropped.
struct Counted {
    network: u64,
    counts: Counts,
}

impl Places {
    /// So many; none would be a server for nobody.
    pub fn new(wanted: usize) -> Self {
        let all = wanted.clamp(1, PLACES_MAX);
        let spare = all / SPARE_PART;
        Self {
            all,
            common: Arc::new(Semaphore::new(all - spare)),
            spare: Arc::new(Semaphore::new(spare)),
            beside: Arc::new(Semaphore::new(beside(all))),
            told: Arc::new(Semaphore::new(told(all))),
            counts: Counts::default(),
        }
    }

    /// What becomes of a connection from there.
    pub fn arrive(&self, address: IpAddr) -> Arrival {
        let (counted, count) = self.count(address);
        let crowds = count > self.all / 2;
        let spare = (!crowds).then_some(&self.spare);
        if let Some(permit) = free(&self.common).or_else(|| free(spare?)) {
            let place = Place { _permit: permit, _counted: counted };
            let few_left = !crowds && self.left() < self.all / SPARE_PART;
            return Arrival::Placed { place, few_left };
        }
        // Nor is the row for those alone who crowd.
        if crowds && self.beside.available_permits() <= beside(self.all) / 2 {
            return Arrival::Refused { crowds };
        }
        let Some(permit) = free(&self.beside) else { return Arrival::Refused { crowds } };
        Arrival::Waiting(Waiting {
            common: Arc::clone(&self.common),
            spare: spare.cloned(),
            counted,
            _beside: permit,
        })
    }

    /// One more that has waited and reads that there is no place, if there may be one more.
    pub fn tell(&self) -> Option<OwnedSemaphorePermit> {
        free(&self.told)
    }

    /// How many places are free.
    fn left(&self) -> usize {
        self.common.available_permits() + self.spare.available_permits()
    }

    /// Waits until all places are free.
    pub async fn all_free(&self) {
        let permits = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let spare = self.all / SPARE_PART;
        // Nobody closes them: there is no other outcome.
        let _common = self.common.acquire_many(permits(self.all - spare)).await;
        let _spare = self.spare.acquire_many(permits(spare)).await;
    }

    /// Counts a connection; gives how many its client has with it. What comes from this machine is not counted.
    fn count(&self, address: IpAddr) -> (Option<Counted>, usize) {
        if address.to_canonical().is_loopback() {
            return (None, 0);
        }
        let network = network(address);
        let mut counts = self.counts.lock();
        let count = counts.entry(network).or_default();
        *count += 1;
        (Some(Counted { network, counts: Arc::clone(&self.counts) }), *count)
    }
}

impl Waiting {
    /// Whether it is of those for whom nobody makes room.
    pub fn crowds(&self) -> bool {
        self.spare.is_none()
    }

    /// Waits for a place, in one row with all others.
    pub async fn place(&mut self) -> Option<Place> {
        let common = Arc::clone(&self.common).acquire_owned();
        let spare = self.spare.clone();
        let spare = async move {
            match spare {
                Some(spare) => spare.acquire_owned().await,
                None => std::future::pending().await,
            }
        };
        let permit = tokio::select! {
            permit = common => permit,
            permit = spare => permit,
        };
        // Nobody closes them.
        Some(Place { _permit: permit.ok()?, _counted: self.counted.take() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Entry::Occupied(mut entry) = counts.entry(self.network) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
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
mod tests {
    use super::{Arrival, BESIDE_MIN, Place, Places, Waiting, beside, told};
    use crate::limits::{CONNECTIONS_BESIDE_MAX, CONNECTIONS_TOLD_MAX};
    use std::net::IpAddr;
    use std::time::Duration;
    use tokio::time::timeout;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A place, and whether it is one of the last.
    fn placed(places: &Places, from: &str) -> (Place, bool) {
        match places.arrive(address(from)) {
            Arrival::Placed { place, few_left } => (place, few_left),
            Arrival::Waiting(_) => panic!("{from} waits"),
            Arrival::Refused { .. } => panic!("{from} is refused"),
        }
    }

    fn waiting(places: &Places, from: &str) -> Waiting {
        match places.arrive(address(from)) {
            Arrival::Waiting(waiting) => waiting,
            Arrival::Placed { .. } => panic!("{from} has a place"),
            Arrival::Refused { .. } => panic!("{from} is refused"),
        }
    }

    async fn soon(waiting: &mut Waiting) -> Option<Place> {
        timeout(Duration::from_millis(50), waiting.place()).await.ok().flatten()
    }

    #[test]
    fn there_is_a_place_and_not_too_many() {
        for (wanted, given) in [(0, 1), (1, 1), (5_000, 5_000), (usize::MAX, 1 << 20)] {
            let places = Places::new(wanted);
            assert_eq!((places.all, places.left()), (given, given));
        }
        let without = [1, 64, 400, usize::MAX].map(beside);
        assert_eq!(without, [BESIDE_MIN, 16, 100, CONNECTIONS_BESIDE_MAX]);
        assert_eq!([1, 400, usize::MAX].map(told), [BESIDE_MIN, 50, CONNECTIONS_TOLD_MAX]);
    }

    #[tokio::test]
    async fn who_has_more_than_half_gets_none_of_the_last_and_waits_for_another() {
        let places = Places::new(32);
        let (crowd, other) = ("192.0.2.1", "198.51.100.7");
        // As long as there are any, all are for whoever comes.
        let mut held: Vec<_> = (0..30).map(|_| placed(&places, crowd)).collect();
        assert!(held.iter().all(|(_, few_left)| !few_left));
        let mut waits = waiting(&places, crowd);
        let (first, few_left) = placed(&places, other);
        assert!(few_left);
        let _second = placed(&places, other);
        let mut others = waiting(&places, other);
        // One that is spare is not for those who crowd.
        drop(first);
        assert!(soon(&mut waits).await.is_none());
        let third = soon(&mut others).await;
        assert!(third.is_some());
        drop(held.pop());
        assert!(soon(&mut waits).await.is_some());
    }

    #[test]
    fn half_is_not_too_much_and_what_has_gone_does_not_count() {
        let places = Places::new(32);
        let own: Vec<_> = (0..15).map(|_| placed(&places, "192.0.2.1")).collect();
        let others: Vec<_> = (0..15).map(|_| placed(&places, "198.51.100.7")).collect();
        // Its sixteenth, which has gone, and again.
        assert!(placed(&places, "192.0.2.1").1);
        let last = placed(&places, "192.0.2.1");
        assert!(last.1);
        assert!(waiting(&places, "192.0.2.1").crowds());
        drop((own, others, last));
        assert!(places.counts.lock().is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let places = Places::new(32);
        let of_one = |n: usize| format!("2001:db8:1:2::{n:x}");
        let _held: Vec<_> = (0..30).map(|n| placed(&places, &of_one(n))).collect();
        assert!(waiting(&places, &of_one(30)).crowds());
        let _other = placed(&places, "2001:db8:1:3::1");
        // IPv4 in IPv6's spelling is IPv4.
        let _mapped = placed(&places, "::ffff:192.0.2.1");
        let _plain = waiting(&places, "192.0.2.1");
        assert_eq!(places.counts.lock().len(), 3);
    }

    #[test]
    fn this_machine_has_all_places() {
        let places = Places::new(32);
        let own = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        let _held: Vec<_> = (0..32).map(|n| placed(&places, own[n % own.len()])).collect();
        assert!(places.counts.lock().is_empty());
        assert!(!waiting(&places, "127.0.0.1").crowds());
    }

    #[test]
    fn no_room_is_made_for_who_has_more_than_half() {
        let places = Places::new(32);
        let (crowd, other) = ("192.0.2.1", "198.51.100.7");
        let mut held: Vec<_> = (0..30).map(|_| placed(&places, crowd)).collect();
        let _other = placed(&places, other);
        drop(held.pop());
        // As few are left as after the other.
        assert!(!placed(&places, crowd).1);
        assert!(placed(&places, other).1);
    }

    #[test]
    fn who_is_told_is_not_among_those_who_wait() {
        let places = Places::new(32);
        let _held: Vec<_> = (0..32).map(|_| placed(&places, "127.0.0.1")).collect();
        let told: Vec<_> = std::iter::from_fn(|| places.tell()).collect();
        assert_eq!(told.len(), 16);
        let _row: Vec<_> = (0..16).map(|_| waiting(&places, "127.0.0.1")).collect();
        drop(told);
        assert!(places.tell().is_some());
    }

    #[test]
    fn so_many_wait_and_half_of_them_at_most_crowd() {
        let places = Places::new(32);
        let _held: Vec<_> = (0..30).map(|_| placed(&places, "192.0.2.1")).collect();
        let crowd: Vec<_> = (0..8).map(|_| waiting(&places, "192.0.2.1")).collect();
        let refused = |from| match places.arrive(address(from)) {
            Arrival::Refused { crowds } => Some(crowds),
            _ => None,
        };
        assert_eq!(refused("192.0.2.1"), Some(true));
        let _last = [placed(&places, "127.0.0.1"), placed(&places, "127.0.0.1")];
        let others: Vec<_> = (0..8).map(|_| waiting(&places, "127.0.0.1")).collect();
        assert_eq!(refused("127.0.0.1"), Some(false));
        drop(crowd);
        let _more = waiting(&places, "127.0.0.1");
        drop(others);
    }

    #[tokio::test]
    async fn all_are_free_once_the_last_is() {
        let places = Places::new(32);
        let place = placed(&places, "127.0.0.1");
        let wait = Duration::from_millis(50);
        assert!(timeout(wait, places.all_free()).await.is_err());
        drop(place);
        places.all_free().await;
        let _again = placed(&places, "127.0.0.1");
    }
}
