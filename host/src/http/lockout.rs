//! Lock-out of clients that try keys (decisions §1, status 429).
//!
//! Only keys that nobody has count. Past a number of them their client is told to wait, each time twice as long, and
//! meanwhile none of its keys is looked up but those that were issued or have opened something, from wherever, since this
//! process began. So whoever shares an address with a stranger goes on with a key that is new or was used lately. Another
//! cannot be told from a guess, and waits as the stranger does; after a start that is every key until its first use. Where
//! all the world has one address, as behind a proxy, nobody is to be locked out. What is remembered is bounded, however many
//! addresses there are: of many good keys, those that were not used lately are forgotten.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::clock::Clock;
use crate::crypto::api_key::{ApiKey, SESSION_TAG};
use crate::figures::figures;
use crate::limits::{GOOD_KEYS_MAX, LOCK_OUT_FORGET_MS, LOCK_OUT_MS_FIRST, LOCK_OUT_MS_MAX};

/// Clients that are told apart; more share a place by chance.
const PLACES: usize = 1 << 14;
const NS_PER_MS: u64 = 1_000_000;

/// Who is locked out.
pub struct LockOut {
    /// Unknown keys before the first lock-out.
    after: u32,
    clock: Arc<dyn Clock>,
    /// Draws places of clients, and names of keys that say nothing about them.
    hasher: RandomState,
    clients: Mutex<Box<[Client]>>,
    /// When the last lock-out ends: before that nobody else needs to look.
    until_ns: AtomicU64,
    /// Keys of applications that opened something or were issued, and those of sessions: of these anybody may make any
    /// number who has a public key.
    good: [RwLock<Lately>; 2],
}

/// Names of keys that were noted lately: the last ones, and as many before them.
#[derive(Default)]
struct Lately {
    last: HashSet<u64>,
    before: HashSet<u64>,
}

impl Lately {
    fn has(&self, name: u64) -> bool {
        self.last.contains(&name) || self.before.contains(&name)
    }

    fn note(&mut self, name: u64) {
        if self.last.len() >= GOOD_KEYS_MAX / 2 {
            self.before = std::mem::take(&mut self.last);
        }
        self.last.insert(name);
    }

    fn forget(&mut self, name: u64) {
        self.last.remove(&name);
        self.before.remove(&name);
    }
}

/// What is remembered of a client, in nanoseconds of the clock.
#[derive(Debug, Clone, Copy, Default)]
struct Client {
    unknown_keys: u32,
    last_ns: u64,
    until_ns: u64,
}

impl LockOut {
    /// Locks out after so many unknown keys; `None` when that is 0, for never.
    pub fn new(after: u32, clock: &Arc<dyn Clock>) -> Option<Self> {
        (after > 0).then(|| Self {
            after,
            clock: Arc::clone(clock),
            hasher: RandomState::new(),
            clients: Mutex::new(vec![Client::default(); PLACES].into_boxed_slice()),
            until_ns: AtomicU64::new(0),
            good: Default::default(),
        })
    }

    /// How long the client has to wait before this key is looked at.
    pub fn check(&self, address: IpAddr, key: &ApiKey) -> Result<(), Duration> {
        let now = self.clock.elapsed_ns();
        if self.until_ns.load(Ordering::Acquire) <= now {
            return Ok(());
        }
        let until = self.clients.lock()[self.place(address)].until_ns;
        if until <= now || self.of(key).read().has(self.name(key)) {
            return Ok(());
        }
        Err(Duration::from_nanos(until - now))
    }

    /// Remembers a key that opened something, or was issued.
    pub fn good(&self, key: &ApiKey) {
        let (name, good) = (self.name(key), self.of(key));
        if !good.read().last.contains(&name) {
            good.write().note(name);
        }
    }

    /// Where a key of this kind is remembered.
    fn of(&self, key: &ApiKey) -> &RwLock<Lately> {
        let [applications, sessions] = &self.good;
        if key.tag() == SESSION_TAG { sessions } else { applications }
    }

    /// Counts a key that nobody has. One that somebody had is a stranger's from then on: were it looked up meanwhile, who
    /// goes on with it would never let others in.
    pub fn unknown(&self, address: IpAddr, key: &ApiKey) {
        let (name, good) = (self.name(key), self.of(key));
        if good.read().has(name) {
            good.write().forget(name);
        }
        let now = self.clock.elapsed_ns();
        let mut clients = self.clients.lock();
        let client = &mut clients[self.place(address)];
        if now.saturating_sub(client.last_ns) > LOCK_OUT_FORGET_MS * NS_PER_MS {
            *client = Client::default();
        }
        client.last_ns = now;
        client.unknown_keys = client.unknown_keys.saturating_add(1);
        let Some(more) = client.unknown_keys.checked_sub(self.after) else { return };
        let (wait_ms, was_free) = (delay_ms(more), client.until_ns <= now);
        client.until_ns = now.saturating_add(wait_ms * NS_PER_MS);
        self.until_ns.fetch_max(client.until_ns, Ordering::AcqRel);
        if !was_free {
            return;
        }
        figures().locked_out();
        tracing::warn!(%address, unknown_keys = client.unknown_keys, wait_ms, "a client is locked out");
    }

    fn place(&self, address: IpAddr) -> usize {
        // The remainder is below the number of places.
        usize::try_from(self.hasher.hash_one(network(address)) % PLACES as u64).unwrap_or_default()
    }

    fn name(&self, key: &ApiKey) -> u64 {
        self.hasher.hash_one(key.expose())
    }
}

