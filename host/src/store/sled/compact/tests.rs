//! What is removed leaves the files, what is kept stays, whatever goes on meanwhile and wherever a process ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::store::conformance::{KIND, TENANT, puts, record};
use crate::store::sled::SledStore;
use crate::store::sled::tests::reopen;
use crate::store::{
    Batch, Expect, Filter, Record, Removal, Start, Store as _, StoreError, Term, Unique,
};

fn open() -> (SledStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (reopen(folder.path()), folder)
}

fn removal(id: &str) -> Batch {
    let removal = Removal { kind: KIND, tenant: TENANT, id: id.to_owned(), expect: Expect::Any };
    Batch { removals: vec![removal], ..Batch::default() }
}

/// How often these bytes lie in any file of the folder.
fn occurrences(folder: &Path, bytes: &[u8]) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += occurrences(&path, bytes);
        } else {
            let text = fs::read(&path).unwrap();
            count += text.windows(bytes.len()).filter(|window| *window == bytes).count();
        }
    }
    count
}

/// Bytes that look like nothing else.
fn marked(mark: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap() ^ mark).collect()
}

fn sensitive(id: &str, mark: u8, length: usize) -> Record {
    let mut one = record(id, u64::from(mark));
    one.body = marked(mark, length);
    one.terms = vec![Term(marked(mark, 96)[80..].try_into().unwrap())];
    one.uniques = vec![Unique(marked(mark, 132)[100..].try_into().unwrap())];
    one
}

/// What would give a record away: a part of its body, its term, the end of its unique value (sled cuts off what keys
/// that lie beside each other have in common).
fn traces(one: &Record) -> [Vec<u8>; 3] {
    let body = one.body[one.body.len() - 40..].to_vec();
    [body, one.terms[0].0.to_vec(), one.uniques[0].0[20..].to_vec()]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_removed_or_replaced_is_in_no_file() {
    let (store, folder) = open();
    let gone = [sensitive("gone", 1, 600), sensitive("gone too", 2, 30_000)];
    let replaced = sensitive("replaced", 3, 700);
    let now = sensitive("replaced", 4, 800);
    let kept = [sensitive("kept", 5, 900), sensitive("kept too", 6, 90_000)];
    for one in gone.iter().chain(&kept).chain([&replaced]) {
        store.commit(puts([(one.clone(), Expect::Absent)])).await.unwrap();
    }
    store.compact().await.unwrap();
    assert!(!store.has_removed());
    store.commit(puts([(now.clone(), Expect::Version(1))])).await.unwrap();
    for one in &gone {
        store.commit(removal(&one.id)).await.unwrap();
    }
    assert!(store.has_removed());
    for (trace, one) in gone.iter().chain([&replaced]).flat_map(|one| traces(one).map(|t| (t, one)))
    {
        assert!(occurrences(folder.path(), &trace) > 0, "{} was never there", one.id);
    }
    let done = store.compact().await.unwrap();
    assert!(done.bytes_before > 0 && done.bytes_after > 0, "{done:?}");
    assert!(!store.has_removed());
    for (trace, one) in gone.iter().chain([&replaced]).flat_map(|one| traces(one).map(|t| (t, one)))
    {
        assert_eq!(occurrences(folder.path(), &trace), 0, "{} is still there", one.id);
    }
    for one in kept.iter().chain([&now]) {
        for trace in traces(one) {
            assert!(occurrences(folder.path(), &trace) > 0, "{} is gone", one.id);
        }
    }
    drop(store);
    let store = reopen(folder.path());
    let found = store.find(KIND, TENANT, &["kept", "kept too", "replaced", "gone"]).await.unwrap();
    let bodies: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| one.body.len())).collect();
    assert_eq!(bodies, [Some(900), Some(90_000), Some(800), None]);
    assert_eq!(found[2].as_ref().unwrap().version, 2);
}

/// Writes, replaces and removes its own records until told to stop; gives what should be there.
async fn churn(
    store: Arc<SledStore>,
    who: usize,
    stop: Arc<AtomicBool>,
) -> BTreeMap<String, Vec<u8>> {
    let mut model = BTreeMap::new();
    for step in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let id = format!("{who}-{}", step * 7 % 40);
        if step % 5 == 4 {
            store.commit(removal(&id)).await.unwrap();
            model.remove(&id);
        } else {
            let length = if step % 11 == 0 { 20_000 } else { 50 + step % 100 };
            let mut one = record(&id, 1);
            one.body = vec![u8::try_from(step % 251).unwrap(); length];
            store.commit(puts([(one.clone(), Expect::Any)])).await.unwrap();
            model.insert(id.clone(), one.body);
        }
        // What was acknowledged is read at once, from whichever files.
        let found = store.find(KIND, TENANT, &[&id]).await.unwrap();
        assert_eq!(found[0].as_ref().map(|one| &one.body), model.get(&id));
    }
    model
}

