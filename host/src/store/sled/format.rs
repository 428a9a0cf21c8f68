//! Formats of a store. One that is not the first is read as it is, and is one of the last from the first write on: software
//! that does not know that format finds there that it cannot read the store.
//!
//! | Format | What it has that the one before had not |
//! |---|---|
//! | 10 | what log entries and what is told of runs have behind their other members, and where moved tokens lay last |
//! | 9 | what the journal says of the tree ([`super::note`]) |
//! | 8 | what the tree says of the journal ([`super::note`]) |
//! | 7 | records and ledgers sealed with keys that are derived, not wrapped or used for all of them |
//! | 6 | tokens and what is told of runs sealed in short instead of as JSON, and runs in packs |
//! | 5 | log entries sealed in short |
//! | 4 | a journal ([`super::journal`]) |
//! | 3 | packs of log entries ([`super::packs`]) |
//! | 2 | tags, places in the chain and ledgers ([`super::guard`]); a store of the first is brought to it when it opens |
//! | 1 | |

/// The key of the format's version.
pub const FORMAT_KEY: &[u8] = b"mformat";
/// The format that is written.
pub const FORMAT: &[u8] = FORMATS[0];
/// All that are read.
pub const FORMATS: [&[u8]; 10] = [b"10", b"9", b"8", b"7", b"6", b"5", b"4", b"3", b"2", b"1"];
/// The format before packs.
pub const FORMAT_2: &[u8] = FORMATS[8];
/// The first format.
pub const FORMAT_1: &[u8] = FORMATS[9];
/// The format of a store of the first one while it is brought to the last. Software that reads no later one than the first
/// would take what has a tag already for something else.
pub const UPGRADING: &[u8] = b"1 to another";

/// Whether a store of this format can be read.
pub fn is_read(format: &[u8]) -> bool {
    FORMATS.contains(&format) || format == UPGRADING
}

/// Whether a store of this format that has a journal says so.
pub fn has_note(format: &[u8]) -> bool {
    FORMATS[..3].contains(&format)
}

/// Whether records of this format may lack tags.
pub fn is_first(format: &[u8]) -> bool {
    format == FORMAT_1 || format == UPGRADING
}
