//! Who may ask for the addresses of names, and how much at a time.
//!
//! The machine's resolver cannot be interrupted: a lookup keeps a thread until it has an answer, although nobody may be
//! waiting for it any more, and a name's own server decides how long that takes. So there are only so many places, and
//! only so many of them for one owner. A name takes one of its owner's places, however many wait for it: a receiver whose
//! name nobody answers for takes no more. Some of these places are for names that were answered for promptly the last time,
//! and few for those that took long, so that what is prompt need not wait for what is not. Whoever waits for a place waits
//! themselves, and not for long: nothing is left behind when the last of them gives up.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{
    HTTP_LOOKUP_OWNERS_MAX, HTTP_LOOKUP_WAIT_MS, HTTP_LOOKUPS_MAX, HTTP_LOOKUPS_PER_OWNER_MAX,
    HTTP_NAME_KNOWN_MS, HTTP_NAMES_KNOWN_MAX, HTTP_OTHER_LOOKUPS_MAX,
    HTTP_OTHER_LOOKUPS_PER_OWNER_MAX, HTTP_SLOW_LOOKUP_MS, HTTP_SLOW_LOOKUPS_MAX,
    HTTP_SLOW_LOOKUPS_PER_OWNER_MAX, HTTP_UNKNOWN_MAX, HTTP_UNKNOWN_MS,
};

/// Who knows the addresses of names.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = async {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        };
        found.boxed()
    }
}

/// What comes of asking, for all who wait for it. Of a failure they learn no more than its kind.
type Found = Result<Arc<[IpAddr]>, io::ErrorKind>;
type Asking = BoxFuture<'static, Found>;

/// What is said when a name found no place in time.
pub const CROWDED: io::ErrorKind = io::ErrorKind::WouldBlock;

/// The places for looking names up.
pub struct Lookups(Arc<Inner>);

struct Inner {
    lookup: Arc<dyn Lookup>,
    places: Places,
    /// How long a name waits for one.
    patience: Duration,
    shares: Mutex<HashMap<u128, Places>>,
    /// What is being asked for, by owner and name.
    asked: Mutex<HashMap<(u128, String), WeakShared<Asking>>>,
    /// Names that had no address a moment ago.
    unknown: Mutex<Remembered>,
    /// Names that took long.
    slow: Mutex<Remembered>,
    /// Names that were answered for promptly.
    prompt: Mutex<Remembered>,
}

/// What is known of a name. In this order each may have fewer places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Prompt,
    /// Nothing.
    Other,
    Slow,
}

/// Places for all names, for those that are not known to be prompt, and for those that are known not to be.
#[derive(Clone)]
struct Places([Arc<Semaphore>; 3]);

impl Places {
    fn new(counts: [usize; 3]) -> Self {
        Self(counts.map(|count| Arc::new(Semaphore::new(count))))
    }

    /// A place of each kind that it takes; those of which there are fewest first.
    async fn take(&self, known: Known) -> Option<Vec<OwnedSemaphorePermit>> {
        let kinds = match known {
            Known::Prompt => 1,
            Known::Other => 2,
            Known::Slow => 3,
        };
        let mut taken = Vec::with_capacity(kinds);
        for places in self.0[..kinds].iter().rev() {
            taken.push(Arc::clone(places).acquire_owned().await.ok()?);
        }
        Some(taken)
    }

    /// Whether anybody has or waits for one.
    fn is_held(&self) -> bool {
        self.0.iter().any(|places| Arc::strong_count(places) > 1)
    }
}

impl Lookups {
    /// With all places free.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self(Arc::new(Inner {
            lookup,
            places: Places::new([HTTP_LOOKUPS_MAX, HTTP_OTHER_LOOKUPS_MAX, HTTP_SLOW_LOOKUPS_MAX]),
            patience: Duration::from_millis(HTTP_LOOKUP_WAIT_MS),
            shares: Mutex::default(),
            asked: Mutex::default(),
            unknown: Mutex::new(Remembered::of(HTTP_UNKNOWN_MAX, HTTP_UNKNOWN_MS)),
            slow: Mutex::new(Remembered::of(HTTP_NAMES_KNOWN_MAX, HTTP_NAME_KNOWN_MS)),
            prompt: Mutex::new(Remembered::of(HTTP_NAMES_KNOWN_MAX, HTTP_NAME_KNOWN_MS)),
        }))
    }

    /// All addresses of a name, once there is a place to ask for them; [`CROWDED`] if there is none for a while. Failing is
    /// remembered for a while, for this owner alone: others would learn what it asks for.
    pub async fn find(&self, owner: u128, name: &str) -> io::Result<Vec<IpAddr>> {
        self.0.check(owner, name)?;
        let found = self.asking((owner, name.to_owned())).await;
        found.map(|addresses| addresses.to_vec()).map_err(io::Error::from)
    }

    /// What somebody asks for already, or begins to.
    fn asking(&self, key: (u128, String)) -> Shared<Asking> {
        let mut asked = self.0.asked.lock();
        if let Some(asking) = asked.get(&key).and_then(WeakShared::upgrade) {
            return asking;
        }
        if asked.len() >= HTTP_LOOKUP_OWNERS_MAX {
            asked.retain(|_, asking| asking.upgrade().is_some());
        }
        let asking = Arc::clone(&self.0).ask(key.clone()).boxed().shared();
        if let Some(weak) = asking.downgrade() {
            asked.insert(key, weak);
        }
        asking
    }
}

