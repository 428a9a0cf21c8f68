//! Which deliveries are begun (decisions §8).
//!
//! Places are few, and a receiver that takes long keeps one for as long as a try may last. So that it delays no other, its
//! last try counts ([`super::receivers`]): those that were prompt, those that were slow, and those that are not known yet
//! have places of their own. The latter two get one at a time each, the slow ones in turns.
//!
//! Of each kind, a tenant that has some places gets another one only as long as it has fewer than are free, and leaves the
//! last eighth to those that have none: so there is one for whoever has none, once what was begun before has ended, however
//! much the others have to be told. Where tenants are more than places, they take turns. In a tenant, a receiver that was
//! prompt gets another one only as long as it has fewer than the tenant may still take.

use std::collections::HashMap;
use std::ops::Bound;

use super::delivery::{BY_DOUBT, Delivery};
use super::in_hand::{InHand, Told};
use super::queue::Queue;
use super::receivers::Pace;
use crate::crypto::keys::TenantKeys;
use crate::limits::{
    DELIVERIES_PER_RECEIVER_MAX, DELIVERIES_PROMPT_MAX, DELIVERIES_PROMPT_PER_TENANT_MAX,
    DELIVERIES_SLOW_MAX, DELIVERIES_SLOW_PER_TENANT_MAX, DELIVERIES_UNKNOWN_MAX,
    DELIVERIES_UNKNOWN_PER_TENANT_MAX, DELIVERY_WINDOW_MS,
};
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{Filter, Start};
use crate::vault::index::{number, term, term_of};
use crate::vault::record::{Entity as _, Stored};
use crate::vault::{Error, Vault};

/// One of so many places is for tenants that have none of the kind.
const LAST_PART: usize = 8;
/// Slow receivers that are looked at in a turn, at most, until as many have something due as there are places for.
const SLOW_LOOKED_AT: usize = 64;

/// Tenants that are looked at when one of the last places of a kind is free, before the one that had it.
const OTHERS_FIRST: usize = 4;

/// How many places there are for receivers of this pace: in all, and for one tenant.
const fn places(pace: Pace) -> (usize, usize) {
    match pace {
        Pace::Prompt => (DELIVERIES_PROMPT_MAX, DELIVERIES_PROMPT_PER_TENANT_MAX),
        Pace::Unknown => (DELIVERIES_UNKNOWN_MAX, DELIVERIES_UNKNOWN_PER_TENANT_MAX),
        Pace::Slow => (DELIVERIES_SLOW_MAX, DELIVERIES_SLOW_PER_TENANT_MAX),
    }
}

/// What there is room for in a tenant.
struct Places {
    /// Deliveries in hand to each of its receivers.
    to: HashMap<String, usize>,
    known: HashMap<String, Pace>,
    /// Places that it may take for receivers that were prompt, are not known, and were slow.
    prompt: usize,
    unknown: usize,
    slow: usize,
}

impl Places {
    fn of(tenant: TenantId, known: HashMap<String, Pace>, in_hand: &InHand) -> Self {
        let left = |pace: Pace| {
            let (of_all, of_tenant) = places(pace);
            let held = in_hand.deliveries().filter(|(.., told)| told.pace == pace);
            let own = held.clone().filter(|(other, ..)| *other == tenant).count();
            let free = of_all.saturating_sub(held.count());
            // Each one that is taken makes its own number larger and the other smaller.
            let fair = (free + 1).saturating_sub(of_all / LAST_PART + own) / 2;
            let first = usize::from(own == 0).min(free);
            of_tenant.saturating_sub(own).min(fair.max(first))
        };
        let mut to = HashMap::new();
        for (_, _, told) in in_hand.deliveries().filter(|(other, ..)| *other == tenant) {
            *to.entry(told.receiver.clone()).or_default() += 1;
        }
        let [prompt, unknown, slow] = [Pace::Prompt, Pace::Unknown, Pace::Slow].map(left);
        Self { to, known, prompt, unknown, slow }
    }

    fn pace(&self, receiver: &str) -> Pace {
        self.known.get(receiver).copied().unwrap_or(Pace::Unknown)
    }

    /// Whether a receiver may have one more.
    fn has_for(&self, receiver: &str) -> bool {
        let own = self.to.get(receiver).copied().unwrap_or_default();
        match self.pace(receiver) {
            Pace::Prompt => own < DELIVERIES_PER_RECEIVER_MAX.min(self.prompt),
            Pace::Unknown => self.unknown > 0 && own == 0,
            Pace::Slow => self.slow > 0 && own == 0,
        }
    }

    /// Gives it one, and says how it counts.
    fn take(&mut self, receiver: String) -> Pace {
        let pace = self.pace(&receiver);
        match pace {
            Pace::Prompt => self.prompt -= 1,
            Pace::Unknown => self.unknown -= 1,
            Pace::Slow => self.slow -= 1,
        }
        *self.to.entry(receiver).or_default() += 1;
        pace
    }

