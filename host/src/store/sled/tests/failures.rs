//! Failures: what one leaves is noted for the next opening, and nothing is told that may not be so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{CACHE_BYTES, open, reopen};
use crate::store::conformance::{ENTRY, TENANT, entry, puts};
use crate::store::sled::SledStore;
use crate::store::sled::folder::open_database;
use crate::store::sled::rows::LEFT_PREFIX;
use crate::store::{Store as _, StoreError};

#[test]
fn a_failure_at_opening_is_noted_for_the_next() {
    let (store, folder) = open();
    drop(store);
    let note = folder.path().join("failed");
    let change = |change: &dyn Fn(&sled::Db)| {
        let database = open_database(folder.path(), CACHE_BYTES).unwrap();
        change(&database);
        database.flush().unwrap();
    };
    assert!(!note.exists());
    // What is to be cleaned up cannot be.
    change(&|database| drop(database.insert(LEFT_PREFIX, b"no note").unwrap()));
    for _ in 0..2 {
        let opened = SledStore::open(folder.path(), CACHE_BYTES);
        assert!(matches!(opened, Err(StoreError::Damaged(_))));
        assert!(note.exists());
    }
    change(&|database| drop(database.remove(LEFT_PREFIX).unwrap()));
    // The note goes once the files were read anew, and all that is to be done was.
    drop(reopen(folder.path()));
    assert!(!note.exists());
}

#[tokio::test]
async fn heads_are_not_told_once_a_write_has_failed() {
    let (store, folder) = open();
    store.commit(puts([entry(TENANT, "a", 1)])).await.unwrap();
    let heads = store.chain_heads().unwrap();
    assert_eq!((heads.len(), heads[0].sequence), (1, 1));
    // The guard is ahead of the disk from here on, as a write that fails leaves it.
    store.failed.store(true, std::sync::atomic::Ordering::Release);
    assert_eq!(store.commit(puts([entry(TENANT, "b", 2)])).await, Err(StoreError::Failed));
    assert_eq!(store.guard.lock().as_ref().unwrap().heads()[0].sequence, 2);
    assert_eq!(store.chain_heads(), Err(StoreError::Failed));
    drop(store);
    let store = reopen(folder.path());
    assert_eq!(store.chain_heads().unwrap(), heads);
    assert_eq!(store.find(ENTRY, TENANT, &["b"]).await.unwrap(), [None]);
}

#[test]
fn a_writer_that_does_not_get_on_is_told_of_and_left() {
    let (store, folder) = open();
    let store = Arc::new(store);
    store.health().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // What it needs for each group.
    let held = store.guard.lock();
    let under_way = {
        let store = Arc::clone(&store);
        runtime.spawn(async move { store.commit(puts([entry(TENANT, "a", 1)])).await })
    };
    let told = |before: Result<(), StoreError>| {
        let began = Instant::now();
        loop {
            let told = store.health();
            if told != before {
                break told;
            }
            assert!(began.elapsed() < Duration::from_mins(2), "nobody notices");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // First it may be only slow.
    let late = told(Ok(()));
    assert!(late.as_ref().is_err_and(|late| late.to_string().contains("does not get on")));
    // Whoever comes then does not wait behind it.
    let refused = || {
        let commit = store.commit(puts([entry(TENANT, "b", 1)]));
        runtime.block_on(async { timeout(Duration::from_secs(2), commit).await.unwrap() })
    };
    assert_eq!(refused(), late);
    assert_eq!(told(late), Err(StoreError::Failed));
    assert_eq!(refused(), Err(StoreError::Failed));
    store.close();
    assert!(folder.path().join("failed").exists() && !under_way.is_finished());
    // Whatever it still does, nothing is acknowledged.
    drop(held);
    assert_eq!(runtime.block_on(under_way).unwrap(), Err(StoreError::Failed));
}
