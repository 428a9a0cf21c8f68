//! What every store must do, as tests over the trait. An implementation mounts them all with [`suite!`].
//!
//! To add a rule: a function here, and its name in [`suite!`].

use std::ops::Bound;

use futures::future::join_all;
use uuid::Uuid;

use super::{
    Batch, Examined, Examiner, Expect, Field, Filter, Kind, Position, Protection, Put, Record,
    Removal, Start, Store, StoreError, Term, TextDigest, Unique,
};
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::integrity::{IntegrityKey, digest};
use crate::crypto::seal::Key;
use crate::model::id::TenantId;

/// Mounts every rule for a store; `$open` gives a fresh one, with whatever it lies in.
macro_rules! suite {
    ($open:path) => {
        $crate::store::conformance::suite!($open:
            finds_what_was_stored, keeps_kinds_and_tenants_apart, counts_versions,
            holds_writes_to_what_they_expect, tells_what_was_made_anew_from_what_was_there,
            takes_a_record_once_in_a_batch, commits_all_or_nothing, keeps_uniques_unique,
            moves_uniques_within_a_batch, pages_newest_first, goes_on_after_a_cursor,
            answers_every_filter, finds_by_what_a_record_is_now, keeps_long_bodies_whole,
            lets_one_of_concurrent_writers_win, gives_a_unique_value_to_one,
            sees_every_acknowledged_write, refuses_writes_once_closed,
            chains_entries_one_by_one, keeps_the_place_of_an_entry_that_is_written_anew,
            removes_a_log_from_its_beginning_only,
            removes_entries_dated_ahead_with_those_behind_them,
        );
    };
    ($open:path: $($rule:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $rule() {
            let opened = $open();
            $crate::store::conformance::$rule(&opened.0).await;
        }
    )+};
}
pub(crate) use suite;

pub const KIND: Kind = Kind(200);
const OTHER_KIND: Kind = Kind(201);
/// Log entries.
pub const ENTRY: Kind = Kind(202);
pub const TENANT: TenantId = TenantId(Uuid::from_u128(1));
pub const OTHER_TENANT: TenantId = TenantId(Uuid::from_u128(2));
const FIELD: Field = Field(7);

/// A record with nothing to be found by.
pub fn record(id: &str, order_ms: u64) -> Record {
    Record {
        kind: KIND,
        tenant: TENANT,
        id: id.to_owned(),
        version: 0,
        order_ms,
        body: id.as_bytes().to_vec(),
        terms: vec![],
        numbers: vec![],
        uniques: vec![],
    }
}

/// What stores are protected with.
pub fn protection() -> Protection {
    let key = IntegrityKey::derive(&Key::from([5; 32]));
    Protection { key, entropy: std::sync::Arc::new(SystemEntropy::new().unwrap()) }
}

/// Knows which records are log entries.
pub struct Entries;

impl Examiner for Entries {
    fn examine(
        &mut self,
        record: &Record,
        _: &dyn Fn(Kind, TenantId, &str) -> Option<Record>,
    ) -> Examined {
        let chained = (record.kind == ENTRY).then(|| text_of(&record.id));
        Examined { chained, ..Examined::default() }
    }
}

fn text_of(id: &str) -> TextDigest {
    TextDigest(digest(&[id.as_bytes()]))
}

/// A log entry, and how it is put.
pub fn entry(tenant: TenantId, id: &str, order_ms: u64) -> (Record, Expect) {
    let record = Record { kind: ENTRY, tenant, ..record(id, order_ms) };
    (record, Expect::Chained(text_of(id)))
}

fn term(number: u8) -> Term {
    Term([number; 16])
}

fn unique(number: u8) -> Unique {
    Unique([number; 32])
}

/// A batch of puts.
pub fn puts(puts: impl IntoIterator<Item = (Record, Expect)>) -> Batch {
    let puts = puts.into_iter().map(|(record, expect)| Put { record, expect }).collect();
    Batch { puts, ..Batch::default() }
}

fn removal(id: &str, expect: Expect) -> Batch {
    let removal = Removal { kind: KIND, tenant: TENANT, id: id.to_owned(), expect };
    Batch { removals: vec![removal], ..Batch::default() }
}

