//! Members of a request body, read so that every fault is found at once.
//!
//! `serde` stops at the first wrong type and quotes the value; here a member that does not fit becomes a
//! [`Member::Faulty`], with fixed text, and the reading goes on. Request structs derive `Deserialize` with every
//! field a `#[serde(default)] Member<T>`.
//!
//! To take a new type from requests: implement [`FromJson`] for it.

mod inexact;

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Value};

use super::faults::Faults;
use crate::limits::FAULTS_MAX;

pub use inexact::read_inexact;

const NO_OBJECT: &str = "the body must be a JSON object";
const UNREADABLE: &str = "the body cannot be read";

/// A member of a body: absent, `null`, a value, or faulty.
#[derive(Clone, Default)]
pub enum Member<T> {
    /// The body has no such member.
    #[default]
    Absent,
    /// The member is `null`.
    Null,
    /// The member fits.
    Given(T),
    /// The member fits, but numbers in it would be rounded: only what else is wrong with it is still to be found.
    Inexact(T, Faults),
    /// The member does not fit.
    Faulty(Faults),
}

/// Says which it is and not what it holds: that may be a token's data.
impl<T> fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "Absent",
            Self::Null => "Null",
            Self::Given(_) => "Given(..)",
            Self::Inexact(..) => "Inexact(..)",
            Self::Faulty(_) => "Faulty(..)",
        })
    }
}

/// What can be read from JSON with faults in fixed words.
pub trait FromJson: Sized {
    /// Reads the value; faults are at paths relative to it.
    fn from_json(value: Value) -> Result<Self, Faults>;
}

impl<T> Member<T> {
    /// The value; a fault when there is none.
    pub fn required(self, path: &str, faults: &mut Faults) -> Option<T> {
        if matches!(self, Self::Absent | Self::Null) {
            faults.add(path, "is required");
        }
        self.optional(path, faults)
    }

    /// The value, if any; `null` counts as absent.
    pub fn optional(self, path: &str, faults: &mut Faults) -> Option<T> {
        match self {
            Self::Absent | Self::Null => None,
            Self::Given(value) => Some(value),
            Self::Inexact(value, inner) => {
                faults.extend_under(path, inner);
                Some(value)
            }
            Self::Faulty(inner) => {
                faults.extend_under(path, inner);
                None
            }
        }
    }
}

impl<T> Member<T> {
    /// Whether there is a value, however faulty.
    pub fn is_there(&self) -> bool {
        !matches!(self, Self::Absent | Self::Null)
    }

    /// A value, or absence.
    pub fn given(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Given)
    }

    /// This member of a patch over what was there before: `null` leaves it absent.
    #[must_use]
    pub fn or(self, before: impl FnOnce() -> T) -> Self {
        self.or_maybe(|| Some(before()))
    }

    /// As [`Self::or`], over what may not have been there.
    #[must_use]
    pub fn or_maybe(self, before: impl FnOnce() -> Option<T>) -> Self {
        match self {
            Self::Absent => Self::given(before()),
            Self::Null => Self::Absent,
            given => given,
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> Member<Text<T>> {
    /// The parsed text of a required member.
    pub fn required_text(self, path: &str, faults: &mut Faults) -> Option<T> {
        self.required(path, faults).map(|Text(value)| value)
    }
}

/// A string with a rule of its own.
#[derive(Debug, Clone)]
pub struct Text<T>(pub T);

impl<T: FromStr<Err: fmt::Display>> FromJson for Text<T> {
    fn from_json(value: Value) -> Result<Self, Faults> {
        let text = String::from_json(value)?;
        text.parse().map(Self).map_err(|error: T::Err| Faults::one("", error.to_string()))
    }
}

impl FromJson for Value {
    fn from_json(value: Value) -> Result<Self, Faults> {
        Ok(value)
    }
}

impl FromJson for String {
    fn from_json(value: Value) -> Result<Self, Faults> {
        match value {
            Value::String(text) => Ok(text),
            _ => Err(Faults::one("", "must be a string")),
        }
    }
}

impl FromJson for bool {
    fn from_json(value: Value) -> Result<Self, Faults> {
        value.as_bool().ok_or_else(|| Faults::one("", "must be true or false"))
    }
}

/// A whole number that is not negative. `2.0` is one too: JSON has one kind of number only, and clients whose
/// numbers are floats send it.
pub fn whole(value: &Value) -> Option<u64> {
    // A float without a fraction is written without a point.
    value.as_u64().or_else(|| value.as_f64()?.to_string().parse().ok())
}

impl FromJson for u32 {
    fn from_json(value: Value) -> Result<Self, Faults> {
        // What 64 bits do not hold is read as a double.
        let is_huge = value.as_f64().is_some_and(|n| n >= 2_f64.powi(64));
        let wrong = if is_huge {
            "is too large a number"
        } else {
            "must be a whole number that is not negative"
        };
        let number = whole(&value).ok_or(wrong);
        // What the member's own bound would say is not known here.
        let number = number.and_then(|n| Self::try_from(n).map_err(|_| "is too large a number"));
        number.map_err(|reason| Faults::one("", reason))
    }
}

impl FromJson for Map<String, Value> {
    fn from_json(value: Value) -> Result<Self, Faults> {
        match value {
            Value::Object(members) => Ok(members),
            _ => Err(Faults::one("", "must be an object")),
        }
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: Value) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let items = items(array(value)?, &mut faults);
        faults.into_result(items.into_iter().flatten().collect())
    }
}

/// An array of at least and at most so many entries. Where it has too many or too few, what is wrong with each is told as
/// well, of the first ones.
#[derive(Debug, Clone, Default)]
pub struct Few<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T: FromJson, const MIN: usize, const MAX: usize> FromJson for Few<T, MIN, MAX> {
    fn from_json(value: Value) -> Result<Self, Faults> {
        let Partly::<T, MIN, MAX> { entries, faults } = Partly::from_json(value)?;
        faults.into_result(Self(entries.into_iter().flatten().collect()))
    }
}

/// As [`Few`], for whoever has more to say of the entries: a faulty one hides none of that.
#[derive(Clone, Default)]
pub struct Partly<T, const MIN: usize, const MAX: usize> {
    entries: Vec<Option<T>>,
    faults: Faults,
}

impl<T, const MIN: usize, const MAX: usize> Partly<T, MIN, MAX> {
    /// Entries that are all as they must be.
    pub fn of(entries: impl IntoIterator<Item = T>) -> Self {
        Self { entries: entries.into_iter().map(Some).collect(), faults: Faults::new() }
    }

    /// The entries at their places, none for each that is faulty; what is wrong is noted at `path`.
    pub fn entries(self, path: &str, faults: &mut Faults) -> Vec<Option<T>> {
        faults.extend_under(path, self.faults);
        self.entries
    }
}

impl<T: FromJson, const MIN: usize, const MAX: usize> FromJson for Partly<T, MIN, MAX> {
    fn from_json(value: Value) -> Result<Self, Faults> {
        let mut values = array(value)?;
        let mut faults = Faults::new();
        if !(MIN..=MAX).contains(&values.len()) {
            let range = if MIN == 0 { "at most".to_owned() } else { format!("{MIN} to") };
            faults.add("", format!("must have {range} {MAX} entries"));
            // Reading one may take long, and more faults are not named.
            values.truncate(FAULTS_MAX);
        }
        let entries = items(values, &mut faults);
        Ok(Self { entries, faults })
    }
}

fn array(value: Value) -> Result<Vec<Value>, Faults> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(Faults::one("", "must be an array")),
    }
}

