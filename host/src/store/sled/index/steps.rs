//! Looking for much in steps.
//!
//! The index is one for all, and whoever commits anything waits until nobody looks into it. So what is much to look for is
//! looked for in parts, each of them little, and others come in between. What was found of the parts holds only as long as
//! the records stay as they are: where one changes meanwhile, all is begun anew, and after some times done at once.

use std::borrow::Cow;
use std::collections::HashMap;

use parking_lot::RwLock;
use roaring::RoaringBitmap;

use super::partition::Partition;
use super::{Found, Index};
use crate::model::id::TenantId;
use crate::store::{Filter, Kind, Start};

/// The weight of a step.
const STEP_WEIGHT: usize = 16;
/// Times that steps are begun.
const TRIES_MAX: usize = 8;

/// Slots by segment.
type Slots = Vec<RoaringBitmap>;

/// The records changed between two steps.
struct Changed;

/// Steps through the records of one kind and tenant.
struct Steps<'i> {
    index: &'i RwLock<Index>,
    whose: (Kind, TenantId),
    /// The times of records by id.
    ids: &'i HashMap<String, u64>,
    /// How often the records had been changed at the first step.
    changes: u64,
}

/// As [`Index::page`], of an index that others wait for.
pub fn page(
    index: &RwLock<Index>,
    whose: (Kind, TenantId),
    filter: &Filter,
    (start, size): (&Start, usize),
    ids: &HashMap<String, u64>,
) -> Found {
    if filter.is_much() {
        for _ in 0..TRIES_MAX {
            let changes = index.read().partition(whose).map_or(0, Partition::changes);
            let steps = Steps { index, whose, ids, changes };
            if let Ok(found) = steps.page(filter, start, size) {
                return found;
            }
        }
    }
    index.read().page(whose, filter, start, size, ids)
}

impl Steps<'_> {
    fn page(&self, filter: &Filter, start: &Start, size: usize) -> Result<Found, Changed> {
        let slots = self.matching(filter)?;
        self.step(|partition| partition.page_of(slots.iter().map(Cow::Borrowed), start, size))
    }

    fn matching(&self, filter: &Filter) -> Result<Slots, Changed> {
        if filter.weight() <= STEP_WEIGHT {
            return self.step(|partition| partition.matching(filter, self.ids));
        }
        match filter {
            Filter::And(parts) => self.all_of(parts),
            Filter::Or(parts) => {
                let mut any =
                    self.step(|partition| partition.matching(&Filter::Nothing, self.ids))?;
                for part in parts {
                    any = each(any, self.matching(part)?, |any, part| any | part);
                }
                Ok(any)
            }
            Filter::Not(part) => {
                let without = self.matching(part)?;
                let all = self.step(|partition| partition.matching(&Filter::All, self.ids))?;
                Ok(each(all, without, |all, without| all - without))
            }
            // It has no parts.
            one => self.step(|partition| partition.matching(one, self.ids)),
        }
    }

    fn all_of(&self, parts: &[Filter]) -> Result<Slots, Changed> {
        let mut all = self.step(|partition| partition.matching(&Filter::All, self.ids))?;
        for part in parts {
            all = each(all, self.matching(part)?, |all, part| all & part);
            if all.iter().all(RoaringBitmap::is_empty) {
                break;
            }
        }
        Ok(all)
    }

    /// Looks at the records, as long as they are as they were.
    fn step<T>(&self, look: impl FnOnce(&Partition) -> T) -> Result<T, Changed> {
        let index = self.index.read();
        let partition = index.partition(self.whose);
        partition.filter(|it| it.changes() == self.changes).map(look).ok_or(Changed)
    }
}