/// How long the lock-out lasts, after so many unknown keys more than allowed.
fn delay_ms(more: u32) -> u64 {
    LOCK_OUT_MS_FIRST.checked_shl(more.min(32)).unwrap_or(u64::MAX).min(LOCK_OUT_MS_MAX)
}

/// What belongs to one client: an address, or the network of an IPv6 address, of which a client has all addresses.
pub fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LockOut, PLACES, delay_ms};
    use crate::clock::{Clock, ManualClock};
    use crate::crypto::api_key::ApiKey;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    fn key(number: u32) -> ApiKey {
        ApiKey::given(format!("key_prv_{number}"))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn locked_out_after(after: u32) -> (LockOut, ManualClock) {
        let clock = ManualClock::new(1_767_225_600_000);
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        (LockOut::new(after, &shared).unwrap(), clock)
    }

    #[test]
    fn the_wait_grows_to_a_minute() {
        let waits: Vec<_> = (0..9).map(delay_ms).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        assert_eq!(delay_ms(u32::MAX), 60_000);
    }

    #[test]
    fn only_strangers_wait_and_only_for_a_while() {
        let (lock_out, clock) = locked_out_after(3);
        let (here, there) = (address("192.0.2.1"), address("198.51.100.7"));
        lock_out.good(&key(1));
        for _ in 0..2 {
            lock_out.check(here, &key(2)).unwrap();
            lock_out.unknown(here, &key(9));
        }
        lock_out.check(here, &key(2)).unwrap();
        lock_out.unknown(here, &key(9));
        assert_eq!(lock_out.check(here, &key(2)), Err(Duration::from_secs(1)));
        // A key that was good before, and other clients.
        lock_out.check(here, &key(1)).unwrap();
        lock_out.check(there, &key(2)).unwrap();
        clock.advance_ms(999);
        assert_eq!(lock_out.check(here, &key(2)), Err(Duration::from_millis(1)));
        clock.advance_ms(1);
        lock_out.check(here, &key(2)).unwrap();
        lock_out.unknown(here, &key(9));
        assert_eq!(lock_out.check(here, &key(3)), Err(Duration::from_secs(2)));
        // After a rest it is a client as any other.
        clock.advance_ms(20 * 60_000);
        lock_out.unknown(here, &key(9));
        lock_out.check(here, &key(2)).unwrap();
    }

    #[test]
    fn a_key_that_has_opened_nothing_since_the_start_waits_as_a_strangers_does() {
        let here = address("192.0.2.1");
        let (lock_out, _) = locked_out_after(1);
        lock_out.unknown(here, &key(9));
        assert!(lock_out.check(here, &key(1)).is_err());
        lock_out.good(&key(1));
        lock_out.check(here, &key(1)).unwrap();
        let (started_again, _) = locked_out_after(1);
        started_again.unknown(here, &key(9));
        assert!(started_again.check(here, &key(1)).is_err());
    }

    #[test]
    fn a_key_that_has_ended_is_a_strangers() {
        let here = address("192.0.2.1");
        let (lock_out, clock) = locked_out_after(2);
        lock_out.good(&key(1));
        lock_out.good(&key(2));
        lock_out.unknown(here, &key(9));
        lock_out.unknown(here, &key(9));
        // It is looked up once more, and found to be nobody's.
        lock_out.check(here, &key(1)).unwrap();
        lock_out.unknown(here, &key(1));
        lock_out.check(here, &key(2)).unwrap();
        // From then on it keeps nobody out any longer.
        assert_eq!(lock_out.check(here, &key(1)), Err(Duration::from_secs(2)));
        clock.advance_ms(2_000);
        lock_out.check(here, &key(3)).unwrap();
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let (lock_out, _) = locked_out_after(1);
        lock_out.unknown(address("2001:db8:1:2::1"), &key(9));
        assert!(lock_out.check(address("2001:db8:1:2:ffff::9"), &key(1)).is_err());
        // Others may share its place, by chance; not all do.
        let others = (0..50).map(|n| address(&format!("2001:db8:1:{n:x}00::1")));
        assert!(others.filter(|other| lock_out.check(*other, &key(1)).is_ok()).count() > 40);
        // IPv4 in IPv6's spelling is IPv4.
        lock_out.unknown(address("::ffff:192.0.2.1"), &key(9));
        assert!(lock_out.check(address("192.0.2.1"), &key(1)).is_err());
    }

    #[test]
    fn whoever_goes_on_is_remembered_beside_any_number_of_new_keys() {
        let here = address("192.0.2.1");
        let (lock_out, _) = locked_out_after(1);
        lock_out.unknown(here, &key(9));
        for number in 0..30_000_u32 {
            lock_out.good(&ApiKey::given(format!("key_ses_{number}")));
            if number % 4_000 == 0 {
                lock_out.good(&key(1));
            }
            lock_out.good(&key(number % 15_000 + 2));
        }
        lock_out.check(here, &key(1)).unwrap();
        assert!(lock_out.check(here, &ApiKey::given("key_ses_3".to_owned())).is_err());
        lock_out.check(here, &ApiKey::given("key_ses_29999".to_owned())).unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (lock_out, _) = locked_out_after(5);
        for number in 0..100_000_u32 {
            lock_out.unknown(IpAddr::from(number.to_be_bytes()), &key(9));
            lock_out.good(&key(number));
        }
        assert_eq!(lock_out.clients.lock().len(), PLACES);
        let kept = lock_out.good[0].read();
        assert!(kept.last.len() + kept.before.len() <= 10_000);
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
        assert!(LockOut::new(0, &clock).is_none());
    }
}
