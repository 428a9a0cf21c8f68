//! Taking up the protection of a store when it opens: on an empty one, on one that has it, and on one of the first
//! format, whose records get their tags and whose log entries get their places in chains, in the order of their ids.
//!
//! The upgrade goes on where it was interrupted: each portion is written with its ledgers, a head that has a tag is done,
//! and the format is changed with the last of them.

use std::collections::BTreeMap;

use sled::Tree;

use super::changes::Rows;
use super::failure::unreadable;
use super::guard::{Guard, content, read_ledger_key};
use super::log::Log;
use super::packs;
use super::rows::{
    Address, FORMAT, FORMAT_1, FORMAT_KEY, HEAD_PREFIX, Head, LEDGER_KEY, TENANT_LEDGER_PREFIX,
};
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::store::{Examiner, Expect, Kind, Protection, Record, Removal, StoreError};

/// Heads that one sync of the upgrade covers.
const PORTION: usize = 256;

/// The guard with which the store goes on.
pub fn guard(
    log: &mut Log,
    protection: Protection,
    examiner: Option<&mut dyn Examiner>,
) -> Result<Guard, StoreError> {
    let tree = log.tree.clone();
    let format = tree.get(FORMAT_KEY).map_err(unreadable)?;
    let over_all = tree.get(LEDGER_KEY).map_err(unreadable)?;
    let mut guard = match (&over_all, &format) {
        (Some(over_all), _) => {
            let row = |row: sled::Result<(sled::IVec, sled::IVec)>| {
                let (key, value) = row.map_err(unreadable)?;
                let tenant =
                    read_ledger_key(&key).ok_or_else(|| damaged("a ledger is nobody's"))?;
                Ok((tenant, value.to_vec()))
            };
            let tenants = tree.scan_prefix(TENANT_LEDGER_PREFIX).map(row);
            // One of the first format has its own only when all of it is upgraded.
            let older =
                format.as_ref().is_some_and(|format| format != FORMAT && format != FORMAT_1);
            Guard::load((protection, older), over_all, tenants)?
        }
        // A store that somebody made look like a new or an old one would be taken as it then is.
        (None, None) if !tree.is_empty() => return Err(damaged("its format is missing")),
        (None, Some(format)) if format != FORMAT_1 => {
            return Err(damaged("the ledger over all is missing"));
        }
        (None, _) => Guard::new(protection, format.is_none()),
    };
    if format.as_ref().is_some_and(|format| format == FORMAT_1) {
        let examiner = examiner.ok_or_else(|| damaged("its format is that of another time"))?;
        upgrade(log, &mut guard, examiner)?;
        let mut rows = Rows::default();
        guard.write(&mut rows)?;
        rows.insert(FORMAT_KEY, FORMAT);
        log.write(rows)?;
    }
    Ok(guard)
}

fn damaged(what: &str) -> StoreError {
    StoreError::Damaged(format!("{what}; `tokamak verify` tells more"))
}

fn upgrade(
    log: &mut Log,
    guard: &mut Guard,
    examiner: &mut dyn Examiner,
) -> Result<(), StoreError> {
    let tree = log.tree.clone();
    let find = |kind, tenant, id: &str| {
        let address = Address { kind, tenant, id: id.to_owned() };
        let value = tree.get(address.head_key()).ok()??;
        record(&tree, address, &value).ok().map(|(record, _)| record)
    };
    let mut next = HEAD_PREFIX.to_vec();
    let mut done = 0_usize;
    loop {
        let portion: Result<Vec<_>, _> = tree.range(next..).take(PORTION).collect();
        let mut rows = Rows::default();
        let portion = portion.map_err(unreadable)?;
        let heads = portion.into_iter().take_while(|(key, _)| key.starts_with(HEAD_PREFIX));
        let heads: Vec<_> = heads.collect();
        let Some((last, _)) = heads.last() else {
            tracing::info!(records = done, "the store is protected from here on");
            return Ok(());
        };
        next = [last.as_ref(), &[0]].concat();
        for (key, value) in &heads {
            let address = Address::of_head_key(key)?;
            let (record, mut head) = record(&tree, address.clone(), value)?;
            if head.seal.is_some() {
                continue;
            }
            let chained = examiner.examine(&record, &find).chained;
            let found_by = (&*record.terms, &*record.numbers, &*record.uniques);
            let content = content(found_by, &record.body);
            guard.protect_row(&address, &mut head, None, (&content, chained));
            rows.insert(key, head.to_value(&record.body));
        }
        done += heads.len();
        guard.write(&mut rows)?;
        log.write(rows)?;
    }
}

