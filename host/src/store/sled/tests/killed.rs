//! What a process that is killed leaves: everything that was acknowledged, in the journal if not in the tree.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{open, reopen};
use crate::store::conformance::{self, ENTRY, KIND, OTHER_TENANT, TENANT, entry, puts, record};
use crate::store::sled::folder::open_database;
use crate::store::sled::journal::{NAME, Unsettled};
use crate::store::sled::note::NOTE_KEY;
use crate::store::sled::{Inspection, SledStore};
use crate::store::{Batch, Expect, Inspect as _, Put, Removal, Store as _, StoreError};

/// The files as they are now, elsewhere: what a process that is killed now would leave.
pub fn left(folder: &Path) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            } else if entry.file_name() != "lock" {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    copy(folder, to.path());
    to
}

/// How many records and entries a store has that verify finds sound.
fn verified(folder: &Path) -> (u64, u64) {
    let inspection = Inspection::open(left(folder).path(), 8 << 20).unwrap();
    let mut damaged = Vec::new();
    let mut tell = |damage| damaged.push(damage);
    let protection = conformance::protection();
    let walked = inspection.walk(&protection, &mut conformance::Entries, &[], &mut tell).unwrap();
    assert_eq!(damaged.len(), 0, "{:?}", damaged.first().map(|one| &one.what));
    (walked.records, walked.entries)
}

fn long(id: &str, bytes: usize) -> Batch {
    let mut record = record(id, 1);
    record.body = vec![3; bytes];
    Batch { puts: vec![Put { record, expect: Expect::Any }], ..Batch::default() }
}

fn removal(id: &str) -> Batch {
    let (kind, tenant, id) = (KIND, TENANT, id.to_owned());
    let removals = vec![Removal { kind, tenant, id, expect: Expect::Any }];
    Batch { removals, ..Batch::default() }
}

#[tokio::test]
async fn what_was_acknowledged_is_there_whenever_the_process_is_killed() {
    let (store, folder) = open();
    // Bodies for the journal, beside it, and so many that the tree is synced and both halves are used.
    let lengths = [10, 5_000, 400_000, 3_000_000, 10, 600_000, 900_000];
    for round in 0..4 {
        for (number, bytes) in lengths.into_iter().enumerate() {
            let id = format!("{round}-{number}");
            store.commit(long(&id, bytes)).await.unwrap();
            store.commit(puts([entry(TENANT, &format!("entry-{id}"), 1)])).await.unwrap();
            if number > 0 {
                // Removed, and made anew under the same id, with fewer pieces or more.
                let before = format!("{round}-{}", number - 1);
                store.commit(removal(&before)).await.unwrap();
                store.commit(long(&before, bytes / 2)).await.unwrap();
            }
            // Files are copied one after the other: nothing of what was given up is to go meanwhile.
            store.commit(Batch::cleared()).await.unwrap();
            let copy = left(folder.path());
            let killed = reopen(copy.path());
            let length = async |id: &str| {
                let found = killed.find(KIND, TENANT, &[id]).await.unwrap().pop().flatten();
                found.map(|record| record.body.len())
            };
            assert_eq!(length(&id).await, Some(bytes), "{id}");
            if number > 0 {
                assert_eq!(length(&format!("{round}-{}", number - 1)).await, Some(bytes / 2));
            }
            drop(killed);
            let all = (round * lengths.len() + number + 1) as u64;
            assert_eq!(verified(copy.path()), (2 * all, all), "{id}");
            // Verify reads what the next start would put into the tree.
            assert_eq!(verified(folder.path()), (2 * all, all), "{id}");
        }
        if round == 1 {
            store.compact().await.unwrap();
        }
    }
    drop(store);
    assert_eq!(Unsettled::read(folder.path()).unwrap().groups.len(), 0);
}

