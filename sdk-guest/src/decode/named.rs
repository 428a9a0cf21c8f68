//! How much of a path a type itself names. What else there is of it stood in the request, and may be data: keys of maps,
//! and members that nobody asked for.

use std::cell::Cell;

use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_path_to_error::Segment;

/// How many steps of a path, from the first on, are fields of the type's structs and places in its lists.
pub(super) fn steps_of<T: DeserializeOwned>(path: &[Segment]) -> usize {
    let named = Cell::new(0);
    // It never comes to a value.
    let _ = T::deserialize(Steps { path, named: &named });
    named.get()
}

/// Leads a type along a path, on which it says what it takes.
#[derive(Clone, Copy)]
struct Steps<'p> {
    path: &'p [Segment],
    named: &'p Cell<usize>,
}

impl Steps<'_> {
    /// What is behind a step that the type names.
    fn behind(self) -> Self {
        self.named.set(self.named.get() + 1);
        Self { path: self.path.get(1..).unwrap_or_default(), ..self }
    }

    fn end() -> Error {
        Error::custom("nothing more is named")
    }
}

impl<'de> Deserializer<'de> for Steps<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Self::end())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Some(Segment::Map { key }) = self.path.first() else { return Err(Self::end()) };
        match fields.iter().find(|field| *field == key) {
            Some(field) => visitor.visit_map(Below { name: Some(field), steps: self.behind() }),
            None => Err(Self::end()),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.path.first() {
            // All items of a list are of one type.
            Some(Segment::Seq { .. }) => {
                visitor.visit_seq(Below { name: Some(""), steps: self.behind() })
            }
            _ => Err(Self::end()),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct map enum identifier ignored_any
    }
}

/// The one member or item on the path.
struct Below<'p> {
    name: Option<&'static str>,
    steps: Steps<'p>,
}

impl<'de> MapAccess<'de> for Below<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let name = self.name.take().ok_or_else(Steps::end)?;
        seed.deserialize(serde::de::value::StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.steps)
    }
}

impl<'de> SeqAccess<'de> for Below<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        // There is one, whatever its type makes of it.
        if self.name.take().is_none() {
            return Ok(None);
        }
        seed.deserialize(self.steps).map(Some)
    }
}