async fn put(store: &dyn Store, record: Record) {
    store.commit(puts([(record, Expect::Absent)])).await.unwrap();
}

async fn get(store: &dyn Store, id: &str) -> Option<Record> {
    store.find(KIND, TENANT, &[id]).await.unwrap().pop().unwrap()
}

/// The ids that match, newest first.
async fn ids(store: &dyn Store, filter: &Filter) -> Vec<String> {
    let slice = store.page(KIND, TENANT, filter, Start::Offset(0), 1_000).await.unwrap();
    assert_eq!(slice.total, slice.records.len() as u64);
    slice.records.into_iter().map(|record| record.id).collect()
}

pub async fn finds_what_was_stored(store: &dyn Store) {
    let mut full = record("full", 5);
    full.terms = vec![term(1), term(2)];
    full.numbers = vec![(FIELD, 9)];
    full.uniques = vec![unique(3)];
    put(store, full.clone()).await;
    put(store, record("plain", 6)).await;
    let found = store.find(KIND, TENANT, &["plain", "missing", "full", "plain"]).await.unwrap();
    let expected = |record: Record| Some(Record { version: 1, ..record });
    assert_eq!(
        found,
        [expected(record("plain", 6)), None, expected(full.clone()), expected(record("plain", 6))]
    );
    assert_eq!(store.find_unique(KIND, unique(3)).await.unwrap(), expected(full));
    assert_eq!(store.find_unique(KIND, unique(4)).await.unwrap(), None);
    assert!(store.find(KIND, TENANT, &[]).await.unwrap().is_empty());
    assert_eq!(store.health(), Ok(()));
}

pub async fn keeps_kinds_and_tenants_apart(store: &dyn Store) {
    put(store, Record { terms: vec![term(1)], ..record("a", 1) }).await;
    put(store, Record { kind: OTHER_KIND, terms: vec![term(1)], ..record("a", 2) }).await;
    put(store, Record { tenant: OTHER_TENANT, terms: vec![term(1)], ..record("a", 3) }).await;
    for (kind, tenant, order_ms) in
        [(KIND, TENANT, 1), (OTHER_KIND, TENANT, 2), (KIND, OTHER_TENANT, 3)]
    {
        let found = store.find(kind, tenant, &["a"]).await.unwrap().pop().unwrap().unwrap();
        assert_eq!(found.order_ms, order_ms);
        for filter in [Filter::All, Filter::Term(term(1)), Filter::Ids(vec!["a".into()])] {
            let slice = store.page(kind, tenant, &filter, Start::Offset(0), 10).await.unwrap();
            assert_eq!((slice.total, slice.records[0].order_ms), (1, order_ms));
        }
    }
    let nobody = TenantId(Uuid::from_u128(9));
    assert_eq!(store.find(KIND, nobody, &["a"]).await.unwrap(), [None]);
    let slice = store.page(KIND, nobody, &Filter::All, Start::Offset(0), 10).await.unwrap();
    assert_eq!((slice.total, slice.next), (0, None));
}

pub async fn counts_versions(store: &dyn Store) {
    put(store, record("a", 1)).await;
    for version in 1..5 {
        assert_eq!(get(store, "a").await.unwrap().version, version);
        store.commit(puts([(record("a", 1), Expect::Version(version))])).await.unwrap();
    }
    store.commit(puts([(record("a", 1), Expect::Any)])).await.unwrap();
    assert_eq!(get(store, "a").await.unwrap().version, 6);
}

pub async fn holds_writes_to_what_they_expect(store: &dyn Store) {
    put(store, record("a", 1)).await;
    let exists = StoreError::Exists { kind: KIND, id: "a".into() };
    let conflict = StoreError::Conflict { kind: KIND, id: "a".into() };
    let absent = store.commit(puts([(record("a", 1), Expect::Absent)])).await;
    assert_eq!(absent, Err(exists));
    let stale = store.commit(puts([(record("a", 1), Expect::Version(2))])).await;
    assert_eq!(stale, Err(conflict.clone()));
    assert_eq!(store.commit(removal("a", Expect::Version(2))).await, Err(conflict));
    let missing = StoreError::Conflict { kind: KIND, id: "b".into() };
    assert_eq!(store.commit(removal("b", Expect::Version(1))).await, Err(missing.clone()));
    let changed = store.commit(puts([(record("b", 1), Expect::Version(1))])).await;
    assert_eq!(changed, Err(missing));
    assert_eq!(store.commit(removal("b", Expect::Any)).await, Ok(()));
    assert_eq!(store.commit(removal("a", Expect::Version(1))).await, Ok(()));
    assert_eq!(get(store, "a").await, None);
}

