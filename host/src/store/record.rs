//! What is stored, and how a batch expects to find it.

use super::TextDigest;
use crate::model::id::TenantId;

/// A kind of record, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(pub u8);

/// An opaque index value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(pub [u8; 16]);

/// An opaque value that one record of a kind has, over all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unique(pub [u8; 32]);

/// A field of numbers, which can be searched by range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field(pub u8);

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its kind.
    pub kind: Kind,
    /// The owning tenant.
    pub tenant: TenantId,
    /// Its id within kind and tenant.
    pub id: String,
    /// How often it was written; the store counts.
    pub version: u64,
    /// When it was made, in milliseconds since the Unix epoch; it does not change.
    pub order_ms: u64,
    /// The sealed body.
    pub body: Vec<u8>,
    /// What it is found by.
    pub terms: Vec<Term>,
    /// What it is found by, in ranges.
    pub numbers: Vec<(Field, u64)>,
    /// Values that no other record of the kind may have.
    pub uniques: Vec<Unique>,
}

/// How a write expects to find the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Not there.
    Absent,
    /// At this version.
    Version(u64),
    /// Not there, and nobody could have made it: its id was drawn at random.
    New,
    /// As [`Self::New`], and seldom asked for by its id or written again: the store may keep it in one row with others that
    /// are put at the same time.
    Lasting,
    /// As [`Self::Lasting`], and a log entry: it goes to the end of its tenant's chain, with this digest of its text. Entries
    /// of one batch should have ids between which hardly any other falls.
    Chained(TextDigest),
    /// However it is.
    Any,
}

impl Expect {
    /// Whether it is not to be there.
    pub fn is_absent(self) -> bool {
        match self {
            Self::Absent | Self::New | Self::Lasting | Self::Chained(_) => true,
            Self::Version(_) | Self::Any => false,
        }
    }

    /// Whether nobody could have made it.
    pub fn is_drawn(self) -> bool {
        self.is_absent() && self != Self::Absent
    }

    /// Whether it may lie in one row with others.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::Lasting | Self::Chained(_))
    }
}

/// A record to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The record; its version is the store's to set.
    pub record: Record,
    /// How it expects to find it.
    pub expect: Expect,
}

/// A record to be removed. One that is not there is a conflict, unless anything is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its kind.
    pub kind: Kind,
    /// The owning tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: String,
    /// How it expects to find it.
    pub expect: Expect,
}

/// Changes that belong together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// What is stored; each record at most once.
    pub puts: Vec<Put>,
    /// What is removed.
    pub removals: Vec<Removal>,
    /// Whether it may take the disk's last space: what reading and removing write, and what is owed for what was
    /// done already.
    pub urgent: bool,
    /// Whose it is, where nothing in it tells.
    pub of: Option<TenantId>,
    /// Whether it waits for what is left of what was removed, too.
    pub clears: bool,
}

impl Batch {
    /// Changes nothing, also on a full disk: whoever waits for it knows that all before it is there.
    pub fn nothing() -> Self {
        Self { urgent: true, ..Self::default() }
    }

    /// The same, of whoever waits until nothing is left of what was removed before.
    pub fn cleared() -> Self {
        Self { clears: true, ..Self::nothing() }
    }

    /// The same, of one tenant's: others' need not be there.
    pub fn nothing_of(tenant: TenantId) -> Self {
        Self { of: Some(tenant), ..Self::nothing() }
    }
}
