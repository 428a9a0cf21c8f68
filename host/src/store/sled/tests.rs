//! The store on sled: the suite for every store, the same history against a model and through restarts, and rows that
//! are not what they should be.

mod failures;
mod found;
mod killed;
mod large;
mod pages;
mod shorn;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tempfile::TempDir;

use super::rows::{
    Address, FORMAT_KEY, Head, IndexRow, LEFT_PREFIX, Left, Link, PIECE_BYTES, Seal, index_value,
};
use super::{SledStore, Versions};
use crate::store::conformance::{self, KIND, TENANT, record};
use crate::store::{
    Batch, Expect, Field, Filter, Put, Record, Removal, Start, Store, StoreError, Term, Unique,
};

const CACHE_BYTES: u64 = 8 << 20;
const FIELD: Field = Field(7);

fn open() -> (SledStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (reopen(folder.path()), folder)
}

/// Opens a store as the vault does.
pub(super) fn reopen(folder: &Path) -> SledStore {
    let store = SledStore::open(folder, CACHE_BYTES).unwrap();
    store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
    store
}

/// The same, while what records are found by is still being read.
pub(super) fn reopen_reading_later(folder: &Path) -> SledStore {
    let store = SledStore::open_reading_later(folder, CACHE_BYTES, &[KIND]).unwrap();
    store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
    store
}

conformance::suite!(open);

/// One change of a history.
#[derive(Debug, Clone)]
enum Step {
    Put {
        id: u8,
        order: u8,
        terms: Vec<u8>,
        number: Option<u8>,
        unique: Option<u8>,
        long: bool,
    },
    Remove {
        id: u8,
    },
    Reopen,
    Compact,
    /// The process is killed.
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let put = (
        0..12_u8,
        0..6_u8,
        prop::collection::vec(0..4_u8, 0..3),
        prop::option::of(0..5_u8),
        prop::option::weighted(0.3, 0..4_u8),
        prop::bool::weighted(0.1),
    );
    let put = put.prop_map(|(id, order, terms, number, unique, long)| Step::Put {
        id,
        order,
        terms,
        number,
        unique,
        long,
    });
    let step = prop_oneof![
        8 => put,
        3 => (0..12_u8).prop_map(|id| Step::Remove { id }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
        2 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..40)
}

/// What the store should hold.
#[derive(Default)]
struct Model(BTreeMap<String, Record>);

impl Model {
    fn put(&mut self, new: Record) -> bool {
        let taken = |other: &Record| {
            other.id != new.id && other.uniques.iter().any(|unique| new.uniques.contains(unique))
        };
        if self.0.values().any(taken) {
            return false;
        }
        let before = self.0.get(&new.id);
        let version = before.map_or(1, |before| before.version + 1);
        // When a record was made does not change.
        let order_ms = before.map_or(new.order_ms, |before| before.order_ms);
        self.0.insert(new.id.clone(), Record { version, order_ms, ..new });
        true
    }

