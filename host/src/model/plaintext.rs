//! Sensitive values.
//!
//! The one type that holds a token's `data` in clear. It has no `Serialize` and no `Display`, its `Debug` shows
//! nothing, and it wipes its text when dropped. Whoever needs the value calls [`Plaintext::expose`]; searching for
//! that name finds every reader.

use std::fmt;

use serde_json::Value;
use zeroize::Zeroize;

/// A token's `data` in clear.
#[derive(Clone, PartialEq)]
pub struct Plaintext(Value);

impl Plaintext {
    /// Takes a value under guard.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// Removes and wipes a member of an object.
    pub fn remove_member(&mut self, name: &str) -> bool {
        let removed = self.0.as_object_mut().and_then(|members| members.remove(name));
        let is_removed = removed.is_some();
        if let Some(mut member) = removed {
            wipe(&mut member);
        }
        is_removed
    }

    /// The value itself.
    pub fn expose(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plaintext(..)")
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites every text in `value`, member names included.
pub fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(members) => {
            for (mut name, mut member) in std::mem::take(members) {
                name.zeroize();
                wipe(&mut member);
            }
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => *value = Value::Null,
    }
}

/// Gives types that hold what nobody is to see a `Debug` that shows their names and nothing else.
macro_rules! opaque {
    ($($name:ident),+ $(,)?) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )+};
}

pub(crate) use opaque;

#[cfg(test)]
mod tests {
    use super::{Plaintext, wipe};
    use serde_json::json;

    struct Card(#[expect(dead_code, reason = "it is not shown")] &'static str);
    opaque!(Card);

    #[test]
    fn debug_shows_nothing() {
        let plaintext = Plaintext::new(json!({"number": "4242424242424242"}));
        assert_eq!(format!("{plaintext:?}"), "Plaintext(..)");
        assert_eq!(format!("{:?}", Some(Card("4242424242424242"))), "Some(Card(..))");
    }

    #[test]
    fn wiping_leaves_no_text() {
        let mut value = json!({"a": ["secret", {"b": "secret"}], "c": 42});
        wipe(&mut value);
        assert_eq!(value, json!({}));
    }
}