fn each(
    one: Slots,
    other: Slots,
    combine: impl Fn(RoaringBitmap, RoaringBitmap) -> RoaringBitmap,
) -> Slots {
    one.into_iter().zip(other).map(|(one, other)| combine(one, other)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};
    use std::ops::Bound;
    use std::sync::atomic::{AtomicBool, Ordering};

    use parking_lot::RwLock;
    use proptest::prelude::*;

    use super::super::Index;
    use super::super::tests::{FIELD, KIND, TENANT, position, row};
    use super::page;
    use crate::store::{Filter, Start, Term};

    const TERMS: u8 = 4;

    fn term(term: u8) -> Filter {
        Filter::Term(Term([term; 16]))
    }

    fn filter() -> impl Strategy<Value = Filter> {
        let range = |(from, to)| Filter::Range {
            field: FIELD,
            from: Bound::Included(from),
            to: Bound::Excluded(to),
        };
        let prefix = prop_oneof![Just("id"), Just("id1"), Just("000"), Just("")];
        let leaf = prop_oneof![
            Just(Filter::All),
            Just(Filter::Nothing),
            (0..TERMS).prop_map(term),
            (0..9_u64, 0..9_u64).prop_map(range),
            (0..99_u64)
                .prop_map(|to| Filter::Order { from: Bound::Unbounded, to: Bound::Included(to) }),
            prefix.prop_map(|prefix| Filter::IdPrefix(prefix.to_owned())),
            prop::collection::vec(0..40_u16, 0..30)
                .prop_map(|ids| Filter::Ids(ids.iter().map(|id| position(*id, 0).id).collect())),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Filter::And),
                prop::collection::vec(inner.clone(), 0..8).prop_map(Filter::Or),
                inner.prop_map(|part| Filter::Not(Box::new(part))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_in_steps_is_what_is_found_at_once(
            records in prop::collection::vec((0..100_u64, prop::collection::btree_set(0..TERMS, 0..3), 0..9_u64), 0..40),
            (one, other) in (filter(), filter()),
            (offset, size) in (0..20_u64, 0..9_usize),
        ) {
            let (mut index, mut ids) = (Index::default(), HashMap::new());
            for (id, (order_ms, terms, number)) in (0_u16..).zip(&records) {
                let position = position(id, *order_ms);
                index.put(row(&position, terms, *number));
                ids.insert(position.id, *order_ms);
            }
            // More than is looked for at once, whatever was drawn.
            let much = Filter::Or((0..Filter::LITTLE_WEIGHT).map(|_| Filter::And(vec![one.clone(), term(0)])).collect());
            let filter = Filter::Or(vec![Filter::And(vec![other, much]), one]);
            let start = Start::Offset(offset);
            let expected = index.page((KIND, TENANT), &filter, &start, size, &ids);
            let found = page(&RwLock::new(index), (KIND, TENANT), &filter, (&start, size), &ids);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_changes_meanwhile_is_seen_before_or_after_and_not_in_part() {
        let index = RwLock::new(Index::default());
        let put = |id: u16, is: u8| {
            index.write().put(row(&position(id, u64::from(id)), &BTreeSet::from([is]), 0));
        };
        (0..50).for_each(|id| put(id, 1));
        let many = |of: u8| Filter::Or((0..40).map(|_| term(of)).collect());
        let both = Filter::And(vec![many(1), many(2)]);
        let either = Filter::Or(vec![many(1), many(2)]);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..u16::MAX {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    put(turn % 50, 1 + u8::try_from(turn / 50 % 2).unwrap());
                }
            });
            for _ in 0..500 {
                let total = |filter: &Filter| {
                    let start = Start::Offset(0);
                    page(&index, (KIND, TENANT), filter, (&start, 0), &HashMap::new()).total
                };
                // Each is the one or the other.
                assert_eq!((total(&both), total(&either)), (0, 50));
            }
            over.store(true, Ordering::Relaxed);
        });
        // There need not be any.
        let start = Start::Offset(0);
        let none = page(&RwLock::default(), (KIND, TENANT), &both, (&start, 1), &HashMap::new());
        assert_eq!((none.total, none.more), (0, false));
    }
}