    /// Receivers that were prompt or are not known, and may have one more.
    fn not_slow(&self, keys: &TenantKeys) -> Filter {
        let term = |name: &String| Filter::Term(term_of(keys, term::RECEIVER, &[name]));
        if self.unknown == 0 {
            let prompt = self.known.iter().filter(|(_, pace)| **pace == Pace::Prompt);
            let prompt = prompt.map(|(name, _)| name).filter(|name| self.has_for(name));
            return Filter::Or(prompt.map(term).collect());
        }
        // Also of those that have none in hand, when there is no place for any of them.
        let known =
            self.known.iter().filter(|(name, pace)| **pace == Pace::Slow || !self.has_for(name));
        let unknown = self.to.keys().filter(|name| self.pace(name) == Pace::Unknown);
        let none = known.map(|(name, _)| name).chain(unknown);
        Filter::Not(Box::new(Filter::Or(none.map(term).collect())))
    }
}

impl Queue {
    /// A try of a tenant has ended. Where there was hardly a place of its kind, others that waited for one come first: the
    /// tenant would have it again and again.
    pub(super) fn ended(&self, tenant: TenantId, told: &Told, in_hand: &InHand) {
        let held = in_hand.deliveries().filter(|(.., other)| other.pace == told.pace).count();
        if held + 1 >= places(told.pace).0 {
            self.deliveries.lock().look_again(OTHERS_FIRST);
        }
        self.deliveries_of(tenant);
    }
}

impl Vault {
    /// Deliveries of a tenant to begin now, and whether any wait, due or not.
    pub(super) async fn due_deliveries(
        &self,
        tenant: TenantId,
        in_hand: &InHand,
    ) -> Result<(Vec<(Stored<Delivery>, Pace)>, bool), Error> {
        let keys = self.keys(tenant).await?;
        let due = due_at(self.now(), !self.may_remove_ended()?);
        let receivers = &self.0.queue.receivers;
        let mut places = Places::of(tenant, receivers.of(tenant), in_hand);
        let own = in_hand.deliveries().filter(|(other, ..)| *other == tenant);
        let mut held: Vec<String> = own.map(|(_, id, _)| id.to_string()).collect();
        let mut begun = Vec::new();
        let but = |held: &[String], to: Filter| {
            let held = Filter::Not(Box::new(Filter::Ids(held.to_vec())));
            Filter::And(vec![due.clone(), to, held])
        };
        let mut taken = true;
        while taken && places.prompt + places.unknown > 0 {
            taken = false;
            let (filter, most) = (places.not_slow(&keys), places.prompt + places.unknown);
            for delivery in self.oldest::<Delivery>(tenant, &but(&held, filter), most).await? {
                let receiver = delivery.entity.receiver();
                if places.has_for(&receiver) {
                    taken = true;
                    held.push(delivery.entity.id.to_string());
                    begun.push((delivery, places.take(receiver)));
                }
            }
        }
        if places.slow > 0 {
            let mut slow = receivers.slow_in_turn(tenant);
            slow.retain(|receiver| places.has_for(receiver));
            for receiver in slow.into_iter().take(SLOW_LOOKED_AT) {
                if places.slow == 0 {
                    break;
                }
                receivers.had_turn(tenant, &receiver);
                let to = Filter::Term(term_of(&keys, term::RECEIVER, &[&receiver]));
                let first = self.oldest::<Delivery>(tenant, &but(&held, to), 1).await?;
                begun.extend(first.into_iter().map(|first| (first, places.take(receiver.clone()))));
            }
        }
        let store = self.0.store.as_ref();
        let pending = due_within(Bound::Unbounded, Bound::Unbounded);
        let pending = store.page(Delivery::KIND, tenant, &pending, Start::Offset(0), 0).await?;
        Ok((begun, pending.total > 0))
    }
}

/// What is due. Once the clock is believed, that is also what it put off while it was in doubt, and what it put off for
/// longer than any wait: it was ahead then. So nothing waits until the clock gets there again.
fn due_at(now: Timestamp, in_doubt: bool) -> Filter {
    let put_off = if in_doubt {
        let to = Bound::Included(BY_DOUBT.saturating_add(now.0));
        due_within(Bound::Included(BY_DOUBT), to)
    } else {
        let longest = now.0.saturating_add(DELIVERY_WINDOW_MS);
        due_within(Bound::Excluded(longest), Bound::Unbounded)
    };
    Filter::Or(vec![due_within(Bound::Unbounded, Bound::Included(now.0)), put_off])
}

