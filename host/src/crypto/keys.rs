//! The root key and the keys below it.
//!
//! [`SystemKeys`] belong to the whole vault, [`TenantKeys`] to one tenant. Both are kept in the store as text sealed
//! by the root key; see `vault::keyring` for where.
//!
//! Index and fingerprint keys are apart from the sealing keys and stay when those rotate. A fingerprint is part of the
//! interface: callers keep it and compare it with later ones, so that a new key would make every token look new, and
//! deduplication would store contents twice that were stored before. Terms cannot be made anew without the values of
//! `search_indexes`, which may hold drawn aliases and are kept nowhere but as terms. Neither key opens anything: who
//! learns one can try guesses against the terms, and needs the store's files to do so. What takes them out of use is
//! the end of their tenant, which destroys them ([`TenantKeys`] as a whole).
//!
//! The pepper, and what is derived from it to tag records and chain log entries, stays as well. A hash of an API key can be
//! made anew only from the key, which is kept nowhere: a new pepper would end every key there is. With a new key for tags
//! every entry would have to be chained anew, and no head that was exported before could be compared with anything. Both
//! open nothing. Keys of 128 random bits are not guessed; who learned the key for tags and writes to the store's files can
//! make tags that fit, which heads that were kept elsewhere still tell.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use zeroize::Zeroizing;

use super::entropy::Entropy;
use super::hash::{self, HashKey};
use super::seal::{KEY_BYTES, Key, WrappingKey, draw_key};

use super::wiped::{Wiped, WipedBuffer};

/// The operator's key. It lies in one place: what is moved itself leaves copies behind, which nobody wipes.
pub struct RootKey(Box<Key>);

/// The text is no root key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the root key must be 32 bytes in base64")]
pub struct InvalidRootKey;

impl RootKey {
    /// Draws a key.
    pub fn draw(entropy: &dyn Entropy) -> Self {
        let mut key = Box::<Key>::default();
        entropy.fill(key.as_mut_slice());
        Self(key)
    }

    /// Reads the key from base64.
    pub fn parse(text: &str) -> Result<Self, InvalidRootKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| InvalidRootKey)?);
        if bytes.len() == KEY_BYTES { Ok(Self::of(&bytes)) } else { Err(InvalidRootKey) }
    }

    /// The key of these bytes, as many as one has.
    fn of(bytes: &[u8]) -> Self {
        let mut key = Box::<Key>::default();
        key.copy_from_slice(bytes);
        Self(key)
    }

    /// The key in base64, for the file beside a development store.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.as_slice()))
    }

    /// A key for one purpose that is kept nowhere, such as to authenticate files that can be made again.
    pub fn derive(&self, purpose: &str) -> Key {
        Key::from(hash::keyed(self.as_key(), &[b"derived key", purpose.as_bytes()]))
    }

    /// Tells this key from another, and tells nothing else of it.
    pub fn id(&self) -> [u8; 16] {
        hash::term(self.as_key(), &[b"root key id"])
    }

    /// The key for [`super::seal`].
    pub fn as_key(&self) -> &Key {
        &self.0
    }
}

impl Clone for RootKey {
    fn clone(&self) -> Self {
        Self::of(self.0.as_slice())
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey(..)")
    }
}

/// Keys of the whole vault.
#[derive(Clone)]
pub struct SystemKeys {
    /// Hashes API keys.
    pub pepper: Key,
    /// Whether the store is known to be protected against changes by others.
    pub protected: bool,
}

/// Keys of one tenant.
#[derive(Clone)]
pub struct TenantKeys {
    /// The key that seals, with its version.
    pub sealing: (u32, WrappingKey),
    /// Keys that sealed before and still open, by version.
    pub older: BTreeMap<u32, WrappingKey>,
    /// Keys that nothing is sealed with any more, kept in memory alone for who has read a record before.
    pub retired: BTreeMap<u32, WrappingKey>,
    /// Makes index terms.
    pub index: HashKey,
    /// Makes fingerprints.
    pub fingerprint: HashKey,
}