/// Reads a record whose head is at hand.
pub fn record(tree: &Tree, address: Address, value: &[u8]) -> Result<(Record, Head), StoreError> {
    let (head, inline) = Head::read(value)?;
    let mut body = inline.to_vec();
    for number in 0..head.pieces {
        let piece = tree.get(address.piece_key(head.version, number)).map_err(unreadable)?;
        let missing = || StoreError::Damaged("a piece of a record is missing".to_owned());
        body.extend_from_slice(&piece.ok_or_else(missing)?);
    }
    let Head { version, order_ms, terms, numbers, uniques, .. } = head.clone();
    let Address { kind, tenant, id } = address;
    Ok((Record { kind, tenant, id, version, order_ms, body, terms, numbers, uniques }, head))
}

/// The first entries of a tenant's log, the first of all being `first`, as far as they were made before a time.
pub fn oldest(
    tree: &Tree,
    whose: (Kind, TenantId),
    first: u64,
    before_ms: u64,
    max: usize,
) -> Result<Vec<Removal>, StoreError> {
    // Ids ascend with time, and so about with the chain. Where a clock was set back they do not: then more are looked at.
    let mut looked_at = max.saturating_mul(2).max(PORTION);
    loop {
        let (entries, is_all) = first_entries(tree, whose, looked_at)?;
        if entries.contains_key(&first) || is_all {
            let (kind, tenant) = whose;
            let removal = |(number, (sequence, (id, head))): (u64, (u64, (String, Head)))| {
                let due = sequence == first + number && head.order_ms < before_ms;
                let expect = Expect::Version(head.version);
                due.then_some(Removal { kind, tenant, id, expect })
            };
            return Ok((0..).zip(entries).map_while(removal).take(max).collect());
        }
        looked_at = looked_at.saturating_mul(8);
    }
}

/// Log entries by their numbers, each with its id and head.
type Entries = BTreeMap<u64, (String, Head)>;

/// A tenant's log entries by their numbers: about so many of those with rows of their own and as many of those in packs,
/// by their ids. And whether those were all.
fn first_entries(
    tree: &Tree,
    (kind, tenant): (Kind, TenantId),
    looked_at: usize,
) -> Result<(Entries, bool), StoreError> {
    let before_all = Address { kind, tenant, id: String::new() };
    let (mut entries, mut is_all) = (BTreeMap::new(), true);
    let mut take = |address: Address, value: &[u8]| -> Result<(), StoreError> {
        let (head, _) = Head::read(value)?;
        if let Some(link) = head.link() {
            entries.insert(link.sequence, (address.id, head));
        }
        Ok(())
    };
    for (seen, row) in tree.scan_prefix(before_all.head_key()).enumerate() {
        if seen == looked_at {
            is_all = false;
            break;
        }
        let (key, value) = row.map_err(unreadable)?;
        take(Address::of_head_key(&key)?, &value)?;
    }
    let mut seen = 0;
    for row in tree.scan_prefix(before_all.pack_key()) {
        // A pack may have many entries: they count, not the packs.
        if seen >= looked_at {
            is_all = false;
            break;
        }
        let (key, packed) = row.map_err(unreadable)?;
        let packed = packs::entries(&key, &packed)?;
        seen += packed.len();
        packed.into_iter().try_for_each(|(address, value)| take(address, &value))?;
    }
    Ok((entries, is_all))
}

/// The number and the hash of a log entry.
pub fn place(
    tree: &Tree,
    kind: Kind,
    tenant: TenantId,
    id: &str,
) -> Result<Option<(u64, Hash)>, StoreError> {
    let address = Address { kind, tenant, id: id.to_owned() };
    let Some(value) = packs::head_value(tree, &address)? else { return Ok(None) };
    let (head, _) = Head::read(&value)?;
    Ok(head.link().map(|link| (link.sequence, link.hash)))
}
