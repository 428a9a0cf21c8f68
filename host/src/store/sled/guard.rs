//! Protection of rows against changes by others ([`crate::store::Protection`] says what is noticed).
//!
//! [`Guard::protect_row`] is the one way by which a record gets its tag and its place in the chain, whoever writes it:
//! a commit, one that seals a record anew, or the upgrade of an old store. The guard belongs to the writer: the order of
//! the chain is the order of commits, and ledgers go with the rows that they tell of.
//!
//! What a tag is over says [`tagged`], what an entry's hash is over says [`linked`].

use std::collections::{BTreeSet, HashMap};

use super::changes::Rows;
use super::rows::{
    Address, FORMAT, FORMAT_KEY, Head, LEDGER_KEY, Link, Seal, TENANT_LEDGER_PREFIX,
};
use crate::crypto::integrity::{Hash, Sum, digest};
use crate::crypto::seal::Place;
use crate::model::id::TenantId;
use crate::store::{ChainHead, Field, Protection, StoreError, Term, TextDigest, Unique};

/// Bytes of a ledger before it is sealed.
const LEDGER_BYTES: usize = 8 + 32 + 8 + 32 + 8 + 32 + 8;

/// Where a tenant's log begins and ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chain {
    /// The number of the last entry that was removed, and its hash; nothing of it is kept.
    pub removed: (u64, Hash),
    /// The number of the last entry, and its hash.
    pub last: (u64, Hash),
    /// When the last entry was made.
    pub last_ms: u64,
}

/// What is kept of the live records of a tenant, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// How many there are.
    pub records: u64,
    /// The sum of what stands for them.
    pub sum: Sum,
    /// The log. In the ledger over all tenants, only how many tenants have a ledger.
    pub chain: Chain,
}

impl Ledger {
    /// Counts a record in.
    pub fn add(&mut self, element: &Hash) {
        self.records = self.records.wrapping_add(1);
        self.sum.add(element);
    }

    /// Counts a record out.
    pub fn subtract(&mut self, element: &Hash) {
        self.records = self.records.wrapping_sub(1);
        self.sum.subtract(element);
    }

    fn to_bytes(self) -> [u8; LEDGER_BYTES] {
        let Chain { removed, last, last_ms } = self.chain;
        let mut bytes = [0; LEDGER_BYTES];
        let mut rest = bytes.as_mut_slice();
        let parts: [&[u8]; 7] = [
            &self.records.to_be_bytes(),
            &self.sum.to_bytes(),
            &removed.0.to_be_bytes(),
            &removed.1,
            &last.0.to_be_bytes(),
            &last.1,
            &last_ms.to_be_bytes(),
        ];
        for part in parts {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
            let (taken, rest) = bytes.split_first_chunk::<N>()?;
            *bytes = rest;
            Some(taken)
        }
        let mut rest = bytes;
        let records = u64::from_be_bytes(*take(&mut rest)?);
        let sum = Sum::from_bytes(take(&mut rest)?);
        let removed = (u64::from_be_bytes(*take(&mut rest)?), *take(&mut rest)?);
        let last = (u64::from_be_bytes(*take(&mut rest)?), *take(&mut rest)?);
        let last_ms = u64::from_be_bytes(*take(&mut rest)?);
        let ledger = Self { records, sum, chain: Chain { removed, last, last_ms } };
        rest.is_empty().then_some(ledger)
    }
}

/// The ledgers at hand, and what they are kept with.
pub struct Guard {
    protection: Protection,
    ledgers: HashMap<TenantId, Ledger>,
    over_all: Ledger,
    changed: BTreeSet<TenantId>,
    /// Whether the store is new, or of a format between the first and the last: its format is written with the first rows.
    is_new: bool,
}

impl Guard {
    /// A guard over nothing.
    pub fn new(protection: Protection, is_new: bool) -> Self {
        Self {
            protection,
            ledgers: HashMap::new(),
            over_all: Ledger::default(),
            changed: BTreeSet::new(),
            is_new,
        }
    }

