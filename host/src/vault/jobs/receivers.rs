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
/// Receivers of a tenant that are remembered, of each pace; more take the places of those of the same pace that were not
/// told anything for longest. So those that do not answer, however many, make nobody forgotten who does.
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
    /// Those that were prompt, by when they were last told something.
    prompt: HashMap<String, Instant>,
    slow: HashMap<String, Slow>,
    looked: Option<Instant>,
}

struct Slow {
    /// When it was last told something.
    last: Instant,
    /// When it last had its turn, whether or not there was something to be told.
    turn: Instant,
}

impl Receivers {
    /// Takes note of a try that took so long.
    pub fn note(&self, tenant: TenantId, receiver: &str, took: Duration) {
        let mut all = self.0.lock();
        let OfTenant { prompt, slow, .. } = all.entry(tenant).or_default();
        let now = Instant::now();
        if took >= LONG {
            prompt.remove(receiver);
            make_room(slow, receiver, |slow| slow.last);
            slow.insert(receiver.to_owned(), Slow { last: now, turn: now });
        } else {
            slow.remove(receiver);
            make_room(prompt, receiver, |last| *last);
            prompt.insert(receiver.to_owned(), now);
        }
    }

    /// The pace of each of a tenant's receivers that is known.
    pub fn of(&self, tenant: TenantId) -> HashMap<String, Pace> {
        let all = self.0.lock();
        let Some(OfTenant { prompt, slow, .. }) = all.get(&tenant) else { return HashMap::new() };
        let prompt = prompt.keys().map(|name| (name.clone(), Pace::Prompt));
        prompt.chain(slow.keys().map(|name| (name.clone(), Pace::Slow))).collect()
    }

    /// A tenant's slow receivers, those first that had no turn for longest. None until a while after they were looked at
    /// last.
    pub fn slow_in_turn(&self, tenant: TenantId) -> Vec<String> {
        let mut all = self.0.lock();
        let Some(OfTenant { slow, looked, .. }) = all.get_mut(&tenant) else { return Vec::new() };
        if looked.is_some_and(|looked| looked.elapsed() < LOOKED_AT) {
            return Vec::new();
        }
        *looked = Some(Instant::now());
        let mut names: Vec<_> = slow.iter().map(|(name, slow)| (slow.turn, name.clone())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Takes note that it was looked whether a slow receiver has something to be told.
    pub fn had_turn(&self, tenant: TenantId, receiver: &str) {
        let mut all = self.0.lock();
        if let Some(slow) = all.get_mut(&tenant).and_then(|of| of.slow.get_mut(receiver)) {
            slow.turn = Instant::now();
        }
    }
}

/// Forgets the one that was told nothing for longest, where there is no room for another.
fn make_room<T>(known: &mut HashMap<String, T>, receiver: &str, last: impl Fn(&T) -> Instant) {
    if known.len() >= RECEIVERS_MAX && !known.contains_key(receiver) {
        let oldest = known.iter().min_by_key(|(_, known)| last(known));
        if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
            known.remove(&oldest);
        }
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
    }

    #[test]
    fn those_of_one_pace_make_none_of_the_other_forgotten() {
        for (took, other) in [(LONG, SHORT), (SHORT, LONG)] {
            let receivers = Receivers::default();
            let tenant = TenantId(uuid::Uuid::nil());
            receivers.note(tenant, "other", other);
            receivers.note(tenant, "first", took);
            for number in 0..RECEIVERS_MAX {
                receivers.note(tenant, &number.to_string(), took);
            }
            let known = receivers.of(tenant);
            assert_eq!(known.len(), RECEIVERS_MAX + 1);
            assert!(known.contains_key("other") && !known.contains_key("first"));
        }
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
            let next = receivers.slow_in_turn(tenant);
            assert!(receivers.slow_in_turn(tenant).is_empty(), "it is too soon");
            // There is room for two of them.
            for receiver in next.into_iter().take(2) {
                receivers.had_turn(tenant, &receiver);
                seen.push(receiver);
            }
            std::thread::sleep(LOOKED_AT);
        }
        assert_eq!(seen, ["a", "b", "c", "a", "b", "c"]);
    }
}
