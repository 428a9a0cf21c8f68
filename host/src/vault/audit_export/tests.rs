//! Entries are exported by their numbers, whatever their times are.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{
    ChainHead, Error, ExportFilter, ExportedHead, LogEntry, Removed, TenantId, TenantsLog,
    Timestamp, parse_hash,
};
use crate::crypto::integrity::Hash;
use crate::model::log::{EntityType, Operation};
use crate::store::Batch;
use crate::store::sled::SledStore;
use crate::vault::Vault;
use crate::vault::audit::KeptEntry;
use crate::vault::record::kind;
use crate::vault::tests::{vault, vault_at};

/// A log that is read so that there are many stretches of it.
fn log(vault: &Vault, tenant: TenantId, filter: ExportFilter) -> TenantsLog<'_> {
    let heads = vault.log_heads().unwrap();
    let last = heads.iter().find(|head| head.tenant == tenant).unwrap().sequence;
    let first = vault.0.store.log_starts().unwrap()[&tenant];
    TenantsLog { vault, tenant, first, last, filter, portion: 7, window: 10 }
}

/// The lines that are given, until nobody gives any.
async fn lines(mut take: Receiver<Vec<u8>>) -> Vec<Value> {
    let mut text = Vec::new();
    while let Some(lines) = take.recv().await {
        text.extend(lines);
    }
    let text = String::from_utf8(text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of a tenant's export.
async fn exported(log: TenantsLog<'_>) -> Vec<Value> {
    let (give, take) = channel(1_000);
    log.export(&give).await.unwrap();
    drop(give);
    lines(take).await
}

fn number(line: &Value) -> u64 {
    line["sequence"].as_u64().unwrap()
}

/// The numbers of entries, in the order in which they are given.
async fn given(log: TenantsLog<'_>) -> Vec<u64> {
    exported(log).await.iter().map(number).collect()
}

/// Makes an entry with this id and at this time.
async fn add(vault: &Vault, tenant: TenantId, id: u128, time_ms: u64) {
    let entry = LogEntry {
        tenant_id: tenant,
        actor_id: None,
        actor_type: None,
        entity_type: EntityType::Token,
        entity_id: String::new(),
        operation: Operation::Read,
        message: "Read".to_owned(),
        created_at: Timestamp(time_ms),
        trace_id: None,
    };
    let mut change = vault.change(tenant).await.unwrap();
    change.put_entry(&KeptEntry { id: Uuid::from_u128(id), entry }).unwrap();
    vault.0.store.commit(change.batch).await.unwrap();
}

/// Begins to export all logs; gives that, and the lines, once there are some to be taken.
async fn begun(vault: &Vault) -> (JoinHandle<Result<(), Error>>, Receiver<Vec<u8>>) {
    let (give, take) = channel(1);
    let exporting = vault.clone();
    let exporting =
        tokio::spawn(async move { exporting.export_log(ExportFilter::default(), &give).await });
    while take.is_empty() && !exporting.is_finished() {
        tokio::task::yield_now().await;
    }
    (exporting, take)
}

/// Removes as many as this, from the first one on.
async fn remove(vault: &Vault, tenant: TenantId, count: usize) {
    let store = &vault.0.store;
    let removals = store.oldest_entries(kind::LOG, tenant, u64::MAX..=u64::MAX, count).unwrap();
    store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
}

/// The numbers of entries among lines, and those that are told to be gone.
fn told(lines: Vec<Value>) -> (Vec<u64>, Vec<RangeInclusive<u64>>) {
    let (mut given, mut gone) = (Vec::new(), Vec::new());
    for line in lines {
        match Removed::read(line.to_string().as_bytes()) {
            Some(removed) => gone.push(removed.removed_from..=removed.removed_to),
            None => given.push(number(&line)),
        }
    }
    (given, gone)
}

#[test]
fn heads_are_read_as_they_were_exported() {
    let tenant = TenantId(Uuid::from_u128(7));
    let head = ChainHead { tenant, sequence: 9, hash: [0xa7; 32], time_ms: 1_767_225_600_000 };
    let text = serde_json::to_string(&ExportedHead::from(head)).unwrap();
    let read: ExportedHead = serde_json::from_str(&text).unwrap();
    assert_eq!(read.to_head(), Some(head));
    for wrong in ["", "a7", &"+7".repeat(32), &"é".repeat(32)] {
        assert_eq!(ExportedHead { hash: wrong.to_owned(), ..read.clone() }.to_head(), None);
    }
}

#[tokio::test]
async fn an_entry_that_goes_while_it_is_exported_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
    let log = log(&vault, tenant, ExportFilter::default());
    let stretches = log.stretches().await.unwrap();
    let numbers = async || {
        let mut lines = BTreeMap::new();
        log.read(&stretches[0], 0, &mut lines).await.unwrap();
        lines.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(numbers().await, [1, 2]);
    remove(&vault, tenant, 1).await;
    assert_eq!(numbers().await, [2]);
}

#[tokio::test]
async fn entries_are_given_by_their_numbers_whatever_their_times_and_ids_are() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
    // Ids descend, within one millisecond too, and the clock is set back twice.
    for number in (0..60_u64).rev() {
        add(&vault, tenant, u128::from(number) + 1, 1_000 + (60 - number) % 20 / 4).await;
    }
    let given = async |filter: ExportFilter| given(log(&vault, tenant, filter)).await;
    let all = ExportFilter::default();
    assert!(given(all).await.into_iter().eq(1..=62));
    for after in [0, 1, 2, 30, 61, 62] {
        let behind = ExportFilter { after: Some(after), ..all };
        assert!(given(behind).await.into_iter().eq(after + 1..=62), "{after}");
    }
    let (from, to) = (Some(Timestamp(1_001)), Some(Timestamp(1_003)));
    let some = given(ExportFilter { from, to, ..all }).await;
    assert!(some.len() == 24 && some.is_sorted(), "{some:?}");
    let rest = given(ExportFilter { from, to, after: Some(some[9]), ..all }).await;
    assert_eq!(rest, some[10..]);
}

#[tokio::test]
async fn no_more_than_a_window_is_held_whatever_was_done_to_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
    // The clock is set back to where it began: the first half of the numbers lies between those of the second.
    for number in 0..100_u64 {
        add(&vault, tenant, u128::from(number) + 1, 1_000 + number % 50).await;
    }
    let log = log(&vault, tenant, ExportFilter::default());
    let (stretches, mut last) = (log.stretches().await.unwrap(), 0);
    assert!(stretches.iter().any(|stretch| log.windows(stretch).len() > 1));
    for window in 0..=10 {
        let mut held = BTreeMap::new();
        for stretch in stretches.iter().filter(|one| log.windows(one).contains(&window)) {
            log.read(stretch, window, &mut held).await.unwrap();
        }
        assert!(held.len() <= 10, "{window}: {}", held.len());
        let numbers: Vec<u64> = held.into_keys().collect();
        assert!(numbers.iter().copied().eq(last + 1..last + 1 + numbers.len() as u64));
        last = numbers.last().copied().unwrap_or(last);
    }
    assert_eq!(last, 102);
    assert!(given(log).await.into_iter().eq(1..=102));
}

