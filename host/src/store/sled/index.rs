//! The index in memory: which records match, how many, and which stand on a page.
//!
//! Each kind of each tenant is a [`Partition`]. Its records have *slots*, numbers that ascend with the order of pages,
//! so that a set of records is a bitmap, a total is its length, and a page anywhere is a few selections from it. A
//! record that arrives late (its time is before the newest one's, by a race or by a clock set back) is put where it
//! belongs, and the slots after it are given out anew: the cost is that of the records after it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Bound;
use std::sync::OnceLock;

use roaring::RoaringBitmap;

use super::numbers::{Numbers, inclusive};
use super::prefixes::Prefixes;
use super::rows::IndexRow;
use super::term_hasher::TermHasher;
use crate::model::id::TenantId;
use crate::store::{Field, Filter, Kind, Position, Start, Term};

/// Removed records keep their slots, and terms that no record has any more their numbers, until they are this many and as
/// many as the rest.
const HOLES_MIN: usize = 1_024;

/// All partitions.
#[derive(Default)]
pub struct Index(HashMap<(Kind, TenantId), Partition>);

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
        self.0.extend(other.0);
    }

    /// Adds a record, or replaces what an older version of it was found by.
    pub fn put(&mut self, row: IndexRow) {
        self.0.entry((row.kind, row.tenant)).or_default().put(row);
    }

    /// Removes a record.
    pub fn remove(&mut self, kind: Kind, tenant: TenantId, position: &Position) {
        if let Some(partition) = self.0.get_mut(&(kind, tenant)) {
            partition.remove(position);
        }
    }

    /// The page of what matches. `ids` gives the places of records by id.
    pub fn page(
        &self,
        (kind, tenant): (Kind, TenantId),
        filter: &Filter,
        start: &Start,
        size: usize,
        ids: &HashMap<String, u64>,
    ) -> Found {
        match self.0.get(&(kind, tenant)) {
            Some(partition) => partition.page(filter, start, size, ids),
            None => Found { total: 0, page: Vec::new(), more: false },
        }
    }
}

#[cfg(test)]
impl Index {
    /// How many terms there is room for.
    pub fn terms(&self, kind: Kind, tenant: TenantId) -> usize {
        self.0.get(&(kind, tenant)).map_or(0, |partition| partition.term_numbers.len())
    }
}

/// One record's place and what it is found by.
struct Entry {
    position: Position,
    terms: Box<[u32]>,
    numbers: Box<[(Field, u64)]>,
}

/// Slots that have a term. Most terms (ids of entities in the log) are rare.
#[derive(Default)]
enum Postings {
    #[default]
    None,
    One(u32),
    Many(Box<RoaringBitmap>),
}

/// The records of one kind and tenant.
#[derive(Default)]
struct Partition {
    /// By slot, ascending in the order of places; removed ones stay as holes.
    entries: Vec<Entry>,
    live: RoaringBitmap,
    /// Numbers that stand for terms in the entries.
    term_numbers: HashMap<Term, u32, BuildHasherDefault<TermHasher>>,
    /// By these numbers.
    postings: Vec<Postings>,
    /// How many of these are of no record.
    unused: usize,
    numbers: HashMap<Field, Numbers>,
    /// Ids in their order, from the first time that somebody asks for it.
    prefixes: OnceLock<Prefixes>,
}

impl Partition {
    fn put(&mut self, row: IndexRow) {
        let IndexRow { order_ms, id, terms, numbers, .. } = row;
        let position = Position { order_ms, id };
        let terms = terms.into_iter().map(|term| self.term_number(term)).collect();
        let entry = Entry { position, terms, numbers: numbers.into() };
        // Most come last; looking for their place among a million would cost more than the rest of this.
        let comes_last = |last: &Entry| last.position < entry.position;
        let slot = if self.entries.last().is_none_or(comes_last) {
            self.entries.len()
        } else {
            self.entries.partition_point(|other| other.position < entry.position)
        };
        match self.entries.get(slot) {
            Some(other) if other.position == entry.position => {
                // A hole may become the same record anew.
                if self.live.contains(as_slot(slot)) {
                    self.unlink(slot);
                }
                self.entries[slot] = entry;
                self.link(slot);
                self.compact_if_sparse();
            }
            _ => {
                // Whatever lies behind moves by one slot; at the end, where most arrive, that is nothing.
                let behind: Vec<usize> = (slot..self.entries.len())
                    .filter(|behind| self.live.contains(as_slot(*behind)))
                    .collect();
                for moved in &behind {
                    self.unlink(*moved);
                }
                self.entries.insert(slot, entry);
                for moved in &behind {
                    self.link(moved + 1);
                }
                self.link(slot);
            }
        }
    }

