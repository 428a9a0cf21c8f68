//! Terms and numbers by which records are found.
//!
//! Every term is a keyed hash over tenant key, field and value: the store and whoever steals it see neither. Numbers
//! (times) are kept as they are, since ranges need their order.
//!
//! To index a new field: a row in [`term`] or [`number`], used both where the entity is indexed and where it is
//! searched.

use zeroize::Zeroizing;

use crate::crypto::hash;
use crate::crypto::keys::TenantKeys;
use crate::model::case::{Fold, caseless};
use crate::store::{Field, Term, Unique};

/// Fields of terms. The text goes into the hash: it must not change.
pub mod term {
    /// A token's type.
    pub const TYPE: &str = "type";
    /// A token's fingerprint.
    pub const FINGERPRINT: &str = "fingerprint";
    /// A container of a token, itself.
    pub const CONTAINER: &str = "container";
    /// A container of a token, or one above it.
    pub const CONTAINER_WITHIN: &str = "container within";
    /// A metadata value; its key follows.
    pub const METADATA: &str = "metadata";
    /// A value of a search index.
    pub const DATA: &str = "data";
    /// Who made it.
    pub const CREATED_BY: &str = "created_by";
    /// Who changed it last.
    pub const MODIFIED_BY: &str = "modified_by";
    /// A piece of the name of a reactor or formula.
    pub const NAME_PIECE: &str = "name piece";
    /// That the pieces of the name are terms.
    pub const NAMED: &str = "named";
    /// The formula of a reactor.
    pub const FORMULA: &str = "formula";
    /// The application of a reactor.
    pub const APPLICATION: &str = "application";
    /// The reactor of an invocation, and of a job that waits.
    pub const REACTOR: &str = "reactor";
    /// Where a job stands that has not ended.
    pub const JOB_STATUS: &str = "job_status";
    /// The receiver of a delivery that waits.
    pub const RECEIVER: &str = "receiver";
    /// The type of entity that a log entry is about.
    pub const ENTITY_TYPE: &str = "entity_type";
    /// The id of the entity that a log entry is about.
    pub const ENTITY_ID: &str = "entity_id";
    /// The application or session whose act a log entry tells of.
    pub const ACTOR: &str = "actor";
}

/// Fields of numbers.
pub mod number {
    use crate::store::Field;

    /// When it was last changed.
    pub const MODIFIED_AT: Field = Field(2);
    /// When it ends.
    pub const EXPIRES_AT: Field = Field(3);
    /// When a part of it is to be erased.
    pub const TRANSIENT_UNTIL: Field = Field(4);
    /// When it is to be tried next.
    pub const DUE_AT: Field = Field(5);
}

/// What one record is found by: terms, numbers, and values that no other one has.
pub type FoundBy = (Vec<Term>, Vec<(Field, u64)>, Vec<Unique>);

/// Collects what one record is found by.
pub struct Index<'k> {
    keys: &'k TenantKeys,
    /// How texts are compared ignoring case.
    fold: Fold,
    terms: Vec<Term>,
    numbers: Vec<(Field, u64)>,
    uniques: Vec<Unique>,
}

impl<'k> Index<'k> {
    /// Nothing yet.
    pub fn new(keys: &'k TenantKeys) -> Self {
        Self { keys, fold: caseless, terms: Vec::new(), numbers: Vec::new(), uniques: Vec::new() }
    }

    /// Nothing yet, of a record of a time when texts were folded in this way.
    pub fn folding(keys: &'k TenantKeys, fold: Fold) -> Self {
        Self { fold, ..Self::new(keys) }
    }

    /// Adds a term: a field of [`term`], and the value in one or more parts.
    pub fn term(&mut self, field: &str, value: &[&str]) {
        let term = term_of(self.keys, field, value);
        if !self.terms.contains(&term) {
            self.terms.push(term);
        }
    }

    /// Adds a term of a text that is found ignoring case, under a name.
    pub fn caseless_term(&mut self, field: &str, name: &[&str], text: &str) {
        let folded = (self.fold)(text);
        self.term(field, &[name, &[&folded]].concat());
    }

    /// A text as it is compared ignoring case.
    pub fn folded(&self, text: &str) -> Zeroizing<String> {
        (self.fold)(text)
    }

    /// Adds a number.
    pub fn number(&mut self, field: Field, value: u64) {
        self.numbers.push((field, value));
    }

    /// Adds a value that no other record of the kind may have.
    pub fn unique(&mut self, unique: Unique) {
        self.uniques.push(unique);
    }

    /// Adds a value that no other record of the kind in this tenant may have.
    pub fn unique_value(&mut self, field: &str, value: &[&str]) {
        let mut parts = vec![b"unique".as_slice(), field.as_bytes()];
        parts.extend(value.iter().map(|part| part.as_bytes()));
        self.uniques.push(Unique(hash::keyed(&self.keys.index, &parts)));
    }

    /// What was collected.
    pub fn into_parts(self) -> FoundBy {
        (self.terms, self.numbers, self.uniques)
    }
}

/// The term for a field's value.
pub fn term_of(keys: &TenantKeys, field: &str, value: &[&str]) -> Term {
    let mut parts = Vec::with_capacity(1 + value.len());
    parts.push(field.as_bytes());
    parts.extend(value.iter().map(|part| part.as_bytes()));
    Term(hash::term(&keys.index, &parts))
}
