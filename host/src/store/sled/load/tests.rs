//! What is found by is read whole: every form of row, whatever changes meanwhile, and whoever waits is told how it ended.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::{bounded, unbounded};
use parking_lot::{Mutex, RwLock};
use proptest::prelude::*;
use sled::IVec;
use tokio::sync::watch;

use super::{INDEX_PREFIX, Index, Later, PACK_PREFIX, Portion, put_in_order, read, scan, take_row};
use crate::model::id::TenantId;
use crate::store::conformance::{self, ENTRY, Entries, entry, protection, puts, record};
use crate::store::sled::SledStore;
use crate::store::sled::changes::Rows;
use crate::store::sled::packs::{self, Packs};
use crate::store::sled::rows::{Address, Head, IndexRow, index_value};
use crate::store::{Batch, Expect, Filter, Kind, Start, Store as _, StoreError, Term};

const KIND: Kind = Kind(9);
const TENANT: TenantId = TenantId(uuid::Uuid::from_u128(1));

fn address(id: &str) -> Address {
    Address { kind: KIND, tenant: TENANT, id: id.to_owned() }
}

fn head(order_ms: u64) -> Head {
    Head {
        version: 1,
        order_ms,
        pieces: 0,
        terms: vec![Term([7; 16])],
        numbers: vec![],
        uniques: vec![],
        seal: None,
        packed: false,
    }
}

proptest! {
    #[test]
    fn rows_are_handed_over_as_they_are(
        rows in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..60)), 0..9),
    ) {
        let mut portion = Portion::default();
        for (key, value) in &rows {
            portion.add(key, value);
        }
        let handed: Vec<_> = portion.rows().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(handed, rows);
    }

    #[test]
    fn a_row_is_taken_if_it_can_be_read(
        place in prop::collection::vec(any::<u8>(), 20..30),
        id in prop_oneof!["[a-z]{0,6}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..6)],
        counts in (0..4_u8, 0..4_u8),
        rest in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let key = [INDEX_PREFIX, &place, &id].concat();
        let terms = usize::from(counts.0) * 16;
        let mut value = [&[0, counts.0][..], &rest[..terms.min(rest.len())]].concat();
        value.extend([0, counts.1]);
        value.extend(&rest[terms.min(rest.len())..]);
        let taken = take_row(&mut Index::default(), &key, &value);
        prop_assert_eq!(taken.is_some(), IndexRow::read(&key, &value).is_ok());
    }
}

#[test]
fn single_rows_and_packs_are_found_in_one_order() {
    let database = sled::Config::new().temporary(true).open().unwrap();
    for (id, at) in [("c", 3), ("a", 1), ("e", 5)] {
        let row = index_value(&head(at).terms, &[]);
        database.insert(address(id).index_key(at), row).unwrap();
    }
    let (mut rows, mut packs) = (Rows::default(), Packs::default());
    for (id, at) in [("b", 2), ("d", 4), ("f", 6)] {
        packs.add(&address(id), head(at).to_value(b"body"));
    }
    packs.finish(&database, &mut rows).unwrap();
    database.apply_batch(rows.into_batch()).unwrap();
    let filter = Filter::Term(Term([7; 16]));
    let ids = |but: &[Kind]| -> Vec<String> {
        let index = read(&database, but).unwrap();
        let whose = (KIND, TENANT);
        let found = index.page(whose, &filter, &Start::Offset(0), 10, &HashMap::new());
        found.page.into_iter().map(|place| place.id).collect()
    };
    // Newest first.
    assert_eq!(ids(&[]), ["f", "e", "d", "c", "b", "a"]);
    assert!(ids(&[KIND]).is_empty());
    database.insert(address("g").pack_key(), b"none").unwrap();
    assert!(read(&database, &[]).is_err());
}

/// How many entries an index has.
fn total(index: &Index) -> u64 {
    index.page((KIND, TENANT), &Filter::All, &Start::Offset(0), 1, &HashMap::new()).total
}

