//! Reading a request struct from a body in which numbers would be rounded.
//!
//! Such a body is refused in the end, but not before everything else that is wrong with it is found. So each member takes
//! along what is wrong with its numbers: a [`Member`] asks for itself as a newtype, and may get a pair.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer as _};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Error, Value, json};

use super::{FromJson, Member, NO_OBJECT, UNREADABLE};
use crate::model::faults::Faults;

/// As [`super::read`], of a body whose numbers have these faults.
pub fn read_inexact<T: DeserializeOwned>(body: Value, mut inexact: Faults) -> Result<T, Faults> {
    if inexact.is_empty() {
        return super::read(body);
    }
    // A fault that is not kept any more would be no member's, and its number be taken.
    if inexact.are_cut_short() {
        return Err(inexact);
    }
    let Value::Object(members) = body else {
        inexact.add("", NO_OBJECT);
        return Err(inexact);
    };
    let (name, value) = (String::new(), Value::Null);
    let members = Members { rest: members.into_iter(), name, value, inexact };
    T::deserialize(Body(members)).map_err(|_| Faults::one("", UNREADABLE))
}

impl<'de, T: FromJson> Deserialize<'de> for Member<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct("Member", OfMember(PhantomData))
    }
}

struct OfMember<T>(PhantomData<T>);

impl<'de, T: FromJson> Visitor<'de> for OfMember<T> {
    type Value = Member<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member of a body")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, plain: D) -> Result<Member<T>, D::Error> {
        Ok(match Value::deserialize(plain)? {
            Value::Null => Member::Null,
            value => T::from_json(value).map_or_else(Member::Faulty, Member::Given),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Member<T>, A::Error> {
        let value = pair.next_element::<Value>()?;
        let told = pair.next_element::<BTreeMap<String, Vec<String>>>()?;
        let (Some(value), Some(told)) = (value, told) else {
            return Err(A::Error::custom("a member of a body is a pair here"));
        };
        let mut inexact = Faults::new();
        for (path, messages) in told {
            for message in messages {
                inexact.add(path.as_str(), message);
            }
        }
        // Of a number itself nothing is left to find.
        if value.is_number() {
            return Ok(Member::Faulty(inexact));
        }
        Ok(match T::from_json(value) {
            Ok(value) => Member::Inexact(value, inexact),
            Err(others) => {
                inexact.extend_under("", others);
                Member::Faulty(inexact)
            }
        })
    }
}

/// A body whose members take along what is wrong with their numbers.
struct Body(Members);

impl<'de> Deserializer<'de> for Body {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.0)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Members {
    rest: serde_json::map::IntoIter,
    name: String,
    value: Value,
    inexact: Faults,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        (self.name, self.value) = (name, value);
        seed.deserialize(self.name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = std::mem::take(&mut self.value);
        let inexact = self.inexact.below(&self.name);
        if inexact.is_empty() {
            return seed.deserialize(value);
        }
        seed.deserialize(Pair(value, inexact))
    }
}

/// A member, and what is wrong with its numbers.
struct Pair(Value, Faults);

impl<'de> Deserializer<'de> for Pair {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let pair = [self.0, json!(self.1.into_map())];
        visitor.visit_seq(SeqDeserializer::new(pair.into_iter()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::read_inexact;
    use crate::limits::FAULTS_MAX;
    use crate::model::faults::Faults;
    use crate::model::member::Member;

    #[derive(Deserialize)]
    struct Two {
        #[serde(default)]
        one: Member<Value>,
        #[serde(default)]
        other: Member<Value>,
    }

    fn read(named: usize) -> Result<Two, Faults> {
        let mut inexact = Faults::new();
        for number in 0..named {
            inexact.add(format!("one[{number}]"), "is inexact");
        }
        inexact.add("other[0]", "is inexact");
        read_inexact(json!({"one": [1, 2], "other": [3]}), inexact)
    }

    #[test]
    fn no_member_is_taken_whose_fault_is_not_kept() {
        let Two { one, other } = read(FAULTS_MAX - 1).ok().unwrap();
        assert!(matches!((one, other), (Member::Inexact(..), Member::Inexact(..))));
        assert!(read(FAULTS_MAX).is_err());
    }
}
