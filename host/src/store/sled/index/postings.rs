//! The slots of the records that have one term. Most terms (fingerprints, ids of entities in the log) are of one record,
//! many of a few, and some of nearly all.

use std::borrow::Cow;

use roaring::RoaringBitmap;

/// Slots up to which a list is smaller than a bitmap: each of them may lie in a block of its own there.
const FEW_MAX: usize = 64;

/// Slots that have a term.
#[derive(Default)]
pub enum Postings {
    /// No record has it, or none any more.
    #[default]
    None,
    /// One.
    One(u32),
    /// In ascending order. Boxed: what is kept for each term is to be small.
    #[expect(
        clippy::box_collection,
        reason = "three words for each term would be half as much again"
    )]
    Few(Box<Vec<u32>>),
    /// More.
    Many(Box<RoaringBitmap>),
}

impl Postings {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds a slot.
    pub fn add(&mut self, slot: u32) {
        match self {
            Self::None => *self = Self::One(slot),
            Self::One(only) if *only == slot => {}
            Self::One(only) => {
                let both = vec![slot.min(*only), slot.max(*only)];
                *self = Self::Few(Box::new(both));
            }
            Self::Few(slots) => {
                if slots.last().is_some_and(|last| *last < slot) {
                    slots.push(slot);
                } else if let Err(place) = slots.binary_search(&slot) {
                    slots.insert(place, slot);
                }
                if slots.len() > FEW_MAX {
                    *self = Self::Many(Box::new(slots.iter().copied().collect()));
                }
            }
            // Pushing at the end would look for the end of a block through all of it.
            Self::Many(slots) => {
                slots.insert(slot);
            }
        }
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: u32) {
        let empty = match self {
            Self::None => false,
            Self::One(only) => *only == slot,
            Self::Few(slots) => {
                if let Ok(place) = slots.binary_search(&slot) {
                    slots.remove(place);
                }
                slots.is_empty()
            }
            Self::Many(slots) => {
                slots.remove(slot);
                slots.is_empty()
            }
        };
        if empty {
            *self = Self::None;
        }
    }

    /// All of them as a set.
    pub fn set(&self) -> Cow<'_, RoaringBitmap> {
        match self {
            Self::None => Cow::Owned(RoaringBitmap::new()),
            Self::One(slot) => Cow::Owned(std::iter::once(*slot).collect()),
            Self::Few(slots) => Cow::Owned(slots.iter().copied().collect()),
            Self::Many(slots) => Cow::Borrowed(slots),
        }
    }

    /// Adds them to a set.
    pub fn join(&self, set: &mut RoaringBitmap) {
        match self {
            Self::None => {}
            Self::One(slot) => drop(set.insert(*slot)),
            Self::Few(slots) => set.extend(slots.iter().copied()),
            Self::Many(slots) => *set |= &**slots,
        }
    }

    /// Those that are in a set too.
    pub fn within(&self, set: Cow<'_, RoaringBitmap>) -> RoaringBitmap {
        let narrowed =
            |slots: &[u32]| slots.iter().copied().filter(|slot| set.contains(*slot)).collect();
        match self {
            Self::None => RoaringBitmap::new(),
            Self::One(slot) => narrowed(&[*slot]),
            Self::Few(slots) => narrowed(slots),
            Self::Many(slots) => and(set, slots),
        }
    }
}

/// What is in both, in place if the first is nobody else's.
pub fn and(one: Cow<'_, RoaringBitmap>, other: &RoaringBitmap) -> RoaringBitmap {
    match one {
        Cow::Borrowed(one) => one & other,
        Cow::Owned(one) => one & other,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use roaring::RoaringBitmap;

    use super::{FEW_MAX, Postings};

    #[test]
    fn what_is_kept_for_a_term_is_small() {
        assert_eq!(size_of::<Postings>(), 16);
    }

    proptest! {
        #[test]
        fn they_are_what_was_added_and_not_removed(
            ascending in 0..2 * FEW_MAX,
            steps in prop::collection::vec((any::<bool>(), 0..200_u32), 0..300),
            other in prop::collection::btree_set(0..200_u32, 0..100),
        ) {
            let (mut postings, mut plain) = (Postings::default(), BTreeSet::new());
            let first = (0_u32..).take(ascending).map(|slot| (true, slot));
            for (added, slot) in first.chain(steps) {
                if added {
                    postings.add(slot);
                    plain.insert(slot);
                } else {
                    postings.remove(slot);
                    plain.remove(&slot);
                }
                prop_assert_eq!(postings.is_none(), plain.is_empty());
            }
            prop_assert_eq!(postings.set().iter().collect::<BTreeSet<_>>(), plain.clone());
            let both: BTreeSet<u32> = plain.intersection(&other).copied().collect();
            let other: RoaringBitmap = other.into_iter().collect();
            for other in [Cow::Borrowed(&other), Cow::Owned(other.clone())] {
                prop_assert_eq!(postings.within(other).iter().collect::<BTreeSet<_>>(), both.clone());
            }
            let mut any = other.clone();
            postings.join(&mut any);
            prop_assert_eq!(any, &other | &*postings.set());
        }
    }
}