    fn page(&self, matches: impl Fn(&Record) -> bool) -> Vec<Record> {
        let mut found: Vec<Record> = self.0.values().filter(|one| matches(one)).cloned().collect();
        found.sort_by(|a, b| (b.order_ms, &b.id).cmp(&(a.order_ms, &a.id)));
        found
    }
}

/// A record with its version counted from where it was made.
fn counted(record: Record) -> Record {
    Record { version: record.version % Versions::STEP, ..record }
}

/// Compares everything that can be asked.
async fn compare(store: &SledStore, model: &Model) {
    let page = async |filter: Filter| -> Vec<Record> {
        let slice = store.page(KIND, TENANT, &filter, Start::Offset(0), 100).await.unwrap();
        assert_eq!(slice.total, slice.records.len() as u64);
        slice.records.into_iter().map(counted).collect()
    };
    assert_eq!(page(Filter::All).await, model.page(|_| true));
    for number in 0..4_u8 {
        let (term, other) = (Term([number; 16]), Term([(number + 1) % 4; 16]));
        let has = |record: &Record, term: &Term| record.terms.contains(term);
        assert_eq!(page(Filter::Term(term)).await, model.page(|one| has(one, &term)));
        let both =
            Filter::And(vec![Filter::Term(term), Filter::Not(Box::new(Filter::Term(other)))]);
        assert_eq!(page(both).await, model.page(|one| has(one, &term) && !has(one, &other)));
        let range = Filter::Range {
            field: FIELD,
            from: Bound::Included(u64::from(number)),
            to: Bound::Excluded(u64::from(number) + 2),
        };
        let within = |one: &Record| {
            one.numbers.iter().any(|(_, n)| (u64::from(number)..u64::from(number) + 2).contains(n))
        };
        assert_eq!(page(range).await, model.page(within));
        let unique = Unique([number; 32]);
        let owner = model.0.values().find(|one| one.uniques.contains(&unique));
        let found = store.find_unique(KIND, unique).await.unwrap().map(counted);
        assert_eq!(found.as_ref(), owner);
    }
    let late = Filter::Order { from: Bound::Excluded(2), to: Bound::Unbounded };
    assert_eq!(page(late).await, model.page(|one| one.order_ms > 2));
    for slot in 0..12_u8 {
        let id = format!("id{slot}");
        let found = store.find(KIND, TENANT, &[&id]).await.unwrap().pop().unwrap();
        assert_eq!(found.map(counted).as_ref(), model.0.get(&id));
    }
}

async fn live_through(steps: Vec<Step>) {
    let mut folder = tempfile::tempdir().unwrap();
    let mut store = reopen(folder.path());
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Put { id, order, terms, number, unique, long } => {
                let before = model.0.get(&format!("id{id}")).map(|before| before.order_ms);
                let mut new = record(&format!("id{id}"), before.unwrap_or(u64::from(order)));
                new.terms = terms.iter().map(|term| Term([*term; 16])).collect();
                new.terms.dedup();
                new.terms.sort_unstable();
                new.terms.dedup();
                new.numbers = number.iter().map(|number| (FIELD, u64::from(*number))).collect();
                new.uniques = unique.iter().map(|unique| Unique([*unique; 32])).collect();
                new.body = vec![order; if long { 70_000 } else { usize::from(id) }];
                let put = Put { record: new.clone(), expect: Expect::Any };
                let stored = store.commit(Batch { puts: vec![put], ..Batch::default() }).await;
                assert_eq!(stored.is_ok(), model.put(new), "{stored:?}");
            }
            Step::Remove { id } => {
                let id = format!("id{id}");
                model.0.remove(&id);
                let removal = Removal { kind: KIND, tenant: TENANT, id, expect: Expect::Any };
                store.commit(Batch { removals: vec![removal], ..Batch::default() }).await.unwrap();
            }
            Step::Reopen => {
                drop(store);
                // Some of what follows is written before all is read, or none of it.
                store = reopen_reading_later(folder.path());
            }
            Step::Compact => drop(store.compact().await.unwrap()),
            Step::Kill => {
                let left = killed::left(folder.path());
                drop(store);
                folder = left;
                store = reopen_reading_later(folder.path());
            }
        }
        compare(&store, &model).await;
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, ..Config::default() })]

    #[test]
    fn a_history_gives_what_a_model_gives(steps in steps()) {
        let threads = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        threads.block_on(live_through(steps));
    }
}

