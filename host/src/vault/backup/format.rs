//! The format of backups, version 1. What is changed here needs another version, and what reads this one stays.
//!
//! A chunk is a header and rows. Header: `TOKBAK`, 0, version (1 byte), the backup's id (16), the chunk's number from 1 on
//! (4), length of what follows (4). Then the rows, sealed as `crypto::seal` does, for this id and number: nonce (12),
//! ciphertext, tag (16). A row is the length of its key (4), the key, the length of its value (4), the value. Numbers are
//! big-endian.
//!
//! The manifest tells how many chunks and rows there are, and the digest over all chunks; a keyed hash binds all it says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::crypto::entropy::Entropy;
use crate::crypto::hash::{is_keyed, keyed, sha256_hex};
use crate::crypto::keys::RootKey;
use crate::crypto::seal::{self, Key, Place, SealError};
use crate::model::time::Timestamp;
use crate::store::Row;

/// The name of the format.
pub const FORMAT: &str = "tokamak-backup";
/// Its version.
pub const VERSION: u8 = 1;
/// Bytes of rows in a chunk, about.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a file that can be a chunk, at most.
pub const CHUNK_FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a file that can be a manifest, at most.
pub const MANIFEST_BYTES_MAX: u64 = 64 << 10;
/// What the root key derives a backup's key for, together with the backup's id.
pub const KEY_PURPOSE: &str = "backup";

const MAGIC: &[u8; 8] = b"TOKBAK\0\x01";
const HEADER_BYTES: usize = 8 + 16 + 4 + 4;

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u8,
    /// Tells this backup from others.
    pub id: Uuid,
    /// About when the moment was that it holds (RFC 3339).
    pub created_at: String,
    /// Tells which root key opens it; the same as in `tokamak keys status`.
    pub root_key_id: String,
    /// How many chunks there are.
    pub chunks: u32,
    /// How many rows in all of them.
    pub rows: u64,
    /// Bytes of all rows.
    pub bytes: u64,
    /// Whether all of it is there.
    pub complete: bool,
    /// The digest over all chunks, in their order.
    pub digest: String,
    /// The keyed hash of all this, in base64.
    pub seal: String,
}

impl Manifest {
    /// Of a backup that has nothing yet.
    pub fn begin(id: Uuid, now: Timestamp, root: &RootKey) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            id,
            created_at: now.to_string(),
            root_key_id: root_key_id(root),
            chunks: 0,
            rows: 0,
            bytes: 0,
            complete: false,
            digest: String::new(),
            seal: String::new(),
        }
    }

    /// Counts a chunk of these rows.
    pub fn count(&mut self, rows: &[Row]) {
        self.chunks += 1;
        self.rows += rows.len() as u64;
        self.bytes += rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }

    /// Says that all chunks are there.
    pub fn finish(&mut self, key: &Key, chain: &Chain) {
        self.complete = true;
        self.digest.clone_from(&chain.0);
        self.seal = self.parts(|parts| STANDARD.encode(keyed(key, parts)));
    }

    /// Whether it is as it was written.
    pub fn is_whole(&self, key: &Key) -> bool {
        let Ok(seal) = STANDARD.decode(&self.seal) else { return false };
        self.complete && self.parts(|parts| is_keyed(&seal, key, parts))
    }

    /// Whether these are the digests of all its chunks, in their order.
    pub fn is_over<'d>(&self, digests: impl IntoIterator<Item = &'d str>) -> bool {
        let mut chain = Chain::default();
        for digest in digests {
            chain.add_digest(digest);
        }
        chain.0 == self.digest
    }

    fn parts<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        with(&[
            b"backup manifest",
            self.format.as_bytes(),
            &[self.version],
            self.id.as_bytes(),
            self.created_at.as_bytes(),
            self.root_key_id.as_bytes(),
            &self.chunks.to_be_bytes(),
            &self.rows.to_be_bytes(),
            &self.bytes.to_be_bytes(),
            self.digest.as_bytes(),
        ])
    }
}

/// The digest over chunks: of the one before and this chunk's, in hexadecimal, beginning with nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain(pub String);

impl Chain {
    /// Goes on with a chunk.
    pub fn add(&mut self, chunk: &[u8]) {
        self.add_digest(&sha256_hex(chunk));
    }

    fn add_digest(&mut self, digest: &str) {
        self.0 = sha256_hex([self.0.as_str(), digest].concat().as_bytes());
    }
}

/// How a root key is named.
pub fn root_key_id(root: &RootKey) -> String {
    Uuid::from_bytes(root.id()).simple().to_string()
}

/// What is wrong with a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It does not begin as a chunk does.
    NoChunk,
    /// It belongs to another backup.
    OtherBackup,
    /// It is the chunk of this number.
    Other(u32),
    /// It is shorter or longer than it was.
    Length,
    /// It does not open.
    Changed,
}

/// Makes a chunk of rows.
pub fn seal_chunk(
    (key, id): (&Key, Uuid),
    number: u32,
    rows: &[Row],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, SealError> {
    let mut text = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8);
    for part in rows.iter().flat_map(|(key, value)| [key, value]) {
        let length = u32::try_from(part.len()).map_err(|_| SealError::Format)?;
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(part);
    }
    let sealed = seal::seal(key, place(id.as_bytes(), &number.to_string()), &text, entropy)?;
    let length = u32::try_from(sealed.len()).map_err(|_| SealError::Format)?;
    let mut chunk = Vec::with_capacity(HEADER_BYTES + sealed.len());
    for part in [MAGIC.as_slice(), id.as_bytes(), &number.to_be_bytes(), &length.to_be_bytes()] {
        chunk.extend_from_slice(part);
    }
    chunk.extend_from_slice(&sealed);
    Ok(chunk)
}

/// The rows of a chunk.
pub fn open_chunk((key, id): (&Key, Uuid), number: u32, chunk: &[u8]) -> Result<Vec<Row>, Wrong> {
    let (header, sealed) = chunk.split_at_checked(HEADER_BYTES).ok_or(Wrong::Length)?;
    let (magic, header) = header.split_at(MAGIC.len());
    let (of, header) = header.split_at(16);
    let (found, length) = header.split_at(4);
    if magic != MAGIC {
        return Err(Wrong::NoChunk);
    }
    if of != id.as_bytes() {
        return Err(Wrong::OtherBackup);
    }
    match big_endian(found) {
        Some(found) if found != number => return Err(Wrong::Other(found)),
        _ => {}
    }
    if big_endian(length) != u32::try_from(sealed.len()).ok() {
        return Err(Wrong::Length);
    }
    let number = number.to_string();
    let text =
        seal::open(key, place(id.as_bytes(), &number), sealed).map_err(|_| Wrong::Changed)?;
    let (mut rest, mut rows) = (text.as_slice(), Vec::new());
    while !rest.is_empty() {
        let key = part(&mut rest).ok_or(Wrong::Changed)?;
        rows.push((key, part(&mut rest).ok_or(Wrong::Changed)?));
    }
    Ok(rows)
}

/// The place of a chunk. Its key seals nothing else, so that no record can have the same.
fn place<'p>(id: &'p [u8; 16], number: &'p str) -> Place<'p> {
    Place { kind: 0, tenant: id, id: number }
}

fn big_endian(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn part(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, behind) = rest.split_at_checked(4)?;
    let (part, behind) = behind.split_at_checked(usize::try_from(big_endian(length)?).ok()?)?;
    *rest = behind;
    Some(part.to_vec())
}
