//! Files of a store that was closed, with a part that sled cannot read: it takes that for the end of its log, and all behind
//! it for never written. The store is whole then, or damaged, and never another one.

use std::fs;
use std::path::Path;

use super::killed::left;
use super::open;
use crate::store::conformance::{self, TENANT, entry, puts, record};
use crate::store::sled::files::newest;
use crate::store::sled::{Inspection, SledStore};
use crate::store::{Batch, Expect, Inspect as _, Put, Store as _, StoreError};

/// So many places of the file are looked at.
const PLACES: usize = 50;

/// How many records and entries a store has, if nothing is wrong with it.
fn counted(folder: &Path) -> Option<(u64, u64)> {
    let inspection = Inspection::open(folder, 8 << 20).ok()?;
    let mut damaged = 0;
    let protection = conformance::protection();
    let examiner = &mut conformance::Entries;
    let walked = inspection.walk(&protection, examiner, &[], &mut |_| damaged += 1).ok()?;
    (damaged == 0).then_some((walked.records, walked.entries))
}

/// Whether a server goes on with it.
fn is_taken(folder: &Path) -> bool {
    let opened = SledStore::open(folder, 8 << 20);
    opened.is_ok_and(|store| store.protect(conformance::protection(), None).is_ok())
}

fn long(id: &str, bytes: usize) -> Batch {
    let mut record = record(id, 1);
    record.body = vec![3; bytes];
    Batch { puts: vec![Put { record, expect: Expect::Any }], ..Batch::default() }
}

#[tokio::test]
async fn a_closed_store_with_a_flipped_bit_is_whole_or_damaged() {
    for compacts in [false, true] {
        let (store, folder) = open();
        for number in 0..30_u32 {
            if compacts && number == 10 {
                store.compact().await.unwrap();
            }
            // Some goes past the journal.
            let bytes = if number % 10 == 5 { 700_000 } else { 3_000 };
            store.commit(long(&number.to_string(), bytes)).await.unwrap();
            store.commit(puts([entry(TENANT, &format!("entry-{number}"), 1)])).await.unwrap();
        }
        drop(store);
        let whole = counted(left(folder.path()).path());
        assert_eq!(whole, Some((60, 30)));
        assert!(is_taken(left(folder.path()).path()));
        let bytes = fs::read(newest(folder.path()).unwrap().join("db")).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let mut damaged = 0;
        // The first bytes are the header of the first segment.
        for at in (0..20).chain((20..used).step_by(used / PLACES)) {
            let copy = left(folder.path());
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(newest(copy.path()).unwrap().join("db"), changed).unwrap();
            let found = counted(left(copy.path()).path());
            assert!(found.is_none() || found == whole, "{found:?} with a flip at {at}");
            damaged += usize::from(found.is_none());
            // What is wrong with one record need not keep a server from going on with all others.
            if is_taken(copy.path()) && found.is_some() {
                assert_eq!(counted(copy.path()), whole, "served with a flip at {at}");
            }
        }
        assert!(damaged > 0);
    }
}

#[tokio::test]
async fn what_a_log_lost_at_its_end_is_missed() {
    let (store, folder) = open();
    for number in 0..20_u32 {
        store.commit(puts([(record(&number.to_string(), 1), Expect::Absent)])).await.unwrap();
    }
    let early = left(folder.path());
    drop(store);
    // As a tree would be that lost everything, or all of late.
    for database in [None, Some(early.path().join("db"))] {
        let copy = left(folder.path());
        let db = copy.path().join("db");
        match &database {
            None => fs::remove_file(&db).unwrap(),
            Some(early) => drop(fs::copy(early, &db).unwrap()),
        }
        for entry in fs::read_dir(copy.path()).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("snap.") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let refused = SledStore::open(copy.path(), 8 << 20).err();
        let is_told = |what: &str| what.contains("gone") || what.contains("is missing");
        assert!(
            matches!(&refused, Some(StoreError::Damaged(what)) if is_told(what)),
            "{refused:?}"
        );
        assert!(counted(copy.path()).is_none());
    }
    // One of which nothing was ever written is new.
    let (store, folder) = open();
    drop(store);
    drop(SledStore::open(folder.path(), 8 << 20).unwrap());
    assert!(is_taken(folder.path()));
}

#[tokio::test]
async fn changed_settings_of_sled_are_damage_or_make_no_difference() {
    let (store, folder) = open();
    store.commit(puts([(record("one", 1), Expect::Absent)])).await.unwrap();
    drop(store);
    let settings = fs::read(folder.path().join("conf")).unwrap();
    let mut damaged = 0;
    for at in 0..settings.len() {
        let copy = left(folder.path());
        let mut changed = settings.clone();
        changed[at] ^= 1;
        fs::write(copy.path().join("conf"), changed).unwrap();
        match SledStore::open(copy.path(), 8 << 20) {
            Ok(store) => drop(store),
            Err(StoreError::Damaged(_)) => {
                damaged += 1;
                continue;
            }
            Err(other) => panic!("{other:?} with a change at {at}"),
        }
        assert_eq!(counted(copy.path()), Some((1, 0)), "{at}");
    }
    assert!(damaged > 0);
}

#[tokio::test]
async fn files_whose_mark_is_missing_are_neither_removed_nor_taken_for_none() {
    let (store, folder) = open();
    store.commit(puts([(record("one", 1), Expect::Absent)])).await.unwrap();
    store.compact().await.unwrap();
    drop(store);
    let mark = folder.path().join("gen-1/whole");
    assert!(!fs::read(&mark).unwrap().is_empty());
    fs::remove_file(&mark).unwrap();
    for _ in 0..2 {
        let refused = SledStore::open(folder.path(), 8 << 20).err();
        assert!(
            matches!(&refused, Some(StoreError::Damaged(what)) if what.contains("gen-1/whole")),
            "{refused:?}"
        );
        assert!(counted(folder.path()).is_none());
    }
    // As earlier versions wrote it.
    fs::write(&mark, "").unwrap();
    assert!(is_taken(folder.path()));
    assert_eq!(counted(folder.path()), Some((1, 0)));
}
