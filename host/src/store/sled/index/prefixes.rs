//! Ids in their order, for what asks for all that begin in some way.
//!
//! Most tenants never ask: the order is made when it is asked for first, at once for all there are, since writers wait
//! meanwhile; it is kept from then on. What begins with a text is then a stretch of it. A stretch of many records is
//! remembered as a set, so that to ask again costs no more than any other term does. What one filter asks for is found at
//! once, and what lies within a stretch on the way through it: a hundred rules, each of them for another beginning of the
//! same ids, take no longer than one.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use parking_lot::Mutex;
use roaring::RoaringBitmap;

use super::entry::Id;

/// Records that a set must have to be remembered: fewer are soon walked over.
const REMEMBERED_MIN: u64 = 256;
/// Sets that are remembered: a few more than the rules of one caller can ask for. The one that was remembered first makes
/// room.
const REMEMBERED_MAX: usize = 128;

/// The slots of one partition's records by their ids.
pub struct Prefixes {
    by_id: BTreeMap<Id, u32>,
    remembered: Mutex<Vec<(Box<str>, RoaringBitmap)>>,
}

impl Prefixes {
    /// The order of these records: sorted as a whole, which takes a fraction of putting in one by one.
    pub fn of(records: impl Iterator<Item = (Id, u32)>) -> Self {
        Self { by_id: records.collect(), remembered: Mutex::default() }
    }

    /// Adds a record, or notes its new slot.
    pub fn insert(&mut self, id: &Id, slot: u32) {
        match self.by_id.get_mut(id) {
            Some(known) => *known = slot,
            None => drop(self.by_id.insert(id.clone(), slot)),
        }
        for (prefix, slots) in self.remembered.get_mut() {
            if id.starts_with(prefix) {
                slots.insert(slot);
            }
        }
    }

    /// Removes a record from its slot.
    pub fn remove(&mut self, id: &Id, slot: u32) {
        self.by_id.remove(id);
        for (prefix, slots) in self.remembered.get_mut() {
            if id.starts_with(prefix) {
                slots.remove(slot);
            }
        }
    }

    /// The slots of the records whose ids begin so, by beginning.
    pub fn beginning<'a>(&self, mut asked: Vec<&'a str>) -> HashMap<&'a str, RoaringBitmap> {
        asked.sort_unstable();
        asked.dedup();
        let mut found = HashMap::with_capacity(asked.len());
        let known = self.remembered.lock();
        asked.retain(|prefix| {
            let known = known.iter().find(|(other, _)| **other == **prefix);
            found.extend(known.map(|(_, slots)| (*prefix, slots.clone())));
            known.is_none()
        });
        drop(known);
        let sets = self.walk(&asked);
        for (prefix, slots) in asked.into_iter().zip(sets) {
            if slots.len() >= REMEMBERED_MIN {
                self.remember(prefix, &slots);
            }
            found.insert(prefix, slots);
        }
        found
    }

    fn remember(&self, prefix: &str, slots: &RoaringBitmap) {
        let mut remembered = self.remembered.lock();
        // Another may have asked for it meanwhile.
        if remembered.iter().any(|(other, _)| **other == *prefix) {
            return;
        }
        if remembered.len() >= REMEMBERED_MAX {
            remembered.remove(0);
        }
        remembered.push((prefix.into(), slots.clone()));
    }

    /// The slots of what begins with each of these, which are in order and differ.
    fn walk(&self, prefixes: &[&str]) -> Vec<RoaringBitmap> {
        let within = nested(prefixes);
        let ids: Vec<Id> = prefixes.iter().map(|prefix| Id::of(prefix)).collect();
        let mut sets = vec![RoaringBitmap::new(); prefixes.len()];
        let mut next = 0;
        while next < prefixes.len() {
            // Those that an id begins with, from the shortest to the longest; its slot is noted for the last alone.
            let outermost = next;
            let mut open = vec![outermost];
            next += 1;
            let from = (Bound::Included(&ids[outermost]), Bound::Unbounded);
            let stretch = self.by_id.range(from);
            for (id, slot) in stretch.take_while(|(id, _)| id.starts_with(prefixes[outermost])) {
                while let [_, .., last] = open[..]
                    && !id.starts_with(prefixes[last])
                {
                    open.pop();
                }
                while within.get(next).is_some_and(Option::is_some) && ids[next] <= *id {
                    if id.starts_with(prefixes[next]) {
                        open.push(next);
                    }
                    next += 1;
                }
                if let Some(last) = open.last() {
                    sets[*last].insert(*slot);
                }
            }
            while within.get(next).is_some_and(Option::is_some) {
                next += 1;
            }
        }
        for (inner, outer) in within.iter().enumerate().rev() {
            if let Some(outer) = outer {
                let (outer_sets, inner_sets) = sets.split_at_mut(inner);
                outer_sets[*outer] |= &inner_sets[0];
            }
        }
        sets
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.remembered.lock().len()
    }
}