#[tokio::test]
async fn entries_that_are_gone_behind_the_one_to_go_on_behind_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
    for number in 3..=12_u64 {
        add(&vault, tenant, u128::from(number), 1_000 + number).await;
    }
    let remove = async |count| remove(&vault, tenant, count).await;
    // The numbers of entries, and which are told to be gone.
    let told = async |filter: ExportFilter| {
        let (given, mut gone) = told(exported(log(&vault, tenant, filter)).await);
        assert!(gone.len() < 2, "{gone:?}");
        (given, gone.pop())
    };
    let behind = |after| ExportFilter { after: Some(after), ..ExportFilter::default() };
    assert_eq!(told(behind(0)).await, ((1..=12).collect(), None));
    remove(5).await;
    assert_eq!(told(ExportFilter::default()).await, ((6..=12).collect(), None));
    for (after, gone) in [(0, Some(1..=5)), (2, Some(3..=5)), (4, Some(5..=5)), (5, None)] {
        assert_eq!(told(behind(after)).await, ((6..=12).collect(), gone), "{after}");
    }
    assert_eq!(told(behind(8)).await, ((9..=12).collect(), None));
    assert_eq!(told(behind(12)).await, (vec![], None));
    // Of which times they were nobody knows any more.
    let from = ExportFilter { from: Some(Timestamp(1_010)), ..behind(2) };
    assert_eq!(told(from).await, ((10..=12).collect(), Some(3..=5)));
    remove(7).await;
    assert_eq!(told(behind(8)).await, (vec![], Some(9..=12)));
    assert_eq!(told(behind(12)).await, (vec![], None));
}

#[tokio::test]
async fn what_goes_on_behind_an_entry_of_another_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
    for number in 3..=700_u64 {
        add(&vault, tenant, u128::from(number), 1_000 + number).await;
    }
    let lines = exported(log(&vault, tenant, ExportFilter::default())).await;
    let line = |at: u64| lines.iter().find(|line| number(line) == at).unwrap();
    let check = async |after: u64, hash: Option<Hash>| {
        let filter = ExportFilter {
            tenant: Some(tenant),
            after: Some(after),
            after_hash: hash,
            ..ExportFilter::default()
        };
        vault.check_export(&filter).await.is_ok()
    };
    for at in [1, 2, 350, 699, 700] {
        let hash = parse_hash(line(at)["hash"].as_str().unwrap());
        assert!(hash.is_some() && check(at, hash).await && check(at, None).await, "{at}");
        assert!(!check(at, Some([7; 32])).await, "{at}");
    }
    assert!(!check(701, None).await);
    // Of one that was removed nobody knows its hash any more; the export tells that it is gone.
    remove(&vault, tenant, 3).await;
    assert!(check(2, Some([7; 32])).await);
}

