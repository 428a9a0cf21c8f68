//! The rows of the tree: keys and encodings.
//!
//! | Prefix | Key | Value |
//! |---|---|---|
//! | `m` | name | the format's version; the sealed ledger over all tenants; a note on the journal ([`super::note`]) |
//! | `l` | tenant | the tenant's ledger, sealed ([`super::guard`]) |
//! | `r` | kind, tenant, id | head of the record with its tag, and its body if that is short |
//! | `e` | kind, tenant, id | records put together, heads and bodies, from the one with this id on ([`super::packs`]) |
//! | `c` | kind, tenant, id, 0, version, number | a piece of a long body |
//! | `p` | kind, tenant, id, 0, version | how many pieces lie there that are of no record, yet or any more |
//! | `i` | kind, tenant, `order_ms`, id | terms and numbers, apart from bodies so that opening reads no body but those in packs |
//! | `u` | kind, unique value | tenant and id of the record that has it |
//!
//! Numbers are big-endian, so that keys sort by them. A head of the first format ([`super::format`]) has no tag; the highest
//! bit of its version tells them apart, so that a store can be brought to the second one row by row.

pub use super::format::{FORMAT, FORMAT_1, FORMAT_2, FORMAT_KEY, UPGRADING, is_first, is_read};
use super::log::pieces_of;
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::store::{Field, Kind, Record, StoreError, Term, Unique};

/// Longer bodies, and some with long heads, are cut into pieces of this length: [`super::log`] says why rows must be short.
pub const PIECE_BYTES: usize = 4 << 10;
/// Pieces of bodies that may be written or removed before a sync, about.
pub const PIECES_MAX: usize = 256;
/// The key of the ledger over all tenants.
pub const LEDGER_KEY: &[u8] = b"mledger";
/// The prefix of tenants' ledgers.
pub const TENANT_LEDGER_PREFIX: &[u8] = b"l";
/// The prefix of heads.
pub const HEAD_PREFIX: &[u8] = b"r";
/// The prefix of packs.
pub const PACK_PREFIX: &[u8] = b"e";
/// The prefix of pieces.
pub const PIECE_PREFIX: &[u8] = b"c";
/// The prefix of rows of unique values.
pub const UNIQUE_PREFIX: &[u8] = b"u";
/// Set in the version of a head that has a tag.
const TAGGED: u64 = 1 << 63;
/// The prefix of index rows.
pub const INDEX_PREFIX: &[u8] = b"i";
/// The prefix of notes on pieces of no record.
pub const LEFT_PREFIX: &[u8] = b"p";

/// Where a record lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Its kind.
    pub kind: Kind,
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: String,
}

impl Address {
    /// The key of the record's head.
    pub fn head_key(&self) -> Vec<u8> {
        self.key(HEAD_PREFIX[0])
    }

    /// The key of a pack that begins with this entry.
    pub fn pack_key(&self) -> Vec<u8> {
        self.key(PACK_PREFIX[0])
    }

    fn key(&self, prefix: u8) -> Vec<u8> {
        let mut key = Vec::with_capacity(18 + self.id.len());
        key.push(prefix);
        self.write(&mut key);
        key.extend_from_slice(self.id.as_bytes());
        key
    }

    /// Reads what [`Self::head_key`] or [`Self::pack_key`] wrote.
    pub fn of_head_key(key: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader(key.get(HEAD_PREFIX.len()..).ok_or_else(cut_short)?);
        let [kind] = reader.array()?;
        let tenant = reader.tenant()?;
        Ok(Self { kind: Kind(kind), tenant, id: reader.rest_as_text()? })
    }

    /// Reads what [`Self::piece_key`] wrote: the record, its version, and the number of the piece.
    pub fn of_piece_key(key: &[u8]) -> Result<(Self, u64, u32), StoreError> {
        let (key, number) = key.split_last_chunk::<4>().ok_or_else(cut_short)?;
        let Left { address, version, .. } = Left::read(key, &[0; 4])?;
        Ok((address, version, u32::from_be_bytes(*number)))
    }

