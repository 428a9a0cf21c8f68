//! Packs of log entries: what somebody does to them is noticed, and what is changed of them leaves the rest as it was.

use std::path::Path;

use super::{CACHE_BYTES, Inspection, open, pack_key, rows, take_apart, told, walk};
use crate::store::conformance::{
    ENTRY, KIND, OTHER_TENANT, TENANT, entry, protection, puts, record,
};
use crate::store::sled::SledStore;
use crate::store::sled::packs;
use crate::store::sled::rows::{FORMAT, FORMAT_2, FORMAT_KEY, PIECE_BYTES, index_value};
use crate::store::{
    Batch, Expect, Field, Filter, Inspect as _, Record, Removal, Start, Store as _, StoreError,
    Term,
};

/// A store whose logs came several entries at a time.
async fn packed(folder: &Path) {
    let store = open(folder);
    for batch in 0..3 {
        let entries = (0..5).map(|number| {
            let (record, expect) = entry(TENANT, &format!("p{batch}{number}"), batch);
            (Record { terms: vec![Term([1; 16])], numbers: vec![(Field(1), 7)], ..record }, expect)
        });
        store.commit(puts(entries)).await.unwrap();
    }
}

#[tokio::test]
async fn every_changed_byte_of_a_pack_is_noticed_and_every_exchange_of_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path()).await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert_eq!(told(&store, &[]), [""; 0]);
    let all = rows(&store).into_iter().filter(|(key, _)| key[0] == b'e').collect::<Vec<_>>();
    assert_eq!(all.len(), 3);
    let (key, value) = &all[1];
    let told_with = |changed: &[u8]| {
        store.tree.insert(key, changed).unwrap();
        let told = told(&store, &[]);
        store.tree.insert(key, value).unwrap();
        told
    };
    for at in 0..value.len() {
        for bit in [1, 0x80] {
            let mut changed = value.to_vec();
            changed[at] ^= bit;
            assert_ne!(told_with(&changed), [""; 0], "byte {at}");
        }
        assert_ne!(told_with(&value[..at]), [""; 0], "cut at {at}");
    }
    // Another's pack in its place, twice the same, and with one entry too many.
    for other in [&all[0].1, &all[2].1] {
        assert_ne!(told_with(other), [""; 0]);
        assert_ne!(told_with(&[value.as_ref(), other.as_ref()].concat()), [""; 0]);
    }
    // An entry with rows of its own beside the pack, and an index row of one that is in it.
    let (address, head) = packs::entries(key, value).unwrap().remove(2);
    store.tree.insert(address.index_key(1), index_value(&[], &[])).unwrap();
    assert_eq!(told(&store, &[]), ["p12: an index row is of no record"]);
    store.tree.insert(address.head_key(), head).unwrap();
    assert_ne!(told(&store, &[]), [""; 0]);
}

#[tokio::test]
async fn entries_of_many_commits_lie_together_and_go_from_the_beginning_of_their_log() {
    const COMMITS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    // Two logs, and ids against the order of the chain: who comes first has drawn last.
    let tenants = [TENANT, OTHER_TENANT];
    let id = |number: usize| format!("c{:02}", COMMITS - number);
    let commits = (0..COMMITS).flat_map(|number| {
        tenants.map(|tenant| store.commit(puts([entry(tenant, &id(number), number as u64)])))
    });
    let done = futures::future::join_all(commits.collect::<Vec<_>>()).await;
    assert!(done.iter().all(Result::is_ok));
    let heads = store.chain_heads().unwrap();
    drop(store);
    let packs = || {
        let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
        assert_eq!(told(&store, &heads), [""; 0]);
        rows(&store).iter().filter(|(key, _)| key[0] == b'e').count()
    };
    assert!(packs() < COMMITS, "{} packs", packs());
    for round in 0..4 {
        let store = open(folder.path());
        let left = COMMITS - round * 7;
        let removals = store.oldest_entries(ENTRY, TENANT, u64::MAX..=u64::MAX, 7).unwrap();
        let gone: Vec<_> = removals.iter().map(|removal| removal.id.clone()).collect();
        let first = round * 7;
        assert_eq!(gone, (first..first + 7).map(id).collect::<Vec<_>>());
        store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
        for (tenant, left) in [(TENANT, left - 7), (OTHER_TENANT, COMMITS)] {
            let all = store.page(ENTRY, tenant, &Filter::All, Start::Offset(0), 100).await.unwrap();
            assert_eq!((all.total, all.records.len()), (left as u64, left));
        }
        drop(store);
        packs();
    }
}

