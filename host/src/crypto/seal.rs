//! Sealing: AES-256-GCM, bound to the place where the ciphertext lies.
//!
//! Two forms. [`seal`] and [`open`] use one key directly (the root key over a tenant's keys). [`seal_enveloped`] and
//! [`open_enveloped`] draw a key for this body alone and keep it beside the body, wrapped; the wrapping key's
//! version is in the clear, so that rotation can tell what is old.
//!
//! Layout of a sealed text: nonce (12 bytes), ciphertext, tag (16). Of an envelope: format (1 byte), key version
//! (4, big-endian), sealed key (60), sealed body.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

use super::entropy::Entropy;

use super::wiped::Wiped;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const FORMAT: u8 = 1;
const WRAPPED_BYTES: usize = NONCE_BYTES + KEY_BYTES + TAG_BYTES;
const HEADER_BYTES: usize = 1 + 4;

/// A symmetric key, wiped when dropped.
pub type Key = Zeroizing<[u8; KEY_BYTES]>;

/// A key that wraps those of many records. Its cipher is made ready once: that takes as long as sealing a short text.
#[derive(Clone)]
pub struct WrappingKey {
    key: Key,
    /// There is one for every key of this length; without it nothing is sealed and nothing opens.
    cipher: Option<Arc<LessSafeKey>>,
}

impl WrappingKey {
    /// Makes a key ready.
    pub fn new(key: Key) -> Self {
        let cipher = cipher(key.as_slice()).ok().map(Arc::new);
        Self { key, cipher }
    }

    /// Draws a key.
    pub fn draw(entropy: &dyn Entropy) -> Self {
        Self::new(draw_key(entropy))
    }

    /// The key, to be kept.
    pub fn as_slice(&self) -> &[u8] {
        self.key.as_slice()
    }

    fn cipher(&self) -> Result<&LessSafeKey, SealError> {
        self.cipher.as_deref().ok_or(SealError::Broken)
    }
}

impl PartialEq for WrappingKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice().ct_eq(other.as_slice()).into()
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey(..)")
    }
}

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

/// What a ciphertext is for. The longest of them has [`PURPOSE_BYTES_MAX`].
mod purpose {
    pub const SEALED: &[u8] = b"sealed";
    pub const RECORD_KEY: &[u8] = b"record key";
    pub const RECORD_BODY: &[u8] = b"record body";
}

const LENGTH_BYTES: usize = 8;
const PURPOSE_BYTES_MAX: usize = purpose::RECORD_BODY.len();

/// Associated data: a purpose and a place, each part with its length, so that no two look alike. It is written once for
/// all purposes, with room for the longest of them in front.
struct Bound(Vec<u8>);

impl Bound {
    fn to(place: Place<'_>) -> Self {
        let Place { kind, tenant, id } = place;
        let parts: [&[u8]; 3] = [&[kind], tenant, id.as_bytes()];
        let room = LENGTH_BYTES + PURPOSE_BYTES_MAX;
        let length: usize = parts.iter().map(|part| LENGTH_BYTES + part.len()).sum();
        let mut bytes = Vec::with_capacity(room + length);
        bytes.resize(room, 0);
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        Self(bytes)
    }

    fn for_purpose(&mut self, purpose: &[u8]) -> Aad<&[u8]> {
        let named = PURPOSE_BYTES_MAX - purpose.len();
        let (length, name) = self.0[named..].split_at_mut(LENGTH_BYTES);
        length.copy_from_slice(&(purpose.len() as u64).to_be_bytes());
        name[..purpose.len()].copy_from_slice(purpose);
        Aad::from(&self.0[named..])
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
    let mut nonce = [0; NONCE_BYTES];
    entropy.fill(&mut nonce);
    let mut sealed = Vec::with_capacity(NONCE_BYTES + text.len() + TAG_BYTES);
    let mut bound = Bound::to(place);
    let sealing = Sealing { cipher: &cipher(key.as_slice())?, nonce };
    sealing.append(bound.for_purpose(purpose::SEALED), text, &mut sealed)?;
    Ok(sealed)
}

/// Opens what [`seal`] made.
pub fn open(key: &Key, place: Place<'_>, sealed: &[u8]) -> Result<Wiped, SealError> {
    let bound = &mut Bound::to(place);
    open_text(&cipher(key.as_slice())?, bound.for_purpose(purpose::SEALED), sealed)
}

/// Seals `text` with a key of its own, wrapped by `key`.
pub fn seal_enveloped(
    (version, key): (u32, &WrappingKey),
    place: Place<'_>,
    text: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    let mut drawn = Zeroizing::new([0; KEY_BYTES + 2 * NONCE_BYTES]);
    entropy.fill(drawn.as_mut_slice());
    let (own_key, nonces) = drawn.split_at(KEY_BYTES);
    let mut envelope =
        Vec::with_capacity(HEADER_BYTES + WRAPPED_BYTES + NONCE_BYTES + text.len() + TAG_BYTES);
    envelope.push(FORMAT);
    envelope.extend_from_slice(&version.to_be_bytes());
    let mut bound = Bound::to(place);
    let (of_key, of_body) = nonces.split_first_chunk().ok_or(SealError::Broken)?;
    let wrapping = Sealing { cipher: key.cipher()?, nonce: *of_key };
    wrapping.append(bound.for_purpose(purpose::RECORD_KEY), own_key, &mut envelope)?;
    let of_body = *of_body.first_chunk().ok_or(SealError::Broken)?;
    let sealing = Sealing { cipher: &cipher(own_key)?, nonce: of_body };
    sealing.append(bound.for_purpose(purpose::RECORD_BODY), text, &mut envelope)?;
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
    key_of: impl FnOnce(u32) -> Option<&'k WrappingKey>,
    place: Place<'_>,
    envelope: &[u8],
) -> Result<Wiped, SealError> {
    let (header, rest) = envelope.split_at_checked(HEADER_BYTES).ok_or(SealError::Format)?;
    let (wrapped, body) = rest.split_at_checked(WRAPPED_BYTES).ok_or(SealError::Format)?;
    let &[FORMAT, a, b, c, d] = header else { return Err(SealError::Format) };
    let key = key_of(u32::from_be_bytes([a, b, c, d])).ok_or(SealError::MissingKey)?;
    let mut bound = Bound::to(place);
    let mut own_key = Zeroizing::new([0; KEY_BYTES + TAG_BYTES]);
    let (nonce, wrapped) = nonce_of(wrapped)?;
    own_key.copy_from_slice(wrapped);
    let aad = bound.for_purpose(purpose::RECORD_KEY);
    let own_key = key.cipher()?.open_in_place(nonce, aad, own_key.as_mut_slice());
    let own_key = cipher(own_key.map_err(|_| SealError::Broken)?)?;
    open_text(&own_key, bound.for_purpose(purpose::RECORD_BODY), body)
}

/// A cipher with a nonce that it never gets again.
struct Sealing<'c> {
    cipher: &'c LessSafeKey,
    nonce: [u8; NONCE_BYTES],
}

