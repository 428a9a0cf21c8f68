//! Search queries (interface §4.2, decisions §5): from text to a tree of terms.
//!
//! The one place that knows pest. Pure: what a field means and how it is found is the vault's affair.
//!
//! A query is hostile until it is read: its length, nesting and number of terms are bounded before anything recurses,
//! and no message repeats any of it, since people search for what they must not write down.
//!
//! To add a searchable field: a row in [`Field`], and its meaning where the vault lowers terms to filters.

mod error;
mod grammar;
mod read;
#[cfg(test)]
mod tests;

pub use error::QueryError;
pub use read::parse;

use crate::model::time::Timestamp;

/// A query, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// One term.
    Term(Term),
    /// All of these.
    And(Vec<Query>),
    /// One of these.
    Or(Vec<Query>),
    /// Not this.
    Not(Box<Query>),
}

/// A field with what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// The field has this value.
    Text(TextField, String),
    /// One of the token's containers is this one.
    Container(String),
    /// One of the token's containers is this one or lies below it.
    ContainerWithin(String),
    /// The time lies in the range, both ends included.
    Time {
        /// Which time.
        field: TimeField,
        /// From here; open when absent.
        from: Option<Timestamp>,
        /// To here; open when absent.
        to: Option<Timestamp>,
    },
    /// Nothing can match: a range whose end lies before its start.
    Nothing,
}

/// A field that is compared as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextField {
    /// `id`
    Id,
    /// `type`
    Type,
    /// `data`: one of the values that the token's search indexes evaluated to.
    Data,
    /// `fingerprint`
    Fingerprint,
    /// `metadata.<key>`
    Metadata(String),
    /// `created_by`
    CreatedBy,
    /// `modified_by`
    ModifiedBy,
}

/// A field that is a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeField {
    /// `created_at`
    CreatedAt,
    /// `modified_at`
    ModifiedAt,
}

/// A searchable field, by its name in a query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Text(TextField),
    Container,
    Time(TimeField),
}

impl Field {
    /// Every name that is no `metadata.<key>`, for messages too.
    const NAMES: &[&str] = &[
        "id",
        "type",
        "data",
        "fingerprint",
        "container",
        "created_by",
        "created_at",
        "modified_by",
        "modified_at",
    ];

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "id" => Self::Text(TextField::Id),
            "type" => Self::Text(TextField::Type),
            "data" => Self::Text(TextField::Data),
            "fingerprint" => Self::Text(TextField::Fingerprint),
            "created_by" => Self::Text(TextField::CreatedBy),
            "modified_by" => Self::Text(TextField::ModifiedBy),
            "container" => Self::Container,
            "created_at" => Self::Time(TimeField::CreatedAt),
            "modified_at" => Self::Time(TimeField::ModifiedAt),
            name => {
                let key = name.strip_prefix("metadata.").filter(|key| !key.is_empty())?;
                Self::Text(TextField::Metadata(key.to_owned()))
            }
        })
    }
}