#[tokio::test]
async fn packs_are_taken_apart_when_an_entry_changes_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path()).await;
    let store = open(folder.path());
    let ids: Vec<String> =
        (0..3).flat_map(|batch| (0..5).map(move |number| format!("p{batch}{number}"))).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let places = store.places(ENTRY, TENANT, &ids).unwrap();
    let anew = |id: &str, order_ms| {
        let (record, _) = entry(TENANT, id, order_ms);
        (Record { body: b"anew".to_vec(), ..record }, Expect::Version(1))
    };
    // Two of one pack and one of another in one batch; then one of each beside a new entry that is changed at once.
    store.commit(puts([anew("p01", 0), anew("p03", 0), anew("p22", 2)])).await.unwrap();
    let (one, two, fresh, changed) = (
        store.commit(puts([anew("p00", 0)])),
        store.commit(puts([anew("p12", 1)])),
        store.commit(puts([entry(TENANT, "q1", 9), entry(TENANT, "q2", 9)])),
        store.commit(puts([anew("q1", 9)])),
    );
    let done = futures::future::join4(one, two, fresh, changed).await;
    assert_eq!(done, (Ok(()), Ok(()), Ok(()), Ok(())));
    assert_eq!(store.places(ENTRY, TENANT, &ids).unwrap(), places);
    let found = store.find(ENTRY, TENANT, &["p01", "p02", "p03", "q1", "q2", "q3"]).await.unwrap();
    let versions: Vec<_> =
        found.iter().map(|found| found.as_ref().map(|one| one.version)).collect();
    assert_eq!(versions, [Some(2), Some(1), Some(2), Some(2), Some(1), None]);
    // The log goes from its beginning, with a part of a pack too.
    let removals = store.oldest_entries(ENTRY, TENANT, 2..=u64::MAX, 7).unwrap();
    assert_eq!(removals.len(), 7);
    store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
    assert_eq!(store.oldest_entries(ENTRY, TENANT, 2..=u64::MAX, 100).unwrap().len(), 3);
    assert_eq!(store.find(ENTRY, TENANT, &["p11", "p00"]).await.unwrap(), [None, None]);
    let heads = store.chain_heads().unwrap();
    drop(store);
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert_eq!(told(&store, &heads), [""; 0]);
    drop(store);
    // What is found after the next start is what was found before.
    let store = open(folder.path());
    let all = Filter::Term(Term([1; 16]));
    let slice = store.page(ENTRY, TENANT, &all, Start::Offset(0), 100).await.unwrap();
    let ids: Vec<_> = slice.records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, ["p24", "p23", "p21", "p20", "p14", "p13"]);
}

#[tokio::test]
async fn a_store_of_the_format_before_is_one_of_this_format_once_it_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path()).await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let newer = rows(&store);
    store.tree.insert(FORMAT_KEY, FORMAT_2).unwrap();
    assert_eq!(told(&store, &[]), [": the format is not that of its rows"]);
    drop(store);
    take_apart(folder.path());
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert_eq!(told(&store, &[]), [""; 0]);
    assert!(rows(&store).len() > newer.len());
    drop(store);
    let store = open(folder.path());
    let format = || store.files.live().tree.get(FORMAT_KEY).unwrap().unwrap();
    let slice = store.page(ENTRY, TENANT, &Filter::All, Start::Offset(0), 100).await.unwrap();
    assert_eq!((slice.records.len(), format().as_ref()), (15, FORMAT_2));
    store.commit(puts([entry(TENANT, "q1", 9)])).await.unwrap();
    assert_eq!(format(), FORMAT);
    let heads = store.chain_heads().unwrap();
    drop(store);
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert_eq!((told(&store, &heads), heads[0].sequence), (vec![], 16));
}

#[tokio::test]
async fn a_pack_that_cannot_be_read_refuses_what_would_change_it_before_anything_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path()).await;
    let store = open(folder.path());
    // The end of one is cut off: what stands before is found in it still.
    let live = store.files.live();
    let pack = live.tree.get(pack_key("p10")).unwrap().unwrap();
    live.tree.insert(pack_key("p10"), &pack[..pack.len() - 1]).unwrap();
    drop(live);
    let heads = store.chain_heads().unwrap();
    drop(store);
    let inspected =
        |heads: &[_]| told(&Inspection::open(folder.path(), CACHE_BYTES).unwrap(), heads);
    let before = inspected(&heads);
    assert!(before[0].contains("cut short"), "{before:?}");

    // What entries are found by cannot be read either: whoever asks for that is told, and the rest goes on.
    let store = SledStore::open_reading_later(folder.path(), CACHE_BYTES, &[ENTRY]).unwrap();
    store.protect(protection(), None).unwrap();
    let anew = |id: &str, order_ms| {
        let (record, _) = entry(TENANT, id, order_ms);
        (Record { body: b"anew".to_vec(), ..record }, Expect::Version(1))
    };
    // Each names something else too, which stands before and behind.
    let other = || (record("other", 1), Expect::Any);
    let first = Removal { kind: ENTRY, tenant: TENANT, id: "p00".into(), expect: Expect::Any };
    for batch in [
        puts([anew("p00", 0), other(), anew("p10", 1)]),
        puts([anew("p10", 1), other(), anew("p20", 2)]),
        Batch { removals: vec![first], ..puts([anew("p11", 1)]) },
    ] {
        let refused = store.commit(batch).await;
        assert!(matches!(refused, Err(StoreError::Damaged(_))), "{refused:?}");
    }
    assert_eq!(store.find(KIND, TENANT, &["other"]).await.unwrap(), [None]);
    // It is no failed write: others are stored, and what is known of all of them is as it was.
    store.commit(puts([entry(TENANT, "q", 9)])).await.unwrap();
    store.commit(puts([anew("p00", 0)])).await.unwrap();
    let heads = store.chain_heads().unwrap();
    drop(store);
    assert_eq!(inspected(&heads), before);
}