pub async fn tells_what_was_made_anew_from_what_was_there(store: &dyn Store) {
    let mut had = Vec::new();
    for round in 0..3 {
        put(store, record("a", round)).await;
        let first = get(store, "a").await.unwrap().version;
        store.commit(puts([(record("a", round), Expect::Version(first))])).await.unwrap();
        had.extend([first, first + 1]);
        store.commit(removal("a", Expect::Version(first + 1))).await.unwrap();
    }
    put(store, record("a", 9)).await;
    // Whoever read one of those before does not find this one as it was, for all that it has their address.
    for version in had {
        let conflict = Err(StoreError::Conflict { kind: KIND, id: "a".into() });
        let expect = Expect::Version(version);
        assert_eq!(store.commit(puts([(record("a", 1), expect)])).await, conflict, "{version}");
        assert_eq!(store.commit(removal("a", expect)).await, conflict, "{version}");
    }
    assert_eq!(get(store, "a").await.unwrap().order_ms, 9);
}

pub async fn takes_a_record_once_in_a_batch(store: &dyn Store) {
    for expect in [Expect::Absent, Expect::New] {
        let twice =
            puts([(record("a", 1), expect), (record("b", 1), expect), (record("a", 2), expect)]);
        let exists = StoreError::Exists { kind: KIND, id: "a".into() };
        assert_eq!(store.commit(twice).await, Err(exists));
    }
    let twice = puts([(record("a", 1), Expect::Any), (record("a", 2), Expect::Any)]);
    assert!(matches!(store.commit(twice).await, Err(StoreError::Conflict { .. })));
    assert_eq!((get(store, "a").await, get(store, "b").await), (None, None));
}

pub async fn commits_all_or_nothing(store: &dyn Store) {
    put(store, Record { uniques: vec![unique(1)], ..record("taken", 1) }).await;
    let refused = [
        puts([(record("x", 1), Expect::Absent), (record("taken", 1), Expect::Absent)]),
        puts([
            (record("x", 1), Expect::Absent),
            (Record { uniques: vec![unique(1)], ..record("y", 1) }, Expect::Absent),
        ]),
        Batch {
            removals: removal("gone", Expect::Version(1)).removals,
            ..puts([(record("x", 1), Expect::New), (record("taken", 9), Expect::Any)])
        },
    ];
    for batch in refused {
        assert!(store.commit(batch).await.is_err());
        assert_eq!(ids(store, &Filter::All).await, ["taken"]);
        assert_eq!(get(store, "x").await, None);
        assert_eq!(get(store, "taken").await.unwrap().version, 1);
    }
    let batch = Batch {
        removals: removal("taken", Expect::Version(1)).removals,
        ..puts([(record("x", 3), Expect::Absent), (record("y", 2), Expect::Absent)])
    };
    store.commit(batch).await.unwrap();
    assert_eq!(ids(store, &Filter::All).await, ["x", "y"]);
    store.commit(Batch::default()).await.unwrap();
}

