//! Noticing changes of what is stored: tags of rows, links of chains, sums of sets.
//!
//! All are HMAC-SHA-256 under keys of their own, derived from one secret. A tag is kept beside its row. An element
//! stands for a row in a [`Sum`]; it is never shown, and the sums themselves are sealed, so that nobody without the
//! key can look for other rows that sum up to the same. A link is the hash of a log entry and of the one before it.

use std::fmt;

use aws_lc_rs::{digest, hmac};
use subtle::ConstantTimeEq as _;

use super::entropy::Entropy;
use super::hash;
use super::seal::{self, Key, Place, SealError, WrappingKey};
use super::wiped::Wiped;

/// A hash.
pub type Hash = [u8; 32];

/// The keys, made ready.
#[derive(Clone)]
pub struct IntegrityKey {
    tags: hmac::Key,
    elements: hmac::Key,
    links: hmac::Key,
    sums: WrappingKey,
    /// Sealed sums itself, up to the sixth format of the store.
    sums_before: Key,
}

impl IntegrityKey {
    /// Derives the keys from a secret.
    pub fn derive(secret: &Key) -> Self {
        let own =
            |purpose: &str| Key::from(hash::keyed(secret, &[b"integrity", purpose.as_bytes()]));
        let ready = |purpose: &str| hmac::Key::new(hmac::HMAC_SHA256, own(purpose).as_slice());
        Self {
            tags: ready("tags"),
            elements: ready("elements"),
            links: ready("links"),
            sums: WrappingKey::new(own("sums")),
            sums_before: own("sums"),
        }
    }

    /// The tag of a row; the bytes must tell everything of it, in one way only.
    pub fn tag(&self, row: &[u8]) -> Hash {
        keyed(&self.tags, row)
    }

    /// What stands for a row in a [`Sum`].
    pub fn element(&self, row: &[u8]) -> Hash {
        keyed(&self.elements, row)
    }

    /// The hash of a log entry that follows another.
    pub fn link(&self, entry: &[u8]) -> Hash {
        keyed(&self.links, entry)
    }

    /// Seals what was summed up, for its place; apart, since every group of commits does so for as long as the store lasts.
    pub fn seal(
        &self,
        place: Place<'_>,
        text: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<Vec<u8>, SealError> {
        seal::seal_apart(&self.sums, place, text, entropy)
    }

    /// Opens what [`Self::seal`] makes, or made when it sealed nothing apart.
    pub fn open(&self, place: Place<'_>, sealed: &[u8]) -> Result<Wiped, SealError> {
        let apart = seal::open_apart(&self.sums, place, sealed);
        apart.or_else(|_| seal::open(&self.sums_before, place, sealed))
    }
}

impl fmt::Debug for IntegrityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IntegrityKey(..)")
    }
}

fn keyed(key: &hmac::Key, bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(hmac::sign(key, bytes).as_ref());
    hash
}

/// Whether two hashes are one; takes as long for any two.
pub fn same(one: &Hash, other: &Hash) -> bool {
    one.ct_eq(other).into()
}

/// SHA-256 over parts, each with its length before it.
pub fn digest(parts: &[&[u8]]) -> Hash {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// A sum of elements modulo 2^256: of the same ones in any order it is the same.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum([u64; 4]);

impl Sum {
    /// Adds an element.
    pub fn add(&mut self, element: &Hash) {
        self.add_sum(Self::from_bytes(element));
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: Self) {
        let mut carry = false;
        for (limb, more) in self.0.iter_mut().zip(other.0) {
            let (sum, over) = limb.overflowing_add(more);
            let (sum, over_too) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over || over_too;
        }
    }

    /// Takes an element away.
    pub fn subtract(&mut self, element: &Hash) {
        let mut borrow = false;
        for (limb, less) in self.0.iter_mut().zip(Self::from_bytes(element).0) {
            let (rest, under) = limb.overflowing_sub(less);
            let (rest, under_too) = rest.overflowing_sub(u64::from(borrow));
            *limb = rest;
            borrow = under || under_too;
        }
    }

    /// The sum as bytes, the smallest first.
    pub fn to_bytes(self) -> Hash {
        let mut bytes = [0; 32];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &Hash) -> Self {
        let mut limbs = [0; 4];
        for (limb, chunk) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(chunk);
            *limb = u64::from_le_bytes(eight);
        }
        Self(limbs)
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sum(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{IntegrityKey, Sum, digest};
    use crate::crypto::entropy::SeededEntropy;
    use crate::crypto::hash;
    use crate::crypto::seal::{self, Key, Place};

    proptest! {
        #[test]
        fn sums_forget_the_order_and_nothing_else(
            elements in prop::collection::vec(any::<[u8; 32]>(), 1..8),
            at in any::<prop::sample::Index>(),
        ) {
            let sum = |elements: &mut dyn Iterator<Item = &[u8; 32]>| {
                let mut sum = Sum::default();
                elements.for_each(|element| sum.add(element));
                sum
            };
            let all = sum(&mut elements.iter());
            prop_assert_eq!(all, sum(&mut elements.iter().rev()));
            prop_assert_eq!(Sum::from_bytes(&all.to_bytes()), all);
            let gone = at.index(elements.len());
            let mut less = all;
            less.subtract(&elements[gone]);
            let rest = elements.iter().enumerate().filter(|(index, _)| *index != gone);
            prop_assert_eq!(less, sum(&mut rest.map(|(_, element)| element)));
            less.add(&elements[gone]);
            prop_assert_eq!(less, all);
        }
    }

    #[test]
    fn carries_go_through_all_limbs() {
        let mut sum = Sum::from_bytes(&[0xff; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        sum.add(&one);
        assert_eq!(sum, Sum::default());
        sum.subtract(&one);
        assert_eq!(sum.to_bytes(), [0xff; 32]);
    }

    #[test]
    fn sums_are_sealed_apart_and_those_of_before_open() {
        let (secret, entropy) = (Key::from([1; 32]), SeededEntropy::new(1));
        let key = IntegrityKey::derive(&secret);
        let place = Place { kind: 1, tenant: &[7; 16], id: "ledger" };
        let before = Key::from(hash::keyed(&secret, &[b"integrity", b"sums"]));
        let sealed = key.seal(place, b"a sum", &entropy).unwrap();
        assert!((0..sealed.len()).all(|at| seal::open(&before, place, &sealed[at..]).is_err()));
        let sealed_before = seal::seal(&before, place, b"a sum", &entropy).unwrap();
        for mut sealed in [sealed, sealed_before] {
            assert_eq!(key.open(place, &sealed).unwrap().as_slice(), b"a sum");
            sealed[0] ^= 1;
            assert!(key.open(place, &sealed).is_err());
        }
    }

    #[test]
    fn each_purpose_and_each_secret_has_a_key_of_its_own() {
        let (one, other) = (Key::from([1; 32]), Key::from([2; 32]));
        let (one, other) = (IntegrityKey::derive(&one), IntegrityKey::derive(&other));
        let mut hashes =
            vec![one.tag(b"a"), one.element(b"a"), one.link(b"a"), other.tag(b"a"), one.tag(b"b")];
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 5);
        assert_eq!(format!("{one:?}"), "IntegrityKey(..)");
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    }
}