    fn remove(&mut self, position: &Position) {
        let Some(slot) = self.slot(position) else { return };
        self.unlink(slot);
        self.compact_if_sparse();
    }

    fn compact_if_sparse(&mut self) {
        let live = usize::try_from(self.live.len()).unwrap_or(usize::MAX);
        let holes = self.entries.len() - live;
        let many = |unused: usize, used: usize| unused >= HOLES_MIN && unused > used;
        if many(holes, live) || many(self.unused, self.postings.len() - self.unused) {
            self.compact();
        }
    }

    /// Gives out all slots and all numbers of terms anew, without holes.
    fn compact(&mut self) {
        let live = std::mem::take(&mut self.live);
        let before = std::mem::take(&mut self.postings);
        self.unused = 0;
        self.numbers.clear();
        self.prefixes.take();
        let mut slot = 0;
        self.entries.retain(|_| {
            let kept = live.contains(slot);
            slot += 1;
            kept
        });
        let mut renumbered = vec![0; before.len()];
        let mut next = 0;
        self.term_numbers.retain(|_, number| {
            let used = !matches!(before[*number as usize], Postings::None);
            if used {
                renumbered[*number as usize] = next;
                *number = next;
                next += 1;
            }
            used
        });
        self.term_numbers.shrink_to_fit();
        self.postings.resize_with(next as usize, Postings::default);
        self.unused = self.postings.len();
        for slot in 0..self.entries.len() {
            for term in &mut self.entries[slot].terms {
                *term = renumbered[*term as usize];
            }
            self.link(slot);
        }
    }

    fn slot(&self, position: &Position) -> Option<usize> {
        let slot = self.entries.binary_search_by(|entry| entry.position.cmp(position)).ok()?;
        self.live.contains(as_slot(slot)).then_some(slot)
    }

    fn posting(&self, term: Term) -> &Postings {
        let number = self.term_numbers.get(&term);
        number.map_or(&Postings::None, |number| &self.postings[*number as usize])
    }

    fn term_number(&mut self, term: Term) -> u32 {
        *self.term_numbers.entry(term).or_insert_with(|| {
            self.postings.push(Postings::None);
            self.unused += 1;
            as_slot(self.postings.len() - 1)
        })
    }

    fn link(&mut self, slot: usize) {
        let (number, entry) = (as_slot(slot), &self.entries[slot]);
        add(&mut self.live, number);
        for term in &entry.terms {
            let postings = &mut self.postings[*term as usize];
            match postings {
                Postings::None => {
                    self.unused -= 1;
                    *postings = Postings::One(number);
                }
                Postings::Many(slots) => add(slots, number),
                Postings::One(first) => {
                    let both = [*first, number].into_iter().collect();
                    *postings = Postings::Many(Box::new(both));
                }
            }
        }
        for (field, value) in &entry.numbers {
            self.numbers.entry(*field).or_default().insert(*value, number);
        }
        if let Some(prefixes) = self.prefixes.get_mut() {
            prefixes.insert(&entry.position.id, number);
        }
    }

    fn unlink(&mut self, slot: usize) {
        let (number, entry) = (as_slot(slot), &self.entries[slot]);
        self.live.remove(number);
        for term in &entry.terms {
            let postings = &mut self.postings[*term as usize];
            let empty = match postings {
                Postings::None => false,
                Postings::One(only) => *only == number,
                Postings::Many(slots) => {
                    slots.remove(number);
                    slots.is_empty()
                }
            };
            if empty {
                *postings = Postings::None;
                self.unused += 1;
            }
        }
        for (field, value) in &entry.numbers {
            if let Some(values) = self.numbers.get_mut(field) {
                values.remove(*value, number);
            }
        }
        if let Some(prefixes) = self.prefixes.get_mut() {
            prefixes.remove(&entry.position.id, number);
        }
    }

