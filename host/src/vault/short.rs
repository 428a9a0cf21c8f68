//! Texts in short: what is written or read with every request is sealed in postcard's wire format instead of JSON.
//!
//! A byte for the format, then members in their order, which is theirs for good: nothing in the text names them. Ids are
//! their 16 bytes, times their milliseconds, and what has a name keeps it, so that no name ever stands for another one.
//! Before this format the same entities were JSON, which never begins with that byte; they are read as they were.
//!
//! To keep another entity so: a struct with its members, [`write`] and [`read`], and a test of its layout.

use std::borrow::Cow;

use postcard::ser_flavors::Flavor;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error as NameError;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Error;
use crate::crypto::wiped::WipedBuffer;

/// What a text begins with that is no JSON.
const FORMAT: u8 = 1;

/// An id of anything. Most are drawn.
#[derive(Serialize, Deserialize)]
pub enum Id<'a> {
    /// As its 16 bytes.
    Drawn(Uuid),
    /// As it is.
    Named(&'a str),
}

impl<'a> Id<'a> {
    /// The id that is written so.
    pub fn of(text: &'a str) -> Self {
        // Braces and capitals are read as well, but would not come back.
        let drawn = Uuid::try_parse(text).ok();
        let comes_back =
            |id: &Uuid| *id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        drawn.filter(comes_back).map_or(Self::Named(text), Self::Drawn)
    }

    /// How it is written.
    pub fn to_text(&self) -> Cow<'a, str> {
        match self {
            Self::Drawn(id) => Cow::Owned(id.to_string()),
            Self::Named(text) => Cow::Borrowed(text),
        }
    }
}

/// Where postcard writes.
struct Sink(WipedBuffer);

impl Flavor for Sink {
    type Output = WipedBuffer;

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend(bytes);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn finalize(self) -> postcard::Result<WipedBuffer> {
        Ok(self.0)
    }
}

/// Writes an entity in short. There is room for so many bytes, which should be enough for most.
pub fn write(short: &impl Serialize, usual_bytes: usize) -> Result<WipedBuffer, Error> {
    let mut text = Sink(WipedBuffer::with_capacity(usual_bytes));
    text.try_push(FORMAT).map_err(Error::internal)?;
    postcard::serialize_with_flavor(short, text).map_err(Error::internal)
}

/// Reads an entity in short, and what follows it; `None` if it is JSON.
pub fn begin<'t, T: Deserialize<'t>>(text: &'t [u8]) -> Result<Option<(T, &'t [u8])>, Error> {
    match text.split_first() {
        Some((&FORMAT, short)) => {
            postcard::take_from_bytes(short).map(Some).map_err(Error::internal)
        }
        _ => Ok(None),
    }
}

/// Reads an entity that nothing follows; `None` if it is JSON.
pub fn read<'t, T: Deserialize<'t>>(text: &'t [u8]) -> Result<Option<T>, Error> {
    match begin(text)? {
        Some((short, [])) => Ok(Some(short)),
        Some(_) => Err(Error::internal("an entity goes on behind its end")),
        None => Ok(None),
    }
}

/// What has this name in JSON too.
pub fn named<'n, T: Deserialize<'n>>(name: &'n str) -> Result<T, Error> {
    T::deserialize(name.into_deserializer()).map_err(|error: NameError| Error::internal(error))
}

/// Asserts that an entity is read from both texts, in short and as JSON, and from no other that is like the former: what
/// is cut off before its end, or goes on behind it, is refused.
#[cfg(test)]
pub fn assert_comes_back<T: PartialEq + std::fmt::Debug>(
    kept: &T,
    [short, json]: [&[u8]; 2],
    cut: usize,
    read: impl Fn(&[u8]) -> Result<T, Error>,
) {
    assert_eq!(&read(short).unwrap(), kept);
    assert_eq!(&read(json).unwrap(), kept);
    assert!(read(&short[..cut]).is_err());
    assert!(read(&[short, b"x"].concat()).is_err());
}
