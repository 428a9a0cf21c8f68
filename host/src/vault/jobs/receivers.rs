//! Receivers that do not answer.
//!
//! What this process knows of them, it has seen itself: after a start each is tried again as any other, and known again
//! after two tries.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::id::TenantId;

/// Tries in a row without an answer after which a receiver is known for it.
const TRIES: u32 = 2;
/// A try that ended sooner took nobody's place.
const LONG: Duration = Duration::from_secs(2);
/// Receivers of a tenant that are remembered. When there are more, all are forgotten.
const RECEIVERS_MAX: usize = 1_000;

/// Tries in a row without an answer, by tenant and receiver.
#[derive(Default)]
pub struct Silent(Mutex<HashMap<TenantId, HashMap<String, u32>>>);

impl Silent {
    /// Takes note of a try: whether it was answered, and how long it took.
    pub fn note(&self, tenant: TenantId, receiver: &str, is_answered: bool, took: Duration) {
        let mut all = self.0.lock();
        if is_answered || took < LONG {
            if let Some(receivers) = all.get_mut(&tenant) {
                receivers.remove(receiver);
                if receivers.is_empty() {
                    all.remove(&tenant);
                }
            }
            return;
        }
        let receivers = all.entry(tenant).or_default();
        if receivers.len() >= RECEIVERS_MAX && !receivers.contains_key(receiver) {
            receivers.clear();
        }
        let tries = receivers.entry(receiver.to_owned()).or_default();
        *tries = tries.saturating_add(1);
    }

    /// A tenant's receivers that are known not to answer.
    pub fn of(&self, tenant: TenantId) -> Vec<String> {
        let all = self.0.lock();
        let receivers = all.get(&tenant).into_iter().flatten();
        let known = receivers.filter(|(_, tries)| **tries >= TRIES);
        known.map(|(receiver, _)| receiver.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG, RECEIVERS_MAX, Silent, TRIES};
    use crate::model::id::TenantId;
    use std::time::Duration;

    #[test]
    fn who_does_not_answer_is_known_for_it_until_it_does() {
        let silent = Silent::default();
        let [one, other] = [1, 2].map(|number| TenantId(uuid::Uuid::from_u128(number)));
        let note = |answered, took| silent.note(one, "a:443", answered, took);
        note(false, LONG);
        assert!(silent.of(one).is_empty());
        note(false, LONG);
        assert_eq!((silent.of(one), silent.of(other)), (vec!["a:443".to_owned()], Vec::new()));
        // However late; and whoever refuses at once takes no place.
        note(true, LONG * 5);
        assert!(silent.of(one).is_empty());
        (0..5).for_each(|_| note(false, Duration::from_millis(3)));
        assert!(silent.of(one).is_empty() && silent.0.lock().is_empty());
        for number in 0..=RECEIVERS_MAX {
            (0..TRIES).for_each(|_| silent.note(one, &number.to_string(), false, LONG));
        }
        assert_eq!(silent.of(one), [RECEIVERS_MAX.to_string()]);
    }
}
