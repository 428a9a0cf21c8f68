//! Large batches, which are written in portions, and what others have on the way between these.
//!
//! A component of 32 MiB takes the disk as long as some hundred small writes, and everybody's requests wait for the writer.
//! So the pieces of such a batch are written first, with the notes that they belong to no record yet, a portion at a time;
//! after each the next small batches of other tenants are committed, and a copy of the store goes on. Nothing of the batch's
//! own tenant is committed, nor what belongs to none: what it was checked against stays as it is, and so does the order in
//! which a tenant's batches come. What may not go first is set aside for as long. Then the batch is committed as any other,
//! whose pieces are there already. A portion of what others left ([`super::backlog`]) goes between two of its portions.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::backlog::Backlog;
use super::copy::PORTION_BYTES;
use super::group::{Group, address};
use super::log::pieces_of;
use super::rows::{Head, Left, PIECE_BYTES, PIECES_MAX};
use super::turns::{Turn, Turns};
use super::waiting::{Gathering, Size, Waiting};
use super::writer::Writer;
use crate::model::id::TenantId;
use crate::store::{Put, StoreError};

/// Portions of a copy that are copied between two of a batch: as many bytes as one of these has.
const COPIED_MAX: usize = PIECES_MAX * PIECE_BYTES / PORTION_BYTES;

/// Whether a batch has to wait until the large one is done: it is nobody's or large, or its tenant's may not go before that one,
/// or before one that was set aside.
fn waits(one: &Waiting, aside: &HashSet<TenantId>) -> bool {
    one.is_large() || one.tenant().is_none_or(|tenant| aside.contains(&tenant))
}

impl Writer {
    /// Commits the group that begins with this batch.
    pub(super) fn take(&mut self, first: Waiting, turns: &mut Turns) {
        let mut aside = HashSet::new();
        if first.batch.clears {
            // What comes to be left meanwhile is behind it.
            for _ in 0..self.backlog.portions() {
                self.remove_some();
                self.serve_others(turns, &mut aside);
            }
            self.may_copy = true;
        }
        let unborn = if let Some(group) = self.write_first(&first, turns, &mut aside) {
            self.commit([first], group)
        } else {
            let group = Group::new(self.versions.0);
            self.commit(Gathering::begin(first, turns), group)
        };
        self.remove_unborn(unborn, turns, &mut aside);
        turns.restore();
    }

    /// Writes the pieces of a large batch; gives the group in which it is to be committed. `None` for one that is not large,
    /// or would be refused.
    fn write_first(
        &mut self,
        one: &Waiting,
        turns: &mut Turns,
        aside: &mut HashSet<TenantId>,
    ) -> Option<Group> {
        let tenant = one.tenant().filter(|_| one.is_large())?;
        // The versions that its records are to have, whatever versions others begin at by then: none of those that are
        // removed meanwhile has an address of this tenant.
        let first_version = self.versions.0;
        let left = self.pieces_to_come(one)?;
        aside.insert(tenant);
        let written = self.write_in_portions(one, &left, turns, aside);
        if written.is_err() {
            self.fail();
        }
        Some(Group::of_written(first_version, left.into_iter().flatten().collect()))
    }

    /// The pieces of each record that a batch puts, as they will be told apart; none of one that has none.
    fn pieces_to_come(&self, one: &Waiting) -> Option<Vec<Option<Left>>> {
        self.space.look().take(&one.batch).ok()?;
        let guard = self.guard.lock();
        let found = self.check(&one.batch, &Group::default(), guard.as_ref()?).ok()?;
        let heads = found.into_iter().skip(one.batch.removals.len());
        let to_come = |(Put { record, expect }, before): (&Put, Option<Head>)| {
            let pieces = u32::try_from(pieces_of(record)).ok()?;
            let version = before.map_or(self.versions.0, |before| before.version + 1);
            let left = Left { address: address(record), version, pieces };
            (pieces > 0 && !expect.is_lasting()).then_some(left)
        };
        Some(one.batch.puts.iter().zip(heads).map(to_come).collect())
    }

