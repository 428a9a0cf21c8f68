//! The records of one kind and tenant, in segments.
//!
//! Nearly every record comes last, and lies in the first [`Segment`]. One that arrives late (its time is before the
//! newest one's) is put where it belongs if few lie behind it, as after a race of two writers. Where a clock was set
//! back, many would lie behind each record from then on, a million of which would have to move: these records go to
//! another segment, where they come last again. A page is then merged from the pages of all segments. There are few of
//! them at any time, and after a restart one, or some for what was put in another order than that of its ids.

use std::borrow::Cow;
use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::Found;
use super::entry::Place;
use super::segment::Segment;
use crate::store::{Field, Filter, Start, Term};

/// Slots that may move for one record.
const BEHIND_MAX: usize = if cfg!(test) { 3 } else { 256 };
/// Segments there may be; beyond that the two smallest become one.
const SEGMENTS_MAX: usize = if cfg!(test) { 3 } else { 8 };

/// The records of one kind and tenant.
#[derive(Default)]
pub struct Partition {
    segments: Vec<Segment>,
    /// How often it was changed.
    changes: u64,
}

/// What matches in one segment, and how much of it stands on the page that is asked for or a later one.
struct Matches<'p> {
    segment: &'p Segment,
    slots: Cow<'p, RoaringBitmap>,
    left: u64,
}

impl Partition {
    /// Adds a record, or replaces what an older version of it was found by.
    pub fn put(
        &mut self,
        place: Place,
        terms: impl Iterator<Item = Term>,
        numbers: impl Iterator<Item = (Field, u64)>,
    ) {
        self.changes += 1;
        let mut best: Option<(usize, usize)> = None;
        for (number, segment) in self.segments.iter().enumerate() {
            match segment.find(&place) {
                Ok(slot) => return self.segments[number].put(Ok(slot), place, terms, numbers),
                Err(slot) if best.is_none() && segment.len() - slot <= BEHIND_MAX => {
                    best = Some((number, slot));
                }
                Err(_) => {}
            }
        }
        let (number, slot) = best.unwrap_or_else(|| {
            self.segments.push(Segment::default());
            (self.segments.len() - 1, 0)
        });
        self.segments[number].put(Err(slot), place, terms, numbers);
        if self.segments.len() > SEGMENTS_MAX {
            self.merge_smallest();
        }
    }

    /// Removes a record.
    pub fn remove(&mut self, place: &Place) {
        self.changes += 1;
        if self.segments.iter_mut().any(|segment| segment.remove(place)) && self.segments.len() > 1
        {
            self.segments.retain(|segment| segment.live() > 0);
        }
    }

    /// How many terms there is room for.
    #[cfg(test)]
    pub fn terms(&self) -> usize {
        self.segments.iter().map(Segment::terms).sum()
    }

    /// How many segments there are.
    #[cfg(test)]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    fn merge_smallest(&mut self) {
        let mut smallest = || {
            let sizes = self.segments.iter().map(Segment::len).enumerate();
            let number = sizes.min_by_key(|(_, len)| *len).map(|(number, _)| number);
            // The order of the others does not matter, but for the largest, which is found first when it is first.
            number.map(|number| self.segments.remove(number))
        };
        if let (Some(one), Some(other)) = (smallest(), smallest()) {
            self.segments.push(Segment::merged(other, one));
        }
    }

    /// The page of what matches. `ids` gives the times of records by id.
    pub fn page(
        &self,
        filter: &Filter,
        start: &Start,
        size: usize,
        ids: &HashMap<String, u64>,
    ) -> Found {
        let slots = self.segments.iter().map(|segment| segment.matching(filter, ids));
        self.page_of(slots, start, size)
    }

    /// The slots of what matches, by segment.
    pub fn matching(&self, filter: &Filter, ids: &HashMap<String, u64>) -> Vec<RoaringBitmap> {
        let slots = |segment: &Segment| segment.matching(filter, ids).into_owned();
        self.segments.iter().map(slots).collect()
    }

    /// How often it was changed: slots are those of the same records as long as it is not.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The page of these slots, by segment.
    pub fn page_of<'p>(
        &'p self,
        slots: impl Iterator<Item = Cow<'p, RoaringBitmap>>,
        start: &Start,
        size: usize,
    ) -> Found {
        let matches = |(segment, slots): (_, Cow<'p, RoaringBitmap>)| {
            let left = slots.len();
            Matches { segment, slots, left }
        };
        let mut matches: Vec<Matches<'_>> = self.segments.iter().zip(slots).map(matches).collect();
        let total = left(&matches);
        match start {
            Start::Offset(offset) => skip(&mut matches, *offset),
            Start::After(position) => {
                let place = Place::of(position);
                for one in &mut matches {
                    one.left = one.within(one.segment.before(&place));
                }
            }
        }
        let mut newest: Vec<Option<&Place>> = matches.iter().map(Matches::newest).collect();
        let mut page = Vec::new();
        while page.len() < size {
            let Some(number) = latest(&newest) else { break };
            page.extend(newest[number].map(Place::to_position));
            matches[number].left -= 1;
            newest[number] = matches[number].newest();
        }
        Found { total, more: left(&matches) > 0, page }
    }
}

impl<'p> Matches<'p> {
    /// How many matches are among the first slots.
    fn within(&self, slots: usize) -> u64 {
        let last = slots.checked_sub(1).map(|last| u32::try_from(last).unwrap_or(u32::MAX));
        last.map_or(0, |last| self.slots.rank(last))
    }

    /// The newest of those that are left.
    fn newest(&self) -> Option<&'p Place> {
        let rank = u32::try_from(self.left.checked_sub(1)?).ok()?;
        self.segment.place(self.slots.select(rank)?)
    }
}

fn left(matches: &[Matches<'_>]) -> u64 {
    matches.iter().map(|one| one.left).sum()
}

/// Which of the segments has the newest record.
fn latest(newest: &[Option<&Place>]) -> Option<usize> {
    let places = newest.iter().enumerate().filter_map(|(number, place)| Some(((*place)?, number)));
    places.max().map(|(_, number)| number)
}

/// Leaves out the newest so many.
fn skip(matches: &mut [Matches<'_>], offset: u64) {
    let wanted = left(matches).saturating_sub(offset);
    if let [only] = matches {
        only.left = wanted;
        return;
    }
    // The earliest time up to which as many as are wanted were made; found by halving, since each look costs little.
    let (mut low, mut high) = (0, u64::MAX);
    let until = |matches: &mut [Matches<'_>], time: u64| {
        for one in &mut *matches {
            one.left = one.within(one.segment.until(time));
        }
        left(matches)
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if until(matches, middle) >= wanted {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // Of those that were made at that very time, some may still stand on earlier pages.
    let mut surplus = until(matches, low) - wanted;
    while surplus > 0 {
        let newest: Vec<_> = matches.iter().map(Matches::newest).collect();
        let Some(number) = latest(&newest) else { return };
        matches[number].left -= 1;
        surplus -= 1;
    }
}
