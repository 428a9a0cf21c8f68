//! API keys: `key_<mgt|prv|pub|ses>_<32 characters>` (decisions §2).
//!
//! 32 characters of 62 are 190 random bits. Only a keyed hash of a key is kept; finding that hash in the store
//! compares no key, and the one comparison that remains takes the same time for every input.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::entropy::Entropy;
use super::hash::{self, Keying};

const RANDOM_CHARS: usize = 32;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// An API key in clear, wiped when dropped. Shown once, to whoever made it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Zeroizing<String>);

/// The tag of sessions' keys.
pub const SESSION_TAG: &str = "ses";

impl ApiKey {
    /// Draws a key; `tag` is `mgt`, `prv`, `pub` or `ses`.
    pub fn draw(tag: &str, entropy: &dyn Entropy) -> Self {
        let mut text = Zeroizing::new(format!("key_{tag}_"));
        text.reserve(RANDOM_CHARS);
        let mut random = Zeroizing::new([0_u8; 64]);
        let full_length = text.len() + RANDOM_CHARS;
        while text.len() < full_length {
            entropy.fill(random.as_mut_slice());
            // Bytes from 248 on are dropped: each character then stands for exactly four of the rest.
            let fair = random.iter().filter(|byte| **byte < 248);
            for byte in fair.take(full_length - text.len()) {
                text.push(char::from(ALPHABET[usize::from(byte % 62)]));
            }
        }
        Self(text)
    }

    /// Takes a key that a request or the operator gives.
    pub fn given(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The key itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Writes the key itself, for the one answer that shows it: a key has no `Serialize` of its own.
    pub fn in_clear<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }

    /// The part after the tag, which is all there is to guess.
    pub fn random_part(&self) -> &str {
        self.0.rsplit('_').next().unwrap_or_default()
    }

    /// The tag of a key as it should be: `mgt`, `prv`, `pub` or `ses`.
    pub fn tag(&self) -> &str {
        self.0.split('_').nth(1).unwrap_or_default()
    }

    /// What is kept of it.
    pub fn hash(&self, pepper: &impl Keying) -> KeyHash {
        KeyHash(hash::keyed(pepper, &[b"api key", self.0.as_bytes()]))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// A keyed hash of an API key.
#[derive(Debug, Clone, Copy, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeyHash(pub [u8; 32]);

impl std::hash::Hash for KeyHash {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;
    use crate::crypto::entropy::SeededEntropy;
    use crate::crypto::seal::Key;
    use std::collections::HashSet;

    #[test]
    fn keys_have_their_form_and_differ() {
        let entropy = SeededEntropy::new(5);
        let keys: HashSet<String> =
            (0..500).map(|_| ApiKey::draw("prv", &entropy).expose().to_owned()).collect();
        assert_eq!(keys.len(), 500);
        for key in &keys {
            let random = key.strip_prefix("key_prv_").unwrap();
            assert_eq!(random.len(), 32);
            assert!(random.chars().all(|c| c.is_ascii_alphanumeric()));
        }
        let seen: HashSet<char> = keys.iter().flat_map(|key| key[8..].chars()).collect();
        assert_eq!(seen.len(), 62, "every character of the alphabet occurs");
    }

    #[test]
    fn the_hash_depends_on_key_and_pepper_and_debug_shows_nothing() {
        let key = ApiKey::given("key_prv_a".to_owned());
        let pepper = Key::from([1; 32]);
        assert_eq!(key.hash(&pepper), key.hash(&pepper));
        assert_ne!(key.hash(&pepper), key.hash(&Key::from([2; 32])));
        assert_ne!(key.hash(&pepper), ApiKey::given("key_prv_b".to_owned()).hash(&pepper));
        assert_eq!(format!("{key:?}"), "ApiKey(..)");
    }
}