#[test]
fn entries_whose_packs_are_taken_apart_meanwhile_are_found_and_counted_once() {
    const ENTRIES: u64 = 4_000;
    let database = sled::Config::new().temporary(true).open().unwrap();
    let (mut rows, mut packed) = (Rows::default(), Packs::default());
    for number in 0..ENTRIES {
        packed.add(&address(&format!("id{number:05}")), head(number).to_value(&[7; 200]));
    }
    packed.finish(&database, &mut rows).unwrap();
    database.apply_batch(rows.into_batch()).unwrap();
    let all: Vec<(IVec, IVec)> = database.scan_prefix(PACK_PREFIX).map(Result::unwrap).collect();
    let take_apart = |(key, pack): &(IVec, IVec)| {
        let mut rows = Rows::default();
        for (address, value) in packs::entries(key, pack).unwrap() {
            let (head, _) = Head::read(&value).unwrap();
            rows.insert(address.index_key(head.order_ms), index_value(&head.terms, &[]));
        }
        rows.remove(key);
        database.apply_batch(rows.into_batch()).unwrap();
    };
    let ended = AtomicBool::new(false);
    let index = std::thread::scope(|scope| {
        // Who reads is never more than one portion ahead.
        let (sender, portions) = bounded(0);
        let tree = &database;
        let ended = &ended;
        let scanning = scope.spawn(move || scan(tree, (KIND, ended), &sender, Portion::default));
        let (again, in_order) = unbounded();
        again.send(portions.recv().unwrap()).unwrap();
        // One that was read as it was, and one that is to be read still.
        take_apart(&all[0]);
        take_apart(all.last().unwrap());
        portions.into_iter().for_each(|portion| again.send(portion).unwrap());
        scanning.join().unwrap().unwrap();
        drop(again);
        put_in_order(&in_order, &bounded(0).0).unwrap()
    });
    assert_eq!(total(&index), ENTRIES);
}

#[tokio::test]
async fn whoever_waits_for_what_panicked_is_told() {
    let index = RwLock::new(Index::default());
    index.write().await_kind(KIND);
    let later = Later {
        kinds: vec![KIND],
        outcome: watch::Sender::new(None),
        ended: AtomicBool::new(false),
        thread: Mutex::default(),
    };
    assert_eq!(later.fault(), None);
    later.conclude(&index, || panic!("a fault of ours"));
    assert!(matches!(later.wait(KIND).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(later.fault(), Some(StoreError::Unavailable(_))));
    // Another kind is asked for as ever, and nothing is kept aside for nobody.
    assert_eq!(later.wait(Kind(KIND.0 + 1)).await, Ok(()));
    let Address { kind, tenant, id } = address("a");
    let (terms, numbers) = (Vec::new(), Vec::new());
    index.write().put(IndexRow { kind, tenant, order_ms: 1, id, terms, numbers });
    assert_eq!(total(&index.read()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_aside_for_kinds_behind_one_that_cannot_be_read() {
    const RUN: Kind = conformance::KIND;
    let folder = tempfile::tempdir().unwrap();
    let open = |later: &[Kind]| {
        let store = SledStore::open_reading_later(folder.path(), 8 << 20, later).unwrap();
        store.protect(protection(), Some(&mut Entries)).unwrap();
        store
    };
    let run = |id: &str| -> Batch { puts([(record(id, 1), Expect::Lasting)]) };
    let tenant = conformance::TENANT;
    let store = open(&[]);
    store.commit(puts([entry(tenant, "e1", 1)])).await.unwrap();
    let pack = Address { kind: ENTRY, tenant, id: "e1".to_owned() }.pack_key();
    let tree = store.files.live().tree.clone();
    let packed = tree.get(&pack).unwrap().unwrap();
    tree.insert(&pack, &packed[..packed.len() - 1]).unwrap();
    drop(tree);
    drop(store);

    let store = open(&[ENTRY, RUN]);
    store.commit(run("r1")).await.unwrap();
    let page = store.page(RUN, tenant, &Filter::All, Start::Offset(0), 1).await;
    assert!(matches!(page, Err(StoreError::Damaged(_))), "{page:?}");
    store.commit(run("r2")).await.unwrap();
    assert_eq!(store.index.write().take_changes(RUN).len(), 0);
}