    /// The key of a piece of the body that the record has at a version.
    pub fn piece_key(&self, version: u64, number: u32) -> Vec<u8> {
        let mut key = self.versioned_key(b'c', version);
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    fn versioned_key(&self, prefix: u8, version: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(31 + self.id.len());
        key.push(prefix);
        self.write(&mut key);
        key.extend_from_slice(self.id.as_bytes());
        key.push(0);
        key.extend_from_slice(&version.to_be_bytes());
        key
    }

    /// The key of the index row.
    pub fn index_key(&self, order_ms: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(26 + self.id.len());
        key.extend_from_slice(INDEX_PREFIX);
        self.write(&mut key);
        key.extend_from_slice(&order_ms.to_be_bytes());
        key.extend_from_slice(self.id.as_bytes());
        key
    }

    fn write(&self, key: &mut Vec<u8>) {
        key.push(self.kind.0);
        key.extend_from_slice(self.tenant.0.as_bytes());
    }
}

/// Pieces that lie in the tree but are of no record: not yet, or not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The record whose body they are a part of.
    pub address: Address,
    /// The version that had or will have the body.
    pub version: u64,
    /// How many.
    pub pieces: u32,
}

impl Left {
    /// The key of the note.
    pub fn key(&self) -> Vec<u8> {
        self.address.versioned_key(LEFT_PREFIX[0], self.version)
    }

    /// The value of the note.
    pub fn value(&self) -> [u8; 4] {
        self.pieces.to_be_bytes()
    }

    /// The keys of the pieces from this one on, and behind them that of the note.
    pub fn keys(&self, first: u32) -> impl Iterator<Item = Vec<u8>> + use<> {
        let Self { address, version, pieces } = self.clone();
        let note = self.key();
        (first..pieces).map(move |number| address.piece_key(version, number)).chain([note])
    }

    /// Reads a note.
    pub fn read(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let (key, version) = key.split_last_chunk::<8>().ok_or_else(cut_short)?;
        let mut reader = Reader(key.get(LEFT_PREFIX.len()..).ok_or_else(cut_short)?);
        let [kind] = reader.array()?;
        let tenant = reader.tenant()?;
        let (0, id) = reader.0.split_last().map(|(end, id)| (*end, id)).ok_or_else(cut_short)?
        else {
            return Err(cut_short());
        };
        let id = Reader(id).rest_as_text()?;
        let address = Address { kind: Kind(kind), tenant, id };
        let pieces = Reader(value).u32()?;
        Ok(Self { address, version: u64::from_be_bytes(*version), pieces })
    }
}

/// The key of a unique value.
pub fn unique_key(kind: Kind, unique: Unique) -> Vec<u8> {
    let mut key = Vec::with_capacity(34);
    key.extend_from_slice(&[b'u', kind.0]);
    key.extend_from_slice(&unique.0);
    key
}

/// The value under a unique key.
pub fn unique_value(tenant: TenantId, id: &str) -> Vec<u8> {
    let mut value = tenant.0.as_bytes().to_vec();
    value.extend_from_slice(id.as_bytes());
    value
}

/// Reads what [`unique_value`] wrote.
pub fn read_unique(value: &[u8]) -> Result<(TenantId, String), StoreError> {
    let mut reader = Reader(value);
    Ok((reader.tenant()?, reader.rest_as_text()?))
}

/// The place of a log entry in its tenant's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its number; the first one has 1.
    pub sequence: u64,
    /// The hash over it and the hash of the one before.
    pub hash: Hash,
}

/// What notices that a record was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// A keyed hash over all of the record.
    pub tag: Hash,
    /// Of a log entry: its place in the chain.
    pub link: Option<Link>,
}

/// Everything of a record but its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// How often it was written.
    pub version: u64,
    /// When it was made.
    pub order_ms: u64,
    /// Pieces of its body; none when the body follows the head.
    pub pieces: u32,
    /// What it is found by.
    pub terms: Vec<Term>,
    /// What it is found by, in ranges.
    pub numbers: Vec<(Field, u64)>,
    /// Its unique values.
    pub uniques: Vec<Unique>,
    /// What notices that it was changed; nothing in the first format, and before it is made.
    pub seal: Option<Seal>,
    /// Whether it lies in a pack. Its row does not say so, and [`Self::read`] says no.
    pub packed: bool,
}

impl Head {
    /// The head of a record that is stored as this version.
    pub fn of(record: &Record, version: u64) -> Self {
        let pieces = u32::try_from(pieces_of(record)).unwrap_or(u32::MAX);
        Self {
            version,
            order_ms: record.order_ms,
            pieces,
            terms: record.terms.clone(),
            numbers: record.numbers.clone(),
            uniques: record.uniques.clone(),
            seal: None,
            packed: false,
        }
    }

    /// The place in the chain, if it is a log entry's.
    pub fn link(&self) -> Option<Link> {
        self.seal.and_then(|seal| seal.link)
    }