proptest! {
    #[test]
    fn rows_of_any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Head::read(&bytes);
        let mut key = b"i".to_vec();
        key.extend_from_slice(&bytes);
        let _ = IndexRow::read(&key, &bytes);
    }

    #[test]
    fn heads_are_read_as_they_were_written(
        version in 0..1_u64 << 63, order_ms in any::<u64>(), body in prop::collection::vec(any::<u8>(), 0..50),
        terms in prop::collection::vec(any::<[u8; 16]>(), 0..5), numbers in prop::collection::vec((any::<u8>(), any::<u64>()), 0..5),
        tag in prop::option::of(any::<[u8; 32]>()), link in prop::option::of((any::<u64>(), any::<[u8; 32]>())),
    ) {
        let mut one = record("id", order_ms);
        one.terms = terms.into_iter().map(Term).collect();
        one.numbers = numbers.into_iter().map(|(field, number)| (Field(field), number)).collect();
        one.uniques = vec![Unique([3; 32])];
        let link = link.map(|(sequence, hash)| Link { sequence, hash });
        let head = Head { seal: tag.map(|tag| Seal { tag, link }), ..Head::of(&one, version) };
        let value = head.to_value(&body);
        let (read, rest) = Head::read(&value).unwrap();
        prop_assert_eq!((&read, rest), (&head, body.as_slice()));
        // Whatever is cut off is noticed, as long as it is not of the body.
        for length in 0..value.len() - body.len() {
            prop_assert!(Head::read(&value[..length]).is_err());
        }
    }
}

#[test]
fn index_rows_are_read_as_they_were_written() {
    let address = super::rows::Address { kind: KIND, tenant: TENANT, id: "an id".to_owned() };
    let (terms, numbers) = (vec![Term([1; 16])], vec![(FIELD, 9)]);
    let row = IndexRow::read(&address.index_key(77), &index_value(&terms, &numbers)).unwrap();
    assert_eq!((row.kind, row.tenant, row.order_ms, row.id.as_str()), (KIND, TENANT, 77, "an id"));
    assert_eq!((row.terms, row.numbers), (terms, numbers));
}

#[test]
fn a_folder_is_open_once_and_of_one_format() {
    let (store, folder) = open();
    assert!(matches!(SledStore::open(folder.path(), CACHE_BYTES), Err(StoreError::Unavailable(_))));
    store.files.live().tree.insert(FORMAT_KEY, b"99").unwrap();
    store.files.live().tree.flush().unwrap();
    drop(store);
    assert!(matches!(SledStore::open(folder.path(), CACHE_BYTES), Err(StoreError::Unavailable(_))));
}

/// Rows under a prefix.
fn rows(store: &SledStore, prefix: &[u8]) -> usize {
    store.files.live().tree.scan_prefix(prefix).count()
}

#[tokio::test]
async fn pieces_stay_only_as_long_as_their_record() {
    let (store, _folder) = open();
    let long = |fill: u8| Record { body: vec![fill; 3 << 20], ..record("a", 1) };
    for fill in 1..4 {
        store.commit(conformance::puts([(long(fill), Expect::Any)])).await.unwrap();
        // What it replaces goes before whatever comes next.
        store.commit(Batch::cleared()).await.unwrap();
        assert_eq!(rows(&store, b"c"), (3 << 20) / PIECE_BYTES);
        assert_eq!(rows(&store, LEFT_PREFIX), 0);
    }
    let removal = Removal { kind: KIND, tenant: TENANT, id: "a".into(), expect: Expect::Any };
    store.commit(Batch { removals: vec![removal], ..Batch::default() }).await.unwrap();
    store.commit(Batch::cleared()).await.unwrap();
    assert_eq!((rows(&store, b"c"), rows(&store, LEFT_PREFIX)), (0, 0));
}

#[tokio::test]
async fn pieces_that_nobody_has_go_at_the_next_opening() {
    let (store, folder) = open();
    let kept = Record { body: vec![1; 3 << 20], ..record("kept", 1) };
    store.commit(conformance::puts([(kept, Expect::Any)])).await.unwrap();
    // As a process leaves them that ends between the portions.
    let address = Address { kind: KIND, tenant: TENANT, id: "never".into() };
    let left = Left { address, version: 1, pieces: 600 };
    store.files.live().tree.insert(left.key(), &left.value()).unwrap();
    for number in 0..300 {
        let piece = left.address.piece_key(1, number);
        store.files.live().tree.insert(piece, vec![7; PIECE_BYTES]).unwrap();
    }
    store.files.live().tree.flush().unwrap();
    drop(store);
    let store = reopen(folder.path());
    store.commit(Batch::cleared()).await.unwrap();
    assert_eq!((rows(&store, b"c"), rows(&store, LEFT_PREFIX)), ((3 << 20) / PIECE_BYTES, 0));
    let found = store.find(KIND, TENANT, &["kept"]).await.unwrap();
    assert_eq!(found[0].as_ref().unwrap().body.len(), 3 << 20);
}

