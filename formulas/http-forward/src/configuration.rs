//! The members of the configuration, each read by itself: what is wrong with one hides nothing of the others.
//!
//! Knows nothing of what they mean, see `settings`. Null is absent.

use tokamak_sdk::{Faults, Map, Value};

/// The configuration, while it is being checked.
pub(crate) struct Members<'v, 'f> {
    members: &'v Map<String, Value>,
    faults: &'f mut Faults,
}

impl<'v, 'f> Members<'v, 'f> {
    /// The members of the configuration; none when it is no object.
    pub(crate) fn of(configuration: &'v Value, faults: &'f mut Faults) -> Option<Self> {
        let members = configuration.as_object();
        let members = faults.expect(members, "configuration", "must be an object")?;
        Some(Self { members, faults })
    }

    /// Whether there is such a member, right or wrong.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Notes what is wrong with a member.
    pub(crate) fn fault(&mut self, name: &str, message: &str) {
        self.faults.add(format!("configuration.{name}"), message);
    }

    /// What `read` makes of a member, or that it is not `expected`. Without a value for its absence it is required.
    pub(crate) fn value<T>(
        &mut self,
        name: &str,
        absent: Option<T>,
        read: impl FnOnce(&Value) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let (value, message) = match self.get(name) {
            Some(value) => (read(value), expected),
            None => (absent, "is required"),
        };
        if value.is_none() {
            self.fault(name, message);
        }
        value
    }

    /// The same for a text.
    pub(crate) fn text<T>(
        &mut self,
        name: &str,
        absent: Option<T>,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let is_text = self.get(name).is_none_or(Value::is_string);
        let expected = if is_text { expected } else { "must be a string" };
        self.value(name, absent, |value| read(value.as_str()?), expected)
    }

    fn get(&self, name: &str) -> Option<&'v Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }
}