#[tokio::test]
async fn entries_with_rows_of_their_own_are_opened_listed_removed_and_walked_through() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    // One that is too long for a pack, one that was written anew, and two that lie in packs.
    let (long, expect) = entry(TENANT, "e1", 1);
    let long = Record { body: vec![7; 2 * PIECE_BYTES + 1], terms: vec![Term([1; 16])], ..long };
    store.commit(puts([(long.clone(), expect), entry(TENANT, "e2", 2)])).await.unwrap();
    store.commit(puts([entry(TENANT, "e3", 3), entry(TENANT, "e4", 4)])).await.unwrap();
    let anew = Record { body: b"anew".to_vec(), ..entry(TENANT, "e2", 2).0 };
    store.commit(puts([(anew, Expect::Version(1))])).await.unwrap();
    let heads = store.chain_heads().unwrap();
    drop(store);
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let entries =
        |prefix: u8| rows(&store).iter().filter(|(key, _)| key[..2] == [prefix, ENTRY.0]).count();
    assert_eq!((entries(b'r'), entries(b'i'), entries(b'e')), (2, 2, 1));
    let (walked, damages) = walk(&store, &heads).unwrap();
    assert_eq!((damages, walked.entries, walked.heads), (vec![], 4, 1));
    assert_eq!(store.find(ENTRY, TENANT, "e1").unwrap().body, long.body);
    drop(store);

    let store = open(folder.path());
    let listed = async |filter: &Filter| {
        let slice = store.page(ENTRY, TENANT, filter, Start::Offset(0), 9).await.unwrap();
        let one = |record: Record| (record.id, record.body.len());
        (slice.total, slice.records.into_iter().map(one).collect::<Vec<_>>())
    };
    let all = [("e4", 2), ("e3", 2), ("e2", 4), ("e1", long.body.len())];
    let all = all.map(|(id, length)| (id.to_owned(), length));
    assert_eq!(listed(&Filter::All).await, (4, all.to_vec()));
    assert_eq!(listed(&Filter::Term(Term([1; 16]))).await, (1, all[3..].to_vec()));
    let numbers = store.places(ENTRY, TENANT, &["e1", "e2", "e3", "e4"]).unwrap();
    let numbers: Vec<u64> = numbers.into_iter().map(|place| place.unwrap().0).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let removals = store.oldest_entries(ENTRY, TENANT, 4..=u64::MAX, 9).unwrap();
    assert_eq!(
        removals.iter().map(|gone| gone.id.as_str()).collect::<Vec<_>>(),
        ["e1", "e2", "e3"]
    );
    store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
    assert_eq!(listed(&Filter::All).await, (1, all[..1].to_vec()));
    drop(store);
    assert_eq!(told(&Inspection::open(folder.path(), CACHE_BYTES).unwrap(), &heads), [""; 0]);
}

#[tokio::test]
async fn what_is_removed_of_a_long_log_at_a_time_costs_no_more_than_twice_as_many_entries() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for batch in 0..60 {
        let entries =
            (0..32).map(|number| entry(TENANT, &format!("p{batch:03}-{number:02}"), batch));
        store.commit(puts(entries)).await.unwrap();
    }
    let ids = |before_ms, max| {
        let removals = store.oldest_entries(ENTRY, TENANT, before_ms..=u64::MAX, max);
        removals.map(|removals| removals.into_iter().map(|gone| gone.id).collect::<Vec<_>>())
    };
    assert_eq!(ids(60, 10_000).unwrap().len(), 60 * 32);
    // What lies beyond is not looked at: it may be anything.
    let far = pack_key("p040-00");
    store.files.live().tree.insert(far, b"no pack").unwrap();
    let first = ids(60, 300).unwrap();
    assert_eq!((first.len(), first[0].as_str(), first[299].as_str()), (300, "p000-00", "p009-11"));
    assert_eq!(ids(2, 300).unwrap().len(), 64);
    assert_eq!(ids(0, 300).unwrap(), [""; 0]);
    assert!(matches!(ids(60, 1_000), Err(StoreError::Damaged(_))));
}