fn due_within(from: Bound<u64>, to: Bound<u64>) -> Filter {
    Filter::Range { field: number::DUE_AT, from, to }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{InHand, Pace, Places, Queue, TenantId};
    use crate::limits::{
        DELIVERIES_PROMPT_MAX, DELIVERIES_PROMPT_PER_TENANT_MAX, DELIVERIES_SLOW_MAX,
        DELIVERIES_SLOW_PER_TENANT_MAX, DELIVERIES_UNKNOWN_MAX, DELIVERIES_UNKNOWN_PER_TENANT_MAX,
    };
    use crate::model::id::InvocationId;
    use crate::vault::jobs::in_hand::{Held, Told};

    fn tenant(number: usize) -> TenantId {
        TenantId(uuid::Uuid::from_u128(number as u128))
    }

    fn name(number: usize) -> String {
        format!("host-{number}:443")
    }

    /// Begins as many deliveries of a tenant as there is room for, when each of its receivers wants as many as it can have,
    /// the first of them first.
    fn fill(in_hand: &mut InHand, tenant: TenantId, known: &HashMap<String, Pace>, all: usize) {
        let mut began = true;
        while std::mem::take(&mut began) {
            let mut places = Places::of(tenant, known.clone(), in_hand);
            for receiver in (0..all).map(name) {
                while places.has_for(&receiver) {
                    let pace = places.take(receiver.clone());
                    let receiver = receiver.clone();
                    let (id, receiver) =
                        (InvocationId(uuid::Uuid::from_u128(0)), Some(Told { receiver, pace }));
                    let held = Held { tenant, id, receiver, stands: std::sync::Arc::default() };
                    in_hand.take(held, std::future::pending());
                    began = true;
                }
            }
        }
    }

    fn of_tenant(in_hand: &InHand, tenant: TenantId) -> usize {
        in_hand.deliveries().filter(|(other, ..)| *other == tenant).count()
    }

    /// Ends the first one in hand that is such a one.
    fn end_one(in_hand: &mut InHand, is_it: impl Fn(&Held) -> bool) {
        let found = in_hand.held.iter().find(|(_, held)| is_it(held));
        if let Some(task) = found.map(|(task, _)| *task) {
            in_hand.held.remove(&task);
        }
    }

    #[tokio::test]
    async fn tenants_that_want_all_places_leave_some_for_who_has_none() {
        let slow: HashMap<_, _> = (0..500).map(|number| (name(number), Pace::Slow)).collect();
        let prompt: HashMap<_, _> = (0..500).map(|number| (name(number), Pace::Prompt)).collect();
        let none = HashMap::new();
        for (known, of_all) in [
            (&none, DELIVERIES_UNKNOWN_MAX),
            (&slow, DELIVERIES_SLOW_MAX),
            (&prompt, DELIVERIES_PROMPT_MAX),
        ] {
            for tenants in [1, 2, 3, 10] {
                let mut in_hand = InHand::default();
                // What one has done is not taken up by itself as long as it has more than are left.
                for _ in 0..20 {
                    (0..tenants).for_each(|number| fill(&mut in_hand, tenant(number), known, 500));
                    for number in 0..tenants {
                        if of_tenant(&in_hand, tenant(number)) > of_all / (tenants + 1) {
                            end_one(&mut in_hand, |held| held.tenant == tenant(number));
                        }
                    }
                }
                (0..tenants).for_each(|number| fill(&mut in_hand, tenant(number), known, 500));
                let places = Places::of(tenant(100), known.clone(), &in_hand);
                assert!(places.has_for(&name(7)), "{tenants} of {of_all}");
                // And for some more of those at once.
                (100..110).for_each(|number| fill(&mut in_hand, tenant(number), known, 500));
                let none = (100..110).find(|number| of_tenant(&in_hand, tenant(*number)) == 0);
                assert!(none.is_none() || of_all == DELIVERIES_SLOW_MAX, "{none:?} of {of_all}");
                let least = (0..tenants).map(|number| of_tenant(&in_hand, tenant(number))).min();
                assert!(least >= Some(of_all / 32), "{least:?} of {of_all}");
            }
        }
    }

    #[tokio::test]
    async fn receivers_with_very_much_to_be_told_leave_places_for_the_others_of_their_tenant() {
        let mut known: HashMap<_, _> = (0..40).map(|number| (name(number), Pace::Prompt)).collect();
        known.insert("slow:443".to_owned(), Pace::Slow);
        known.insert("idle:443".to_owned(), Pace::Prompt);
        for (tenants, many) in
            [(1, 1), (1, 8), (1, 16), (1, 17), (1, 25), (2, 8), (2, 12), (2, 20), (4, 8), (4, 12)]
        {
            let mut in_hand = InHand::default();
            (0..tenants).for_each(|number| fill(&mut in_hand, tenant(number), &known, many));
            // One after the other ends, and what it leaves is filled again.
            for receiver in (0..many).map(name).cycle().take(20 * many) {
                for number in 0..tenants {
                    end_one(&mut in_hand, |held| {
                        let told = held.receiver.as_ref();
                        held.tenant == tenant(number)
                            && told.is_some_and(|told| told.receiver == receiver)
                    });
                    fill(&mut in_hand, tenant(number), &known, many);
                }
            }
            for number in 0..tenants {
                let places = Places::of(tenant(number), known.clone(), &in_hand);
                for other in ["idle:443", "slow:443", "new:443"] {
                    assert!(places.has_for(other), "{other} beside {many} of {tenants}");
                }
            }
        }
    }

    #[tokio::test]
    async fn no_tenant_has_the_last_places_again_and_again() {
        let slow: HashMap<_, _> = [(name(0), Pace::Slow)].into();
        let (queue, mut in_hand) = (Queue::default(), InHand::default());
        let mut told = std::collections::HashSet::new();
        let tenants = DELIVERIES_SLOW_MAX * 3 / 2;
        (0..tenants).for_each(|number| queue.deliveries_of(tenant(number)));
        for round in 0..10 * tenants {
            while let Some(next) = queue.next_for_deliveries() {
                fill(&mut in_hand, next, &slow, 1);
                queue.deliveries_later(next);
            }
            told.extend(in_hand.deliveries().map(|(tenant, ..)| tenant));
            let task = *in_hand.held.keys().nth(round % in_hand.held.len()).unwrap();
            let ended = in_hand.held.remove(&task).unwrap();
            queue.ended(ended.tenant, &ended.receiver.unwrap(), &in_hand);
        }
        assert_eq!(told.len(), tenants);
    }

    /// However much a tenant tells those that do not answer, and others those that do.
    #[tokio::test]
    async fn places_of_one_kind_are_no_matter_for_another() {
        let slow: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Slow)).collect();
        let prompt: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Prompt)).collect();
        let mut in_hand = InHand::default();
        fill(&mut in_hand, tenant(0), &slow, 200);
        (1..3).for_each(|number| fill(&mut in_hand, tenant(number), &prompt, 100));
        for number in 0..3 {
            let mut known = if number == 0 { slow.clone() } else { prompt.clone() };
            known.insert("idle:443".to_owned(), Pace::Prompt);
            let places = Places::of(tenant(number), known, &in_hand);
            assert!(places.has_for("idle:443") || number > 0);
            assert!(places.has_for("new:443") || number == 0);
        }
    }

    #[tokio::test]
    async fn whoever_is_prompt_finds_a_place_beside_any_number_that_are_not() {
        for (pace, of_tenant, of_all) in [
            (Pace::Slow, DELIVERIES_SLOW_PER_TENANT_MAX, DELIVERIES_SLOW_MAX),
            (Pace::Unknown, DELIVERIES_UNKNOWN_PER_TENANT_MAX, DELIVERIES_UNKNOWN_MAX),
        ] {
            let known: HashMap<_, _> = (0..200)
                .map(|number| (name(number), pace))
                .filter(|(_, pace)| *pace == Pace::Slow)
                .collect();
            let mut in_hand = InHand::default();
            fill(&mut in_hand, tenant(0), &known, 200);
            assert_eq!(in_hand.deliveries().count(), of_tenant);
            let mut to: HashMap<&str, usize> = HashMap::new();
            for (.., told) in in_hand.deliveries() {
                *to.entry(&told.receiver).or_default() += 1;
            }
            assert!(to.values().all(|count| *count == 1), "{to:?}");
            (1..40).for_each(|number| fill(&mut in_hand, tenant(number), &known, 200));
            assert_eq!(in_hand.deliveries().count(), of_all);
            // In every tenant, whether it has anything in hand or not.
            for number in 0..60 {
                let mut known = known.clone();
                known.insert("prompt:443".to_owned(), Pace::Prompt);
                let places = Places::of(tenant(number), known, &in_hand);
                assert!(places.has_for("prompt:443") && !places.has_for(&name(7)));
            }
        }
    }

    #[tokio::test]
    async fn all_of_them_together_leave_some_for_who_is_prompt() {
        let slow: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Slow)).collect();
        let mut in_hand = InHand::default();
        (0..40).for_each(|number| fill(&mut in_hand, tenant(number), &slow, 200));
        assert_eq!(in_hand.deliveries().count(), DELIVERIES_SLOW_MAX + DELIVERIES_UNKNOWN_MAX);
        // Alone, those that are prompt have all of a tenant's places.
        let prompt: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Prompt)).collect();
        let mut in_hand = InHand::default();
        fill(&mut in_hand, tenant(0), &prompt, 100);
        assert_eq!(in_hand.deliveries().count(), DELIVERIES_PROMPT_PER_TENANT_MAX);
    }
}
