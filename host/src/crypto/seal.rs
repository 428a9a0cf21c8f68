//! Sealing: AES-256-GCM, bound to the place where the ciphertext lies.
//!
//! Two forms. [`seal`] and [`open`] use one key directly (the root key over a tenant's keys). [`seal_enveloped`] and
//! [`open_enveloped`] draw a key for this body alone and keep it beside the body, wrapped; the wrapping key's
//! version is in the clear, so that rotation can tell what is old.
//!
//! Layout of a sealed text: nonce (12 bytes), ciphertext, tag (16). Of an envelope: format (1 byte), key version
//! (4, big-endian), sealed key (60), sealed body.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

use super::entropy::Entropy;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const FORMAT: u8 = 1;
const WRAPPED_BYTES: usize = NONCE_BYTES + KEY_BYTES + TAG_BYTES;
const HEADER_BYTES: usize = 1 + 4;

/// A symmetric key, wiped when dropped.
pub type Key = Zeroizing<[u8; KEY_BYTES]>;

/// Why something does not open: never more than that it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SealError {
    /// The wrong key, the wrong place, or changed bytes.
    #[error("does not open: wrong key, moved, or changed")]
    Broken,
    /// A layout that this version does not know.
    #[error("has an unknown layout")]
    Format,
    /// The key version in the envelope is not at hand.
    #[error("was sealed with a key that is not at hand")]
    MissingKey,
}

/// Where a ciphertext lies: it opens nowhere else.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The kind of record.
    pub kind: u8,
    /// The tenant's id.
    pub tenant: &'a [u8],
    /// The record's id.
    pub id: &'a str,
}

impl Place<'_> {
    /// The associated data: each part with its length, so that no two places look alike.
    fn bytes(&self, purpose: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.id.len());
        for part in [purpose, &[self.kind], self.tenant, self.id.as_bytes()] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

/// Draws a key.
pub fn draw_key(entropy: &dyn Entropy) -> Key {
    let mut key = Key::default();
    entropy.fill(key.as_mut_slice());
    key
}

/// Seals `text` with `key` for `place`.
pub fn seal(
    key: &Key,
    place: Place<'_>,
    text: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    seal_with(key, &place.bytes(b"sealed"), text, entropy)
}

/// Opens what [`seal`] made.
pub fn open(key: &Key, place: Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
    open_with(key, &place.bytes(b"sealed"), sealed)
}

/// Seals `text` with a key of its own, wrapped by `key`.
pub fn seal_enveloped(
    (version, key): (u32, &Key),
    place: Place<'_>,
    text: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    let own_key = draw_key(entropy);
    let wrapped = seal_with(key, &place.bytes(b"record key"), own_key.as_slice(), entropy)?;
    let body = seal_with(&own_key, &place.bytes(b"record body"), text, entropy)?;
    let mut envelope = Vec::with_capacity(HEADER_BYTES + wrapped.len() + body.len());
    envelope.push(FORMAT);
    envelope.extend_from_slice(&version.to_be_bytes());
    envelope.extend_from_slice(&wrapped);
    envelope.extend_from_slice(&body);
    Ok(envelope)
}