impl Inner {
    async fn ask(self: Arc<Self>, key: (u128, String)) -> Found {
        let (owner, name) = &key;
        let known = self.known(*owner, name);
        let share = self.share(*owner);
        let places = async { Some((share.take(known).await?, self.places.take(known).await?)) };
        let places = tokio::time::timeout(self.patience, places).await.map_err(|_| CROWDED)?;
        let places = places.ok_or(io::ErrorKind::Other)?;
        drop(share);
        // Who asked before may have found out meanwhile.
        self.check(*owner, name)?;
        let found = self.lookup.lookup(name.clone());
        // The places are kept by what keeps the thread, which outlives whoever asked; and so long the name is being asked
        // for, whoever gave up.
        let asking = self.asked.lock().get(&key).and_then(WeakShared::upgrade);
        let (inner, began) = (Arc::clone(&self), Instant::now());
        let ask = async move {
            let found = found.await;
            let now = Instant::now();
            let is_slow = now - began >= Duration::from_millis(HTTP_SLOW_LOOKUP_MS);
            let (is, is_not) =
                if is_slow { (&inner.slow, &inner.prompt) } else { (&inner.prompt, &inner.slow) };
            is.lock().note(key.clone(), now);
            is_not.lock().forget(&key);
            if found.is_err() {
                inner.unknown.lock().note(key, now);
            }
            drop((places, asking));
            found.map(Arc::from).map_err(|error| error.kind())
        };
        tokio::spawn(ask).await.map_err(|_| io::ErrorKind::Other)?
    }

    fn known(&self, owner: u128, name: &str) -> Known {
        let now = Instant::now();
        if self.slow.lock().holds(owner, name, now) {
            return Known::Slow;
        }
        if self.prompt.lock().holds(owner, name, now) { Known::Prompt } else { Known::Other }
    }

    fn check(&self, owner: u128, name: &str) -> Result<(), io::ErrorKind> {
        let unknown = self.unknown.lock().holds(owner, name, Instant::now());
        if unknown { Err(io::ErrorKind::NotFound) } else { Ok(()) }
    }

    /// An owner's places. Those that nobody uses or waits for are forgotten in time; the others are no more than there
    /// are requests under way.
    fn share(&self, owner: u128) -> Places {
        let mut shares = self.shares.lock();
        if shares.len() >= HTTP_LOOKUP_OWNERS_MAX && !shares.contains_key(&owner) {
            shares.retain(|_, share| share.is_held());
        }
        let counts = [
            HTTP_LOOKUPS_PER_OWNER_MAX,
            HTTP_OTHER_LOOKUPS_PER_OWNER_MAX,
            HTTP_SLOW_LOOKUPS_PER_OWNER_MAX,
        ];
        let new = || Places::new(counts);
        shares.entry(owner).or_insert_with(new).clone()
    }
}

/// Names of which something is taken for true for a while, by owner, and until when.
struct Remembered {
    names: HashMap<(u128, String), Instant>,
    most: usize,
    lasts: Duration,
}

impl Remembered {
    /// So many at most, for so many milliseconds.
    fn of(most: usize, ms: u64) -> Self {
        Self { names: HashMap::new(), most, lasts: Duration::from_millis(ms) }
    }

    fn holds(&self, owner: u128, name: &str, now: Instant) -> bool {
        if self.names.is_empty() {
            return false;
        }
        self.names.get(&(owner, name.to_owned())).is_some_and(|until| *until > now)
    }

    fn note(&mut self, name: (u128, String), now: Instant) {
        if self.names.len() >= self.most {
            self.names.retain(|_, until| *until > now);
        }
        if self.names.len() >= self.most {
            let oldest = self.names.iter().min_by_key(|(_, until)| **until);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.names.remove(&oldest);
            }
        }
        self.names.insert(name, now + self.lasts);
    }

    fn forget(&mut self, name: &(u128, String)) {
        self.names.remove(name);
    }
}

#[cfg(test)]
mod tests;