    fn write_in_portions(
        &mut self,
        one: &Waiting,
        left: &[Option<Left>],
        turns: &mut Turns,
        aside: &mut HashSet<TenantId>,
    ) -> Result<(), StoreError> {
        let bodies = one.batch.puts.iter().map(|put| &put.record.body);
        let bodies =
            left.iter().zip(bodies).filter_map(|(left, body)| Some((left.as_ref()?, body)));
        // The note of each before its pieces.
        let mut rows = bodies.flat_map(|(left, body)| {
            let pieces = (0..).zip(body.chunks(PIECE_BYTES)).map(|(number, piece)| {
                (left.address.piece_key(left.version, number), piece.to_vec())
            });
            std::iter::once((left.key(), left.value().to_vec())).chain(pieces)
        });
        loop {
            let portion: Vec<_> = rows.by_ref().take(PIECES_MAX).collect();
            if portion.is_empty() {
                return Ok(());
            }
            if self.failed.load(Ordering::Acquire) {
                return Err(StoreError::Failed);
            }
            self.log.write_ahead(&portion)?;
            self.serve_others(turns, aside);
            self.copy_meanwhile(turns, aside);
            if self.remove_some() {
                self.serve_others(turns, aside);
            }
        }
    }

    /// Goes on copying, as much as was written since: a copy is to end although its tenant's large batches do not.
    fn copy_meanwhile(&mut self, turns: &mut Turns, aside: &mut HashSet<TenantId>) {
        for _ in 0..COPIED_MAX {
            if !self.go_on_copying() {
                return;
            }
            self.serve_others(turns, aside);
        }
    }

    /// Removes a portion of what is left, if there is any; whether there was.
    pub(super) fn remove_some(&mut self) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        self.progress.begin();
        // Until the store is protected another one writes. And it takes space before it gives any back: what others need
        // most urgently goes first, and the next write looks again.
        if self.guard.lock().is_none() || self.space.has_last_room_for(0).is_err() {
            return false;
        }
        let mut backlog = std::mem::take(&mut self.backlog);
        let removed = self.remove_portion(&mut backlog);
        self.backlog = backlog;
        removed
    }

    fn remove_portion(&mut self, backlog: &mut Backlog) -> bool {
        // After a failure nothing is written any more: the next start does it.
        if self.failed.load(Ordering::Acquire) {
            return false;
        }
        let keys = backlog.portion();
        if keys.is_empty() {
            return false;
        }
        self.files.has_removed.store(true, Ordering::Release);
        if self.log.remove_keys(keys.into_iter()).is_err() {
            self.fail();
        }
        true
    }

    /// Removes pieces that were written for a batch that was refused. Its tenant waits for that too: it has taken no version,
    /// and the next one of its records would have the same, with pieces under the same keys.
    fn remove_unborn(
        &mut self,
        unborn: Vec<Left>,
        turns: &mut Turns,
        aside: &mut HashSet<TenantId>,
    ) {
        let mut backlog = Backlog::default();
        backlog.add(unborn);
        while self.remove_portion(&mut backlog) {
            self.serve_others(turns, aside);
        }
    }

    /// Commits the next small batches of others, as far as one group holds them.
    fn serve_others(&mut self, turns: &mut Turns, aside: &mut HashSet<TenantId>) {
        let (mut group, mut size) = (Vec::new(), Size::default());
        loop {
            let next = turns.next_past(|next| {
                if waits(next, aside) {
                    // Nor may those of its tenant that come after it.
                    aside.extend(next.tenant());
                    return Turn::Aside;
                }
                size.add(next);
                // What this group has no room for, the next one has.
                if group.is_empty() || size.fits() { Turn::Taken } else { Turn::Later }
            });
            match next {
                Some(next) => group.push(next),
                None => break,
            }
        }
        if !group.is_empty() {
            let first = Group::new(self.versions.0);
            self.commit(group, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, PIECES_MAX, waits};
    use crate::model::id::TenantId;
    use crate::store::sled::waiting::tests::{RECORD, waiting};
    use uuid::Uuid;

    #[test]
    fn who_waits_while_a_large_one_is_written() {
        let tenant = |number: u128| TenantId(Uuid::from_u128(number));
        let one = |whose: u128, bytes: usize| {
            let mut one = waiting(bytes, RECORD);
            one.batch.puts[0].record.tenant = tenant(whose);
            one
        };
        let large = (PIECES_MAX + 1) * PIECE_BYTES;
        let aside = [tenant(1)].into();
        // Its tenant's is under way, it is nobody's, or it is large itself.
        for (whose, bytes, expected) in
            [(2, 10, false), (1, 10, true), (0, 10, true), (2, large, true)]
        {
            assert_eq!(waits(&one(whose, bytes), &aside), expected, "{whose} {bytes}");
        }
    }
}