    /// Takes up the ledgers that are kept; those of tenants must be what the one over all says.
    pub fn load(
        (protection, is_new): (Protection, bool),
        over_all: &[u8],
        tenants: impl IntoIterator<Item = Result<(TenantId, Vec<u8>), StoreError>>,
    ) -> Result<Self, StoreError> {
        let mut guard = Self::new(protection, is_new);
        guard.over_all = open(&guard.protection, None, over_all).ok_or_else(damaged)?;
        let mut all = Ledger::default();
        for tenant in tenants {
            let (tenant, sealed) = tenant?;
            let ledger = open(&guard.protection, Some(tenant), &sealed).ok_or_else(damaged)?;
            all.records = all.records.wrapping_add(ledger.records);
            all.sum.add_sum(ledger.sum);
            all.chain.last.0 += 1;
            guard.ledgers.insert(tenant, ledger);
        }
        if all == guard.over_all { Ok(guard) } else { Err(damaged()) }
    }

    /// Gives a record the tag, and a log entry the place in its tenant's chain, with which it is to be stored, and
    /// counts it in the ledgers; `before` is what it replaces, and `content` the [`content`] of the new one. A log entry
    /// that is written anew keeps its place.
    pub fn protect_row(
        &mut self,
        address: &Address,
        head: &mut Head,
        before: Option<&Head>,
        (content, chained): (&Hash, Option<TextDigest>),
    ) {
        if let Some(before) = before {
            self.release(address, before);
        }
        let Self { protection, ledgers, over_all, changed, .. } = self;
        let key = &protection.key;
        let ledger = Self::ledger(ledgers, over_all, address.tenant);
        let kept = before.and_then(Head::link);
        let link = match chained {
            Some(text) if kept.is_none() => {
                let (last, hash) = ledger.chain.last;
                let sequence = last + 1;
                let hash = key.link(&linked(address, head.order_ms, (sequence, &hash), text));
                ledger.chain.last = (sequence, hash);
                ledger.chain.last_ms = head.order_ms;
                Some(Link { sequence, hash })
            }
            _ => kept,
        };
        let tag = key.tag(&tagged(address, head, content, link));
        head.seal = Some(Seal { tag, link });
        let element = key.element(&summed(address, &tag));
        ledger.add(&element);
        over_all.add(&element);
        changed.insert(address.tenant);
    }

    /// Counts a record out that is removed. A log entry must be the first of its tenant's that is kept.
    pub fn release_row(&mut self, address: &Address, head: &Head) {
        self.release(address, head);
        if let Some(Link { sequence, hash }) = head.link() {
            let ledger = Self::ledger(&mut self.ledgers, &mut self.over_all, address.tenant);
            ledger.chain.removed = (sequence, hash);
        }
    }

    fn release(&mut self, address: &Address, head: &Head) {
        let Some(Seal { tag, .. }) = &head.seal else { return };
        let element = self.protection.key.element(&summed(address, tag));
        Self::ledger(&mut self.ledgers, &mut self.over_all, address.tenant).subtract(&element);
        self.over_all.subtract(&element);
        self.changed.insert(address.tenant);
    }

    fn ledger<'a>(
        ledgers: &'a mut HashMap<TenantId, Ledger>,
        over_all: &mut Ledger,
        tenant: TenantId,
    ) -> &'a mut Ledger {
        ledgers.entry(tenant).or_insert_with(|| {
            over_all.chain.last.0 += 1;
            Ledger::default()
        })
    }

    /// The number of the first entry that a tenant's log has.
    pub fn first(&self, tenant: TenantId) -> u64 {
        self.ledgers.get(&tenant).map_or(1, |ledger| ledger.chain.removed.0 + 1)
    }

    /// The same, of each tenant.
    pub fn firsts(&self) -> HashMap<TenantId, u64> {
        self.ledgers.iter().map(|(tenant, ledger)| (*tenant, ledger.chain.removed.0 + 1)).collect()
    }

    /// Where the log of each tenant that has one ends.
    pub fn heads(&self) -> Vec<ChainHead> {
        let ended = self.ledgers.iter().filter(|(_, ledger)| ledger.chain.last.0 > 0);
        let head = |(tenant, ledger): (&TenantId, &Ledger)| {
            let Chain { last: (sequence, hash), last_ms, .. } = ledger.chain;
            ChainHead { tenant: *tenant, sequence, hash, time_ms: last_ms }
        };
        let mut heads: Vec<_> = ended.map(head).collect();
        heads.sort_unstable_by_key(|head| head.tenant);
        heads
    }

    /// Adds the ledgers that have changed to the rows that are about to be written.
    pub fn write(&mut self, rows: &mut Rows) -> Result<(), StoreError> {
        for tenant in std::mem::take(&mut self.changed) {
            if let Some(ledger) = self.ledgers.get(&tenant) {
                rows.insert(ledger_key(tenant), seal(&self.protection, Some(tenant), ledger)?);
            }
        }
        if std::mem::take(&mut self.is_new) {
            rows.insert(FORMAT_KEY, FORMAT);
        }
        rows.insert(LEDGER_KEY, seal(&self.protection, None, &self.over_all)?);
        Ok(())
    }
}