#[test]
fn notes_of_pieces_are_read_as_they_were_written() {
    for id in ["a", "", "with \0 in it", "é"] {
        let address = Address { kind: KIND, tenant: TENANT, id: id.into() };
        let left = Left { address, version: u64::MAX - 255, pieces: 12 };
        assert_eq!(Left::read(&left.key(), &left.value()).unwrap(), left);
    }
    for key in [&b"p"[..], b"p12345678", &[b'p'; 25]] {
        assert!(Left::read(key, &[0; 4]).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_read_late_is_waited_for_and_others_are_not() {
    const RECORDS: u64 = 3_000;
    const OTHER: crate::store::Kind = crate::store::Kind(KIND.0 + 1);
    let (store, folder) = open();
    let put = |kind, number: u64| {
        let record = Record { kind, ..record(&format!("id{number}"), number) };
        Put { record, expect: Expect::Absent }
    };
    for first in (0..RECORDS).step_by(500) {
        let puts = (first..first + 500).map(|number| put(KIND, number)).collect();
        store.commit(Batch { puts, ..Batch::default() }).await.unwrap();
    }
    let other = Batch { puts: vec![put(OTHER, 1)], ..Batch::default() };
    store.commit(other).await.unwrap();
    drop(store);
    let total = async |store: &SledStore, kind| {
        let slice = store.page(kind, TENANT, &Filter::All, Start::Offset(0), 1).await.unwrap();
        slice.total
    };
    for _ in 0..3 {
        // Closed again, whether or not it has read all by then.
        drop(reopen_reading_later(folder.path()));
    }
    let store = reopen_reading_later(folder.path());
    assert_eq!(total(&store, OTHER).await, 1);
    let removal = |id: &str| Removal {
        kind: KIND,
        tenant: TENANT,
        id: id.to_owned(),
        expect: Expect::Version(1),
    };
    let removals = vec![removal("id7"), removal("id2999")];
    let (puts, urgent) = (vec![put(KIND, RECORDS), put(KIND, RECORDS + 1)], false);
    store.commit(Batch { puts, removals, urgent, ..Batch::default() }).await.unwrap();
    assert_eq!(total(&store, KIND).await, RECORDS);
    assert_eq!(store.health(), Ok(()));
    let slice = store.page(KIND, TENANT, &Filter::All, Start::Offset(0), 3).await.unwrap();
    let ids: Vec<&str> = slice.records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, ["id3001", "id3000", "id2998"]);
}

#[tokio::test]
async fn an_index_row_that_cannot_be_read_is_told_of_whenever_it_is_read() {
    let (store, folder) = open();
    let put = Put { record: record("id", 1), expect: Expect::Absent };
    store.commit(Batch { puts: vec![put], ..Batch::default() }).await.unwrap();
    let address = Address { kind: KIND, tenant: TENANT, id: "cut".to_owned() };
    let tree = store.files.live().tree.clone();
    tree.insert(address.index_key(2), &[0, 9]).unwrap();
    drop(tree);
    drop(store);
    let opened = SledStore::open(folder.path(), CACHE_BYTES);
    assert!(matches!(opened, Err(StoreError::Damaged(_))));
    let store = reopen_reading_later(folder.path());
    let page = store.page(KIND, TENANT, &Filter::All, Start::Offset(0), 1).await;
    assert!(matches!(page, Err(StoreError::Damaged(_))));
    assert!(matches!(store.health(), Err(StoreError::Damaged(_))));
}