    /// The head as a value, the body after it if it is short.
    pub fn to_value(&self, body: &[u8]) -> Vec<u8> {
        let inline = if self.pieces == 0 { body } else { &[] };
        let mut value = Vec::with_capacity(99 + self.terms.len() * 16 + inline.len());
        let tagged = if self.seal.is_some() { TAGGED } else { 0 };
        value.extend_from_slice(&(self.version | tagged).to_be_bytes());
        value.extend_from_slice(&self.order_ms.to_be_bytes());
        value.extend_from_slice(&self.pieces.to_be_bytes());
        write_found_by(&mut value, &self.terms, &self.numbers);
        write_count(&mut value, self.uniques.len());
        for unique in &self.uniques {
            value.extend_from_slice(&unique.0);
        }
        if let Some(Seal { tag, link }) = &self.seal {
            value.extend_from_slice(tag);
            value.push(u8::from(link.is_some()));
            if let Some(Link { sequence, hash }) = link {
                value.extend_from_slice(&sequence.to_be_bytes());
                value.extend_from_slice(hash);
            }
        }
        value.extend_from_slice(inline);
        value
    }

    /// Reads a head, and the body that follows it.
    pub fn read(value: &[u8]) -> Result<(Self, &[u8]), StoreError> {
        let mut reader = Reader(value);
        let (version, order_ms, pieces) = (reader.u64()?, reader.u64()?, reader.u32()?);
        let (terms, numbers) = reader.found_by()?;
        let uniques = reader.list(|reader| reader.array().map(Unique))?;
        let seal = (version & TAGGED != 0).then(|| reader.seal()).transpose()?;
        let version = version & !TAGGED;
        let packed = false;
        let head = Self { version, order_ms, pieces, terms, numbers, uniques, seal, packed };
        Ok((head, reader.0))
    }
}

/// The value of an index row.
pub fn index_value(terms: &[Term], numbers: &[(Field, u64)]) -> Vec<u8> {
    let mut value = Vec::with_capacity(4 + terms.len() * 16 + numbers.len() * 9);
    write_found_by(&mut value, terms, numbers);
    value
}

/// An index row, read.
pub struct IndexRow {
    /// The record's kind.
    pub kind: Kind,
    /// The record's tenant.
    pub tenant: TenantId,
    /// When the record was made.
    pub order_ms: u64,
    /// The record's id.
    pub id: String,
    /// What it is found by.
    pub terms: Vec<Term>,
    /// What it is found by, in ranges.
    pub numbers: Vec<(Field, u64)>,
}

impl IndexRow {
    /// Reads a row.
    pub fn read(key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader(&key[INDEX_PREFIX.len()..]);
        let [kind] = reader.array()?;
        let tenant = reader.tenant()?;
        let order_ms = reader.u64()?;
        let id = reader.rest_as_text()?;
        let (terms, numbers) = Reader(value).found_by()?;
        Ok(Self { kind: Kind(kind), tenant, order_ms, id, terms, numbers })
    }
}

fn write_found_by(value: &mut Vec<u8>, terms: &[Term], numbers: &[(Field, u64)]) {
    write_count(value, terms.len());
    for term in terms {
        value.extend_from_slice(&term.0);
    }
    write_count(value, numbers.len());
    for (field, number) in numbers {
        value.push(field.0);
        value.extend_from_slice(&number.to_be_bytes());
    }
}

fn write_count(value: &mut Vec<u8>, count: usize) {
    // The vault's limits keep every list far below this.
    value.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_be_bytes)
    }

    fn tenant(&mut self) -> Result<TenantId, StoreError> {
        self.array().map(|bytes| TenantId(uuid::Uuid::from_bytes(bytes)))
    }

    fn seal(&mut self) -> Result<Seal, StoreError> {
        let tag = self.array()?;
        let link = match self.array()? {
            [0] => None,
            [1] => Some(Link { sequence: self.u64()?, hash: self.array()? }),
            [_] => return Err(cut_short()),
        };
        Ok(Seal { tag, link })
    }

    fn rest_as_text(&self) -> Result<String, StoreError> {
        String::from_utf8(self.0.to_vec()).map_err(|_| cut_short())
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let count = u16::from_be_bytes(self.array()?);
        (0..count).map(|_| item(self)).collect()
    }

    #[expect(clippy::type_complexity, reason = "the two lists that an index row is")]
    fn found_by(&mut self) -> Result<(Vec<Term>, Vec<(Field, u64)>), StoreError> {
        let terms = self.list(|reader| reader.array().map(Term))?;
        let numbers = self.list(|reader| {
            let [field] = reader.array()?;
            Ok((Field(field), reader.u64()?))
        })?;
        Ok((terms, numbers))
    }
}

/// What is to be said of a row that cannot be read.
pub fn cut_short() -> StoreError {
    StoreError::Damaged("a row is cut short".to_owned())
}