/// For each of these, which are in order and differ, the longest other one that it begins with.
fn nested(prefixes: &[&str]) -> Vec<Option<usize>> {
    let (mut within, mut open) = (Vec::with_capacity(prefixes.len()), Vec::<usize>::new());
    for (number, prefix) in prefixes.iter().enumerate() {
        while open.last().is_some_and(|outer| !prefix.starts_with(prefixes[*outer])) {
            open.pop();
        }
        within.push(open.last().copied());
        open.push(number);
    }
    within
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use roaring::RoaringBitmap;

    use super::{Id, Prefixes, REMEMBERED_MAX, REMEMBERED_MIN};

    fn beginning(prefixes: &Prefixes, prefix: &str) -> RoaringBitmap {
        prefixes.beginning(vec![prefix]).remove(prefix).unwrap()
    }

    #[test]
    fn large_sets_are_remembered_and_kept_up_to_date() {
        let mut prefixes = Prefixes::of(std::iter::empty());
        let many = u32::try_from(REMEMBERED_MIN).unwrap();
        for slot in 0..many {
            prefixes.insert(&Id::of(&format!("user-{slot:04}")), slot);
        }
        assert_eq!(beginning(&prefixes, "user-000").len(), 10);
        assert_eq!(prefixes.remembered(), 0);
        for _ in 0..2 {
            assert_eq!(beginning(&prefixes, "user-").len(), REMEMBERED_MIN);
            assert_eq!(prefixes.remembered(), 1);
        }
        prefixes.insert(&Id::of("user-new"), many);
        prefixes.insert(&Id::of("other"), many + 1);
        prefixes.remove(&Id::of("user-0000"), 0);
        let found = beginning(&prefixes, "user-");
        assert!(found.contains(many) && !found.contains(many + 1) && !found.contains(0));
        for length in 0..100 {
            let slot = many + 2 + u32::try_from(length).unwrap();
            prefixes.insert(&Id::of(&"x".repeat(length)), slot);
            beginning(&prefixes, &"user-"[..length % 6]);
        }
        assert!(prefixes.remembered() <= REMEMBERED_MAX);
    }

    /// Few, so that they meet; and among them UUIDs, which are kept in another form.
    fn id() -> impl Strategy<Value = String> {
        let uuid =
            "[ab][0-9a-f]".prop_map(|two| format!("{two}0190f3-5b6c-7d8e-9f00-112233445566"));
        prop_oneof!["[abé]{0,4}", uuid]
    }

    proptest! {
        #[test]
        fn a_stretch_is_what_begins_so(
            given in prop::collection::btree_set(id(), 0..40),
            steps in prop::collection::vec((id(), 0_u32..600, any::<bool>()), 0..400),
            asked in prop::collection::vec(prop_oneof!["[abé]{0,3}", "[ab][0-9a-f]0?", id()], 1..9),
        ) {
            let mut plain: BTreeMap<String, u32> = given.into_iter().zip(600..).collect();
            let mut prefixes = Prefixes::of(plain.iter().map(|(id, slot)| (Id::of(id), *slot)));
            for (at, (id, slot, put)) in steps.into_iter().enumerate() {
                // As the index does: out of its slot first, then into another one that is free.
                if let Some(before) = plain.remove(&id) {
                    prefixes.remove(&Id::of(&id), before);
                }
                if put && !plain.values().any(|taken| *taken == slot) {
                    prefixes.insert(&Id::of(&id), slot);
                    plain.insert(id, slot);
                }
                // One, and now and then all at once.
                let some = if at % 5 == 0 { &asked[..] } else { &asked[at % asked.len()..][..1] };
                let found = prefixes.beginning(some.iter().map(String::as_str).collect());
                for prefix in some {
                    let found: Vec<u32> = found[prefix.as_str()].iter().collect();
                    let mut expected: Vec<u32> =
                        plain.iter().filter(|(id, _)| id.starts_with(prefix)).map(|(_, slot)| *slot).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(found, expected, "{}", prefix);
                }
            }
        }
    }
}
