//! Sets of records by a number, such as a time.
//!
//! A range may hold a million records, and a query must not walk over them. So records are also kept by the number's
//! upper bits, on several levels, each 64 times as coarse as the one before: a range is then the union of at most 64
//! sets at each end of each level, and of the few records that lie in the finest ends.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

use roaring::RoaringBitmap;

use super::postings::Postings;

/// Bits that each level leaves out, finest first. In milliseconds: none, some, a second, a minute, an hour, three days,
/// half a year.
const SHIFTS: [u32; 7] = [0, 4, 10, 16, 22, 28, 34];

/// The records that have a number, by it.
#[derive(Default)]
pub struct Numbers([BTreeMap<u64, Postings>; SHIFTS.len()]);

impl Numbers {
    /// Adds a record.
    pub fn insert(&mut self, number: u64, slot: u32) {
        for (level, shift) in self.0.iter_mut().zip(SHIFTS) {
            let bucket = number >> shift;
            // Times ascend: most are in the last bucket.
            match level.last_entry().filter(|last| *last.key() == bucket) {
                Some(last) => last.into_mut().add(slot),
                None => level.entry(bucket).or_default().add(slot),
            }
        }
    }

    /// Removes a record.
    pub fn remove(&mut self, number: u64, slot: u32) {
        for (level, shift) in self.0.iter_mut().zip(SHIFTS) {
            if let Some(slots) = level.get_mut(&(number >> shift)) {
                slots.remove(slot);
                if slots.is_none() {
                    level.remove(&(number >> shift));
                }
            }
        }
    }

    /// The records whose number lies in the range.
    pub fn range(&self, from: Bound<u64>, to: Bound<u64>) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        if let Some(range) = inclusive(from, to) {
            self.collect(range, SHIFTS.len(), &mut found);
        }
        found
    }

    /// Adds what lies in the range, using levels below `level` only.
    fn collect(&self, range: RangeInclusive<u64>, level: usize, found: &mut RoaringBitmap) {
        let (from, to) = range.into_inner();
        let Some(level) = level.checked_sub(1) else { return };
        let shift = SHIFTS[level];
        // The first and the last bucket that lie in the range as a whole.
        let first = (from >> shift) + u64::from(from & mask(shift) != 0);
        let last = (to >> shift).checked_sub(u64::from(to & mask(shift) != mask(shift)));
        let Some(last) = last.filter(|last| first <= *last) else {
            return self.collect(from..=to, level, found);
        };
        for (_, slots) in self.0[level].range(first..=last) {
            slots.join(found);
        }
        if from < first << shift {
            self.collect(from..=(first << shift) - 1, level, found);
        }
        let end = (last << shift) | mask(shift);
        if end < to {
            self.collect(end + 1..=to, level, found);
        }
    }
}

/// A range with both ends in it; `None` when nothing is.
pub fn inclusive(from: Bound<u64>, to: Bound<u64>) -> Option<RangeInclusive<u64>> {
    let from = match from {
        Bound::Included(from) => from,
        Bound::Excluded(from) => from.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match to {
        Bound::Included(to) => to,
        Bound::Excluded(to) => to.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (from <= to).then_some(from..=to)
}

fn mask(shift: u32) -> u64 {
    (1 << shift) - 1
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::Numbers;

    fn bound() -> impl Strategy<Value = Bound<u64>> {
        let number = prop_oneof![
            0..5_000_u64,
            0..u64::MAX,
            Just(u64::MAX),
            1_600_000_000_000..1_600_100_000_000_u64
        ];
        prop_oneof![
            number.clone().prop_map(Bound::Included),
            number.prop_map(Bound::Excluded),
            Just(Bound::Unbounded),
        ]
    }

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let number =
            prop_oneof![0..5_000_u64, 1_600_000_000_000..1_600_100_000_000_u64, any::<u64>()];
        prop::collection::vec(number, 0..60)
    }

    proptest! {
        #[test]
        fn a_range_is_what_lies_in_it(numbers in numbers(), from in bound(), to in bound(), gone in 0..20_u32) {
            let mut index = Numbers::default();
            for (slot, number) in (0_u32..).zip(&numbers) {
                index.insert(*number, slot);
            }
            for (slot, number) in (0_u32..gone).zip(&numbers) {
                index.remove(*number, slot);
            }
            let left = (0_u32..).zip(&numbers).skip(gone as usize);
            let expected: Vec<u32> = left
                .filter(|(_, number)| match from {
                    Bound::Included(from) => **number >= from,
                    Bound::Excluded(from) => **number > from,
                    Bound::Unbounded => true,
                })
                .filter(|(_, number)| match to {
                    Bound::Included(to) => **number <= to,
                    Bound::Excluded(to) => **number < to,
                    Bound::Unbounded => true,
                })
                .map(|(slot, _)| slot)
                .collect();
            prop_assert_eq!(index.range(from, to).iter().collect::<Vec<_>>(), expected);
        }
    }
}
