use super::{
    Place, SealError, WrappingKey, draw_key, open, open_apart, open_enveloped, seal, seal_apart,
    seal_enveloped, version_of,
};
use crate::crypto::entropy::{Entropy, SeededEntropy};
use parking_lot::Mutex;
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
    assert_eq!((version_of(&envelope[..4]), version_of(&[3, 0, 0, 0, 9])), (None, None));
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

#[test]
fn what_is_sealed_apart_opens_with_its_key_and_salt_only() {
    let entropy = SeededEntropy::new(5);
    let (key, other) = (WrappingKey::draw(&entropy), WrappingKey::draw(&entropy));
    let sealed = seal_apart(&key, PLACE, b"secret", &entropy).unwrap();
    assert_eq!(open_apart(&key, PLACE, &sealed).unwrap().as_slice(), b"secret");
    let moved = Place { id: "tokem", ..PLACE };
    for (key, place) in [(&other, PLACE), (&key, moved)] {
        assert_eq!(open_apart(key, place, &sealed), Err(SealError::Broken));
    }
    let salted_anew = [[0; 24].as_slice(), &sealed[24..]].concat();
    assert_eq!(open_apart(&key, PLACE, &salted_anew), Err(SealError::Broken));
}

/// The text under [`PLACE`] with a key of the bytes from 0 to 31, by another implementation of AES-GCM.
const SEALED: &str = "\
    0102030405060708090a0b0c31d86ee7d8a6c4b4789057752421de1aeb772f2dc2fa1010a4c6ffb8\
    1131fa3f";
const ENVELOPE: &str = "\
    010000000715161718191a1b1c1d1e1f205f0cd70fcf3c083b9d85e66673f4937e93b1e199e1223a\
    fd5b9e3091fe38089a2b6271dcffb785df241eed38ed37779f292a2b2c2d2e2f30313233346e4895\
    15dbbe91e0bb1c282006bd01c8c4edbec9df86a20259a507824a2ef2d9";

/// The same in an envelope of now, by another implementation of HMAC too; salt and nonce are the bytes from 1 to 36.
const SALTED: &str = "\
    02000000070102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223\
    24e8ed1a5e506868e323b544e13320425f624e5d628640c3ed98eeaea43352e0f9";

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2);
    let pair = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    pairs.map(|two| pair(two).unwrap()).collect()
}

/// Draws one number after the other.
struct Counting(Mutex<u8>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut last = self.0.lock();
            *last += 1;
            *byte = *last;
        }
    }
}

/// No key that lasts seals a record itself.
#[test]
fn an_envelope_has_a_key_that_is_derived_with_its_salt() {
    let key = Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).unwrap()));
    let (key, entropy) = (WrappingKey::new(key), Counting(Mutex::new(0)));
    let envelope = seal_enveloped((7, &key), PLACE, b"4242424242424242", &entropy).unwrap();
    assert_eq!(envelope, bytes(SALTED));
}

#[test]
fn what_was_sealed_before_still_opens() {
    let key = Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).unwrap()));
    let sealed = bytes(SEALED);
    assert_eq!(open(&key, PLACE, &sealed).unwrap().as_slice(), b"4242424242424242");
    let key = WrappingKey::new(key);
    let envelope = bytes(ENVELOPE);
    let opened = open_enveloped(|v| (v == 7).then_some(&key), PLACE, &envelope);
    assert_eq!(opened.unwrap().as_slice(), b"4242424242424242");
}