/// The version of the key that an envelope was sealed with; `None` when it is none.
pub fn version_of(envelope: &[u8]) -> Option<u32> {
    match envelope.first_chunk()? {
        &[FORMAT, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Opens what [`seal_enveloped`] made; `key_of` finds the wrapping key by its version.
pub fn open_enveloped<'k>(
    key_of: impl FnOnce(u32) -> Option<&'k Key>,
    place: Place<'_>,
    envelope: &[u8],
) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let (header, rest) = envelope.split_at_checked(HEADER_BYTES).ok_or(SealError::Format)?;
    let (wrapped, body) = rest.split_at_checked(WRAPPED_BYTES).ok_or(SealError::Format)?;
    let &[FORMAT, a, b, c, d] = header else { return Err(SealError::Format) };
    let key = key_of(u32::from_be_bytes([a, b, c, d])).ok_or(SealError::MissingKey)?;
    let unwrapped = open_with(key, &place.bytes(b"record key"), wrapped)?;
    let mut own_key = Key::default();
    own_key.copy_from_slice(&unwrapped);
    open_with(&own_key, &place.bytes(b"record body"), body)
}

fn seal_with(
    key: &Key,
    bound_to: &[u8],
    text: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    let cipher = cipher(key)?;
    let mut nonce = [0; NONCE_BYTES];
    entropy.fill(&mut nonce);
    let mut sealed = Vec::with_capacity(NONCE_BYTES + text.len() + TAG_BYTES);
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(text);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let (aad, text) = (Aad::from(bound_to), &mut sealed[NONCE_BYTES..]);
    let Ok(tag) = cipher.seal_in_place_separate_tag(nonce, aad, text) else {
        sealed.zeroize();
        return Err(SealError::Broken);
    };
    sealed.extend_from_slice(tag.as_ref());
    Ok(sealed)
}

fn open_with(key: &Key, bound_to: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let (nonce, body) = sealed.split_at_checked(NONCE_BYTES).ok_or(SealError::Format)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Format)?;
    let mut text = Zeroizing::new(body.to_vec());
    let length = cipher(key)?
        .open_in_place(nonce, Aad::from(bound_to), &mut text)
        .map_err(|_| SealError::Broken)?
        .len();
    text.truncate(length);
    Ok(text)
}

fn cipher(key: &Key) -> Result<LessSafeKey, SealError> {
    let key = UnboundKey::new(&AES_256_GCM, key.as_slice()).map_err(|_| SealError::Broken)?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::{
        Place, SealError, draw_key, open, open_enveloped, seal, seal_enveloped, version_of,
    };
    use crate::crypto::entropy::SeededEntropy;

    const PLACE: Place<'static> = Place { kind: 3, tenant: &[7; 16], id: "token" };

    #[test]
    fn what_is_sealed_opens_in_its_place_only() {
        let entropy = SeededEntropy::new(1);
        let key = draw_key(&entropy);
        let sealed = seal(&key, PLACE, b"4242424242424242", &entropy).unwrap();
        assert_eq!(open(&key, PLACE, &sealed).unwrap().as_slice(), b"4242424242424242");
        for moved in [
            Place { kind: 4, ..PLACE },
            Place { tenant: &[8; 16], ..PLACE },
            Place { id: "tokem", ..PLACE },
        ] {
            assert_eq!(open(&key, moved, &sealed), Err(SealError::Broken));
        }
        assert_eq!(open(&draw_key(&entropy), PLACE, &sealed), Err(SealError::Broken));
    }

    #[test]
    fn every_changed_byte_of_an_envelope_is_noticed() {
        let entropy = SeededEntropy::new(2);
        let key = draw_key(&entropy);
        let envelope = seal_enveloped((1, &key), PLACE, b"secret", &entropy).unwrap();
        let open_it = |bytes: &[u8]| open_enveloped(|v| (v == 1).then_some(&key), PLACE, bytes);
        assert_eq!(open_it(&envelope).unwrap().as_slice(), b"secret");
        for index in 0..envelope.len() {
            let mut changed = envelope.clone();
            changed[index] ^= 1;
            assert!(open_it(&changed).is_err(), "byte {index}");
            assert!(open_it(&envelope[..index]).is_err(), "cut at {index}");
        }
    }

    #[test]
    fn a_missing_key_version_is_told_apart() {
        let entropy = SeededEntropy::new(3);
        let key = draw_key(&entropy);
        let envelope = seal_enveloped((9, &key), PLACE, b"secret", &entropy).unwrap();
        assert_eq!(version_of(&envelope), Some(9));
        assert_eq!((version_of(&envelope[..4]), version_of(&[2, 0, 0, 0, 9])), (None, None));
        assert_eq!(open_enveloped(|_| None, PLACE, &envelope), Err(SealError::MissingKey));
    }

    #[test]
    fn the_same_text_never_looks_the_same() {
        let entropy = SeededEntropy::new(4);
        let key = draw_key(&entropy);
        let one = seal_enveloped((1, &key), PLACE, b"secret", &entropy).unwrap();
        let two = seal_enveloped((1, &key), PLACE, b"secret", &entropy).unwrap();
        assert_ne!(one[5..], two[5..]);
    }
}
