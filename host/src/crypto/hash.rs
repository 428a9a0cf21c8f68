//! Keyed hashes: blind index terms, fingerprints, look-ups of API keys.
//!
//! Every part is hashed with its length before it, so that no two lists of parts hash alike.

use aws_lc_rs::{digest, hmac};
use subtle::ConstantTimeEq as _;

use super::seal::Key;

/// HMAC-SHA256 over a list of parts.
pub fn keyed(key: &Key, parts: &[&[u8]]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_slice());
    let mut context = hmac::Context::with_key(&key);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.sign().as_ref());
    hash
}

/// Whether a hash is [`keyed`] of these parts; takes as long for any that is not.
pub fn is_keyed(hash: &[u8], key: &Key, parts: &[&[u8]]) -> bool {
    hash.ct_eq(&keyed(key, parts)).into()
}

/// The first 16 bytes of [`keyed`]: a blind index term.
pub fn term(key: &Key, parts: &[&[u8]]) -> [u8; 16] {
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
    use super::{is_keyed, keyed, sha256_hex, term};
    use crate::crypto::seal::Key;

    #[test]
    fn parts_do_not_run_together() {
        let key = Key::from([1; 32]);
        assert_ne!(keyed(&key, &[b"ab", b"c"]), keyed(&key, &[b"a", b"bc"]));
        assert_ne!(keyed(&key, &[b"ab"]), keyed(&Key::from([2; 32]), &[b"ab"]));
        assert_eq!(term(&key, &[b"ab"]), keyed(&key, &[b"ab"])[..16]);
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
