//! Which deliveries are begun (decisions §8).
//!
//! Places are few, and a receiver that takes long keeps one for as long as a try may last. So that it delays no other, its
//! last try counts ([`super::receivers`]): those that were prompt, those that were slow, and those that are not known yet
//! have places of their own. The latter two get one at a time each, the slow ones in turns, and a few while there are many.
//!
//! Of each kind, a tenant that has some places gets another one only as long as it has fewer than are free, and leaves the
//! last eighth to those that have none: so there is one for whoever has none, once what was begun before has ended, however
//! much the others have to be told. Where tenants are more than places, they take turns. In a tenant, a receiver that was
//! prompt gets another one only as long as it has fewer than the tenant may still take.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Bound;

use super::delivery::{BY_DOUBT, Delivery};
use super::in_hand::{InHand, Told};
use super::queue::Queue;
use super::receivers::Pace;
use crate::crypto::keys::TenantKeys;
use crate::limits::{
    DELIVERIES_PER_RECEIVER_MAX, DELIVERIES_PER_SLOW_RECEIVER_MAX, DELIVERIES_PROMPT_MAX,
    DELIVERIES_PROMPT_PER_TENANT_MAX, DELIVERIES_SLOW_MAX, DELIVERIES_SLOW_PER_TENANT_MAX,
    DELIVERIES_UNKNOWN_MAX, DELIVERIES_UNKNOWN_PER_TENANT_MAX, DELIVERY_WINDOW_MS,
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

/// What is due in as many milliseconds is taken for due at once.
const DUE_AT_ONCE_MS: u64 = 500;

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

    /// Whether a slow one may have another one, since there are many: what is told to others on its host is not to wait for
    /// each that hangs.
    fn has_another_for(&self, receiver: &str) -> bool {
        let own = self.to.get(receiver).copied().unwrap_or_default();
        self.slow > DELIVERIES_SLOW_PER_TENANT_MAX / 2 && own < DELIVERIES_PER_SLOW_RECEIVER_MAX
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
        let is_believed = self.clock_is_believed()?;
        let mut due = due_at(self.now(), !is_believed);
        if is_believed {
            // A result that has ended is shown to nobody, and told to nobody.
            due = Filter::And(vec![due, self.not_ended()]);
        }
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
            slow.retain(|receiver| places.has_for(receiver) || places.has_another_for(receiver));
            for receiver in slow.into_iter().take(SLOW_LOOKED_AT) {
                if places.slow == 0 {
                    break;
                }
                receivers.had_turn(tenant, &receiver);
                let to = Filter::Term(term_of(&keys, term::RECEIVER, &[&receiver]));
                let first = self.first_due(tenant, &but(&held, to)).await?;
                begun.extend(first.map(|first| (first, places.take(receiver))));
            }
        }
        let store = self.0.store.as_ref();
        let pending = due_within(Bound::Unbounded, Bound::Unbounded);
        let pending = store.page(Delivery::KIND, tenant, &pending, Start::Offset(0), 0).await?;
        Ok((begun, pending.total > 0))
    }
}

impl Vault {
    /// That which has been due for longest of those that are. A slow receiver is told one after the other, and those of them
    /// that hang come up again and again: were they taken by when they were made, those made after them would never be.
    async fn first_due(
        &self,
        tenant: TenantId,
        due: &Filter,
    ) -> Result<Option<Stored<Delivery>>, Error> {
        let until = |ms: u64| {
            let by_then = due_within(Bound::Unbounded, Bound::Included(ms));
            // Those that were not tried yet are reckoned as by a clock in doubt.
            let to = Bound::Included(BY_DOUBT.saturating_add(ms));
            let put_off = due_within(Bound::Included(BY_DOUBT), to);
            Filter::And(vec![due.clone(), Filter::Or(vec![by_then, put_off])])
        };
        let (mut before, mut by) = (0, self.now().0);
        if self.any::<Delivery>(tenant, &until(by)).await? {
            while by - before > DUE_AT_ONCE_MS {
                let middle = before.midpoint(by);
                let any = self.any::<Delivery>(tenant, &until(middle)).await?;
                *(if any { &mut by } else { &mut before }) = middle;
            }
        } else {
            // What a clock put off that was ahead.
            by = u64::MAX;
        }
        Ok(self.oldest::<Delivery>(tenant, &until(by), 1).await?.pop())
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
