//! Large batches, which are written in portions, and what others have on the way between these.
//!
//! A component of 32 MiB takes the disk as long as some hundred small writes, and everybody's requests wait for the writer.
//! So the pieces of such a batch are written first, with the notes that they belong to no record yet, a portion at a time;
//! after each the next small batches of other tenants are committed. Nothing of the batch's own tenant is, nor what belongs
//! to none: what it was checked against stays as it is, and so does the order in which a tenant's batches come. Then it is
//! committed as any other, whose pieces are there already. The pieces of what it replaces are removed in the same way.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;

use super::group::{Group, address};
use super::log::pieces_of;
use super::rows::{Head, Left, PIECE_BYTES, PIECES_MAX};
use super::turns::Turns;
use super::waiting::{Gathering, Size, Waiting};
use super::writer::Writer;
use crate::model::id::TenantId;
use crate::store::{Put, StoreError};

/// What came while a large batch was written, and is to be done after it.
#[derive(Default)]
struct Aside {
    /// Other large batches, in the order in which they came.
    batches: VecDeque<Waiting>,
    /// Whose they are, and whose is under way: none of their later ones may go before them.
    tenants: HashSet<TenantId>,
}

impl Aside {
    /// Forgets whose were done.
    fn look_again(&mut self) {
        self.tenants = self.batches.iter().filter_map(Waiting::tenant).collect();
    }
}

impl Writer {
    /// Commits the group that begins with this batch.
    pub(super) fn take(&mut self, first: Waiting, turns: &mut Turns) {
        let mut aside = Aside::default();
        let mut next = Some(first);
        while let Some(one) = next {
            let left = if let Some(group) = self.write_first(&one, turns, &mut aside) {
                self.commit([one], group)
            } else {
                let group = Group::new(self.versions.0);
                self.commit(Gathering::begin(one, turns), group)
            };
            // Its tenant waits for that too: a batch that was refused has taken no version, and the next one of its records
            // would have the same, with pieces under the same keys.
            self.remove_after(&left, turns, &mut aside);
            next = aside.batches.pop_front();
            aside.look_again();
        }
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
        let (mut group, mut size) = (Vec::new(), Size::default());
        // A copy goes on only between what is taken from there.
        let takes_large = self.log.copy.is_none();
        let mut has_room = true;
        while has_room {
            let next = turns.next_if(|next| match next.tenant() {
                Some(tenant) if !aside.tenants.contains(&tenant) => {
                    if next.is_large() {
                        return takes_large;
                    }
                    size.add(next);
                    has_room = group.is_empty() || size.fits();
                    has_room
                }
                _ => false,
            });
            match next {
                Some(next) if next.is_large() => {
                    aside.tenants.extend(next.tenant());
                    aside.batches.push_back(next);
                }
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
