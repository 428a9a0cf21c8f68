//! A group of batches, as the rows that it writes.
//!
//! Batches are added one after the other, each checked against what is stored and what the group changes before it. What
//! stands in a group is not in the tree yet; [`Group::stands_before`] says which batch must wait for that.

use std::collections::{HashMap, HashSet};

use sled::{IVec, Tree};

use super::changes::Rows;
use super::failure::unreadable;
use super::guard::Guard;
use super::packs::{self, Packs};
use super::rows::{
    Address, Head, IndexRow, Left, PIECE_BYTES, PIECES_MAX, index_value, unique_key, unique_value,
};
use super::waiting::Waiting;
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::store::{Batch, Expect, Kind, Position, Put, Record, Removal, StoreError, Unique};

/// What a group has changed so far, over what is stored.
#[derive(Default)]
pub struct Group {
    /// What is written, but for [`Self::packs`].
    pub rows: Rows,
    /// Records that are written too, several in a row.
    packs: Packs,
    /// Heads of what it stores, and none of what it removes.
    pub heads: HashMap<Address, Option<Head>>,
    /// Whose the unique values are that it gives or takes.
    pub uniques: HashMap<(Kind, Unique), Option<(TenantId, String)>>,
    /// What changes in the index.
    pub changes: Vec<IndexChange>,
    /// Pieces that are written with the group itself, and those that are removed with it.
    pieces: [usize; 2],
    /// Rows to be written before the group.
    pub ahead: Vec<(Vec<u8>, Vec<u8>)>,
    /// Pieces to be removed after it.
    pub behind: Vec<Left>,
    /// Pieces that were written before it began, and are of none of its records yet.
    pub written: Vec<Left>,
    /// Packs that are taken apart, by their keys.
    apart: HashSet<IVec>,
    /// The version that a record begins at which is not there.
    first_version: u64,
    /// Whether the pieces of its one batch were written before it began.
    pub is_written_first: bool,
    /// Whether it removes a record.
    pub removes: bool,
    /// Whether anything that was stored goes.
    pub replaces: bool,
}

/// What changes in the index once the group is durable.
pub enum IndexChange {
    /// A record is found by this from here on.
    Put(IndexRow),
    /// One is not found any more.
    Remove(Kind, TenantId, Position),
}

impl IndexChange {
    /// Of which kind the record is, and of which tenant.
    pub fn whose(&self) -> (Kind, TenantId) {
        match self {
            Self::Put(row) => (row.kind, row.tenant),
            Self::Remove(kind, tenant, _) => (*kind, *tenant),
        }
    }
}

/// Whether so many pieces more can be part of the group itself; counts them if so.
fn takes(taken: &mut usize, pieces: u32) -> bool {
    let sum = taken.saturating_add(pieces as usize);
    if sum > PIECES_MAX {
        return false;
    }
    *taken = sum;
    true
}

/// Where a record lies.
pub fn address(record: &Record) -> Address {
    Address { kind: record.kind, tenant: record.tenant, id: record.id.clone() }
}

impl Group {
    /// An empty group, whose new records begin at this version.
    pub fn new(first_version: u64) -> Self {
        Self { first_version, ..Self::default() }
    }

    /// The same, for one batch whose pieces are written.
    pub fn of_written(first_version: u64, written: Vec<Left>) -> Self {
        Self { first_version, written, is_written_first: true, ..Self::default() }
    }

    /// Whether the group must be written before the batch is added. One that makes a record anew which the group removes:
    /// both might be at the same version, with pieces under the same keys. And one that changes what lies in a pack of the
    /// group, which is not there yet.
    pub fn stands_before(&self, batch: &Batch) -> bool {
        let removed = |put: &Put| {
            self.removes && self.heads.get(&address(&put.record)).is_some_and(Option::is_none)
        };
        let packed = |address: &Address| {
            self.heads
                .get(address)
                .is_some_and(|head| head.as_ref().is_some_and(|head| head.packed))
        };
        let gone = |Removal { kind, tenant, id, .. }: &Removal| {
            packed(&Address { kind: *kind, tenant: *tenant, id: id.clone() })
        };
        // What must not be there changes nothing.
        let changed =
            |put: &Put| removed(put) || !put.expect.is_absent() && packed(&address(&put.record));
        batch.puts.iter().any(changed) || batch.removals.iter().any(gone)
    }

    /// Adds a batch that was checked, with the heads of what it replaces or removes. Nothing of it is added when what is
    /// stored cannot be read.
    pub fn add(
        &mut self,
        waiting: &Waiting,
        found: Vec<Option<Head>>,
        (tree, guard): (&Tree, &mut Guard),
    ) -> Result<(), StoreError> {
        let Waiting { batch, contents, .. } = waiting;
        self.take_apart(batch, &found, tree)?;
        let mut found = found.into_iter();
        for Removal { kind, tenant, id, .. } in &batch.removals {
            let address = Address { kind: *kind, tenant: *tenant, id: id.clone() };
            if let Some(head) = found.next().flatten() {
                self.removes = true;
                self.clear(&address, &head);
                guard.release_row(&address, &head);
                self.rows.remove(address.head_key());
                let position = Position { order_ms: head.order_ms, id: id.clone() };
                self.changes.push(IndexChange::Remove(*kind, *tenant, position));
                self.heads.insert(address, None);
            }
        }
        for (put, content) in batch.puts.iter().zip(contents) {
            self.put(put, content, found.next().flatten().as_ref(), guard);
        }
        Ok(())
    }

