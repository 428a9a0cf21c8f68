//! What is written at once: rows to be put, and keys whose rows go.

use std::collections::BTreeMap;

use sled::{Batch, IVec, Tree};

use super::failure::unavailable;
use crate::store::StoreError;

/// In place of the length of a value: the row goes.
const GOES: u32 = u32::MAX;

/// Rows to be put and removed; the last word on each key counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows(BTreeMap<IVec, Option<IVec>>);

impl Rows {
    /// Puts a row.
    pub fn insert(&mut self, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.0.insert(key.into(), Some(value.into()));
    }

    /// Removes a row.
    pub fn remove(&mut self, key: impl Into<IVec>) {
        self.0.insert(key.into(), None);
    }

    /// Puts and removes these too.
    pub fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether it says anything of this key.
    #[cfg(test)]
    pub fn has(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    /// How many rows change.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How long [`Self::write_to`] makes them.
    pub fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(key, value)| 8 + key.len() + value.as_ref().map_or(0, |v| v.len()))
            .sum()
    }

    /// Writes them one after the other.
    pub fn write_to(&self, bytes: &mut Vec<u8>) {
        for (key, value) in &self.0 {
            // Keys and values are far shorter than what this can tell.
            let length = |part: &IVec| u32::try_from(part.len()).unwrap_or(GOES - 1);
            bytes.extend_from_slice(&length(key).to_be_bytes());
            bytes.extend_from_slice(&value.as_ref().map_or(GOES, length).to_be_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
    }

    /// Reads what [`Self::write_to`] wrote; none of it if it is anything else.
    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut rows = Self::default();
        while !bytes.is_empty() {
            let (key, after) = bytes.split_first_chunk()?;
            let (value, after) = after.split_first_chunk()?;
            let (key, after) = after.split_at_checked(u32::from_be_bytes(*key) as usize)?;
            let (value, after) = match u32::from_be_bytes(*value) {
                GOES => (None, after),
                length => {
                    let (value, after) = after.split_at_checked(length as usize)?;
                    (Some(IVec::from(value)), after)
                }
            };
            rows.0.insert(IVec::from(key), value);
            bytes = after;
        }
        Some(rows)
    }

    /// Writes them to a tree one by one: a process that ends meanwhile leaves some of them. Who reads meanwhile finds a
    /// record as it was or as it is: pieces are put before their head, and a head goes before its pieces.
    pub fn apply(self, tree: &Tree) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        for (key, value) in self.0 {
            match value {
                Some(value) => drop(tree.insert(key, value).map_err(unavailable)?),
                None => gone.push(key),
            }
        }
        for key in gone.into_iter().rev() {
            tree.remove(key).map_err(unavailable)?;
        }
        Ok(())
    }

    /// The same, as a batch, of which sled recovers all or nothing. That costs a write to its file, and a wait for it.
    pub fn into_batch(self) -> Batch {
        let mut batch = Batch::default();
        for (key, value) in self.0 {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Rows;

    proptest! {
        #[test]
        fn the_last_word_on_a_key_counts_and_is_read_as_it_was_written(
            changes in prop::collection::vec(
                (prop::collection::vec(0..3_u8, 0..4), prop::option::of(prop::collection::vec(any::<u8>(), 0..40))),
                0..30,
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let (mut rows, mut model) = (Rows::default(), std::collections::BTreeMap::new());
            for (key, value) in changes {
                match &value {
                    Some(value) => rows.insert(key.as_slice(), value.as_slice()),
                    None => rows.remove(key.as_slice()),
                }
                model.insert(key, value);
            }
            prop_assert_eq!(rows.len(), model.len());
            prop_assert!(model.keys().all(|key| rows.has(key)) && !rows.has(&[9]));
            let mut bytes = Vec::new();
            rows.write_to(&mut bytes);
            prop_assert_eq!(bytes.len(), rows.bytes());
            prop_assert_eq!(Rows::read(&bytes), Some(rows.clone()));
            if !bytes.is_empty() {
                prop_assert_ne!(Rows::read(&bytes[..cut.index(bytes.len())]), Some(rows.clone()));
            }

            let database = sled::Config::new().temporary(true).open().unwrap();
            let before = database.insert([1, 2], b"before".as_slice()).unwrap();
            prop_assert_eq!(before, None);
            model.entry(vec![1, 2]).or_insert(Some(b"before".to_vec()));
            let other = sled::Config::new().temporary(true).open().unwrap();
            other.insert([1, 2], b"before".as_slice()).unwrap();
            rows.clone().apply(&other).unwrap();
            database.apply_batch(rows.into_batch()).unwrap();
            prop_assert!(database.iter().map(Result::unwrap).eq(other.iter().map(Result::unwrap)));
            let stored: Vec<_> = database.iter().map(|row| row.unwrap()).collect();
            let stored: Vec<_> = stored.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            let expected: Vec<_> = model.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
            prop_assert_eq!(stored, expected);
        }
    }
}