/// The key of a tenant's ledger.
pub fn ledger_key(tenant: TenantId) -> Vec<u8> {
    [TENANT_LEDGER_PREFIX, tenant.0.as_bytes()].concat()
}

/// Reads what [`ledger_key`] wrote.
pub fn read_ledger_key(key: &[u8]) -> Option<TenantId> {
    let id = key.strip_prefix(TENANT_LEDGER_PREFIX)?;
    uuid::Uuid::from_slice(id).ok().map(TenantId)
}

fn damaged() -> StoreError {
    StoreError::Damaged(
        "its ledgers are not what they were; `tokamak verify` tells more".to_owned(),
    )
}

fn place(tenant: Option<&TenantId>) -> Place<'_> {
    let name = if tenant.is_some() { "ledger" } else { "ledger over all" };
    Place { kind: u8::MAX, tenant: tenant.map_or(&[], |id| id.0.as_bytes()), id: name }
}

fn seal(
    protection: &Protection,
    tenant: Option<TenantId>,
    ledger: &Ledger,
) -> Result<Vec<u8>, StoreError> {
    let Protection { key, entropy } = protection;
    let sealed = key.seal(place(tenant.as_ref()), &ledger.to_bytes(), entropy.as_ref());
    sealed.map_err(super::failure::unavailable)
}

/// Opens a ledger, a tenant's or the one over all.
pub fn open(protection: &Protection, tenant: Option<TenantId>, sealed: &[u8]) -> Option<Ledger> {
    Ledger::from_bytes(&protection.key.open(place(tenant.as_ref()), sealed).ok()?)
}

/// The digest of what a record holds beside its place: what it is found by, and its sealed body.
pub fn content(
    (terms, numbers, uniques): (&[Term], &[(Field, u64)], &[Unique]),
    body: &[u8],
) -> Hash {
    let terms: Vec<u8> = terms.iter().flat_map(|term| term.0).collect();
    let number = |(field, number): &(Field, u64)| {
        std::iter::once(field.0).chain(number.to_be_bytes()).collect::<Vec<u8>>()
    };
    let numbers: Vec<u8> = numbers.iter().flat_map(number).collect();
    let uniques: Vec<u8> = uniques.iter().flat_map(|unique| unique.0).collect();
    digest(&[&terms, &numbers, &uniques, body])
}

/// What a tag is over. Every part but the id, which comes last, has one length.
pub fn tagged(address: &Address, head: &Head, content: &Hash, link: Option<Link>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(110 + address.id.len());
    bytes.push(address.kind.0);
    bytes.extend_from_slice(address.tenant.0.as_bytes());
    bytes.extend_from_slice(&head.version.to_be_bytes());
    bytes.extend_from_slice(&head.order_ms.to_be_bytes());
    bytes.extend_from_slice(&head.pieces.to_be_bytes());
    bytes.extend_from_slice(content);
    // No entry has the number 0.
    let Link { sequence, hash } = link.unwrap_or(Link { sequence: 0, hash: [0; 32] });
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(&hash);
    bytes.extend_from_slice(address.id.as_bytes());
    bytes
}

/// What stands for a record in a sum is over this: its tag, and again whose it is, so that no record can stand for
/// another one.
pub fn summed(address: &Address, tag: &Hash) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(49 + address.id.len());
    bytes.extend_from_slice(tag);
    bytes.push(address.kind.0);
    bytes.extend_from_slice(address.tenant.0.as_bytes());
    bytes.extend_from_slice(address.id.as_bytes());
    bytes
}

/// What an entry's hash is over: the one before, its number, and everything of it but how it is sealed.
pub fn linked(
    address: &Address,
    order_ms: u64,
    (sequence, before): (u64, &Hash),
    text: TextDigest,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(97 + address.id.len());
    bytes.extend_from_slice(before);
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.push(address.kind.0);
    bytes.extend_from_slice(address.tenant.0.as_bytes());
    bytes.extend_from_slice(&order_ms.to_be_bytes());
    bytes.extend_from_slice(&text.0);
    bytes.extend_from_slice(address.id.as_bytes());
    bytes
}
