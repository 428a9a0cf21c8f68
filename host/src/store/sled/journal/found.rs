//! Records of the journal, as they are found in its file.

use super::{HALF, PAGE};
use crate::crypto::integrity::digest;
use crate::store::sled::changes::Rows;

/// How a record begins, behind its digest.
pub const MAGIC: [u8; 8] = *b"tkjrnl02";
/// That of records before notes were counted.
pub const MAGIC_1: [u8; 8] = *b"tkjrnl01";
/// What is before a record's rows: a digest over all the rest, [`MAGIC`], three numbers and a length.
pub const HEADER: usize = DIGEST + 8 + 8 + 8 + 8 + 4;
/// Bytes of the digest.
pub const DIGEST: usize = 16;

/// A record, as it was found.
pub struct Found {
    /// Its number.
    pub number: u64,
    /// Up to which one the tree had everything.
    pub settled: u64,
    /// How many notes the tree had.
    pub noted: u64,
    /// Where it ends.
    pub end: usize,
    /// The group's rows.
    pub rows: Rows,
}

/// All records that are whole, wherever they lie.
pub fn records(bytes: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let record = record(&rest[..rest.len().min(HALF)]);
        at += record.as_ref().map_or(PAGE, |(_, length)| length.next_multiple_of(PAGE));
        found.extend(record.map(|(record, _)| Found { end: at, ..record }));
    }
    found
}

/// The record that begins here, and its length.
fn record(bytes: &[u8]) -> Option<(Found, usize)> {
    let (kept, rest) = bytes.split_first_chunk::<DIGEST>()?;
    let (magic, rest) = rest.split_first_chunk::<8>()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (settled, rest) = rest.split_first_chunk()?;
    let (noted, rest) = match *magic {
        MAGIC => rest.split_first_chunk()?,
        MAGIC_1 => (&[0; 8], rest),
        _ => return None,
    };
    let (length, rest) = rest.split_first_chunk()?;
    let rows = rest.get(..u32::from_be_bytes(*length) as usize)?;
    let end = bytes.len() - rest.len() + rows.len();
    if *kept != checked(&bytes[DIGEST..end]) {
        return None;
    }
    let [number, settled, noted] =
        [number, settled, noted].map(|number| u64::from_be_bytes(*number));
    Some((Found { number, settled, noted, end: 0, rows: Rows::read(rows)? }, end))
}

/// Whether a record of this number begins here.
pub fn begins(bytes: &[u8], number: u64) -> bool {
    let begins = |magic: [u8; 8]| {
        let begin = [magic, number.to_be_bytes()].concat();
        bytes.get(DIGEST..).is_some_and(|rest| rest.starts_with(&begin))
    };
    begins(MAGIC) || begins(MAGIC_1)
}

pub fn checked(bytes: &[u8]) -> [u8; DIGEST] {
    let mut short = [0; DIGEST];
    short.copy_from_slice(&digest(&[bytes])[..DIGEST]);
    short
}
