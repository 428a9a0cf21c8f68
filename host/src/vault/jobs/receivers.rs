//! What is known of receivers: who takes long, and who does not.
//!
//! A process knows what it has seen itself. After a start each receiver is unknown, and known after its first try.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits::DELIVERY_SLOW_MS;
use crate::model::id::TenantId;

/// A try that takes as long keeps a place from others, answered or not.
const LONG: Duration = Duration::from_millis(DELIVERY_SLOW_MS);
/// Receivers of a tenant that are remembered; more take the places of those that were not told anything for longest.
const RECEIVERS_MAX: usize = 512;
/// How long it is until the slow ones of a tenant are looked at again.
const LOOKED_AT: Duration = Duration::from_millis(500);

/// How a receiver took its last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It was soon over.
    Prompt,
    /// It took long.
    Slow,
    /// There was none that is remembered.
    Unknown,
}

/// What is known, by tenant.
#[derive(Default)]
pub struct Receivers(Mutex<HashMap<TenantId, OfTenant>>);

#[derive(Default)]
struct OfTenant {
    known: HashMap<String, Known>,
    looked: Option<Instant>,
}

struct Known {
    is_slow: bool,
    /// When it was last tried, or looked whether there is something to be tried.
    last: Instant,
}

impl Receivers {
    /// Takes note of a try that took so long.
    pub fn note(&self, tenant: TenantId, receiver: &str, took: Duration) {
        let mut all = self.0.lock();
        let OfTenant { known, .. } = all.entry(tenant).or_default();
        if known.len() >= RECEIVERS_MAX && !known.contains_key(receiver) {
            let oldest = known.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                known.remove(&oldest);
            }
        }
        let now = Known { is_slow: took >= LONG, last: Instant::now() };
        known.insert(receiver.to_owned(), now);
    }

    /// The pace of each of a tenant's receivers that is known.
    pub fn of(&self, tenant: TenantId) -> HashMap<String, Pace> {
        let all = self.0.lock();
        let known = all.get(&tenant).into_iter().flat_map(|of| &of.known);
        let pace = |known: &Known| if known.is_slow { Pace::Slow } else { Pace::Prompt };
        known.map(|(name, known)| (name.clone(), pace(known))).collect()
    }

    /// A tenant's slow receivers to be tried next, at most so many: those that were not for longest. None until a while
    /// after the last ones.
    pub fn next_slow(&self, tenant: TenantId, count: usize) -> Vec<String> {
        let mut all = self.0.lock();
        let Some(OfTenant { known, looked }) = all.get_mut(&tenant) else { return Vec::new() };
        if looked.is_some_and(|looked| looked.elapsed() < LOOKED_AT) {
            return Vec::new();
        }
        let now = Instant::now();
        *looked = Some(now);
        let mut slow: Vec<_> = known.iter_mut().filter(|(_, known)| known.is_slow).collect();
        slow.sort_unstable_by_key(|(_, known)| known.last);
        let next = slow.into_iter().take(count).map(|(name, known)| {
            known.last = now;
            name.clone()
        });
        next.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONG, LOOKED_AT, Pace, RECEIVERS_MAX, Receivers};
    use crate::model::id::TenantId;

    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn a_receiver_is_what_its_last_try_was() {
        let receivers = Receivers::default();
        let [one, other] = [1, 2].map(|number| TenantId(uuid::Uuid::from_u128(number)));
        assert!(receivers.of(one).is_empty());
        for (took, pace) in [(LONG, Pace::Slow), (SHORT, Pace::Prompt), (LONG * 2, Pace::Slow)] {
            receivers.note(one, "a:443", took);
            assert_eq!(receivers.of(one)["a:443"], pace);
        }
        assert!(receivers.of(other).is_empty());
        for number in 0..RECEIVERS_MAX {
            receivers.note(one, &number.to_string(), SHORT);
        }
        let known = receivers.of(one);
        assert!(known.len() == RECEIVERS_MAX && !known.contains_key("a:443"));
    }

    #[test]
    fn slow_ones_take_turns() {
        let receivers = Receivers::default();
        let tenant = TenantId(uuid::Uuid::nil());
        for name in ["a", "b", "c"] {
            receivers.note(tenant, name, LONG);
            std::thread::sleep(SHORT);
        }
        receivers.note(tenant, "prompt", SHORT);
        let mut seen = Vec::new();
        while seen.len() < 6 {
            let next = receivers.next_slow(tenant, 2);
            assert!(receivers.next_slow(tenant, 2).is_empty(), "it is too soon");
            seen.extend(next);
            std::thread::sleep(LOOKED_AT);
        }
        assert_eq!(seen[..2], ["a", "b"]);
        assert_eq!(seen[2], "c");
        assert!(["a", "b", "c"].iter().all(|name| seen.iter().any(|seen| seen == name)));
        assert!(!seen.contains(&"prompt".to_owned()));
    }
}