/// The entries at their places, none for each that is faulty.
fn items<T: FromJson>(values: Vec<Value>, faults: &mut Faults) -> Vec<Option<T>> {
    let read = |(index, value)| faults.take(&format!("[{index}]"), T::from_json(value));
    values.into_iter().enumerate().map(read).collect()
}

/// Reads a request struct, all of whose fields are [`Member`]s, from a body.
pub fn read<T: DeserializeOwned>(body: Value) -> Result<T, Faults> {
    if !body.is_object() {
        return Err(Faults::one("", NO_OBJECT));
    }
    // A struct of `Member`s takes any object: nothing is left that could fail.
    T::deserialize(body).map_err(|_| Faults::one("", UNREADABLE))
}

/// The names of the members that a request struct reads; `None` when it takes any.
pub fn names_of<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut names = None;
    // It fails on purpose: nothing is to be read but the names, which a struct gives when it asks for its members.
    let _ = T::deserialize(Names(&mut names));
    names
}

struct Names<'n>(&'n mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = Some(names);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::{FromJson as _, Member, Text, names_of, read, whole};
    use crate::model::container::Container;
    use crate::model::faults::Faults;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    #[serde(default)]
    struct Form {
        name: Member<String>,
        count: Member<u32>,
        containers: Member<Vec<Text<Container>>>,
    }

    impl Default for Form {
        fn default() -> Self {
            Self { name: Member::Absent, count: Member::Absent, containers: Member::Absent }
        }
    }

    #[test]
    fn every_fault_is_found_and_none_quotes_the_value() {
        let body = json!({"name": 4242, "count": -1, "containers": ["/a/", "secret", 3], "x": 1});
        let form: Form = read(body).unwrap();
        let mut faults = Faults::new();
        assert_eq!(form.name.required("name", &mut faults), None);
        assert_eq!(form.count.optional("count", &mut faults), None);
        assert!(form.containers.optional("containers", &mut faults).is_none());
        let map = faults.into_map();
        assert_eq!(
            map.keys().collect::<Vec<_>>(),
            ["containers[1]", "containers[2]", "count", "name"]
        );
        assert!(!format!("{map:?}").contains("secret"));
    }

    #[test]
    fn whole_numbers_however_they_are_written() {
        for (value, expected) in
            [(json!(2), 2), (json!(2.0), 2), (json!(0), 0), (json!(4e9), 4_000_000_000)]
        {
            assert_eq!(whole(&value), Some(expected), "{value}");
        }
        for wrong in [json!(2.5), json!(-1), json!(-1.0), json!(1e300), json!("2"), json!(null)] {
            assert_eq!(whole(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_whole_number_that_is_too_large_is_said_to_be_so() {
        for (text, reason) in [
            ("4294967296", "is too large a number"),
            ("1000000000000000000000000000000", "is too large a number"),
            ("1e300", "is too large a number"),
            ("-1000000000000000000000000000000", "must be a whole number that is not negative"),
            ("1.5", "must be a whole number that is not negative"),
        ] {
            let faults = u32::from_json(serde_json::from_str(text).unwrap()).unwrap_err();
            assert_eq!(faults.into_map()[""], [reason], "{text}");
        }
    }

    #[test]
    fn a_struct_tells_what_it_reads() {
        assert_eq!(names_of::<Form>(), Some(&["name", "count", "containers"][..]));
        assert_eq!(names_of::<serde_json::Value>(), None);
    }

    #[test]
    fn absent_and_null() {
        let form: Form = read(json!({"name": null})).unwrap();
        let mut faults = Faults::new();
        assert_eq!(form.count.optional("count", &mut faults), None);
        assert!(faults.is_empty());
        assert_eq!(form.name.required("name", &mut faults), None);
        assert_eq!(faults.into_map()["name"], ["is required"]);
        assert!(read::<Form>(json!([1])).is_err());
    }
}