pub async fn keeps_uniques_unique(store: &dyn Store) {
    let with = |id: &str, uniques: &[u8]| Record {
        uniques: uniques.iter().map(|number| unique(*number)).collect(),
        ..record(id, 1)
    };
    put(store, with("a", &[1, 2])).await;
    let taken = store.commit(puts([(with("b", &[3, 2]), Expect::Absent)])).await;
    let expected = StoreError::Taken { kind: KIND, unique: unique(2), by: (TENANT, "a".into()) };
    assert_eq!(taken, Err(expected));
    // Over all tenants, but not over kinds.
    let foreign = Record { tenant: OTHER_TENANT, ..with("b", &[1]) };
    assert!(store.commit(puts([(foreign, Expect::Absent)])).await.is_err());
    put(store, Record { kind: OTHER_KIND, ..with("b", &[1]) }).await;
    // A record keeps its own, and gives up what it has no longer.
    store.commit(puts([(with("a", &[1]), Expect::Version(1))])).await.unwrap();
    assert_eq!(store.find_unique(KIND, unique(2)).await.unwrap(), None);
    put(store, with("b", &[2])).await;
    store.commit(removal("a", Expect::Any)).await.unwrap();
    assert_eq!(store.find_unique(KIND, unique(1)).await.unwrap(), None);
    put(store, with("c", &[1])).await;
    assert_eq!(store.find_unique(KIND, unique(1)).await.unwrap().unwrap().id, "c");
}

pub async fn moves_uniques_within_a_batch(store: &dyn Store) {
    put(store, Record { uniques: vec![unique(1)], ..record("a", 1) }).await;
    let moved = Batch {
        removals: removal("a", Expect::Version(1)).removals,
        ..puts([(Record { uniques: vec![unique(1)], ..record("b", 2) }, Expect::Absent)])
    };
    store.commit(moved).await.unwrap();
    assert_eq!(store.find_unique(KIND, unique(1)).await.unwrap().unwrap().id, "b");
    let twice = puts([
        (Record { uniques: vec![unique(5)], ..record("x", 1) }, Expect::Absent),
        (Record { uniques: vec![unique(5)], ..record("y", 1) }, Expect::Absent),
    ]);
    assert!(matches!(store.commit(twice).await, Err(StoreError::Taken { .. })));
}

pub async fn pages_newest_first(store: &dyn Store) {
    // Made out of order, two at the same time.
    for (id, order_ms) in [("c", 3), ("a", 1), ("e", 5), ("d2", 4), ("d1", 4), ("b", 2)] {
        put(store, record(id, order_ms)).await;
    }
    let all = ["e", "d2", "d1", "c", "b", "a"];
    assert_eq!(ids(store, &Filter::All).await, all);
    for size in 1..8_usize {
        for offset in 0..8_usize {
            let start = Start::Offset(offset as u64);
            let slice = store.page(KIND, TENANT, &Filter::All, start, size).await.unwrap();
            let found: Vec<_> = slice.records.iter().map(|record| record.id.as_str()).collect();
            let expected: Vec<_> = all.iter().skip(offset).take(size).copied().collect();
            assert_eq!((slice.total, found), (6, expected));
            assert_eq!(slice.next.is_some(), offset + size < 6, "{offset} {size}");
        }
    }
}

pub async fn goes_on_after_a_cursor(store: &dyn Store) {
    for number in 0..10_u64 {
        put(store, record(&format!("n{number}"), number / 2)).await;
    }
    let after = async |order_ms: u64, id: &str| {
        let start = Start::After(Position { order_ms, id: id.to_owned() });
        let slice = store.page(KIND, TENANT, &Filter::All, start, 3).await.unwrap();
        (slice.records.into_iter().map(|record| record.id).collect::<Vec<_>>(), slice.next)
    };
    let (page, next) = after(3, "n6").await;
    assert_eq!(page, ["n5", "n4", "n3"]);
    assert_eq!(next, Some(Position { order_ms: 1, id: "n3".into() }));
    // Whether or not the place is still taken.
    store.commit(removal("n6", Expect::Any)).await.unwrap();
    assert_eq!(after(3, "n6").await.0, ["n5", "n4", "n3"]);
    assert_eq!(after(3, "n60").await.0, ["n5", "n4", "n3"]);
    assert_eq!(after(99, "x").await.0, ["n9", "n8", "n7"]);
    assert_eq!(after(0, "n1").await, (vec!["n0".into()], None));
    assert_eq!(after(0, "a").await, (vec![], None));
}

