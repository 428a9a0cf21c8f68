//! A snapshot is of one moment, keeps nobody from writing, and leaves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::store::conformance::{KIND, TENANT, puts, record};
use crate::store::sled::Fresh;
use crate::store::sled::folder::open_database;
use crate::store::sled::note::NOTE_KEY;
use crate::store::sled::tests::reopen;
use crate::store::{Expect, Row, Snapshot, Store as _};

const CACHE_BYTES: u64 = 8 << 20;

fn all(snapshot: &dyn Snapshot, bytes: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let last = rows.last().map(|(key, _)| key.as_slice());
        let some = snapshot.rows(last, bytes).unwrap();
        // Who asks again gets the same again.
        assert_eq!(some, snapshot.rows(last, bytes).unwrap());
        if some.is_empty() {
            return rows;
        }
        rows.extend(some);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_of_one_moment_whatever_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(reopen(folder.path()));
    for number in 0..300 {
        let mut one = record(&format!("before-{number}"), 1);
        one.body = vec![3; 3_000];
        store.commit(puts([(one, Expect::Absent)])).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        async move {
            let mut number = 0;
            while !stop.load(Ordering::Acquire) {
                // Each twice, in one batch: one without the other is of no moment.
                let two = ["x", "y"]
                    .map(|which| (record(&format!("{which}{number}"), 2), Expect::Absent));
                store.commit(puts(two)).await.unwrap();
                number += 1;
            }
            number
        }
    });
    let mut taken = Vec::new();
    for _ in 0..3 {
        let snapshot = store.snapshot().await.unwrap();
        store
            .commit(puts([(record(&format!("after-{}", taken.len()), 3), Expect::Absent)]))
            .await
            .unwrap();
        let rows = all(snapshot.as_ref(), 10_000);
        assert!(rows.is_sorted_by(|one, two| one.0 < two.0));
        for number in 0..300 {
            let found = snapshot.find(KIND, TENANT, &format!("before-{number}")).unwrap();
            assert_eq!(found.unwrap().body, vec![3; 3_000]);
        }
        let has = |id: &str| snapshot.find(KIND, TENANT, id).unwrap().is_some();
        assert!(!has(&format!("after-{}", taken.len())));
        assert!((0..taken.len()).all(|number| has(&format!("after-{number}"))));
        let pairs = (0..1_000_000).take_while(|number| has(&format!("x{number}"))).count();
        assert!((0..pairs).all(|number| has(&format!("y{number}"))) && !has(&format!("y{pairs}")));
        taken.push(rows);
    }
    stop.store(true, Ordering::Release);
    writer.await.unwrap();
    // The rows are a store.
    for rows in taken {
        let made = tempfile::tempdir().unwrap();
        let mut fresh = Fresh::begin(made.path(), CACHE_BYTES).unwrap();
        fresh.put(rows.clone()).unwrap();
        fresh.finish().unwrap();
        Fresh::settle(made.path()).unwrap();
        let store = reopen(made.path());
        let found = store.find(KIND, TENANT, &["before-7", "before-299"]).await.unwrap();
        assert!(found.iter().all(Option::is_some));
        let live = store.files.live();
        let there: BTreeMap<_, _> = live.tree.iter().map(|row| row.unwrap()).collect();
        assert!(
            rows.iter()
                .all(|(key, value)| there.get(key.as_slice()).is_some_and(|there| there == value))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compacting_waits_for_what_is_read_and_nothing_is_left_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(reopen(folder.path()));
    store.commit(puts([(record("a", 1), Expect::Absent)])).await.unwrap();
    let snapshot = store.snapshot().await.unwrap();
    assert!(folder.path().join("gen-1").exists());
    let compacting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.compact().await }
    });
    // It has begun to wait or will; in neither case may it take the files away.
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.commit(puts([(record("b", 2), Expect::Absent)])).await.unwrap();
    assert!(!compacting.is_finished());
    let rows: BTreeSet<_> = all(snapshot.as_ref(), 1).into_iter().collect();
    assert!(!rows.is_empty() && snapshot.find(KIND, TENANT, "b").unwrap().is_none());
    drop(snapshot);
    compacting.await.unwrap().unwrap();
    let found = store.find(KIND, TENANT, &["a", "b"]).await.unwrap();
    assert!(found.iter().all(Option::is_some));
    // Those who gave up waiting leave nothing that anybody would wait for.
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_micros(200), store.snapshot()).await;
        let _ = tokio::time::timeout(Duration::from_micros(200), store.compact()).await;
    }
    drop(store.snapshot().await.unwrap());
    store.compact().await.unwrap();
    store.close();
    assert!(store.snapshot().await.is_err() && store.snapshot().await.is_err());
    assert!(store.compact().await.is_err());
    drop(store);
    let names = fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name());
    let generations = names.filter(|name| name.to_str().unwrap().starts_with("gen-")).count();
    assert_eq!(generations, 1);
    let store = reopen(folder.path());
    assert!(store.find(KIND, TENANT, &["b"]).await.unwrap()[0].is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_copy_has_nothing_of_one_that_could_not_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path());
    store.commit(puts([(record("a", 1), Expect::Absent)])).await.unwrap();
    let first = all(store.snapshot().await.unwrap().as_ref(), 10_000);
    let left = open_database(&folder.path().join("gen-1"), CACHE_BYTES).unwrap();
    left.insert(b"left", b"of the first").unwrap();
    left.flush().unwrap();
    drop(left);
    assert_eq!(all(store.snapshot().await.unwrap().as_ref(), 10_000), first);
    // Nor has a store that is made anew.
    fs::create_dir_all(folder.path().join("gen-1")).unwrap();
    let left = open_database(&folder.path().join("gen-1"), CACHE_BYTES).unwrap();
    left.insert(b"left", b"of the second").unwrap();
    left.flush().unwrap();
    drop(left);
    store.compact().await.unwrap();
    let live = store.files.live().tree.iter().map(Result::unwrap);
    let live: Vec<_> = live.filter(|(key, _)| **key != *NOTE_KEY).collect();
    assert_eq!(live.len(), first.len());
    assert!(live.iter().all(|(key, _)| **key != *b"left"));
}
