//! Large batches, which are written in portions, and what others have on the way between these.
//!
//! A component of 32 MiB takes the disk as long as some hundred small writes, and everybody's requests wait for the writer.
//! So the pieces of such a batch are written first, with the notes that they belong to no record yet, a portion at a time;
//! after each the next small batches of other tenants are committed, and a copy of the store goes on. Nothing of the batch's
//! own tenant is committed, nor what belongs to none: what it was checked against stays as it is, and so does the order in
//! which a tenant's batches come. What may not go first is set aside for as long. Then the batch is committed as any other,
//! whose pieces are there already. The pieces of what it replaces are removed in the same way, and so are those of whatever
//! gives up much.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::copy::PORTION_BYTES;
use super::group::{Group, address};
use super::log::pieces_of;
use super::rows::{Head, Left, PIECE_BYTES, PIECES_MAX};
use super::turns::{Turn, Turns};
use super::waiting::{Gathering, Size, Waiting};
use super::writer::Writer;
use crate::model::id::TenantId;
use crate::store::{Batch, Put, StoreError};

/// Portions of a copy that are copied between two of a batch: as many bytes as one of these has.
const COPIED_MAX: usize = PIECES_MAX * PIECE_BYTES / PORTION_BYTES;

/// Who waits while a large batch is written: tenants whose batches may not go before it, or before one that was set aside.
#[derive(Default)]
struct Aside {
    tenants: HashSet<TenantId>,
    /// Pieces that others' batches gave up meanwhile, to be removed afterwards.
    left: Vec<Left>,
}

impl Aside {
    /// Whether a batch has to wait until the large one is done: it is nobody's or large, its tenant waits, or, with so many
    /// pieces that it gives up itself, more would be given up than is to be removed at once.
    fn waits(&self, one: &Waiting, gives_up: usize) -> bool {
        one.is_large()
            || one.tenant().is_none_or(|tenant| self.tenants.contains(&tenant))
            || !self.has_room_for(gives_up)
    }

    /// Whether so many pieces may be given up, too.
    fn has_room_for(&self, pieces: usize) -> bool {
        let left: usize = self.left.iter().map(|left| left.pieces as usize).sum();
        pieces == 0 || left + pieces <= PIECES_MAX
    }
}

impl Writer {
    /// Commits the group that begins with this batch.
    pub(super) fn take(&mut self, first: Waiting, turns: &mut Turns) {
        let mut aside = Aside::default();
        let left = if let Some(group) = self.write_first(&first, turns, &mut aside) {
            self.commit([first], group)
        } else {
            let group = Group::new(self.versions.0);
            self.commit(Gathering::begin(first, turns), group)
        };
        // Its tenant waits for that too: a batch that was refused has taken no version, and the next one of its records
        // would have the same, with pieces under the same keys.
        self.remove_after(&left, turns, &mut aside);
        // Others are not served meanwhile: they might give up as much again, and what was set aside would never be next. After
        // a failure nothing is written any more: the next start does it.
        let left = std::mem::take(&mut aside.left);
        if !self.failed.load(Ordering::Acquire) && self.log.remove_left(&left).is_err() {
            self.fail();
        }
        turns.restore();
    }

    /// Writes the pieces of a large batch; gives the group in which it is to be committed. `None` for one that is not large,
    /// or would be refused.
    fn write_first(
        &mut self,
        one: &Waiting,
        turns: &mut Turns,
        aside: &mut Aside,
    ) -> Option<Group> {
        let tenant = one.tenant().filter(|_| one.is_large())?;
        // The versions that its records are to have, whatever versions others begin at by then: none of those that are
        // removed meanwhile has an address of this tenant.
        let first_version = self.versions.0;
        let left = self.pieces_to_come(one)?;
        aside.tenants.insert(tenant);
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

    /// How many pieces of what is stored a batch gives up; none of one that will be refused.
    fn pieces_given_up(&self, batch: &Batch) -> usize {
        let Batch { puts, removals, .. } = batch;
        if removals.is_empty() && puts.iter().all(|put| put.expect.is_absent()) {
            return 0;
        }
        let guard = self.guard.lock();
        let Some(guard) = guard.as_ref() else { return 0 };
        let found = self.check(batch, &Group::default(), guard).unwrap_or_default();
        found.iter().flatten().map(|before| before.pieces as usize).sum()
    }

    fn write_in_portions(
        &mut self,
        one: &Waiting,
        left: &[Option<Left>],
        turns: &mut Turns,
        aside: &mut Aside,
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
        }
    }