impl Sealing<'_> {
    /// Writes nonce, ciphertext and tag behind what is there.
    fn append(self, aad: Aad<&[u8]>, text: &[u8], sealed: &mut Vec<u8>) -> Result<(), SealError> {
        sealed.extend_from_slice(&self.nonce);
        let begin = sealed.len();
        sealed.extend_from_slice(text);
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let text = &mut sealed[begin..];
        let Ok(tag) = self.cipher.seal_in_place_separate_tag(nonce, aad, text) else {
            text.zeroize();
            return Err(SealError::Broken);
        };
        sealed.extend_from_slice(tag.as_ref());
        Ok(())
    }
}

fn nonce_of(sealed: &[u8]) -> Result<(Nonce, &[u8]), SealError> {
    let (nonce, body) = sealed.split_first_chunk().ok_or(SealError::Format)?;
    Ok((Nonce::assume_unique_for_key(*nonce), body))
}

fn open_text(cipher: &LessSafeKey, aad: Aad<&[u8]>, sealed: &[u8]) -> Result<Wiped, SealError> {
    let (nonce, body) = nonce_of(sealed)?;
    let mut text = Wiped::from(body.to_vec());
    let length = cipher.open_in_place(nonce, aad, &mut text).map_err(|_| SealError::Broken)?.len();
    text.truncate(length);
    Ok(text)
}

fn cipher(key: &[u8]) -> Result<LessSafeKey, SealError> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| SealError::Broken)?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::{
        Place, SealError, WrappingKey, draw_key, open, open_enveloped, seal, seal_enveloped,
        version_of,
    };
    use crate::crypto::entropy::SeededEntropy;
    use zeroize::Zeroizing;

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
        let key = WrappingKey::draw(&entropy);
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
        let key = WrappingKey::draw(&entropy);
        let envelope = seal_enveloped((9, &key), PLACE, b"secret", &entropy).unwrap();
        assert_eq!(version_of(&envelope), Some(9));
        assert_eq!((version_of(&envelope[..4]), version_of(&[2, 0, 0, 0, 9])), (None, None));
        assert_eq!(open_enveloped(|_| None, PLACE, &envelope), Err(SealError::MissingKey));
    }

    #[test]
    fn the_same_text_never_looks_the_same() {
        let entropy = SeededEntropy::new(4);
        let key = WrappingKey::draw(&entropy);
        let one = seal_enveloped((1, &key), PLACE, b"secret", &entropy).unwrap();
        let two = seal_enveloped((1, &key), PLACE, b"secret", &entropy).unwrap();
        assert_ne!(one[5..], two[5..]);
    }

    /// The text under [`PLACE`] with a key of the bytes from 0 to 31, by another implementation of AES-GCM.
    const SEALED: &str = "\
        0102030405060708090a0b0c31d86ee7d8a6c4b4789057752421de1aeb772f2dc2fa1010a4c6ffb8\
        1131fa3f";
    const ENVELOPE: &str = "\
        010000000715161718191a1b1c1d1e1f205f0cd70fcf3c083b9d85e66673f4937e93b1e199e1223a\
        fd5b9e3091fe38089a2b6271dcffb785df241eed38ed37779f292a2b2c2d2e2f30313233346e4895\
        15dbbe91e0bb1c282006bd01c8c4edbec9df86a20259a507824a2ef2d9";

    #[test]
    fn what_was_sealed_before_still_opens() {
        let bytes = |hex: &str| -> Vec<u8> {
            let pairs = hex.as_bytes().chunks_exact(2);
            let pair = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
            pairs.map(|two| pair(two).unwrap()).collect()
        };
        let key = Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).unwrap()));
        let sealed = bytes(SEALED);
        assert_eq!(open(&key, PLACE, &sealed).unwrap().as_slice(), b"4242424242424242");
        let key = WrappingKey::new(key);
        let envelope = bytes(ENVELOPE);
        let opened = open_enveloped(|v| (v == 7).then_some(&key), PLACE, &envelope);
        assert_eq!(opened.unwrap().as_slice(), b"4242424242424242");
    }
}
