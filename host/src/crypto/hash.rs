//! Keyed hashes: blind index terms, fingerprints, look-ups of API keys.
//!
//! Every part is hashed with its length before it, so that no two lists of parts hash alike.

use std::fmt;

use aws_lc_rs::{digest, hmac};
use subtle::ConstantTimeEq as _;

use super::seal::Key;

/// A key for many hashes, made ready once.
#[derive(Clone)]
pub struct HashKey {
    key: Key,
    ready: hmac::Key,
}

impl HashKey {
    /// Makes a key ready.
    pub fn new(key: Key) -> Self {
        let ready = hmac::Key::new(hmac::HMAC_SHA256, key.as_slice());
        Self { key, ready }
    }

    /// The key, to be kept.
    pub fn as_slice(&self) -> &[u8] {
        self.key.as_slice()
    }
}

impl PartialEq for HashKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice().ct_eq(other.as_slice()).into()
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

/// What a hash can be keyed with.
pub trait Keying {
    /// Begins a hash.
    fn begin(&self) -> hmac::Context;
}

impl Keying for Key {
    fn begin(&self) -> hmac::Context {
        hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.as_slice()))
    }
}

impl Keying for HashKey {
    fn begin(&self) -> hmac::Context {
        hmac::Context::with_key(&self.ready)
    }
}

/// HMAC-SHA256 over a list of parts.
pub fn keyed(key: &impl Keying, parts: &[&[u8]]) -> [u8; 32] {
    let mut context = key.begin();
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.sign().as_ref());
    hash
}

/// Whether a hash is [`keyed`] of these parts; takes as long for any that is not.
pub fn is_keyed(hash: &[u8], key: &impl Keying, parts: &[&[u8]]) -> bool {
    hash.ct_eq(&keyed(key, parts)).into()
}

/// The first 16 bytes of [`keyed`]: a blind index term.
pub fn term(key: &impl Keying, parts: &[&[u8]]) -> [u8; 16] {
    let hash = keyed(key, parts);
    let mut term = [0; 16];
    term.copy_from_slice(&hash[..16]);
    term
}

/// SHA-256 in hexadecimal, for digests of what is not secret.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{HashKey, is_keyed, keyed, sha256_hex, term};
    use crate::crypto::seal::Key;

    #[test]
    fn parts_do_not_run_together() {
        let key = Key::from([1; 32]);
        assert_ne!(keyed(&key, &[b"ab", b"c"]), keyed(&key, &[b"a", b"bc"]));
        assert_ne!(keyed(&key, &[b"ab"]), keyed(&Key::from([2; 32]), &[b"ab"]));
        assert_eq!(term(&key, &[b"ab"]), keyed(&key, &[b"ab"])[..16]);
    }

    #[test]
    fn a_key_that_was_made_ready_is_the_same_key() {
        let (key, other) = (Key::from([1; 32]), HashKey::new(Key::from([2; 32])));
        let ready = HashKey::new(key.clone());
        let same = |parts: &[&[u8]]| {
            keyed(&ready, parts) == keyed(&key, parts)
                && keyed(&ready, parts) != keyed(&other, parts)
        };
        assert!(same(&[]) && same(&[b"a"]) && same(&[b"a", &[7; 200]]));
        assert_eq!(ready.as_slice(), key.as_slice());
        assert_eq!(format!("{ready:?}"), "HashKey(..)");
        assert!(ready == ready.clone() && ready != other);
    }

    #[test]
    fn only_the_whole_hash_of_these_parts_and_this_key_is_taken() {
        let key = Key::from([1; 32]);
        let hash = keyed(&key, &[b"a", b"b"]);
        assert!(is_keyed(&hash, &key, &[b"a", b"b"]));
        assert!(!is_keyed(&hash, &key, &[b"b", b"a"]));
        assert!(!is_keyed(&hash, &Key::from([2; 32]), &[b"a", b"b"]));
        for length in 0..hash.len() {
            assert!(!is_keyed(&hash[..length], &key, &[b"a", b"b"]), "{length}");
        }
    }

    #[test]
    fn sha256_of_the_published_vector() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), expected);
    }
}