    /// Goes on copying, as much as was written since: a copy is to end although its tenant's large batches do not.
    fn copy_meanwhile(&mut self, turns: &mut Turns, aside: &mut Aside) {
        for _ in 0..COPIED_MAX {
            if !self.go_on_copying() {
                return;
            }
            self.serve_others(turns, aside);
        }
    }

    /// Removes pieces that no record has any more.
    fn remove_after(&mut self, left: &[Left], turns: &mut Turns, aside: &mut Aside) {
        if !left.is_empty() {
            self.files.has_removed.store(true, Ordering::Release);
        }
        let mut keys = left.iter().flat_map(Left::keys).peekable();
        while keys.peek().is_some() && !self.failed.load(Ordering::Acquire) {
            // Where it fails the next start does it.
            if self.log.remove_keys(keys.by_ref().take(PIECES_MAX)).is_err() {
                self.fail();
            }
            self.serve_others(turns, aside);
        }
    }

    /// Commits the next small batches of others, as far as one group holds them.
    fn serve_others(&mut self, turns: &mut Turns, aside: &mut Aside) {
        let (mut group, mut size, mut given_up) = (Vec::new(), Size::default(), 0);
        loop {
            let next = turns.next_past(|next| {
                let of_itself = self.pieces_given_up(&next.batch);
                if aside.waits(next, of_itself) {
                    // Nor may those of its tenant that come after it.
                    aside.tenants.extend(next.tenant());
                    return Turn::Aside;
                }
                size.add(next);
                // What this group has no room for, the next one has.
                let fits =
                    size.fits() && (of_itself == 0 || aside.has_room_for(given_up + of_itself));
                if !group.is_empty() && !fits {
                    return Turn::Later;
                }
                given_up += of_itself;
                Turn::Taken
            });
            match next {
                Some(next) => group.push(next),
                None => break,
            }
        }
        if !group.is_empty() {
            let first = Group::new(self.versions.0);
            aside.left.append(&mut self.commit(group, first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Aside, Left, PIECE_BYTES, PIECES_MAX};
    use crate::model::id::TenantId;
    use crate::store::Kind;
    use crate::store::sled::rows::Address;
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
        let address = Address { kind: Kind(1), tenant: tenant(3), id: "a".to_owned() };
        let left = |pieces: usize| {
            let pieces = u32::try_from(pieces).unwrap();
            vec![Left { address: address.clone(), version: 1, pieces }]
        };
        for (whose, bytes, left, gives_up, expected) in [
            (2, 10, left(PIECES_MAX), 0, false),
            // Its tenant's is under way, it is nobody's, or it is large itself.
            (1, 10, left(0), 0, true),
            (0, 10, left(0), 0, true),
            (2, large, left(0), 0, true),
            // More would be given up than is to be: with what was, or by itself.
            (2, 10, left(PIECES_MAX - 1), 1, false),
            (2, 10, left(PIECES_MAX), 1, true),
            (2, 10, left(0), PIECES_MAX, false),
            (2, 10, left(0), PIECES_MAX + 1, true),
        ] {
            let aside = Aside { tenants: [tenant(1)].into(), left };
            let waits = aside.waits(&one(whose, bytes), gives_up);
            assert_eq!(waits, expected, "{whose} {bytes} {gives_up}");
        }
    }
}