async fn check(store: &SledStore, model: &BTreeMap<String, Vec<u8>>) {
    let slice = store.page(KIND, TENANT, &Filter::All, Start::Offset(0), 10_000).await.unwrap();
    let found: BTreeMap<_, _> = slice.records.into_iter().map(|one| (one.id, one.body)).collect();
    assert_eq!(found.len() as u64, slice.total);
    assert!(found == *model, "{} records, {} expected", found.len(), model.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_files_are_replaced() {
    let (store, folder) = open();
    let (store, stop) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    for number in 0..400 {
        let mut one = record(&format!("still-{number}"), 2);
        one.body = marked(9, 3_000);
        store.commit(puts([(one, Expect::New)])).await.unwrap();
    }
    let writers: Vec<_> =
        (0..4).map(|who| tokio::spawn(churn(Arc::clone(&store), who, Arc::clone(&stop)))).collect();
    for _ in 0..5 {
        store.compact().await.unwrap();
    }
    // Two at the same time are one after the other.
    let (one, other) = tokio::join!(store.compact(), store.compact());
    assert!(one.is_ok() && other.is_ok());
    stop.store(true, Ordering::Release);
    let mut model: BTreeMap<_, _> =
        (0..400).map(|number| (format!("still-{number}"), marked(9, 3_000))).collect();
    for writer in writers {
        model.extend(writer.await.unwrap());
    }
    check(&store, &model).await;
    drop(store);
    check(&reopen(folder.path()), &model).await;
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|one| one.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with("snap."));
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let into = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &into);
        } else {
            fs::copy(entry.path(), into).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_process_left_are_settled_at_the_next_opening() {
    let (store, folder) = open();
    let old = BTreeMap::from([("a".to_owned(), b"a".to_vec())]);
    store.commit(puts([(record("a", 1), Expect::Absent)])).await.unwrap();
    drop(store);
    let before = tempfile::tempdir().unwrap();
    copy(folder.path(), before.path());
    let store = reopen(folder.path());
    store.commit(puts([(record("b", 2), Expect::Absent)])).await.unwrap();
    store.compact().await.unwrap();
    let new = BTreeMap::from([("a".to_owned(), b"a".to_vec()), ("b".to_owned(), b"b".to_vec())]);
    drop(store);
    assert_eq!(names(folder.path()), ["gen-1", "journal", "lock"]);

    // Ended before the copy was whole: the old files count.
    let unfinished = tempfile::tempdir().unwrap();
    copy(before.path(), unfinished.path());
    copy(&folder.path().join("gen-1"), &unfinished.path().join("gen-1"));
    fs::remove_file(unfinished.path().join("gen-1/whole")).unwrap();
    let store = reopen(unfinished.path());
    check(&store, &old).await;
    assert!(!unfinished.path().join("gen-1").exists());
    store.compact().await.unwrap();
    check(&store, &old).await;
    drop(store);

    // Ended after it was whole, before the old files were gone.
    let journal = fs::read(folder.path().join("journal")).unwrap();
    copy(before.path(), folder.path());
    fs::write(folder.path().join("journal"), journal).unwrap();
    fs::create_dir(folder.path().join("gen-0002x")).unwrap();
    copy(&folder.path().join("gen-1"), &folder.path().join("gen-3"));
    fs::remove_file(folder.path().join("gen-3/whole")).unwrap();
    let store = reopen(folder.path());
    check(&store, &new).await;
    assert_eq!(names(folder.path()), ["gen-0002x", "gen-1", "journal", "lock"]);
    store.compact().await.unwrap();
    drop(store);
    assert_eq!(names(folder.path()), ["gen-0002x", "gen-2", "journal", "lock"]);
    check(&reopen(folder.path()), &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_closes_meanwhile_is_as_it_was() {
    let (store, folder) = open();
    let mut model = BTreeMap::new();
    for number in 0..200 {
        let mut one = record(&format!("{number}"), 1);
        one.body = marked(3, 60_000);
        model.insert(one.id.clone(), one.body.clone());
        store.commit(puts([(one, Expect::New)])).await.unwrap();
    }
    let store = Arc::new(store);
    let (compacting, other) = (Arc::clone(&store), Arc::clone(&store));
    let compacting = tokio::spawn(async move { compacting.compact().await });
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || other.close()).await.unwrap();
    // It came in time or it did not.
    let done = compacting.await.unwrap();
    assert!(done.is_ok() || matches!(done, Err(StoreError::Closed)), "{done:?}");
    assert!(store.compact().await.is_err());
    drop(store);
    check(&reopen(folder.path()), &model).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_lies_where_a_copy_goes_is_removed() {
    let (store, folder) = open();
    store.commit(puts([(record("a", 1), Expect::Absent)])).await.unwrap();
    fs::write(folder.path().join("gen-1"), b"").unwrap();
    store.compact().await.unwrap();
    fs::create_dir_all(folder.path().join("gen-2/db")).unwrap();
    fs::create_dir_all(folder.path().join("gen-2/whole/not a file")).unwrap();
    store.compact().await.unwrap();
    store.commit(removal("a")).await.unwrap();
    check(&store, &BTreeMap::new()).await;
    drop(store);
    check(&reopen(folder.path()), &BTreeMap::new()).await;
}