pub async fn answers_every_filter(store: &dyn Store) {
    use Bound::{Excluded, Included, Unbounded};

    for number in 0..12_u64 {
        let mut new = record(&format!("id-{number:02}"), number);
        new.terms =
            [2_u8, 3].into_iter().filter(|n| number % u64::from(*n) == 0).map(term).collect();
        new.numbers = if number < 8 { vec![(FIELD, number * 10)] } else { vec![] };
        put(store, new).await;
    }
    let numbers = |filter: Filter| async move {
        let ids = ids(store, &filter).await;
        ids.iter().map(|id| id[3..].parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let (two, three) = (|| Filter::Term(term(2)), || Filter::Term(term(3)));
    let range = |from, to| Filter::Range { field: FIELD, from, to };
    let order = |from, to| Filter::Order { from, to };
    let named = |ids: &[&str]| Filter::Ids(ids.iter().map(|id| (*id).to_owned()).collect());
    let not = |filter| Filter::Not(Box::new(filter));
    let table: Vec<(Filter, Vec<u64>)> = vec![
        (Filter::All, (0..12).rev().collect()),
        (Filter::Nothing, vec![]),
        (two(), vec![10, 8, 6, 4, 2, 0]),
        (Filter::Term(term(9)), vec![]),
        (Filter::And(vec![two(), three()]), vec![6, 0]),
        (Filter::And(vec![]), (0..12).rev().collect()),
        (Filter::Or(vec![two(), three()]), vec![10, 9, 8, 6, 4, 3, 2, 0]),
        (Filter::Or(vec![]), vec![]),
        (not(two()), vec![11, 9, 7, 5, 3, 1]),
        (not(Filter::All), vec![]),
        (Filter::And(vec![not(two()), not(three())]), vec![11, 7, 5, 1]),
        (Filter::And(vec![three(), not(two())]), vec![9, 3]),
        (range(Included(20), Included(40)), vec![4, 3, 2]),
        (range(Excluded(20), Excluded(40)), vec![3]),
        (range(Unbounded, Excluded(10)), vec![0]),
        (range(Included(65), Unbounded), vec![7]),
        (range(Unbounded, Unbounded), vec![7, 6, 5, 4, 3, 2, 1, 0]),
        (range(Included(40), Included(20)), vec![]),
        (Filter::Range { field: Field(99), from: Unbounded, to: Unbounded }, vec![]),
        (not(range(Unbounded, Unbounded)), vec![11, 10, 9, 8]),
        (order(Included(3), Excluded(6)), vec![5, 4, 3]),
        (order(Excluded(9), Unbounded), vec![11, 10]),
        (order(Unbounded, Included(0)), vec![0]),
        (order(Included(5), Excluded(5)), vec![]),
        (named(&["id-03", "nothing", "id-07", "id-03"]), vec![7, 3]),
        (named(&[]), vec![]),
        (Filter::And(vec![named(&["id-03", "id-04"]), two()]), vec![4]),
        (Filter::And(vec![not(named(&["id-00"])), two(), three()]), vec![6]),
        (Filter::IdPrefix("id-1".into()), vec![11, 10]),
        (Filter::IdPrefix("x".into()), vec![]),
        (
            Filter::And(vec![
                two(),
                Filter::Or(vec![Filter::IdPrefix("id-1".into()), named(&["id-02"])]),
            ]),
            vec![10, 2],
        ),
        (not(Filter::IdPrefix("id-0".into())), vec![11, 10]),
    ];
    for (filter, expected) in table {
        assert_eq!(numbers(filter.clone()).await, expected, "{filter:?}");
    }
}

pub async fn finds_by_what_a_record_is_now(store: &dyn Store) {
    let with = |terms: &[u8], number: u64| Record {
        terms: terms.iter().map(|number| term(*number)).collect(),
        numbers: vec![(FIELD, number)],
        ..record("a", 1)
    };
    put(store, with(&[1, 2], 5)).await;
    store.commit(puts([(with(&[2, 3], 6), Expect::Version(1))])).await.unwrap();
    let is = |number| Filter::Range {
        field: FIELD,
        from: Bound::Included(number),
        to: Bound::Included(number),
    };
    for (filter, found) in [
        (Filter::Term(term(1)), 0),
        (Filter::Term(term(2)), 1),
        (Filter::Term(term(3)), 1),
        (is(5), 0),
        (is(6), 1),
    ] {
        assert_eq!(ids(store, &filter).await.len(), found, "{filter:?}");
    }
    store.commit(removal("a", Expect::Any)).await.unwrap();
    for filter in [Filter::All, Filter::Term(term(2)), is(6), Filter::Ids(vec!["a".into()])] {
        assert!(ids(store, &filter).await.is_empty(), "{filter:?}");
    }
}

pub async fn keeps_long_bodies_whole(store: &dyn Store) {
    for length in [0, 1, 32 << 10, (32 << 10) + 1, 100_000, 5 << 20] {
        let body: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let id = format!("b{length}");
        put(store, Record { body: body.clone(), ..record(&id, 1) }).await;
        assert!(get(store, &id).await.unwrap().body == body, "{length}");
        // Shorter than before: nothing of the rest stays.
        let short = Record { body: vec![7], ..record(&id, 1) };
        store.commit(puts([(short, Expect::Any)])).await.unwrap();
        assert_eq!(get(store, &id).await.unwrap().body, [7]);
        store
            .commit(puts([(Record { body: body.clone(), ..record(&id, 1) }, Expect::Any)]))
            .await
            .unwrap();
        let version = get(store, &id).await.unwrap().version;
        store.commit(removal(&id, Expect::Version(version))).await.unwrap();
        assert_eq!(get(store, &id).await, None);
    }
}

pub async fn lets_one_of_concurrent_writers_win(store: &dyn Store) {
    put(store, record("a", 1)).await;
    for version in 1..10 {
        let write = |writer: u8| {
            let record = Record { body: vec![writer], ..record("a", 1) };
            store.commit(puts([(record, Expect::Version(version))]))
        };
        let results = join_all((0..20).map(write)).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        let winner = results.iter().position(Result::is_ok).unwrap();
        assert_eq!(get(store, "a").await.unwrap().body, [u8::try_from(winner).unwrap()]);
    }
}

pub async fn gives_a_unique_value_to_one(store: &dyn Store) {
    let claim = |number: u64| {
        let id = format!("r{number}");
        let record = Record { uniques: vec![unique(1)], ..record(&id, number) };
        store.commit(puts([(record, Expect::New)]))
    };
    let results = join_all((0..20).map(claim)).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(ids(store, &Filter::All).await.len(), 1);
}

pub async fn sees_every_acknowledged_write(store: &dyn Store) {
    let write_and_look = |number: u64| async move {
        let id = format!("n{number:03}");
        put(store, Record { terms: vec![term(1)], ..record(&id, number % 7) }).await;
        assert!(get(store, &id).await.is_some());
        assert!(ids(store, &Filter::Term(term(1))).await.contains(&id));
    };
    join_all((0..200).map(write_and_look)).await;
    assert_eq!(ids(store, &Filter::All).await.len(), 200);
}

pub async fn refuses_writes_once_closed(store: &dyn Store) {
    put(store, record("a", 1)).await;
    store.close();
    store.close();
    let refused = store.commit(puts([(record("b", 1), Expect::Absent)])).await;
    assert_eq!(refused, Err(StoreError::Closed));
    assert_eq!(store.health(), Err(StoreError::Closed));
    assert!(get(store, "a").await.is_some());
}

/// The order of the chain is that of commits, whoever commits.
pub async fn chains_entries_one_by_one(store: &dyn Store) {
    let ids: Vec<String> = (0..200).map(|number| format!("e{number:03}")).collect();
    let commits = ids.iter().map(async |id| {
        let other = entry(OTHER_TENANT, id, 1);
        let batch = puts([entry(TENANT, id, 1), (record(id, 1), Expect::Absent), other]);
        store.commit(batch).await.unwrap();
    });
    join_all(commits).await;
    // A batch that is refused leaves no gap.
    let again = puts([entry(TENANT, "refused", 1), (record("e000", 1), Expect::Absent)]);
    assert!(store.commit(again).await.is_err());
    store.commit(puts([entry(TENANT, "last", 7)])).await.unwrap();
    let ids: Vec<&str> = ids.iter().map(String::as_str).chain(["last"]).collect();
    let places = store.places(ENTRY, TENANT, &ids).unwrap();
    let mut places: Vec<_> = places.into_iter().map(Option::unwrap).collect();
    let last = places[200];
    places.sort_unstable();
    assert!(places.iter().map(|place| place.0).eq(1..=201));
    let heads = store.chain_heads().unwrap();
    assert_eq!(heads.len(), 2);
    assert_eq!((heads[0].tenant, heads[0].time_ms), (TENANT, 7));
    assert_eq!((heads[0].sequence, heads[0].hash), last);
    assert_eq!(heads[1].sequence, 200);
    assert_eq!(store.places(KIND, TENANT, &["e000", "none"]).unwrap(), [None, None]);
}

/// Sealing an entry anew is not changing it.
pub async fn keeps_the_place_of_an_entry_that_is_written_anew(store: &dyn Store) {
    for id in ["a", "b"] {
        store.commit(puts([entry(TENANT, id, 1)])).await.unwrap();
    }
    let before = (store.places(ENTRY, TENANT, &["a", "b"]), store.chain_heads());
    let anew = Record { body: b"sealed anew".to_vec(), ..entry(TENANT, "a", 1).0 };
    store.commit(puts([(anew, Expect::Version(1))])).await.unwrap();
    assert_eq!((store.places(ENTRY, TENANT, &["a", "b"]), store.chain_heads()), before);
}

/// What is left of a log begins where the removed part ended.
pub async fn removes_a_log_from_its_beginning_only(store: &dyn Store) {
    for number in 0..10 {
        store.commit(puts([entry(TENANT, &format!("e{number}"), number)])).await.unwrap();
    }
    let remove =
        |id: &str| Removal { kind: ENTRY, tenant: TENANT, id: id.into(), expect: Expect::Any };
    for wrong in [vec!["e1"], vec!["e0", "e2"], vec!["e1", "e0"]] {
        let removals = wrong.into_iter().map(remove).collect();
        let refused = store.commit(Batch { removals, ..Batch::default() }).await;
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    }
    let heads = store.chain_heads();
    let oldest =
        |before_ms, max| store.oldest_entries(ENTRY, TENANT, before_ms..=u64::MAX, max).unwrap();
    assert_eq!(oldest(0, 100), []);
    assert_eq!(oldest(100, 100).len(), 10);
    let removals = oldest(4, 3);
    let ids: Vec<_> = removals.iter().map(|removal| removal.id.as_str()).collect();
    assert_eq!(ids, ["e0", "e1", "e2"]);
    store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
    assert_eq!(store.chain_heads(), heads);
    assert_eq!(oldest(100, 100).len(), 7);
    assert_eq!(oldest(4, 100)[0].id, "e3");
    assert_eq!(store.oldest_entries(ENTRY, OTHER_TENANT, 100..=u64::MAX, 9).unwrap(), []);
    // All of it, and what comes after goes on counting.
    let batch = Batch { removals: oldest(100, 100), ..Batch::default() };
    store.commit(batch).await.unwrap();
    assert_eq!(store.chain_heads(), heads);
    store.commit(puts([entry(TENANT, "next", 11)])).await.unwrap();
    assert_eq!(store.chain_heads().unwrap()[0].sequence, 11);
}

/// However many were made while the clock was ahead.
pub async fn removes_entries_dated_ahead_with_those_behind_them(store: &dyn Store) {
    let time = |number: u64| if (1..650).contains(&number) { 9_000 } else { number };
    let entries = (0..700).map(|number| entry(TENANT, &format!("e{number:04}"), time(number)));
    let entries: Vec<_> = entries.collect();
    for some in entries.chunks(100) {
        store.commit(puts(some.iter().cloned())).await.unwrap();
    }
    for (expected, first) in [(500, "e0000"), (200, "e0500")] {
        let removals = store.oldest_entries(ENTRY, TENANT, 800..=1_000, 500).unwrap();
        assert_eq!((removals.len(), removals[0].id.as_str()), (expected, first));
        store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
    }
    // Those that nothing stands behind stay until their time.
    store.commit(puts([entry(TENANT, "f", 9_000)])).await.unwrap();
    assert_eq!(store.oldest_entries(ENTRY, TENANT, 800..=1_000, 500).unwrap(), []);
}
