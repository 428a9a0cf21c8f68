//! Pieces that no record has any more, until they are removed.
//!
//! Removing what a component of 32 MiB was takes the disk as long as some dozen writes, and nobody waits for it: a note in
//! the store tells that the pieces are left, so that the next process goes on where this one ends. The writer removes a portion
//! between two groups, or between two portions of a large batch, and on its own while nothing else is to be done. A group
//! seldom stores more than a portion, so what is left does not grow for long.

use std::collections::VecDeque;

use super::rows::{Left, PIECES_MAX};

/// What is to be removed, the oldest first.
#[derive(Default)]
pub struct Backlog {
    left: VecDeque<Left>,
    /// How many pieces of the first are gone.
    gone: u32,
}

impl Backlog {
    /// What an earlier process left.
    pub fn of(left: Vec<Left>) -> Self {
        Self { left: left.into(), gone: 0 }
    }

    /// Adds what came to be left.
    pub fn add(&mut self, left: impl IntoIterator<Item = Left>) {
        self.left.extend(left);
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// In how many portions all of it goes, at most.
    pub fn portions(&self) -> usize {
        let keys = self.left.iter().map(|left| left.pieces as usize + 1).sum::<usize>();
        keys.div_ceil(PIECES_MAX)
    }

    /// The keys of the next portion, which are gone from here; none when nothing is left.
    pub fn portion(&mut self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        while let Some(first) = self.left.front()
            && keys.len() < PIECES_MAX
        {
            let before = keys.len();
            keys.extend(first.keys(self.gone).take(PIECES_MAX - before));
            let taken = u32::try_from(keys.len() - before).unwrap_or(u32::MAX);
            self.gone = self.gone.saturating_add(taken);
            // The note comes last.
            if self.gone > first.pieces {
                self.left.pop_front();
                self.gone = 0;
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{Backlog, Left, PIECES_MAX};
    use crate::model::id::TenantId;
    use crate::store::Kind;
    use crate::store::sled::rows::Address;

    fn left(number: usize, pieces: u32) -> Left {
        let (tenant, id) = (TenantId(Uuid::from_u128(3)), number.to_string());
        Left { address: Address { kind: Kind(1), tenant, id }, version: 1, pieces }
    }

    proptest! {
        #[test]
        fn each_key_goes_once_and_in_its_order(
            counts in prop::collection::vec(0_u32..700, 0..9),
            more in prop::collection::vec(0_u32..700, 0..9),
        ) {
            let (first, then) = (counts.len(), counts.len() + more.len());
            let all: Vec<_> =
                (0..then).zip(counts.into_iter().chain(more)).map(|(n, pieces)| left(n, pieces)).collect();
            let mut backlog = Backlog::default();
            backlog.add(all[..first].to_vec());
            let mut keys = backlog.portion();
            backlog.add(all[first..].to_vec());
            let portions = backlog.portions();
            let mut taken = 0;
            loop {
                let portion = backlog.portion();
                if portion.is_empty() {
                    break;
                }
                prop_assert!(portion.len() <= PIECES_MAX);
                keys.extend(portion);
                taken += 1;
            }
            prop_assert!(taken <= portions && backlog.portions() == 0);
            let expected: Vec<_> = all.iter().flat_map(|left| left.keys(0)).collect();
            prop_assert_eq!(keys, expected);
        }
    }
}
