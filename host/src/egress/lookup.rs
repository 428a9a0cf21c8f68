//! Who may ask for the addresses of names, and how much at a time.
//!
//! The machine's resolver cannot be interrupted: a lookup keeps a thread until it has an answer, although nobody may be
//! waiting for it any more, and a name's own server decides how long that takes. So there are only so many places, and
//! only so many of them for one owner. A name takes one of its owner's places, however many wait for it: a receiver whose
//! name nobody answers for takes no more. Whoever waits for a place waits themselves: nothing is left behind when the last
//! of them gives up.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::limits::{
    HTTP_LOOKUP_OWNERS_MAX, HTTP_LOOKUPS_MAX, HTTP_LOOKUPS_PER_OWNER_MAX, HTTP_UNKNOWN_MAX,
    HTTP_UNKNOWN_MS,
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

/// The places for looking names up.
pub struct Lookups(Arc<Inner>);

struct Inner {
    lookup: Arc<dyn Lookup>,
    places: Arc<Semaphore>,
    shares: Mutex<HashMap<u128, Arc<Semaphore>>>,
    /// What is being asked for, by owner and name.
    asked: Mutex<HashMap<(u128, String), WeakShared<Asking>>>,
    unknown: Mutex<Unknown>,
}

impl Lookups {
    /// With all places free.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self(Arc::new(Inner {
            lookup,
            places: Arc::new(Semaphore::new(HTTP_LOOKUPS_MAX)),
            shares: Mutex::default(),
            asked: Mutex::default(),
            unknown: Mutex::default(),
        }))
    }

    /// All addresses of a name, once there is a place to ask for them. Failing is remembered for a while, for this
    /// owner alone: others would learn what it asks for.
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
        let own = self.share(*owner).acquire_owned().await.map_err(|_| io::ErrorKind::Other)?;
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| io::ErrorKind::Other)?;
        // Who asked before may have found out meanwhile.
        self.check(*owner, name)?;
        let found = self.lookup.lookup(name.clone());
        // The places are kept by what keeps the thread, which outlives whoever asked; and so long the name is being asked
        // for, whoever gave up.
        let asking = self.asked.lock().get(&key).and_then(WeakShared::upgrade);
        let inner = Arc::clone(&self);
        let ask = async move {
            let found = found.await;
            if found.is_err() {
                let (owner, name) = key;
                inner.unknown.lock().note(owner, name, Instant::now());
            }
            drop((own, place, asking));
            found.map(Arc::from).map_err(|error| error.kind())
        };
        tokio::spawn(ask).await.map_err(|_| io::ErrorKind::Other)?
    }

    fn check(&self, owner: u128, name: &str) -> Result<(), io::ErrorKind> {
        let unknown = self.unknown.lock().holds(owner, name, Instant::now());
        if unknown { Err(io::ErrorKind::NotFound) } else { Ok(()) }
    }

    /// An owner's places. Those that nobody uses or waits for are forgotten in time; the others are no more than there
    /// are requests under way.
    fn share(&self, owner: u128) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if shares.len() >= HTTP_LOOKUP_OWNERS_MAX && !shares.contains_key(&owner) {
            shares.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = shares.entry(owner);
        Arc::clone(share.or_insert_with(|| Arc::new(Semaphore::new(HTTP_LOOKUPS_PER_OWNER_MAX))))
    }
}

/// Names that had no address a moment ago, by owner, and until when that is taken for true.
#[derive(Default)]
struct Unknown(HashMap<(u128, String), Instant>);

impl Unknown {
    fn holds(&mut self, owner: u128, name: &str, now: Instant) -> bool {
        if self.0.is_empty() {
            return false;
        }
        self.0.get(&(owner, name.to_owned())).is_some_and(|until| *until > now)
    }

    fn note(&mut self, owner: u128, name: String, now: Instant) {
        if self.0.len() >= HTTP_UNKNOWN_MAX {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= HTTP_UNKNOWN_MAX {
            let oldest = self.0.iter().min_by_key(|(_, until)| **until);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert((owner, name), now + Duration::from_millis(HTTP_UNKNOWN_MS));
    }
}

#[cfg(test)]
mod tests;