#[tokio::test]
async fn a_kill_while_a_start_puts_back_what_the_tree_lost_loses_nothing() {
    let (store, folder) = open();
    for number in 0..20 {
        store.commit(long(&number.to_string(), 1_000)).await.unwrap();
        store.commit(removal(&(number / 2).to_string())).await.unwrap();
    }
    let copy = left(folder.path());
    let groups = Unsettled::read(copy.path()).unwrap().groups;
    assert!(groups.len() > 10);
    let there = verified(folder.path());
    drop(store);
    for some in [1, 5, groups.len()] {
        let copy = left(copy.path());
        // As far as this one came, its rows are in the tree.
        let database = open_database(copy.path(), 8 << 20).unwrap();
        for rows in groups.iter().take(some) {
            rows.clone().apply(&database).unwrap();
        }
        database.flush().unwrap();
        drop(database);
        assert_eq!(verified(copy.path()), there);
        drop(reopen(copy.path()));
        assert_eq!(verified(copy.path()), there);
    }
}

#[tokio::test]
async fn a_store_with_a_changed_journal_is_not_opened() {
    let (store, folder) = open();
    for tenant in [TENANT, OTHER_TENANT, TENANT, OTHER_TENANT] {
        let id = format!("{}", store.chain_heads().unwrap().len());
        store.commit(puts([entry(tenant, &id, 1)])).await.ok();
        store.commit(puts([entry(tenant, &format!("{id}-2"), 1)])).await.ok();
    }
    let copy = left(folder.path());
    let path = copy.path().join(NAME);
    let mut bytes = fs::read(&path).unwrap();
    bytes[(4 << 10) + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = |error: Option<StoreError>| {
        assert!(matches!(error, Some(StoreError::Damaged(what)) if what.contains("journal")));
    };
    refused(SledStore::open(copy.path(), 8 << 20).err());
    refused(Inspection::open(copy.path(), 8 << 20).err());
}

/// What may be left of a journal, or put in its place, each under its name; `None` is no file.
fn made_of(journal: &[u8], earlier: &[u8]) -> Vec<(&'static str, Option<Vec<u8>>)> {
    vec![
        ("gone", None),
        ("empty", Some(Vec::new())),
        ("zeros", Some(vec![0; journal.len()])),
        ("cut off", Some(journal[..4 << 10].to_vec())),
        ("earlier", Some(earlier.to_vec())),
    ]
}

fn put(folder: &Path, journal: Option<Vec<u8>>) {
    match journal {
        Some(bytes) => fs::write(folder.join(NAME), bytes).unwrap(),
        None => fs::remove_file(folder.join(NAME)).unwrap(),
    }
}

#[tokio::test]
async fn a_store_that_was_killed_is_not_opened_without_its_journal() {
    let (store, folder) = open();
    store.commit(long("first", 10)).await.unwrap();
    // The first write to the journal is the second of all, which says in the tree that there is one.
    store.commit(long("second", 10)).await.unwrap();
    let earlier = fs::read(folder.path().join(NAME)).unwrap();
    let mut made = 2;
    for synced in [false, true] {
        // Until the tree was synced beside what the journal takes.
        for number in 0..if synced { 400 } else { 0 } {
            store.commit(long(&number.to_string(), 1_000)).await.unwrap();
            made += 1;
        }
        let whole = fs::read(folder.path().join(NAME)).unwrap();
        for (what, journal) in made_of(&whole, &earlier) {
            // What they hold is all that the tree has spoken of yet.
            if ["cut off", "earlier"].contains(&what) && !synced {
                continue;
            }
            let copy = left(folder.path());
            put(copy.path(), journal);
            let refused = |error: Option<StoreError>| {
                let told = |error: &StoreError| matches!(error, StoreError::Damaged(what) if what.contains("journal"));
                assert!(error.as_ref().is_some_and(told), "{what} {synced}: {error:?}");
            };
            refused(SledStore::open(copy.path(), 8 << 20).err());
            refused(Inspection::open(left(copy.path()).path(), 8 << 20).err());
            // With the file back, everything is there.
            put(copy.path(), Some(whole.clone()));
            drop(reopen(copy.path()));
            assert_eq!(verified(copy.path()).0, made, "{what} {synced}");
        }
    }
}

#[tokio::test]
async fn a_store_that_was_closed_needs_no_journal_and_takes_no_earlier_one() {
    let (store, folder) = open();
    for number in 0..3 {
        store.commit(long(&number.to_string(), 10)).await.unwrap();
    }
    let earlier = fs::read(folder.path().join(NAME)).unwrap();
    drop(store);
    let whole = fs::read(folder.path().join(NAME)).unwrap();
    for (what, journal) in made_of(&whole, &earlier) {
        let copy = left(folder.path());
        put(copy.path(), journal);
        if what == "earlier" {
            let refused = SledStore::open(copy.path(), 8 << 20).err();
            assert!(matches!(refused, Some(StoreError::Damaged(_))), "{refused:?}");
            continue;
        }
        let again = reopen(copy.path());
        again.commit(long("more", 10)).await.unwrap();
        // It goes on from the number that it had come to: an earlier one is told from it as before.
        let killed = left(copy.path());
        assert_eq!(verified(killed.path()).0, 4, "{what}");
        put(killed.path(), Some(earlier.clone()));
        assert!(SledStore::open(killed.path(), 8 << 20).is_err(), "{what}");
    }
}

#[tokio::test]
async fn what_the_tree_says_of_the_journal_is_missed_and_goes_with_no_backup() {
    let (store, folder) = open();
    for number in 0..3 {
        store.commit(long(&number.to_string(), 10)).await.unwrap();
    }
    let rows = store.snapshot().await.unwrap().rows(None, usize::MAX).unwrap();
    assert!(rows.len() > 3 && rows.iter().all(|(key, _)| key != NOTE_KEY));
    for (value, told) in [(None, "is missing"), (Some(&b"x"[..]), "was changed")] {
        let copy = left(folder.path());
        let database = open_database(copy.path(), 8 << 20).unwrap();
        match value {
            Some(value) => database.insert(NOTE_KEY, value).unwrap(),
            None => database.remove(NOTE_KEY).unwrap(),
        };
        database.flush().unwrap();
        drop(database);
        let refused = SledStore::open(copy.path(), 8 << 20).err();
        assert!(
            matches!(&refused, Some(StoreError::Damaged(what)) if what.contains(told)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn what_was_removed_is_in_no_file_once_the_store_was_compacted() {
    let canary = b"a body that nobody should find";
    let has = |folder: &Path| {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let folders = |path: &std::path::PathBuf| path.is_dir();
        let (folders, files): (Vec<_>, Vec<_>) = files.partition(folders);
        let inner = folders.iter().flat_map(|path| fs::read_dir(path).unwrap());
        let files = files.into_iter().chain(inner.map(|entry| entry.unwrap().path()));
        files.filter(|path| path.is_file()).any(|path| {
            fs::read(path).unwrap().windows(canary.len()).any(|window| window == canary)
        })
    };
    let (store, folder) = open();
    store.commit(long("first", 1)).await.unwrap();
    let mut batch = long("gone", 1);
    batch.puts[0].record.body = canary.to_vec();
    store.commit(batch).await.unwrap();
    assert!(has(folder.path()));
    store.commit(removal("gone")).await.unwrap();
    assert!(has(folder.path()));
    store.compact().await.unwrap();
    assert!(!has(folder.path()));
    let found = store.find(ENTRY, TENANT, &["gone"]).await.unwrap();
    assert_eq!(found, [None]);
}

#[tokio::test]
async fn a_snapshot_that_was_being_written_when_the_process_ended_is_nothing_to_a_start() {
    let (store, folder) = open();
    for compacted in [false, true] {
        for number in 0..10 {
            store.commit(long(&format!("{compacted}-{number}"), 1_000)).await.unwrap();
        }
        let all = if compacted { 20 } else { 10 };
        let folder_of_sled = if compacted { "gen-1" } else { "" };
        // One that is newer than any, of any length.
        for length in [0, 7, 100_000] {
            let copy = left(folder.path());
            let path = copy.path().join(folder_of_sled);
            assert!(path.join("db").exists());
            let path = path.join("snap.00000000FFFFFFFF.generating");
            fs::write(&path, vec![1; length]).unwrap();
            assert_eq!(verified(copy.path()), (all, 0), "{length}");
            // Only whoever has the folder for itself removes it there.
            assert!(path.exists());
            let killed = reopen(copy.path());
            assert!(!path.exists());
            let found = killed.find(KIND, TENANT, &["false-0"]).await.unwrap();
            assert_eq!(found[0].as_ref().unwrap().body.len(), 1_000);
            killed.compact().await.unwrap();
            drop(killed);
            assert_eq!(verified(copy.path()), (all, 0), "{length}");
        }
        if !compacted {
            store.compact().await.unwrap();
        }
    }
}
