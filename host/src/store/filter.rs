//! Which records are asked for, and the answer.

use std::ops::Bound;

use super::{Field, Record, Term};

/// A condition on records. Listing and searching both become one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Every record.
    All,
    /// No record.
    Nothing,
    /// Records with this term.
    Term(Term),
    /// Records with one of these ids.
    Ids(Vec<String>),
    /// Records whose id starts with this text.
    IdPrefix(String),
    /// Records made in this range of time: `order_ms`.
    Order {
        /// From here.
        from: Bound<u64>,
        /// To here.
        to: Bound<u64>,
    },
    /// Records whose number lies in the range.
    Range {
        /// The field.
        field: Field,
        /// From here.
        from: Bound<u64>,
        /// To here.
        to: Bound<u64>,
    },
    /// Records that match all.
    And(Vec<Filter>),
    /// Records that match one.
    Or(Vec<Filter>),
    /// Records that do not match.
    Not(Box<Filter>),
}

impl Filter {
    /// The weight of one that is little to look for: a query of eight terms, whatever they are, and what narrows it.
    pub const LITTLE_WEIGHT: usize = 48;

    /// Whether it is much to look for what matches.
    pub fn is_much(&self) -> bool {
        self.weight() > Self::LITTLE_WEIGHT
    }

    /// Ids that it names, anywhere in it.
    pub(super) fn named_ids<'f>(&'f self, found: &mut Vec<&'f str>) {
        self.each_part(&mut |part| {
            if let Self::Ids(ids) = part {
                found.extend(ids.iter().map(String::as_str));
            }
        });
    }

    /// Beginnings of ids that it names, anywhere in it.
    pub(super) fn id_prefixes<'f>(&'f self, found: &mut Vec<&'f str>) {
        self.each_part(&mut |part| {
            if let Self::IdPrefix(prefix) = part {
                found.push(prefix.as_str());
            }
        });
    }

    /// How much it is to look for what matches, in sets of records that are gone through.
    pub fn weight(&self) -> usize {
        let mut weight = 0;
        self.each_part(&mut |part| {
            weight += match part {
                Self::All | Self::Nothing => 0,
                Self::Ids(ids) => ids.len(),
                // The ends of one lie in several.
                Self::Range { .. } => 4,
                _ => 1,
            };
        });
        weight
    }

    /// Shows all of its parts that have none themselves.
    fn each_part<'f>(&'f self, look: &mut impl FnMut(&'f Self)) {
        match self {
            Self::And(parts) | Self::Or(parts) => {
                for part in parts {
                    part.each_part(look);
                }
            }
            Self::Not(part) => part.each_part(look),
            part => look(part),
        }
    }
}

/// The place of a record in the order of pages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// When the record was made.
    pub order_ms: u64,
    /// Its id.
    pub id: String,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// After so many records.
    Offset(u64),
    /// After the record that had this place, whether or not it is still there.
    After(Position),
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// How many records match, on all pages.
    pub total: u64,
    /// The records.
    pub records: Vec<Record>,
    /// The place of the last one, when more follow.
    pub next: Option<Position>,
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::super::{Field, Term};
    use super::Filter;

    #[test]
    fn a_filter_weighs_what_its_parts_do() {
        let term = || Filter::Term(Term([0; 16]));
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let range = || Filter::Range { field: Field(0), from, to };
        let ids = |count: usize| Filter::Ids(vec![String::new(); count]);
        for (filter, expected) in [
            (Filter::All, 0),
            (Filter::Nothing, 0),
            (term(), 1),
            (Filter::Order { from, to }, 1),
            (Filter::IdPrefix(String::new()), 1),
            (range(), 4),
            (ids(7), 7),
            (Filter::Not(Box::new(range())), 4),
            (Filter::And(vec![term(), Filter::Or(vec![term(), range(), ids(2)]), Filter::All]), 8),
        ] {
            assert_eq!(filter.weight(), expected, "{filter:?}");
        }
    }
}
