//! Which deliveries are begun (decisions §8).
//!
//! Places are few, and a receiver that does not answer takes one for as long as a try may last. So that it delays no
//! other, however many like it there are: each receiver has some places and not all; the last of a tenant's are for
//! receivers that have none; and those that are known not to answer ([`super::silent`]) have one each, and a part of the
//! places together.

use std::collections::HashMap;
use std::ops::Bound;

use super::delivery::{BY_DOUBT, Delivery};
use super::in_hand::InHand;
use crate::crypto::keys::TenantKeys;
use crate::limits::{
    DELIVERIES_PER_RECEIVER_MAX, DELIVERIES_PER_TENANT_MAX, DELIVERIES_TO_SILENT_MAX,
    DELIVERIES_TO_THE_FIRST, DELIVERY_WINDOW_MS,
};
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{Filter, Start};
use crate::vault::index::{number, term, term_of};
use crate::vault::record::{Entity as _, Stored};
use crate::vault::{Error, Vault};

/// A tenant's places, and who has them.
struct Places {
    /// How many each receiver has.
    to: HashMap<String, usize>,
    /// Who is known not to answer.
    silent: Vec<String>,
}

impl Places {
    /// Those that are free.
    fn free(&self) -> usize {
        DELIVERIES_PER_TENANT_MAX.saturating_sub(self.to.values().sum())
    }

    /// Whether a receiver may have one more.
    fn has_for(&self, receiver: &str) -> bool {
        let own = self.to.get(receiver).copied().unwrap_or_default();
        if self.silent.iter().any(|silent| silent == receiver) {
            let all = self.silent.iter().filter_map(|silent| self.to.get(silent)).sum::<usize>();
            own == 0 && all < DELIVERIES_TO_SILENT_MAX
        } else if self.free() <= DELIVERIES_TO_THE_FIRST {
            own == 0
        } else {
            own < DELIVERIES_PER_RECEIVER_MAX
        }
    }

    /// The filter for deliveries to those that may not.
    fn full(&self, keys: &TenantKeys) -> Filter {
        let known = self.to.keys().chain(&self.silent).filter(|receiver| !self.has_for(receiver));
        let term = |name: &String| Filter::Term(term_of(keys, term::RECEIVER, &[name]));
        Filter::Or(known.map(term).collect())
    }
}

impl Vault {
    /// Deliveries of a tenant to begin now, at most so many, and whether any wait, due or not.
    pub(super) async fn due_deliveries(
        &self,
        tenant: TenantId,
        in_hand: &InHand,
        share: usize,
    ) -> Result<(Vec<Stored<Delivery>>, bool), Error> {
        let keys = self.keys(tenant).await?;
        let in_doubt = !self.may_remove_ended()?;
        let mut held = Vec::new();
        let mut places = Places { to: HashMap::new(), silent: self.0.queue.silent.of(tenant) };
        for (_, id, receiver) in in_hand.deliveries().filter(|(other, ..)| *other == tenant) {
            *places.to.entry(receiver.to_owned()).or_default() += 1;
            held.push(id.to_string());
        }
        let mut begun = Vec::new();
        loop {
            let room = share.saturating_sub(begun.len()).min(places.free());
            if room == 0 {
                break;
            }
            let filter = Filter::And(vec![
                due_at(self.now(), in_doubt),
                Filter::Not(Box::new(places.full(&keys))),
                Filter::Not(Box::new(Filter::Ids(held.clone()))),
            ]);
            let mut taken = false;
            for delivery in self.oldest::<Delivery>(tenant, &filter, room).await? {
                let receiver = delivery.entity.receiver();
                if places.has_for(&receiver) {
                    *places.to.entry(receiver).or_default() += 1;
                    taken = true;
                    held.push(delivery.entity.id.to_string());
                    begun.push(delivery);
                }
            }
            if !taken {
                break;
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

    use super::{
        DELIVERIES_PER_RECEIVER_MAX, DELIVERIES_PER_TENANT_MAX, DELIVERIES_TO_SILENT_MAX, Places,
    };

    #[test]
    fn whoever_answers_finds_a_place_beside_any_number_that_do_not() {
        let name = |number: usize| format!("host-{number}:443");
        for known in [0, 200] {
            let silent = (0..known).map(name).collect();
            let mut places = Places { to: HashMap::new(), silent };
            // Each of two hundred wants as many as it can have.
            for number in (0..200).cycle().take(200 * 20) {
                if places.free() > 0 && places.has_for(&name(number)) {
                    *places.to.entry(name(number)).or_default() += 1;
                }
            }
            let most = places.to.values().max().unwrap();
            if known == 0 {
                assert!(places.free() == 0 && *most <= DELIVERIES_PER_RECEIVER_MAX);
                continue;
            }
            assert_eq!(places.free(), DELIVERIES_PER_TENANT_MAX - DELIVERIES_TO_SILENT_MAX);
            assert!(*most == 1 && places.has_for("another:443"));
        }
        // As many as have all that one receiver can have leave some for those that have none.
        let mut places = Places { to: HashMap::new(), silent: Vec::new() };
        for number in 0..DELIVERIES_PER_TENANT_MAX / DELIVERIES_PER_RECEIVER_MAX {
            while places.has_for(&name(number)) {
                *places.to.entry(name(number)).or_default() += 1;
            }
        }
        assert!(places.free() > 0 && places.has_for("another:443"));
        assert!(!places.has_for(&name(0)));
    }
}