/// The stored text is not of this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the stored keys have an unknown layout")]
pub struct InvalidKeys;

const SYSTEM_TAG: u8 = 1;
const TENANT_TAG: u8 = 2;
/// As [`SYSTEM_TAG`], of a store that is protected.
const PROTECTED_SYSTEM_TAG: u8 = 3;

impl SystemKeys {
    /// Draws the keys.
    pub fn draw(entropy: &dyn Entropy) -> Self {
        Self { pepper: draw_key(entropy), protected: true }
    }

    /// The keys as bytes, to be sealed.
    pub fn to_bytes(&self) -> Wiped {
        let mut bytes = WipedBuffer::with_capacity(1 + KEY_BYTES);
        bytes.extend(&[if self.protected { PROTECTED_SYSTEM_TAG } else { SYSTEM_TAG }]);
        bytes.extend(self.pepper.as_slice());
        bytes.into_bytes()
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKeys> {
        let protected = bytes.first() == Some(&PROTECTED_SYSTEM_TAG);
        let tag = if protected { PROTECTED_SYSTEM_TAG } else { SYSTEM_TAG };
        let mut reader = Reader::new(bytes, tag)?;
        let keys = Self { pepper: reader.key()?, protected };
        reader.finish(keys)
    }
}

impl TenantKeys {
    /// Draws the keys.
    pub fn draw(entropy: &dyn Entropy) -> Self {
        Self {
            sealing: (1, WrappingKey::draw(entropy)),
            older: BTreeMap::new(),
            retired: BTreeMap::new(),
            index: HashKey::new(draw_key(entropy)),
            fingerprint: HashKey::new(draw_key(entropy)),
        }
    }