    /// Makes rows of all that is written to this tree.
    pub fn finish(&mut self, tree: &Tree) -> Result<(), StoreError> {
        std::mem::take(&mut self.packs).finish(tree, &mut self.rows)
    }

    /// Gives rows of their own to the records of packs that have one which the batch changes.
    fn take_apart(
        &mut self,
        batch: &Batch,
        found: &[Option<Head>],
        tree: &Tree,
    ) -> Result<(), StoreError> {
        let gone = |gone: &Removal| (gone.kind, gone.tenant, gone.id.clone());
        let removals = batch.removals.iter().map(gone);
        let puts = batch.puts.iter().map(|put| &put.record);
        let changed = removals.chain(puts.map(|put| (put.kind, put.tenant, put.id.clone())));
        let mut apart = Vec::new();
        for ((kind, tenant, id), _) in
            changed.zip(found).filter(|(_, head)| head.as_ref().is_some_and(|head| head.packed))
        {
            let address = Address { kind, tenant, id };
            if tree.contains_key(address.head_key()).map_err(unreadable)? {
                continue;
            }
            if let Some((key, packed, _)) = packs::find(tree, &address)?
                && !self.apart.contains(&key)
            {
                let entries = packs::entries(&key, &packed)?.into_iter();
                // All of them are read before anything is changed.
                let read =
                    |(address, value): (Address, IVec)| Ok((address, Head::read(&value)?.0, value));
                apart.push((entries.map(read).collect::<Result<Vec<_>, StoreError>>()?, key));
            }
        }
        for (entries, key) in apart {
            if !self.apart.insert(key.clone()) {
                continue;
            }
            for (address, head, value) in entries {
                let index_row = index_value(&head.terms, &head.numbers);
                self.rows.insert(address.index_key(head.order_ms), index_row);
                self.rows.insert(address.head_key(), value);
            }
            self.rows.remove(key);
        }
        Ok(())
    }

    fn put(&mut self, put: &Put, content: &Hash, before: Option<&Head>, guard: &mut Guard) {
        let Put { record, expect } = put;
        let address = address(record);
        // What may lie in a pack has an id that nobody draws again.
        let first = if expect.is_lasting() { 1 } else { self.first_version };
        let version = before.map_or(first, |before| before.version + 1);
        let mut head = Head::of(record, version);
        if let Some(before) = before {
            self.clear(&address, before);
            // A record keeps its place.
            head.order_ms = before.order_ms;
        }
        let chained = match expect {
            Expect::Chained(text) => Some(*text),
            _ => None,
        };
        guard.protect_row(&address, &mut head, before, (content, chained));
        if head.pieces > 0 {
            self.add_pieces(&address, &head, &record.body);
        }
        let value = head.to_value(&record.body);
        head.packed = expect.is_lasting() && head.pieces == 0 && head.uniques.is_empty();
        if head.packed {
            self.packs.add(&address, value);
        } else {
            self.rows.insert(address.head_key(), value);
            let index_row = index_value(&head.terms, &head.numbers);
            self.rows.insert(address.index_key(head.order_ms), index_row);
        }
        for unique in &record.uniques {
            let owner = unique_value(record.tenant, &record.id);
            self.rows.insert(unique_key(record.kind, *unique), owner);
            let by = (record.tenant, record.id.clone());
            self.uniques.insert((record.kind, *unique), Some(by));
        }
        self.changes.push(IndexChange::Put(IndexRow {
            kind: record.kind,
            tenant: record.tenant,
            order_ms: head.order_ms,
            id: record.id.clone(),
            terms: head.terms.clone(),
            numbers: head.numbers.clone(),
        }));
        self.heads.insert(address, Some(head));
    }

    fn add_pieces(&mut self, address: &Address, head: &Head, body: &[u8]) {
        let left = Left { address: address.clone(), version: head.version, pieces: head.pieces };
        if let Some(at) = self.written.iter().position(|written| *written == left) {
            self.rows.remove(self.written.swap_remove(at).key());
            return;
        }
        let with_group = takes(&mut self.pieces[0], head.pieces);
        if !with_group {
            self.ahead.push((left.key(), left.value().to_vec()));
            self.rows.remove(left.key());
        }
        for (number, piece) in (0..).zip(body.chunks(PIECE_BYTES)) {
            let key = address.piece_key(head.version, number);
            if with_group {
                self.rows.insert(key, piece);
            } else {
                self.ahead.push((key, piece.to_vec()));
            }
        }
    }

    fn remove_pieces(&mut self, address: &Address, head: &Head) {
        if takes(&mut self.pieces[1], head.pieces) {
            for number in 0..head.pieces {
                self.rows.remove(address.piece_key(head.version, number));
            }
        } else {
            let (version, pieces) = (head.version, head.pieces);
            let left = Left { address: address.clone(), version, pieces };
            self.rows.insert(left.key(), &left.value());
            self.behind.push(left);
        }
    }

    /// Removes what a version left beside its head: pieces, index row, unique values that are still its own.
    fn clear(&mut self, address: &Address, head: &Head) {
        self.replaces = true;
        self.remove_pieces(address, head);
        self.rows.remove(address.index_key(head.order_ms));
        for unique in &head.uniques {
            let owner = self.uniques.get(&(address.kind, *unique));
            let given_away = owner.is_some_and(|by| {
                by.as_ref().is_some_and(|by| *by != (address.tenant, address.id.clone()))
            });
            if !given_away {
                self.rows.remove(unique_key(address.kind, *unique));
                self.uniques.insert((address.kind, *unique), None);
            }
        }
    }
}