    fn page(
        &self,
        filter: &Filter,
        start: &Start,
        size: usize,
        ids: &HashMap<String, u64>,
    ) -> Found {
        let matching = self.matching(filter, ids);
        let total = matching.len();
        // How many of those that match stand on this page or a later one.
        let left = match start {
            Start::Offset(offset) => total.saturating_sub(*offset),
            Start::After(position) => {
                let before = self.entries.partition_point(|entry| entry.position < *position);
                before.checked_sub(1).map_or(0, |last| matching.rank(as_slot(last)))
            }
        };
        let selected = (0..left).rev().take(size).filter_map(|rank| {
            let slot = matching.select(u32::try_from(rank).ok()?)?;
            Some(self.entries[slot as usize].position.clone())
        });
        let page: Vec<Position> = selected.collect();
        Found { total, more: left > page.len() as u64, page }
    }

    fn matching(&self, filter: &Filter, ids: &HashMap<String, u64>) -> RoaringBitmap {
        match filter {
            Filter::All => self.live.clone(),
            Filter::Nothing => RoaringBitmap::new(),
            Filter::IdPrefix(prefix) => self.prefixes().beginning(prefix),
            Filter::Term(term) => match self.posting(*term) {
                Postings::None => RoaringBitmap::new(),
                Postings::One(slot) => std::iter::once(*slot).collect(),
                Postings::Many(slots) => RoaringBitmap::clone(slots),
            },
            Filter::Ids(wanted) => {
                let place = |id: &String| {
                    let position = Position { order_ms: *ids.get(id)?, id: id.clone() };
                    self.slot(&position).map(as_slot)
                };
                wanted.iter().filter_map(place).collect()
            }
            Filter::Order { from, to } => self.in_order(*from, *to),
            Filter::Range { field, from, to } => {
                self.numbers.get(field).map(|numbers| numbers.range(*from, *to)).unwrap_or_default()
            }
            Filter::And(parts) => self.matching_all(parts, ids),
            Filter::Or(parts) => {
                let mut any = RoaringBitmap::new();
                for part in parts {
                    any |= self.matching(part, ids);
                }
                any
            }
            Filter::Not(part) => &self.live - self.matching(part, ids),
        }
    }

    /// What matches all of the parts. Sets are narrowed first and cut last, so that no part costs a copy of everything.
    fn matching_all(&self, parts: &[Filter], ids: &HashMap<String, u64>) -> RoaringBitmap {
        let mut all: Option<RoaringBitmap> = None;
        let later = |part: &&Filter| matches!(part, Filter::Not(_));
        for part in parts.iter().filter(|part| !matches!(part, Filter::All) && !later(part)) {
            let narrowed = match (all.take(), part) {
                (None, part) => self.matching(part, ids),
                (Some(all), Filter::Term(term)) => match self.posting(*term) {
                    Postings::Many(slots) => all & slots.as_ref(),
                    Postings::One(slot) if all.contains(*slot) => [*slot].into_iter().collect(),
                    Postings::One(_) | Postings::None => RoaringBitmap::new(),
                },
                (Some(all), part) => all & self.matching(part, ids),
            };
            if narrowed.is_empty() {
                return narrowed;
            }
            all = Some(narrowed);
        }
        let mut all = all.unwrap_or_else(|| self.live.clone());
        for part in parts {
            if let Filter::Not(part) = part {
                all -= self.matching(part, ids);
            }
        }
        all
    }

    fn prefixes(&self) -> &Prefixes {
        self.prefixes.get_or_init(|| {
            let mut prefixes = Prefixes::default();
            for slot in &self.live {
                prefixes.insert(&self.entries[slot as usize].position.id, slot);
            }
            prefixes
        })
    }

    /// Slots ascend with the order, so that a range of time is a range of slots.
    fn in_order(&self, from: Bound<u64>, to: Bound<u64>) -> RoaringBitmap {
        let Some(range) = inclusive(from, to) else { return RoaringBitmap::new() };
        let first = self.entries.partition_point(|other| other.position.order_ms < *range.start());
        let end = self.entries.partition_point(|other| other.position.order_ms <= *range.end());
        let mut slots = RoaringBitmap::new();
        slots.insert_range(as_slot(first)..as_slot(end));
        slots & &self.live
    }
}

/// Adds a slot, at the end if that is where it belongs, as it does for most.
fn add(slots: &mut RoaringBitmap, slot: u32) {
    if slots.try_push(slot).is_err() {
        slots.insert(slot);
    }
}

/// A slot as the bitmaps hold it. A partition of more than four billion records does not fit into memory anyway.
fn as_slot(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}