/// Whoever takes lines slowly is overtaken: what it then misses is told, and nothing else.
#[tokio::test]
async fn entries_that_are_removed_before_they_are_taken_are_told() {
    let from = Some(Timestamp(1_000));
    for (after, from, gone) in [
        (None, None, 40),
        (Some(1), None, 40),
        (None, None, 62),
        (Some(5), None, 62),
        (None, from, 40),
        (Some(1), from, 40),
        (None, from, 62),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path(), 1 << 20).await;
        let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
        for number in 3..=62_u64 {
            add(&vault, tenant, u128::from(number), 1_000 + number).await;
        }
        let log = log(&vault, tenant, ExportFilter { after, from, ..ExportFilter::default() });
        let (give, mut take) = channel(1);
        let export = async {
            log.export(&give).await.unwrap();
            drop(give);
        };
        let taking = async {
            let first = take.recv().await.unwrap();
            remove(&vault, tenant, gone).await;
            let first = String::from_utf8(first).unwrap();
            let first: Vec<Value> =
                first.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            [first, lines(take).await].concat()
        };
        let (given, gone) = told(tokio::join!(export, taking).1);
        assert!(!gone.is_empty(), "after {after:?}, from {from:?}");
        let mut all: Vec<u64> = given.into_iter().chain(gone.into_iter().flatten()).collect();
        all.sort_unstable();
        // The first two are of another time.
        let first = if from.is_some() { 3 } else { after.unwrap_or_default() + 1 };
        assert!(all.iter().copied().eq(first..=62), "{all:?}");
    }
}

/// What goes before the turn of its tenant comes, or while its log is looked through, was there when the export began.
#[tokio::test]
async fn entries_that_are_removed_before_they_are_found_are_told() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path(), 1 << 20).unwrap();
    let vault = vault_at(10 * DAY_MS, Arc::new(store), 1 << 20).await;
    for name in ["a", "b", "c"] {
        vault.create_tenant(name, None).await.unwrap();
    }
    let tenant = vault.keys_owners().await.unwrap()[3];
    for number in 3..=12_u64 {
        add(&vault, tenant, u128::from(number), 1_000 + number).await;
    }
    // Of those before it one may wait to be given, and one to be taken.
    let (exporting, take) = begun(&vault).await;
    remove(&vault, tenant, 7).await;
    let own = lines(take).await.into_iter();
    let own = own.filter(|line| line["tenant_id"] == tenant.to_string()).collect();
    exporting.await.unwrap().unwrap();
    assert_eq!(told(own), ((8..=12).collect(), vec![1..=7]));

    // Of those that are gone, nobody knows any more of which times they were but that they were too old to be kept.
    let behind = async |from| {
        let filter = ExportFilter { from: Some(from), ..ExportFilter::default() };
        let log = TenantsLog { first: 3, ..log(&vault, tenant, filter) };
        told(exported(log).await)
    };
    vault.keep_log_for_days(1);
    assert_eq!(behind(Timestamp(1_009)).await, ((9..=12).collect(), vec![3..=7]));
    assert_eq!(behind(Timestamp(8 * DAY_MS)).await, (vec![], vec![3..=7]));
    assert_eq!(behind(Timestamp(9 * DAY_MS)).await, (vec![], vec![]));
}

#[tokio::test]
async fn a_tenant_that_is_erased_meanwhile_keeps_no_other_from_being_exported() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    for name in ["a", "b", "c", "d"] {
        vault.create_tenant(name, None).await.unwrap();
    }
    let owners = vault.keys_owners().await.unwrap();
    let erased = owners[3];
    // Whose logs are exported is settled. Until somebody takes lines, there is room for those of one more tenant at most.
    let (exporting, take) = begun(&vault).await;
    vault.erase_tenant(erased).await.unwrap();
    let lines = lines(take).await;
    exporting.await.unwrap().unwrap();
    let others = [owners[1], owners[2], owners[4]].map(|tenant| tenant.to_string());
    let found: Vec<_> = lines.iter().map(|line| line["tenant_id"].as_str().unwrap()).collect();
    let expected: Vec<&str> = others.iter().flat_map(|other| [other.as_str(); 2]).collect();
    assert_eq!(found, expected);

    // Whoever asks for this one alone is not to take nothing for its log.
    let (give, _take) = channel(1);
    let filter = ExportFilter { tenant: Some(erased), ..ExportFilter::default() };
    let refused = vault.export_log(filter, &give).await.unwrap_err();
    assert!(refused.to_string().contains("was erased meanwhile"), "{refused}");
}
