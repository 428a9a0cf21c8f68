//! Records that last lie together as log entries do, until one of them changes.

use std::path::Path;

use proptest::prelude::*;

use super::{CACHE_BYTES, Inspection, open, rows, told};
use crate::store::conformance::{KIND, OTHER_TENANT, TENANT, puts, record};
use crate::store::sled::SledStore;
use crate::store::sled::rows::PIECE_BYTES;
use crate::store::{
    Batch, Expect, Field, Filter, Record, Removal, Start, Store as _, StoreError, Term, Unique,
};

const OF_ALL: Term = Term([1; 16]);

fn one(id: &str, order_ms: u64) -> Record {
    Record { terms: vec![OF_ALL], numbers: vec![(Field(3), order_ms)], ..record(id, order_ms) }
}

fn removal(id: &str, expect: Expect) -> Removal {
    Removal { kind: KIND, tenant: TENANT, id: id.to_owned(), expect }
}

/// Ids and versions of what a store has, newest first.
async fn all(store: &SledStore) -> Vec<(String, u64)> {
    let slice = store.page(KIND, TENANT, &Filter::Term(OF_ALL), Start::Offset(0), 1_000).await;
    let slice = slice.unwrap();
    assert_eq!(slice.total, slice.records.len() as u64);
    slice.records.into_iter().map(|record| (record.id, record.version)).collect()
}

/// How many rows of a kind a sound store has: packs, heads, rows to be found by.
fn sound(folder: &Path) -> [usize; 3] {
    let store = Inspection::open(folder, CACHE_BYTES).unwrap();
    assert_eq!(told(&store, &[]), [""; 0]);
    let rows = rows(&store);
    [b'e', b'r', b'i'].map(|prefix| rows.iter().filter(|(key, _)| key[0] == prefix).count())
}

#[tokio::test]
async fn they_share_rows_until_one_of_them_is_written_anew_or_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let id = |number: u64| format!("a{number:02}");
    let commits = (0..30).map(|number| {
        let other = Record { tenant: OTHER_TENANT, ..one(&id(number), number) };
        let both = [(one(&id(number), number), Expect::Lasting), (other, Expect::Lasting)];
        store.commit(puts(both))
    });
    let done = futures::future::join_all(commits.collect::<Vec<_>>()).await;
    assert!(done.iter().all(Result::is_ok));
    // What takes rows of its own has them all, whatever is said of it.
    let long = Record { body: vec![7; PIECE_BYTES + 1], ..one("long", 40) };
    let unique = Record { uniques: vec![Unique([3; 32])], ..one("unique", 41) };
    store.commit(puts([(long, Expect::Lasting), (unique, Expect::Lasting)])).await.unwrap();
    let before = all(&store).await;
    assert_eq!(before.len(), 32);
    drop(store);
    let [packs, heads, found_by] = sound(folder.path());
    assert!((2..30).contains(&packs), "{packs}");
    assert_eq!([heads, found_by], [2, 2]);

    let store = open(folder.path());
    assert_eq!(all(&store).await, before);
    let anew = Record { body: b"anew".to_vec(), ..one("a03", 3) };
    assert_eq!(
        store.commit(puts([(anew.clone(), Expect::Version(2))])).await,
        Err(StoreError::Conflict { kind: KIND, id: "a03".into() })
    );
    assert_eq!(
        store.commit(puts([(anew.clone(), Expect::Absent)])).await,
        Err(StoreError::Exists { kind: KIND, id: "a03".into() })
    );
    store.commit(puts([(anew, Expect::Version(1))])).await.unwrap();
    let gone = ["a05", "a06"].map(|id| removal(id, Expect::Version(1))).to_vec();
    store.commit(Batch { removals: gone, ..Batch::default() }).await.unwrap();
    // One that is made and changed at once, by whoever comes next.
    let (made, changed) = (
        store.commit(puts([(one("b1", 50), Expect::Lasting), (one("b2", 51), Expect::Lasting)])),
        store.commit(puts([(one("b1", 50), Expect::Version(1))])),
    );
    assert_eq!(futures::future::join(made, changed).await, (Ok(()), Ok(())));
    let after = all(&store).await;
    let mut expected = vec![("b2".to_owned(), 1), ("b1".to_owned(), 2)];
    expected.extend(before.into_iter().filter(|(id, _)| id != "a05" && id != "a06"));
    expected.iter_mut().filter(|(id, _)| id == "a03").for_each(|(_, version)| *version = 2);
    assert_eq!(after, expected);
    let found = store.find(KIND, TENANT, &["a03", "a04", "a05", "b2"]).await.unwrap();
    let bodies: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| one.body.clone())).collect();
    assert_eq!(bodies, [Some(b"anew".to_vec()), Some(b"a04".to_vec()), None, Some(b"b2".to_vec())]);
    drop(store);
    sound(folder.path());
    assert_eq!(all(&open(folder.path())).await, after);
}

/// What happens to a record.
#[derive(Debug, Clone, Copy)]
enum Step {
    Put,
    Change,
    Remove,
}

fn steps() -> impl Strategy<Value = Vec<Vec<(u8, Step)>>> {
    let step = prop_oneof![Just(Step::Put), Just(Step::Change), Just(Step::Remove)];
    // Those of one group are committed at the same time.
    prop::collection::vec(prop::collection::vec((0..12_u8, step), 1..10), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn whatever_happens_to_some_the_others_stay(groups in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        // One that nothing happens to: a store that was never written to has no format.
        let mut model = std::collections::BTreeMap::from([("a".to_owned(), 1)]);
        runtime.block_on(open(folder.path()).commit(puts([(one("a", 0), Expect::Lasting)]))).unwrap();
        for group in groups {
            let store = open(folder.path());
            let mut commits = Vec::new();
            for (number, step) in group {
                let id = format!("a{number:02}");
                let at = one(&id, u64::from(number));
                let there = model.get(&id).copied();
                let batch = match (step, there) {
                    (Step::Put, None) => {
                        model.insert(id, 1);
                        puts([(at, Expect::Lasting)])
                    }
                    (Step::Change, Some(version)) => {
                        model.insert(id, version + 1);
                        puts([(at, Expect::Version(version))])
                    }
                    (Step::Remove, Some(version)) => {
                        model.remove(&id);
                        Batch { removals: vec![removal(&id, Expect::Version(version))], ..Batch::default() }
                    }
                    _ => continue,
                };
                commits.push(store.commit(batch));
            }
            let done = runtime.block_on(futures::future::join_all(commits));
            prop_assert!(done.iter().all(Result::is_ok), "{done:?}");
            let expected: Vec<_> = model.iter().rev().map(|(id, version)| (id.clone(), *version)).collect();
            prop_assert_eq!(&runtime.block_on(all(&store)), &expected);
            drop(store);
            sound(folder.path());
            let store = open(folder.path());
            prop_assert_eq!(&runtime.block_on(all(&store)), &expected);
        }
    }
}
