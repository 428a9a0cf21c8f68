//! The members of an object of the request, each read by itself: what is wrong with one hides nothing of the others.
//!
//! Knows nothing of what they mean. Paths are written for faults alone: a file has thousands of entries.

use tokamak_sdk::{Faults, Map, Value};

/// An object, while it is being checked.
pub(crate) struct Members<'v, 'f> {
    given: &'v Map<String, Value>,
    /// Where the object is in the request.
    path: String,
    faults: &'f mut Faults,
}

impl<'v, 'f> Members<'v, 'f> {
    /// The members of what is at `path`; none when it is no object.
    pub(crate) fn of(value: &'v Value, path: String, faults: &'f mut Faults) -> Option<Self> {
        let members = faults.expect(value.as_object(), &path, "must be an object")?;
        Some(Self { given: members, path, faults })
    }

    /// A member, if there is one of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'v Value> {
        self.given.get(name)
    }

    /// Keeps what was read of a member, or notes that it should have been `expected`.
    pub(crate) fn expect<T>(&mut self, name: &str, read: Option<T>, expected: &str) -> Option<T> {
        if read.is_none() {
            self.faults.add(format!("{}.{name}", self.path), expected);
        }
        read
    }

    /// A member that there must be.
    pub(crate) fn required(&mut self, name: &str) -> Option<&'v Value> {
        self.expect(name, self.get(name), "is required")
    }

    /// The members of a member.
    pub(crate) fn object(&mut self, name: &str) -> Option<Members<'v, '_>> {
        let value = self.required(name)?;
        Members::of(value, format!("{}.{name}", self.path), self.faults)
    }

    /// The items of a member.
    pub(crate) fn array(&mut self, name: &str) -> Option<&'v [Value]> {
        let items = self.required(name)?.as_array();
        self.expect(name, items, "must be an array").map(Vec::as_slice)
    }

    /// What `read` makes of a text.
    pub(crate) fn text<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let text = self.required(name)?.as_str();
        let text = self.expect(name, text, "must be a string")?;
        self.expect(name, read(text), expected)
    }

    /// The same; `absent` when there is none, or null.
    pub(crate) fn text_or<T>(
        &mut self,
        name: &str,
        absent: T,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        match self.get(name) {
            None | Some(Value::Null) => Some(absent),
            Some(_) => self.text(name, read, expected),
        }
    }

    /// One of a few texts; whatever else it is, those are what was expected.
    pub(crate) fn choice<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let chosen = self.required(name)?.as_str().and_then(read);
        self.expect(name, chosen, expected)
    }
}