    /// The keys as bytes, to be sealed.
    pub fn to_bytes(&self) -> Wiped {
        let capacity = 1 + 2 * KEY_BYTES + (1 + self.older.len()) * (4 + KEY_BYTES);
        let mut bytes = WipedBuffer::with_capacity(capacity);
        bytes.extend(&[TENANT_TAG]);
        bytes.extend(self.index.as_slice());
        bytes.extend(self.fingerprint.as_slice());
        let (version, key) = &self.sealing;
        for (version, key) in std::iter::once((version, key)).chain(&self.older) {
            bytes.extend(&version.to_be_bytes());
            bytes.extend(key.as_slice());
        }
        bytes.into_bytes()
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKeys> {
        let mut reader = Reader::new(bytes, TENANT_TAG)?;
        let (index, fingerprint) = (HashKey::new(reader.key()?), HashKey::new(reader.key()?));
        let sealing = (reader.number()?, WrappingKey::new(reader.key()?));
        let mut older = BTreeMap::new();
        while !reader.0.is_empty() {
            older.insert(reader.number()?, WrappingKey::new(reader.key()?));
        }
        Ok(Self { sealing, older, retired: BTreeMap::new(), index, fingerprint })
    }

    /// The key that seals, with its version.
    pub fn sealing_key(&self) -> (u32, &WrappingKey) {
        (self.sealing.0, &self.sealing.1)
    }

    /// The key of a version.
    pub fn opening_key(&self, version: u32) -> Option<&WrappingKey> {
        if version == self.sealing.0 {
            return Some(&self.sealing.1);
        }
        self.older.get(&version).or_else(|| self.retired.get(&version))
    }

    /// The same keys with a fresh one to seal with; the one before still opens.
    #[must_use]
    pub fn rotated(&self, entropy: &dyn Entropy) -> Self {
        let mut rotated = self.clone();
        let (version, key) = self.sealing.clone();
        rotated.older.insert(version, key);
        rotated.sealing = (version.saturating_add(1), WrappingKey::draw(entropy));
        rotated
    }

    /// The same keys once nothing is sealed with older ones.
    #[must_use]
    pub fn without_older(&self) -> Self {
        let mut retired = self.retired.clone();
        retired.extend(self.older.clone());
        Self { older: BTreeMap::new(), retired, ..self.clone() }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], tag: u8) -> Result<Self, InvalidKeys> {
        match bytes.split_first() {
            Some((found, rest)) if *found == tag => Ok(Self(rest)),
            _ => Err(InvalidKeys),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], InvalidKeys> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(InvalidKeys)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, InvalidKeys> {
        let bytes = self.take(4)?.try_into().map_err(|_| InvalidKeys)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn key(&mut self) -> Result<Key, InvalidKeys> {
        let mut key = Key::default();
        key.copy_from_slice(self.take(KEY_BYTES)?);
        Ok(key)
    }

    fn finish<T>(&self, value: T) -> Result<T, InvalidKeys> {
        if self.0.is_empty() { Ok(value) } else { Err(InvalidKeys) }
    }
}

#[cfg(test)]
mod tests {
    use super::{RootKey, SystemKeys, TenantKeys};
    use crate::crypto::entropy::SeededEntropy;

    #[test]
    fn keys_survive_being_written() {
        let entropy = SeededEntropy::new(6);
        let system = SystemKeys::draw(&entropy);
        let read = SystemKeys::from_bytes(&system.to_bytes()).unwrap();
        assert_eq!((&read.pepper, read.protected), (&system.pepper, true));
        let old = SystemKeys { protected: false, ..system.clone() };
        assert!(!SystemKeys::from_bytes(&old.to_bytes()).unwrap().protected);

        let tenant = TenantKeys::draw(&entropy);
        let read = TenantKeys::from_bytes(&tenant.to_bytes()).unwrap();
        assert_eq!(read.sealing_key(), tenant.sealing_key());
        assert_eq!(read.opening_key(1), tenant.opening_key(1));
        assert_eq!(read.opening_key(2), None);
        assert_eq!((&read.index, &read.fingerprint), (&tenant.index, &tenant.fingerprint));
        assert!(TenantKeys::from_bytes(&system.to_bytes()).is_err());
        assert_ne!(RootKey::draw(&entropy).id(), RootKey::draw(&entropy).id());
        assert!(SystemKeys::from_bytes(&[]).is_err());
        let bytes = tenant.to_bytes();
        for length in 0..bytes.len() {
            assert!(TenantKeys::from_bytes(&bytes[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_rotated_key_leaves_the_older_one_to_open_with() {
        let entropy = SeededEntropy::new(5);
        let first = TenantKeys::draw(&entropy);
        let second = first.rotated(&entropy);
        assert_eq!(second.sealing_key().0, 2);
        assert_ne!(second.sealing_key().1, first.sealing_key().1);
        assert_eq!(second.opening_key(1), first.opening_key(1));
        assert_eq!((&second.index, &second.fingerprint), (&first.index, &first.fingerprint));
        let read = TenantKeys::from_bytes(&second.to_bytes()).unwrap();
        assert_eq!(read.opening_key(1), first.opening_key(1));
        let alone = second.without_older();
        // Whoever read a record before can still open it; whoever comes later finds no key for it.
        assert_eq!(alone.opening_key(1), first.opening_key(1));
        let read = TenantKeys::from_bytes(&alone.to_bytes()).unwrap();
        assert_eq!((read.opening_key(1), read.opening_key(2)), (None, second.opening_key(2)));
    }

    #[test]
    fn a_root_key_is_exactly_32_bytes_of_base64() {
        let root = RootKey::draw(&SeededEntropy::new(7));
        let read = RootKey::parse(&format!(" {}\n", *root.to_base64())).unwrap();
        assert_eq!(read.as_key(), root.as_key());
        for wrong in ["", "c2hvcnQ=", "not base64!", &"QUFB".repeat(20)] {
            assert!(RootKey::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{root:?}"), "RootKey(..)");
    }

    #[test]
    fn derived_keys_are_of_their_root_and_purpose() {
        let (root, other) = (&SeededEntropy::new(8), &SeededEntropy::new(9));
        let (root, other) = (RootKey::draw(root), RootKey::draw(other));
        assert_eq!(root.derive("a"), root.derive("a"));
        for different in [root.derive("b"), other.derive("a"), root.as_key().clone()] {
            assert_ne!(root.derive("a"), different);
        }
    }
}
