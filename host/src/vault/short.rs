//! Texts in short: what is written or read with every request is sealed in postcard's wire format instead of JSON.
//!
//! A byte for the format, then members in their order, which is theirs for good: nothing in the text names them. Ids are
//! their 16 bytes, times their milliseconds, and what has a name keeps it, so that no name ever stands for another one.
//! Before this format the same entities were JSON, which never begins with that byte; they are read as they were.
//!
//! To keep another entity so: a struct with its members, [`write`], [`begin`] and [`end`], and a test of its layout. To keep
//! another member of one: [`go_on`] behind the others, and [`end`]. What earlier versions would not read needs another format
//! of the store too (`store/sled/format.rs`): they are to refuse it, and not to call it damaged.

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
    /// As its 16 bytes too, of one that is written without hyphens, as trace ids are.
    Plain(Uuid),
}

impl<'a> Id<'a> {
    /// The id that is written so.
    pub fn of(text: &'a str) -> Self {
        // Braces and capitals are read as well, but would not come back.
        let Ok(id) = Uuid::try_parse(text) else { return Self::Named(text) };
        let mut written = Uuid::encode_buffer();
        if *id.hyphenated().encode_lower(&mut written) == *text {
            Self::Drawn(id)
        } else if *id.simple().encode_lower(&mut written) == *text {
            Self::Plain(id)
        } else {
            Self::Named(text)
        }
    }

    /// How it is written.
    pub fn to_text(&self) -> Cow<'a, str> {
        match self {
            Self::Drawn(id) => Cow::Owned(id.to_string()),
            Self::Named(text) => Cow::Borrowed(text),
            Self::Plain(id) => Cow::Owned(id.simple().to_string()),
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

/// Writes a member behind all others, which may be missing: one that came later.
pub fn go_on(text: WipedBuffer, member: &impl Serialize) -> Result<WipedBuffer, Error> {
    postcard::serialize_with_flavor(member, Sink(text)).map_err(Error::internal)
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

/// Reads the member that follows all others, if it is there; nothing else may.
pub fn end<'t, T: Deserialize<'t>>(behind: &'t [u8]) -> Result<Option<T>, Error> {
    match behind {
        [] => Ok(None),
        member => match postcard::take_from_bytes(member).map_err(Error::internal)? {
            (member, []) => Ok(Some(member)),
            _ => Err(Error::internal("an entity goes on behind its end")),
        },
    }
}

/// What has this name in JSON too.
pub fn named<'n, T: Deserialize<'n>>(name: &'n str) -> Result<T, Error> {
    T::deserialize(name.into_deserializer()).map_err(|error: NameError| Error::internal(error))
}

/// Asserts that an entity is read from both texts, in short and as JSON, and from no other that is like the former: what
/// is cut off before its end, or goes on behind it, is refused. Where a member may be missing, what is cut off before that
/// is the entity without it.
#[cfg(test)]
pub fn assert_comes_back<T: PartialEq + std::fmt::Debug>(
    kept: &T,
    [short, json]: [&[u8]; 2],
    (cut, without): (usize, &T),
    read: impl Fn(&[u8]) -> Result<T, Error>,
) {
    assert_eq!(&read(short).unwrap(), kept);
    assert_eq!(&read(json).unwrap(), kept);
    if let Ok(cut) = read(&short[..cut]) {
        assert_eq!(&cut, without);
    }
    assert!(read(&[short, b"x"].concat()).is_err());
}
