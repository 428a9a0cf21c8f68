//! Sealing: AES-256-GCM, bound to the place where the ciphertext lies.
//!
//! Three forms. [`seal`] and [`open`] use one key directly (the root key over a tenant's keys). [`seal_apart`] and
//! [`open_apart`] derive a key for this text alone from one for many texts and from a salt that is drawn and kept beside
//! the text. [`seal_enveloped`] and [`open_enveloped`] do the same, and put the key's version in front in the clear, so
//! that rotation can tell what is old.
//!
//! One key may seal 2^32 texts with nonces that are drawn (NIST SP 800-38D, 8.3), which a vault does in some days. So what
//! is sealed that often is sealed apart: of as many salts as there will ever be, no two are alike.
//!
//! Layout of a sealed text: nonce (12 bytes), ciphertext, tag (16). Of one that is sealed apart: salt (24), sealed text.
//! Of an envelope: format (1 byte), key version (4, big-endian), and what is sealed apart. In the first format a sealed
//! key (60) lies in the place of the salt; it is read, and written no more.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

use super::entropy::Entropy;
use super::hash::{self, HashKey};
use super::wiped::Wiped;

#[cfg(test)]
mod tests;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const SALT_BYTES: usize = 24;
const FORMAT: u8 = 2;
/// The first one, in which each body has a key that was drawn and is wrapped.
const WRAPPED_FORMAT: u8 = 1;
const WRAPPED_BYTES: usize = NONCE_BYTES + KEY_BYTES + TAG_BYTES;
const HEADER_BYTES: usize = 1 + 4;

/// A symmetric key, wiped when dropped.
pub type Key = Zeroizing<[u8; KEY_BYTES]>;

/// A key over those of many texts: it derives them, and has wrapped some before. All of it is made ready once: that takes
/// as long as sealing a short text.
#[derive(Clone)]
pub struct WrappingKey {
    key: Key,
    derives: HashKey,
    /// Opens wrapped keys. There is one for every key of this length; without it nothing opens.
    cipher: Option<Arc<LessSafeKey>>,
}

impl WrappingKey {
    /// Makes a key ready.
    pub fn new(key: Key) -> Self {
        let cipher = cipher(key.as_slice()).ok().map(Arc::new);
        let derives = HashKey::new(Key::from(hash::keyed(&key, &[purpose::DERIVED_KEYS])));
        Self { key, derives, cipher }
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

    /// The cipher of the text with this salt, and of no other.
    fn cipher_apart(&self, salt: &[u8]) -> Result<LessSafeKey, SealError> {
        cipher(Key::from(hash::keyed(&self.derives, &[salt])).as_slice())
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

/// What a ciphertext or a key is for. The longest that a ciphertext has is of [`PURPOSE_BYTES_MAX`].
mod purpose {
    pub const SEALED: &[u8] = b"sealed";
    pub const APART: &[u8] = b"apart";
    pub const RECORD_KEY: &[u8] = b"record key";
    pub const RECORD_BODY: &[u8] = b"record body";
    /// Of a key and not of a ciphertext.
    pub const DERIVED_KEYS: &[u8] = b"derived keys";
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

/// Seals `text` with a key of its own, derived from `key`.
pub fn seal_apart(
    key: &WrappingKey,
    place: Place<'_>,
    text: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    let mut sealed = Vec::with_capacity(apart_bytes(text));
    append_apart((key, place), text, entropy, &mut sealed)?;
    Ok(sealed)
}

/// Opens what [`seal_apart`] made.
pub fn open_apart(key: &WrappingKey, place: Place<'_>, sealed: &[u8]) -> Result<Wiped, SealError> {
    let (salt, sealed) = sealed.split_at_checked(SALT_BYTES).ok_or(SealError::Format)?;
    let bound = &mut Bound::to(place);
    open_text(&key.cipher_apart(salt)?, bound.for_purpose(purpose::APART), sealed)
}

/// As [`seal_apart`], with the version of the key in front.
pub fn seal_enveloped(
    (version, key): (u32, &WrappingKey),
    place: Place<'_>,
    text: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    let mut envelope = Vec::with_capacity(HEADER_BYTES + apart_bytes(text));
    envelope.push(FORMAT);
    envelope.extend_from_slice(&version.to_be_bytes());
    append_apart((key, place), text, entropy, &mut envelope)?;
    Ok(envelope)
}

fn apart_bytes(text: &[u8]) -> usize {
    SALT_BYTES + NONCE_BYTES + text.len() + TAG_BYTES
}

fn append_apart(
    (key, place): (&WrappingKey, Place<'_>),
    text: &[u8],
    entropy: &dyn Entropy,
    sealed: &mut Vec<u8>,
) -> Result<(), SealError> {
    let mut drawn = [0; SALT_BYTES + NONCE_BYTES];
    entropy.fill(&mut drawn);
    let (salt, nonce) = drawn.split_at(SALT_BYTES);
    sealed.extend_from_slice(salt);
    let nonce = *nonce.first_chunk().ok_or(SealError::Broken)?;
    let sealing = Sealing { cipher: &key.cipher_apart(salt)?, nonce };
    sealing.append(Bound::to(place).for_purpose(purpose::APART), text, sealed)
}

/// The version of the key that an envelope was sealed with; `None` when it is none.
pub fn version_of(envelope: &[u8]) -> Option<u32> {
    match envelope.first_chunk()? {
        &[FORMAT | WRAPPED_FORMAT, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Opens what [`seal_enveloped`] made; `key_of` finds the key by its version.
pub fn open_enveloped<'k>(
    key_of: impl FnOnce(u32) -> Option<&'k WrappingKey>,
    place: Place<'_>,
    envelope: &[u8],
) -> Result<Wiped, SealError> {
    let version = version_of(envelope).ok_or(SealError::Format)?;
    let key = key_of(version).ok_or(SealError::MissingKey)?;
    match envelope.split_at_checked(HEADER_BYTES) {
        Some(([FORMAT, ..], sealed)) => open_apart(key, place, sealed),
        Some(([WRAPPED_FORMAT, ..], wrapped)) => open_wrapped(key, place, wrapped),
        _ => Err(SealError::Format),
    }
}

/// Opens what lies behind the header of an envelope of the first format.
fn open_wrapped(key: &WrappingKey, place: Place<'_>, sealed: &[u8]) -> Result<Wiped, SealError> {
    let (wrapped, body) = sealed.split_at_checked(WRAPPED_BYTES).ok_or(SealError::Format)?;
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
