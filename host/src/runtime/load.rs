//! Compiled code: where it may come from, and loading it. The one place that must trust its bytes.

use object::{Object as _, ObjectSection as _};
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

use crate::crypto::hash;
use crate::crypto::seal::Key;

/// Bytes of a keyed hash before the code, in a file.
pub const MAC_BYTES: usize = 32;
/// Bytes of the length before the code, from a process.
const LENGTH_BYTES: usize = 8;
/// Bytes of the code's SHA-256 in hexadecimal, from a process.
const CHECKSUM_BYTES: usize = 64;
/// Bytes before the code, from a process.
pub const HEADER_BYTES: usize = LENGTH_BYTES + CHECKSUM_BYTES;

/// The section of the code in which wasmtime describes its parts.
const DESCRIPTION: &str = ".wasmtime.info";
/// The section with what memories begin with. It is copied once more, to where runs map it from.
const IMAGES: &str = ".rodata.wasm";
/// How many times as much its description takes once it is loaded, at most: each exported name becomes a row of a table.
const DESCRIPTION_GROWS: u64 = 20;

/// Machine code of a component. There are three ways to one: [`compile`], a process that did the same
/// ([`Self::received`]), and a file that somebody who holds the key wrote ([`Self::authentic`]).
pub struct Compiled {
    /// The code, behind whatever it came with.
    bytes: Vec<u8>,
    /// Where the code begins.
    start: usize,
}

/// Compiles a component in an engine of its own.
pub fn compile(engine: &Engine, component: &[u8]) -> Result<Compiled> {
    engine.precompile_component(component).map(|bytes| Compiled { bytes, start: 0 })
}

/// The length that a process announces of its code, if these are the first bytes of some: text that says why there is none
/// begins otherwise.
pub fn announced(header: &[u8]) -> Option<u64> {
    let length = header.first_chunk::<LENGTH_BYTES>()?;
    (length[0] == 0).then(|| u64::from_be_bytes(*length))
}

impl Compiled {
    /// The code as a process that compiles hands it over: what must come before it.
    pub fn header(&self) -> Vec<u8> {
        let mut header = (self.code().len() as u64).to_be_bytes().to_vec();
        header.extend_from_slice(hash::sha256_hex(self.code()).as_bytes());
        header
    }

    /// What a process of this program handed over: [`Self::header`] and the code. `None` when a part is missing or
    /// differs. Give it nothing that came another way: a checksum keeps out accidents, not intent.
    pub fn received(bytes: Vec<u8>) -> Option<Self> {
        let (header, code) = bytes.split_at_checked(HEADER_BYTES)?;
        let (length, checksum) = header.split_at(LENGTH_BYTES);
        let whole = length == (code.len() as u64).to_be_bytes()
            && checksum == hash::sha256_hex(code).as_bytes();
        whole.then_some(Self { bytes, start: HEADER_BYTES })
    }

    /// What a file of this name must hold before the code.
    pub fn mac(&self, key: &Key, name: &str) -> [u8; MAC_BYTES] {
        hash::keyed(key, &[name.as_bytes(), self.code()])
    }

    /// A file's bytes: [`Self::mac`] and the code. `None` unless they were written by who held the key, for this name.
    pub fn authentic(bytes: Vec<u8>, key: &Key, name: &str) -> Option<Self> {
        let (mac, code) = bytes.split_at_checked(MAC_BYTES)?;
        let authentic = hash::is_keyed(mac, key, &[name.as_bytes(), code]);
        authentic.then_some(Self { bytes, start: MAC_BYTES })
    }

    /// The machine code.
    pub fn code(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Bytes that describe the component's parts: its types, imports, exports and instances.
    pub fn described_bytes(&self) -> u64 {
        self.section_bytes(DESCRIPTION)
    }

    /// About how much memory the code takes once it is loaded.
    pub fn memory_bytes(&self) -> u64 {
        let twice = self.section_bytes(IMAGES);
        self.code().len() as u64 + DESCRIPTION_GROWS * self.described_bytes() + twice
    }

    fn section_bytes(&self, name: &str) -> u64 {
        let code = object::File::parse(self.code()).ok();
        let section = code.as_ref().and_then(|code| code.section_by_name(name));
        section.map_or(0, |section| section.size())
    }

    /// Loads the code for an engine of the same configuration.
    #[expect(
        unsafe_code,
        reason = "the bytes come from the compiler, unchanged: see where one can be had from"
    )]
    pub fn load(&self, engine: &Engine) -> Result<Component> {
        // SAFETY: `self` was made in one of the three ways above, and its bytes, which are in memory of our own, did not
        // change since they were looked at. A mismatch of configuration or version is found by wasmtime and is an error.
        unsafe { Component::deserialize(engine, self.code()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Compiled, HEADER_BYTES, MAC_BYTES};
    use crate::crypto::seal::Key;

    const CODE: &[u8] = b"as if it were code";

    fn compiled() -> Compiled {
        Compiled { bytes: CODE.to_vec(), start: 0 }
    }

    #[test]
    fn what_a_process_hands_over_is_taken_whole_or_not_at_all() {
        let mut sent = compiled().header();
        assert_eq!(sent.len(), HEADER_BYTES);
        sent.extend_from_slice(CODE);
        assert_eq!(Compiled::received(sent.clone()).unwrap().code(), CODE);
        for length in 0..sent.len() {
            assert!(Compiled::received(sent[..length].to_vec()).is_none(), "cut at {length}");
        }
        for at in 0..sent.len() {
            let mut other = sent.clone();
            other[at] ^= 1;
            assert!(Compiled::received(other).is_none(), "another byte at {at}");
        }
        sent.push(0);
        assert!(Compiled::received(sent).is_none());
    }

    #[test]
    fn a_file_is_taken_by_its_key_and_name_only() {
        let (key, other) = (Key::from([1; 32]), Key::from([2; 32]));
        let file = [&compiled().mac(&key, "name")[..], CODE].concat();
        assert_eq!(Compiled::authentic(file.clone(), &key, "name").unwrap().code(), CODE);
        assert!(Compiled::authentic(file.clone(), &key, "another").is_none());
        assert!(Compiled::authentic(file.clone(), &other, "name").is_none());
        for length in 0..file.len() {
            let cut = file[..length].to_vec();
            assert!(Compiled::authentic(cut, &key, "name").is_none(), "cut at {length}");
        }
        for at in 0..MAC_BYTES + CODE.len() {
            let mut other = file.clone();
            other[at] ^= 1;
            assert!(Compiled::authentic(other, &key, "name").is_none(), "another byte at {at}");
        }
    }
}
