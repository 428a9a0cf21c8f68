//! The index in memory: which records match, how many, and which stand on a page.
//!
//! Each kind of each tenant is a [`Partition`]. Kinds that are still being read ([`super::load`]) are *awaited*: what is
//! written meanwhile is kept aside, and applied to what was read.

mod entry;
mod numbers;
mod partition;
mod postings;
mod prefixes;
mod segment;
pub mod steps;
mod term_hasher;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::entry::Place;
use self::partition::Partition;
use super::rows::IndexRow;
use crate::model::id::TenantId;
use crate::store::{Field, Filter, Kind, Position, Start, Term};

/// All partitions.
#[derive(Default)]
pub struct Index {
    partitions: HashMap<(Kind, TenantId), Partition>,
    /// What was changed in each kind that is awaited, in this order.
    awaited: HashMap<Kind, Vec<Change>>,
}

/// A change of a record in a kind that is awaited.
pub enum Change {
    /// It was written.
    Put(IndexRow),
    /// It was removed from this place.
    Remove(TenantId, Position),
}

/// The records of one page: their ids, and what is needed to go on.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// How many records match.
    pub total: u64,
    /// The places of those on the page.
    pub page: Vec<Position>,
    /// Whether more follow.
    pub more: bool,
}

impl Index {
    /// Takes in the partitions of another, which has none of the same.
    pub fn merge(&mut self, other: Self) {
        self.partitions.extend(other.partitions);
    }

    /// Keeps aside what is changed in a kind from here on.
    pub fn await_kind(&mut self, kind: Kind) {
        self.awaited.entry(kind).or_default();
    }

    /// What was kept aside for a kind since this was asked last.
    pub fn take_changes(&mut self, kind: Kind) -> Vec<Change> {
        self.awaited.get_mut(&kind).map(std::mem::take).unwrap_or_default()
    }

    /// Takes in a kind that was awaited and was read by now, with all changes but the last.
    pub fn complete(&mut self, kind: Kind, mut read: Self) {
        read.apply(kind, self.awaited.remove(&kind).unwrap_or_default());
        self.merge(read);
    }

    /// Changes a kind. What was read may have some of the changes already; applied again, they change nothing.
    pub fn apply(&mut self, kind: Kind, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put(row) => self.put(row),
                Change::Remove(tenant, position) => self.remove(kind, tenant, &position),
            }
        }
    }

    /// Adds a record, or replaces what an older version of it was found by.
    pub fn put(&mut self, row: IndexRow) {
        if let Some(changes) = self.awaited.get_mut(&row.kind) {
            return changes.push(Change::Put(row));
        }
        let IndexRow { kind, tenant, order_ms, id, terms, numbers } = row;
        let found_by = (terms.into_iter(), numbers.into_iter());
        self.put_parts((kind, tenant), (order_ms, &id), found_by);
    }

    /// The same of a record in parts.
    pub fn put_parts(
        &mut self,
        whose: (Kind, TenantId),
        (order_ms, id): (u64, &str),
        (terms, numbers): (impl Iterator<Item = Term>, impl Iterator<Item = (Field, u64)>),
    ) {
        let partition = self.partitions.entry(whose).or_default();
        partition.put(Place::new(order_ms, id), terms, numbers);
    }

    /// Removes a record.
    pub fn remove(&mut self, kind: Kind, tenant: TenantId, position: &Position) {
        if let Some(changes) = self.awaited.get_mut(&kind) {
            return changes.push(Change::Remove(tenant, position.clone()));
        }
        if let Some(partition) = self.partitions.get_mut(&(kind, tenant)) {
            partition.remove(&Place::of(position));
        }
    }

    /// The records of one kind and tenant, if there are any.
    fn partition(&self, whose: (Kind, TenantId)) -> Option<&Partition> {
        self.partitions.get(&whose)
    }

    /// The page of what matches. `ids` gives the places of records by id.
    pub fn page(
        &self,
        whose: (Kind, TenantId),
        filter: &Filter,
        start: &Start,
        size: usize,
        ids: &HashMap<String, u64>,
    ) -> Found {
        match self.partitions.get(&whose) {
            Some(partition) => partition.page(filter, start, size, ids),
            None => Found { total: 0, page: Vec::new(), more: false },
        }
    }
}

#[cfg(test)]
impl Index {
    /// How many terms there is room for.
    pub fn terms(&self, kind: Kind, tenant: TenantId) -> usize {
        self.partitions.get(&(kind, tenant)).map_or(0, Partition::terms)
    }

    /// How many segments a partition has.
    pub fn segments(&self, kind: Kind, tenant: TenantId) -> usize {
        self.partitions.get(&(kind, tenant)).map_or(0, Partition::segments)
    }
}
