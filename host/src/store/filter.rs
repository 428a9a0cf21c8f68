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
