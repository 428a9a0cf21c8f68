//! What is known of receivers: who takes long, and who does not.
//!
//! A process knows what it has seen itself. After a start each receiver is unknown, and known after its first try.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits::DELIVERY_SLOW_MS;
use crate::model::id::TenantId;

/// A try that takes as long keeps a place from others, answered or not.
const LONG: Duration = Duration::from_millis(DELIVERY_SLOW_MS);
/// Receivers of a tenant that are remembered, of each pace; each one more takes the place of any of the same pace. So those
/// that do not answer, however many, make nobody forgotten who does; and of a few more that are told something in turns,
/// most are known: were it that of who was told nothing for longest, none of them would be.
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
    /// Those that were prompt.
    prompt: HashSet<String>,
    /// Those that were slow, by when they last had their turn, whether or not there was something to be told.
    slow: HashMap<String, Instant>,
    looked: Option<Instant>,
}

impl Receivers {
    /// Takes note of a try that took so long.
    pub fn note(&self, tenant: TenantId, receiver: &str, took: Duration) {
        let mut all = self.0.lock();
        let OfTenant { prompt, slow, .. } = all.entry(tenant).or_default();
        if took >= LONG {
            prompt.remove(receiver);
            if let Some(any) = in_the_way(slow.keys()).filter(|_| !slow.contains_key(receiver)) {
                slow.remove(&any);
            }
            slow.insert(receiver.to_owned(), Instant::now());
        } else {
            slow.remove(receiver);
            if let Some(any) = in_the_way(prompt.iter()).filter(|_| !prompt.contains(receiver)) {
                prompt.remove(&any);
            }
            prompt.insert(receiver.to_owned());
        }
    }

    /// Forgets a tenant's.
    pub fn forget(&self, tenant: TenantId) {
        self.0.lock().remove(&tenant);
    }

    /// The pace of each of a tenant's receivers that is known.
    pub fn of(&self, tenant: TenantId) -> HashMap<String, Pace> {
        let all = self.0.lock();
        let Some(OfTenant { prompt, slow, .. }) = all.get(&tenant) else { return HashMap::new() };
        let prompt = prompt.iter().map(|name| (name.clone(), Pace::Prompt));
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
        let mut names: Vec<_> = slow.iter().map(|(name, turn)| (*turn, name.clone())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Takes note that it was looked whether a slow receiver has something to be told.
    pub fn had_turn(&self, tenant: TenantId, receiver: &str) {
        let mut all = self.0.lock();
        if let Some(turn) = all.get_mut(&tenant).and_then(|of| of.slow.get_mut(receiver)) {
            *turn = Instant::now();
        }
    }
}

/// Who makes room for one more, if there is none: whichever comes first, in an order that is no one's choice.
fn in_the_way<'a>(mut known: impl ExactSizeIterator<Item = &'a String>) -> Option<String> {
    if known.len() < RECEIVERS_MAX { None } else { known.next().cloned() }
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
            for number in 0..2 * RECEIVERS_MAX {
                receivers.note(tenant, &number.to_string(), took);
            }
            let known = receivers.of(tenant);
            assert_eq!(known.len(), RECEIVERS_MAX + 1);
            assert!(known.contains_key("other"));
            receivers.forget(tenant);
            assert!(receivers.of(tenant).is_empty());
        }
    }

    #[test]
    fn of_a_few_too_many_that_are_told_in_turns_most_are_known() {
        let receivers = Receivers::default();
        let tenant = TenantId(uuid::Uuid::nil());
        let all = RECEIVERS_MAX * 9 / 8;
        let mut unknown = 0;
        for number in (0..all).cycle().take(4 * all) {
            let name = number.to_string();
            unknown += usize::from(!receivers.of(tenant).contains_key(&name));
            receivers.note(tenant, &name, SHORT);
        }
        // The first time, each of them; and less than half of the others.
        assert!(unknown - all < 3 * all / 2, "{unknown} of {}", 4 * all);
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
