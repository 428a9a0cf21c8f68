//! Records of one kind and tenant in the order of pages.
//!
//! Each has a *slot*, a number that ascends with that order, so that a set of records is a bitmap, a total is its
//! length, and a page anywhere is a few selections from it. A record that does not come last is put where it belongs,
//! and the slots after it are given out anew: [`super::partition`] sees to it that these are few.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Bound;
use std::sync::OnceLock;

use roaring::RoaringBitmap;

use super::entry::{Entry, Place};
use super::numbers::{Numbers, inclusive};
use super::postings::{Postings, and};
use super::prefixes::Prefixes;
use super::term_hasher::TermHasher;
use crate::store::{Field, Filter, Position, Term};

/// Removed records keep their slots, and terms that no record has any more their numbers, until they are this many and as
/// many as the rest.
const HOLES_MIN: usize = 1_024;

/// Records in their order.
#[derive(Default)]
pub struct Segment {
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

/// What a filter asks for by ids, looked up at once for all of its parts.
struct ByIds<'f> {
    /// The times of records by id.
    times: &'f HashMap<String, u64>,
    /// The slots of those whose ids begin so.
    beginning: HashMap<&'f str, RoaringBitmap>,
}

impl Segment {
    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many records there are.
    pub fn live(&self) -> u64 {
        self.live.len()
    }

    /// How many terms there is room for.
    #[cfg(test)]
    pub fn terms(&self) -> usize {
        self.term_numbers.len()
    }

    /// Where a record is or, if there is none, would be.
    pub fn find(&self, place: &Place) -> Result<usize, usize> {
        // Most come last; looking for their place among a million would cost more than the rest of this.
        if self.entries.last().is_none_or(|last| last.place < *place) {
            return Err(self.entries.len());
        }
        self.entries.binary_search_by(|entry| entry.place.cmp(place))
    }

