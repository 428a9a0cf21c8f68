//! Taking up the protection of a store when it opens: on an empty one, on one that has it, and on one of the first
//! format, whose records get their tags and whose log entries get their places in chains, in the order of their ids.
//!
//! The upgrade goes on where it was interrupted: each portion is written with its ledgers, and a head that has a tag is
//! done. Before the first of them the format becomes one that no other software reads, and after the last the newest.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use sled::Tree;

use super::changes::Rows;
use super::failure::unreadable;
use super::guard::{Guard, content, read_ledger_key};
use super::log::Log;
use super::packs;
use super::rows::{
    Address, FORMAT, FORMAT_1, FORMAT_KEY, HEAD_PREFIX, Head, LEDGER_KEY, PACK_PREFIX,
    TENANT_LEDGER_PREFIX, UPGRADING, is_first,
};
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::store::{Examiner, Expect, Kind, Protection, Record, Removal, StoreError};

/// Entries of a log that are looked at for the first one of which the time is known.
const LOOKED_AT_MAX: u64 = 50_000;
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
                format.as_deref().is_some_and(|format| format != FORMAT && !is_first(format));
            Guard::load((protection, older), over_all, tenants)?
        }
        // A store that somebody made look like a new or an old one would be taken as it then is.
        (None, None) if !tree.is_empty() => return Err(damaged("its format is missing")),
        (None, Some(format)) if format != FORMAT_1 => {
            return Err(damaged("the ledger over all is missing"));
        }
        (None, _) => Guard::new(protection, format.is_none()),
    };
    if format.as_deref().is_some_and(is_first) {
        let examiner = examiner.ok_or_else(|| damaged("its format is that of another time"))?;
        write_format(log, &mut guard, UPGRADING)?;
        upgrade(log, &mut guard, examiner)?;
        write_format(log, &mut guard, FORMAT)?;
    }
    Ok(guard)
}

/// Writes the format, together with the ledger over all.
fn write_format(log: &mut Log, guard: &mut Guard, format: &[u8]) -> Result<(), StoreError> {
    let mut rows = Rows::default();
    guard.write(&mut rows)?;
    rows.insert(FORMAT_KEY, format);
    log.write(rows)
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

/// The first entries of a tenant's log, the first of all being `first`, as far as they were made before the times that are
/// kept. One said to be made after those goes with the one behind it.
pub fn oldest(
    tree: &Tree,
    (kind, tenant): (Kind, TenantId),
    first: u64,
    kept_ms: &RangeInclusive<u64>,
    max: usize,
) -> Result<Vec<Removal>, StoreError> {
    let before_all = Address { kind, tenant, id: String::new() };
    let prefixes = [before_all.head_key(), before_all.pack_key()];
    let mut rows = prefixes.map(|prefix| tree.scan_prefix(prefix));
    // Ids ascend with time, and so about with the chain: what is wanted is where they begin. Where a clock was ahead once,
    // what was made then stands behind what was made later, and most often at the end.
    let portion = max.saturating_mul(2).max(PORTION);
    let wanted = first..first.saturating_add(LOOKED_AT_MAX.max(max as u64));
    let mut entries = Entries::new();
    let (mut from_end, mut is_all) = (false, false);
    while !is_all && !is_told(&entries, wanted.clone(), kept_ms) {
        is_all = true;
        for rows in &mut rows {
            is_all &= look_at_some(rows, (from_end, portion), &wanted, &mut entries)?;
        }
        from_end = !from_end;
    }
    let (mut due, mut undated) = (Vec::new(), Vec::new());
    for (sequence, (sequence_of_next, (id, head))) in (first..).zip(entries) {
        // One that is not due stands before all that come after it.
        if sequence_of_next != sequence || kept_ms.contains(&head.order_ms) {
            break;
        }
        undated.push(Removal { kind, tenant, id, expect: Expect::Version(head.version) });
        if head.order_ms < *kept_ms.start() {
            due.append(&mut undated);
        }
    }
    due.truncate(max);
    if undated.len() as u64 >= LOOKED_AT_MAX {
        tracing::warn!(
            %tenant,
            "so many log entries in a row are dated ahead of the clock that none behind them is removed before that time"
        );
    }
    Ok(due)
}

/// Whether enough is known of a log's first entries: up to one of which the time is known.
fn is_told(entries: &Entries, wanted: Range<u64>, kept_ms: &RangeInclusive<u64>) -> bool {
    let mut first = wanted.map(|number| entries.get(&number));
    let is_ahead = |(_, head): &(String, Head)| head.order_ms > *kept_ms.end();
    first.find(|entry| !entry.is_some_and(is_ahead)).is_none_or(|entry| entry.is_some())
}

/// Log entries by their numbers, each with its id and head.
type Entries = BTreeMap<u64, (String, Head)>;

/// Looks at about so many more log entries, from one end of these rows, and keeps those with the numbers that are wanted:
/// there may be millions. Gives whether there are no more.
fn look_at_some(
    rows: &mut sled::Iter,
    (from_end, portion): (bool, usize),
    wanted: &Range<u64>,
    entries: &mut Entries,
) -> Result<bool, StoreError> {
    let mut take = |address: Address, value: &[u8]| -> Result<(), StoreError> {
        let (head, _) = Head::read(value)?;
        if let Some(link) = head.link().filter(|link| wanted.contains(&link.sequence)) {
            entries.insert(link.sequence, (address.id, head));
        }
        Ok(())
    };
    let mut seen = 0;
    // A pack may have many entries: they count, not the packs.
    while seen < portion {
        let row = if from_end { rows.next_back() } else { rows.next() };
        let Some(row) = row else { return Ok(true) };
        let (key, value) = row.map_err(unreadable)?;
        if key.starts_with(PACK_PREFIX) {
            let packed = packs::entries(&key, &value)?;
            seen += packed.len();
            packed.into_iter().try_for_each(|(address, value)| take(address, &value))?;
        } else {
            seen += 1;
            take(Address::of_head_key(&key)?, &value)?;
        }
    }
    Ok(false)
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