    /// Puts a record where [`Self::find`] says that it belongs.
    pub fn put(
        &mut self,
        slot: Result<usize, usize>,
        place: Place,
        terms: impl Iterator<Item = Term>,
        numbers: impl Iterator<Item = (Field, u64)>,
    ) {
        let terms = terms.map(|term| self.term_number(term));
        let entry = Entry::new(place, terms, numbers);
        match slot {
            Ok(slot) => {
                // A hole may become the same record anew.
                if self.live.contains(as_slot(slot)) {
                    self.unlink(slot);
                }
                self.entries[slot] = entry;
                self.link(slot);
                self.compact_if_sparse();
            }
            Err(slot) if slot == self.entries.len() => {
                self.entries.push(entry);
                self.link(slot);
            }
            Err(slot) => {
                // Whatever lies behind moves by one slot.
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

    /// Removes a record; gives whether there was one.
    pub fn remove(&mut self, place: &Place) -> bool {
        let Some(slot) = self.slot(place) else { return false };
        self.unlink(slot);
        self.compact_if_sparse();
        true
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
            let used = !before[*number as usize].is_none();
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
            for term in self.entries[slot].terms_mut() {
                *term = renumbered[*term as usize];
            }
            self.link(slot);
        }
    }

    /// Everything in two segments as one.
    pub fn merged(one: Self, other: Self) -> Self {
        let mut segment = Self::default();
        let mut entries =
            [one, other].map(Self::into_entries).into_iter().flatten().collect::<Vec<_>>();
        entries.sort_by(|(one, _), (other, _)| one.place.cmp(&other.place));
        for (Entry { place, .. }, (terms, numbers)) in entries {
            let slot = segment.find(&place);
            segment.put(slot, place, terms.into_iter(), numbers.into_iter());
        }
        segment
    }

    #[expect(clippy::type_complexity, reason = "the two lists that an entry is found by")]
    fn into_entries(self) -> Vec<(Entry, (Vec<Term>, Vec<(Field, u64)>))> {
        let terms: HashMap<u32, Term> =
            self.term_numbers.iter().map(|(term, number)| (*number, *term)).collect();
        let found_by = |entry: &Entry| {
            let terms = entry.terms().iter().filter_map(|number| terms.get(number).copied());
            (terms.collect(), entry.numbers().collect())
        };
        let live = self.live;
        let entries = (0..).zip(self.entries).filter(|(slot, _)| live.contains(*slot));
        entries.map(|(_, entry)| (found_by(&entry), entry)).map(|(by, entry)| (entry, by)).collect()
    }

    fn slot(&self, place: &Place) -> Option<usize> {
        let slot = self.find(place).ok()?;
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
        self.live.insert(number);
        for term in entry.terms() {
            let postings = &mut self.postings[*term as usize];
            self.unused -= usize::from(postings.is_none());
            postings.add(number);
        }
        for (field, value) in entry.numbers() {
            self.numbers.entry(field).or_default().insert(value, number);
        }
        if let Some(prefixes) = self.prefixes.get_mut() {
            prefixes.insert(entry.place.id(), number);
        }
    }

    fn unlink(&mut self, slot: usize) {
        let (number, entry) = (as_slot(slot), &self.entries[slot]);
        self.live.remove(number);
        for term in entry.terms() {
            let postings = &mut self.postings[*term as usize];
            let before = postings.is_none();
            postings.remove(number);
            self.unused += usize::from(!before && postings.is_none());
        }
        for (field, value) in entry.numbers() {
            if let Some(values) = self.numbers.get_mut(&field) {
                values.remove(value, number);
            }
        }
        if let Some(prefixes) = self.prefixes.get_mut() {
            prefixes.remove(entry.place.id(), number);
        }
    }

    /// The place of the record in a slot.
    pub fn place(&self, slot: u32) -> Option<&Place> {
        self.entries.get(slot as usize).map(|entry| &entry.place)
    }

    /// How many slots are before this place.
    pub fn before(&self, place: &Place) -> usize {
        self.entries.partition_point(|entry| entry.place < *place)
    }

    /// How many slots are of this time or an earlier one.
    pub fn until(&self, order_ms: u64) -> usize {
        self.entries.partition_point(|entry| entry.place.order_ms <= order_ms)
    }

    /// The slots of what matches. `ids` gives the times of records by id.
    pub fn matching(&self, filter: &Filter, ids: &HashMap<String, u64>) -> Cow<'_, RoaringBitmap> {
        let mut prefixes = Vec::new();
        filter.id_prefixes(&mut prefixes);
        // Who asks for none is not to have the order of ids made.
        let beginning =
            if prefixes.is_empty() { HashMap::new() } else { self.prefixes().beginning(prefixes) };
        self.matching_part(filter, &ByIds { times: ids, beginning })
    }

    fn matching_part(&self, filter: &Filter, ids: &ByIds<'_>) -> Cow<'_, RoaringBitmap> {
        Cow::Owned(match filter {
            Filter::All => return Cow::Borrowed(&self.live),
            Filter::Term(term) => return self.posting(*term).set(),
            Filter::And(parts) => return self.matching_all(parts, ids),
            Filter::Nothing => RoaringBitmap::new(),
            Filter::IdPrefix(prefix) => {
                ids.beginning.get(prefix.as_str()).cloned().unwrap_or_default()
            }
            Filter::Ids(wanted) => {
                let slot = |id: &String| {
                    let position = Position { order_ms: *ids.times.get(id)?, id: id.clone() };
                    self.slot(&Place::of(&position)).map(as_slot)
                };
                wanted.iter().filter_map(slot).collect()
            }
            Filter::Order { from, to } => self.in_order(*from, *to),
            Filter::Range { field, from, to } => {
                self.numbers.get(field).map(|numbers| numbers.range(*from, *to)).unwrap_or_default()
            }
            Filter::Or(parts) => match parts.as_slice() {
                [part] => return self.matching_part(part, ids),
                parts => parts
                    .iter()
                    .fold(RoaringBitmap::new(), |any, part| any | &*self.matching_part(part, ids)),
            },
            Filter::Not(part) => &self.live - &*self.matching_part(part, ids),
        })
    }

    /// What matches all of the parts. Sets are narrowed first and cut last, so that no part costs a copy of everything.
    fn matching_all(&self, parts: &[Filter], ids: &ByIds<'_>) -> Cow<'_, RoaringBitmap> {
        let mut all: Option<Cow<'_, RoaringBitmap>> = None;
        let later = |part: &&Filter| matches!(part, Filter::Not(_));
        for part in parts.iter().filter(|part| !matches!(part, Filter::All) && !later(part)) {
            let narrowed = match (all.take(), part) {
                (None, part) => self.matching_part(part, ids),
                (Some(all), Filter::Term(term)) => Cow::Owned(self.posting(*term).within(all)),
                (Some(all), part) => Cow::Owned(and(all, &self.matching_part(part, ids))),
            };
            if narrowed.is_empty() {
                return narrowed;
            }
            all = Some(narrowed);
        }
        let mut all = all.unwrap_or(Cow::Borrowed(&self.live));
        for part in parts {
            if let Filter::Not(part) = part {
                let without = self.matching_part(part, ids);
                all = Cow::Owned(match all {
                    Cow::Borrowed(all) => all - &*without,
                    Cow::Owned(all) => all - &*without,
                });
            }
        }
        all
    }

    fn prefixes(&self) -> &Prefixes {
        self.prefixes.get_or_init(|| {
            let id = |slot| self.entries[slot as usize].place.id().clone();
            Prefixes::of(self.live.iter().map(|slot| (id(slot), slot)))
        })
    }

    /// Slots ascend with the order, so that a range of time is a range of slots.
    fn in_order(&self, from: Bound<u64>, to: Bound<u64>) -> RoaringBitmap {
        let Some(range) = inclusive(from, to) else { return RoaringBitmap::new() };
        let first = range.start().checked_sub(1).map_or(0, |before| self.until(before));
        let end = self.until(*range.end());
        let mut slots = RoaringBitmap::new();
        slots.insert_range(as_slot(first)..as_slot(end));
        slots & &self.live
    }
}

/// A slot as the bitmaps hold it. A partition of more than four billion records does not fit into memory anyway.
fn as_slot(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}
