//! A small store with every kind of row: whatever somebody does to its rows is noticed and named.

mod lasting;
mod order;
mod packed;

use std::path::Path;

use sled::IVec;
use tempfile::TempDir;

use super::Inspection;
use crate::store::conformance::{
    ENTRY, Entries, KIND, OTHER_TENANT, TENANT, entry, protection, puts, record,
};
use crate::store::sled::SledStore;
use crate::store::sled::format::FORMATS;
use crate::store::sled::guard::ledger_key;
use crate::store::sled::note::NOTE_KEY;
use crate::store::sled::packs;
use crate::store::sled::rows::{
    Address, FORMAT, FORMAT_1, FORMAT_2, FORMAT_KEY, Head, LEDGER_KEY, PIECE_BYTES,
    TENANT_LEDGER_PREFIX, UPGRADING, index_value,
};
use crate::store::{
    Batch, ChainHead, Damage, Examined, Examiner, Expect, Field, Inspect as _, Kind, Record,
    Removal, Store as _, StoreError, Term, Unique, Walked,
};

const CACHE_BYTES: u64 = 8 << 20;

fn open(folder: &Path) -> SledStore {
    let store = SledStore::open(folder, CACHE_BYTES).unwrap();
    store.protect(protection(), Some(&mut Entries)).unwrap();
    store
}

fn full(id: &str, number: u8) -> Record {
    Record {
        terms: vec![Term([number; 16]), Term([number + 1; 16])],
        numbers: vec![(Field(3), u64::from(number))],
        uniques: vec![Unique([number; 32])],
        ..record(id, u64::from(number))
    }
}

/// A store with records of two tenants that were made, changed and removed, long ones, and logs.
async fn filled() -> (TempDir, Vec<ChainHead>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..4_u8 {
        let id = format!("id{number}");
        let other = Record { tenant: OTHER_TENANT, uniques: vec![], ..full(&id, number) };
        let batch = puts([
            (full(&id, number * 10), Expect::Absent),
            (other, Expect::Absent),
            entry(TENANT, &format!("e{number}"), u64::from(number)),
            entry(OTHER_TENANT, &format!("o{number}"), u64::from(number)),
        ]);
        store.commit(batch).await.unwrap();
    }
    let long = Record { body: vec![7; PIECE_BYTES + 100], ..record("long", 9) };
    store.commit(puts([(long, Expect::Absent)])).await.unwrap();
    let changed = Record { body: b"changed".to_vec(), ..full("id1", 99) };
    store.commit(puts([(changed, Expect::Version(1))])).await.unwrap();
    let gone = Removal { kind: KIND, tenant: TENANT, id: "id2".into(), expect: Expect::Any };
    let first = store.oldest_entries(ENTRY, TENANT, 1..=u64::MAX, 9).unwrap();
    let removals = [first, vec![gone]].concat();
    store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
    let heads = store.chain_heads().unwrap();
    drop(store);
    (folder, heads)
}

fn walk(store: &Inspection, heads: &[ChainHead]) -> Result<(Walked, Vec<Damage>), StoreError> {
    let mut damages = Vec::new();
    let mut tell = |damage: Damage| damages.push(damage);
    let walked = store.walk(&protection(), &mut Entries, heads, &mut tell)?;
    assert_eq!(walked.damages, damages.len() as u64);
    Ok((walked, damages))
}

/// What a walk tells, in words.
fn told(store: &Inspection, heads: &[ChainHead]) -> Vec<String> {
    match walk(store, heads) {
        Err(error) => vec![error.to_string()],
        Ok((_, damages)) => {
            damages.into_iter().map(|damage| format!("{}: {}", damage.id, damage.what)).collect()
        }
    }
}

fn rows(store: &Inspection) -> Vec<(IVec, IVec)> {
    store.tree.iter().map(Result::unwrap).collect()
}

fn head_key(kind: Kind, id: &str) -> Vec<u8> {
    Address { kind, tenant: TENANT, id: id.to_owned() }.head_key()
}

fn pack_key(id: &str) -> Vec<u8> {
    Address { kind: ENTRY, tenant: TENANT, id: id.to_owned() }.pack_key()
}

#[tokio::test]
async fn what_nobody_touched_is_sound() {
    let (folder, heads) = filled().await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let (walked, damages) = walk(&store, &heads).unwrap();
    assert_eq!(damages, []);
    assert_eq!((walked.records, walked.entries, walked.heads), (15, 7, 2));
}

#[tokio::test]
async fn every_changed_byte_of_every_row_is_noticed() {
    let (folder, _) = filled().await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let rows = rows(&store);
    let prefixes: std::collections::BTreeSet<u8> = rows.iter().map(|(key, _)| key[0]).collect();
    assert_eq!(prefixes.into_iter().collect::<Vec<_>>(), b"ceilmru");
    for (key, value) in &rows {
        // A piece is all the same; of the rest every byte.
        let step = if value.len() > 1_000 { 97 } else { 1 };
        for at in (0..value.len()).step_by(step) {
            let mut changed = value.to_vec();
            changed[at] ^= 1 << (at % 8);
            if FORMATS.contains(&changed.as_slice()) {
                // It says the same of all other rows.
                continue;
            }
            store.tree.insert(key, changed).unwrap();
            assert_ne!(told(&store, &[]), [""; 0], "byte {at} of the value of {key:?}");
        }
        for cut in [0, value.len() / 2, value.len() - 1] {
            store.tree.insert(key, &value[..cut]).unwrap();
            assert_ne!(told(&store, &[]), [""; 0], "the value of {key:?} cut at {cut}");
        }
        store.tree.remove(key).unwrap();
        // A store whose journal was never needed has no note on it.
        let is_missed = *key != NOTE_KEY;
        assert_eq!(!told(&store, &[]).is_empty(), is_missed, "without {key:?}");
        for at in 0..key.len() {
            let mut moved = key.to_vec();
            moved[at] ^= 1 << (at % 8);
            let there = store.tree.insert(&moved, value).unwrap();
            assert_ne!(told(&store, &[]), [""; 0], "byte {at} of the key {key:?}");
            match there {
                Some(there) => store.tree.insert(&moved, there).unwrap(),
                None => store.tree.remove(&moved).unwrap(),
            };
        }
        store.tree.insert(key, value).unwrap();
    }
    assert_eq!(told(&store, &[]), [""; 0]);
}

#[tokio::test]
async fn damages_are_named() {
    let (folder, _) = filled().await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let change = |key: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let before = store.tree.get(key).unwrap().unwrap();
        let mut value = before.to_vec();
        change(&mut value);
        store.tree.insert(key, value).unwrap();
        let told = told(&store, &[]);
        store.tree.insert(key, before).unwrap();
        told
    };
    let flip_last = |value: &mut Vec<u8>| *value.last_mut().unwrap() ^= 1;
    assert_eq!(change(&head_key(KIND, "id1"), &flip_last), ["id1: was changed"]);
    assert_eq!(change(&pack_key("e2"), &flip_last), ["e2: was changed"]);
    let address = Address { kind: KIND, tenant: TENANT, id: "long".into() };
    assert_eq!(change(&address.piece_key(1, 1), &flip_last), ["long: was changed"]);
    let index = Address { id: "id3".into(), ..address }.index_key(30);
    assert_eq!(change(&index, &flip_last), ["id3: its index row was changed"]);
    assert_eq!(change(&ledger_key(TENANT), &flip_last)[0], ": the ledger was changed");
    assert_eq!(change(LEDGER_KEY, &flip_last), [": the ledger over all tenants was changed"]);
    store.tree.insert(b"x", b"y").unwrap();
    assert_eq!(told(&store, &[]), [": there is a row of an unknown kind"]);
}

#[tokio::test]
async fn rows_put_back_as_they_were_are_noticed() {
    let (folder, _) = filled().await;
    let before = rows(&Inspection::open(folder.path(), CACHE_BYTES).unwrap());
    let store = open(folder.path());
    let anew = Record { body: b"anew".to_vec(), ..full("id0", 0) };
    store.commit(puts([(anew, Expect::Version(1))])).await.unwrap();
    let gone = Removal { kind: KIND, tenant: TENANT, id: "id3".into(), expect: Expect::Any };
    store.commit(Batch { removals: vec![gone], ..Batch::default() }).await.unwrap();
    store.commit(puts([entry(TENANT, "e9", 9)])).await.unwrap();
    drop(store);
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let after = rows(&store);
    let told_with = |back: &dyn Fn(&[u8]) -> bool| {
        for (key, value) in before.iter().filter(|(key, _)| back(key)) {
            store.tree.insert(key, value).unwrap();
        }
        let told = told(&store, &[]);
        store.tree.clear().unwrap();
        for (key, value) in &after {
            store.tree.insert(key, value).unwrap();
        }
        told
    };
    assert_eq!(told_with(&|_| false), [""; 0]);
    // A record of before, with all rows that belonged to it.
    let of = |key: &[u8], id: &str| key.ends_with(id.as_bytes()) && key[18] != 2;
    let told = told_with(&|key| of(key, "id0"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("put back"), "{told:?}");
    let unique = |key: &[u8]| key.first() == Some(&b'u');
    let told = told_with(&|key| of(key, "id3") || unique(key));
    assert_eq!(told, [": 1 records are there that were removed"]);
    // All of one tenant's, its ledger included; and the ledgers alone.
    let of_tenant = |key: &[u8]| key.windows(16).any(|part| part == TENANT.0.as_bytes());
    let told = told_with(&|key| of_tenant(key) || unique(key));
    assert!(told.iter().any(|told| told.contains("not those of one time")), "{told:?}");
    let told = told_with(&|key| key.starts_with(TENANT_LEDGER_PREFIX) || key == LEDGER_KEY);
    assert!(told.iter().any(|told| told.contains("records")), "{told:?}");
}

#[tokio::test]
async fn a_log_that_was_cut_or_exchanged_is_noticed() {
    let (folder, heads) = filled().await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let end = store.tree.remove(pack_key("e3")).unwrap().unwrap();
    let cut = told(&store, &[]);
    assert!(cut.contains(&": entries 4 to 4 of the log are missing".to_owned()), "{cut:?}");
    store.tree.insert(pack_key("e3"), end).unwrap();
    store.tree.remove(pack_key("e2")).unwrap();
    let gap = told(&store, &[]);
    assert!(gap.contains(&": entries 3 to 3 of the log are missing".to_owned()), "{gap:?}");
    drop(store);

    // A store as it was at an earlier time is sound by itself; an exported head tells.
    let (folder, _) = filled().await;
    let later = ChainHead { sequence: heads[0].sequence + 5, ..heads[0] };
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert_eq!(told(&store, &[]), [""; 0]);
    let ends = ": the log ends before entry 9, of which an exported head tells";
    assert_eq!(told(&store, &[later]), [ends]);
    let other = ChainHead { hash: [1; 32], ..heads[0] };
    assert_eq!(told(&store, &[other]), ["e3: is not the entry that an exported head tells of"]);
    let nobodys = ChainHead { tenant: crate::model::id::TenantId(uuid::Uuid::max()), ..heads[0] };
    assert_eq!(told(&store, &[nobodys]).len(), 1);
    // The head of a part that was removed since: its own hash is still known.
    let removed = ChainHead { sequence: 1, hash: [1; 32], ..heads[0] };
    let another = ": entry 1, of which an exported head tells, is another one";
    assert_eq!(told(&store, &[removed]), [another]);
}

/// Heads that are appended to one file, by operators whose store was put back to an earlier time between.
#[tokio::test]
async fn exported_heads_that_contradict_each_other_are_each_held_against_the_log() {
    let (folder, heads) = filled().await;
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let other = |head: ChainHead, byte| ChainHead { hash: [byte; 32], ..head };
    let (own, wrong) = (heads[0], other(heads[0], 1));
    let (walked, damages) = walk(&store, &[own, own]).unwrap();
    assert_eq!((walked.heads, damages), (1, vec![]));
    let contradict = "exported heads of this number contradict each other";
    for heads in [[wrong, own], [own, wrong]] {
        let is_another =
            format!("e3: is not the entry that an exported head tells of; {contradict}");
        assert_eq!(told(&store, &heads), [is_another]);
        assert_eq!(walk(&store, &heads).unwrap().0.heads, 1);
    }
    let wrong_ones = [wrong, other(own, 2), wrong];
    assert_eq!(told(&store, &wrong_ones).len(), 2, "each once");
    let later = ChainHead { sequence: own.sequence + 5, ..own };
    let ends =
        format!(": the log ends before entry 9, of which an exported head tells; {contradict}");
    assert_eq!(told(&store, &[later, other(later, 1)]), [ends.clone(), ends]);
    drop(store);

    // Of a part that was removed since, only one of them may be true.
    let store = open(folder.path());
    let removals = store.oldest_entries(ENTRY, TENANT, 3..=u64::MAX, 9).unwrap();
    store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
    drop(store);
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    let first = ChainHead { sequence: 1, ..own };
    let walked_with = |heads: &[ChainHead]| {
        let (walked, damages) = walk(&store, heads).unwrap();
        let what = damages.into_iter().map(|damage| damage.what).collect::<Vec<_>>();
        (walked.heads_removed, what)
    };
    assert_eq!(walked_with(&[first]), (1, vec![]));
    let another = format!("entry 1, of which an exported head tells, is another one; {contradict}");
    assert_eq!(walked_with(&[first, other(first, 1)]), (1, vec![another]));
}

/// Makes a store one of the second format.
fn take_apart(folder: &Path) {
    let store = Inspection::open(folder, CACHE_BYTES).unwrap();
    for (key, value) in rows(&store).into_iter().filter(|(key, _)| key[0] == b'e') {
        for (address, value) in packs::entries(&key, &value).unwrap() {
            let (head, _) = Head::read(&value).unwrap();
            let index = index_value(&head.terms, &head.numbers);
            store.tree.insert(address.index_key(head.order_ms), index).unwrap();
            store.tree.insert(address.head_key(), value).unwrap();
        }
        store.tree.remove(key).unwrap();
    }
    store.tree.insert(FORMAT_KEY, FORMAT_2).unwrap();
    store.tree.flush().unwrap();
}

/// Makes a store one of the first format.
fn make_old(folder: &Path) {
    take_apart(folder);
    let store = Inspection::open(folder, CACHE_BYTES).unwrap();
    for (key, value) in rows(&store) {
        match key[0] {
            b'l' => drop(store.tree.remove(key).unwrap()),
            b'r' => {
                let (head, body) = Head::read(&value).unwrap();
                store.tree.insert(key, Head { seal: None, ..head }.to_value(body)).unwrap();
            }
            _ => {}
        }
    }
    store.tree.remove(LEDGER_KEY).unwrap();
    store.tree.insert(FORMAT_KEY, FORMAT_1).unwrap();
    store.tree.flush().unwrap();
}

/// Ends the process, as it were, when it has seen so many records.
struct Ending(usize);

impl Examiner for Ending {
    fn examine(
        &mut self,
        record: &Record,
        find: &dyn Fn(Kind, crate::model::id::TenantId, &str) -> Option<Record>,
    ) -> Examined {
        self.0 = self.0.checked_sub(1).unwrap_or_else(|| panic!("the process ends"));
        Entries.examine(record, find)
    }
}

#[tokio::test]
async fn an_old_store_is_protected_when_it_opens_however_often_that_is_interrupted() {
    let (folder, _) = filled().await;
    let store = open(folder.path());
    for number in 0..700 {
        store.commit(puts([entry(TENANT, &format!("m{number:03}"), 5)])).await.unwrap();
    }
    drop(store);
    make_old(folder.path());
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert!(told(&store, &[])[0].contains("not protected yet"));
    drop(store);
    for seen in [300, 10, 300] {
        let store = SledStore::open(folder.path(), CACHE_BYTES).unwrap();
        let ended =
            std::panic::AssertUnwindSafe(|| store.protect(protection(), Some(&mut Ending(seen))));
        assert!(std::panic::catch_unwind(ended).is_err());
    }
    let store = open(folder.path());
    let heads = store.chain_heads().unwrap();
    assert_eq!((heads[0].sequence, heads[1].sequence), (703, 4));
    store.commit(puts([entry(TENANT, "z", 9)])).await.unwrap();
    assert_eq!(store.files.live().tree.get(FORMAT_KEY).unwrap().unwrap(), FORMAT);
    drop(store);
    let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
    assert_eq!(told(&store, &heads), [""; 0]);
}

#[tokio::test]
async fn earlier_software_does_not_read_a_store_whose_upgrade_was_interrupted() {
    // Before the first record, and behind some that are written.
    for seen in [0, 300] {
        let (folder, _) = filled().await;
        let store = open(folder.path());
        for number in 0..300 {
            store.commit(puts([entry(TENANT, &format!("m{number:03}"), 5)])).await.unwrap();
        }
        drop(store);
        make_old(folder.path());
        let store = SledStore::open(folder.path(), CACHE_BYTES).unwrap();
        let ended =
            std::panic::AssertUnwindSafe(|| store.protect(protection(), Some(&mut Ending(seen))));
        assert!(std::panic::catch_unwind(ended).is_err());
        let format = store.files.live().tree.get(FORMAT_KEY).unwrap().unwrap();
        assert_eq!(format, UPGRADING);
        // Each format that any software ever knew.
        assert!(!FORMATS.contains(&format.as_ref()));
        drop(store);
        let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
        assert!(told(&store, &[])[0].contains("not protected yet"));
        drop(store);
        let store = SledStore::open(folder.path(), CACHE_BYTES).unwrap();
        assert!(matches!(store.protect(protection(), None), Err(StoreError::Damaged(_))));
        drop(store);
        drop(open(folder.path()));
        let store = Inspection::open(folder.path(), CACHE_BYTES).unwrap();
        assert_eq!(told(&store, &[]), [""; 0]);
    }
}

#[tokio::test]
async fn a_store_with_other_ledgers_or_another_key_does_not_open_for_writing() {
    let (folder, _) = filled().await;
    let store = SledStore::open(folder.path(), CACHE_BYTES).unwrap();
    let early = store.commit(puts([(record("early", 1), Expect::Absent)])).await;
    assert!(matches!(early, Err(StoreError::Unavailable(_))), "{early:?}");
    let key = crate::crypto::integrity::IntegrityKey::derive(&crate::crypto::seal::Key::default());
    let other = crate::store::Protection { key, ..protection() };
    assert!(matches!(store.protect(other, Some(&mut Entries)), Err(StoreError::Damaged(_))));
    store.files.live().tree.remove(ledger_key(OTHER_TENANT)).unwrap();
    assert!(matches!(store.protect(protection(), Some(&mut Entries)), Err(StoreError::Damaged(_))));
    store.files.live().tree.remove(LEDGER_KEY).unwrap();
    assert!(matches!(store.protect(protection(), Some(&mut Entries)), Err(StoreError::Damaged(_))));
}

#[tokio::test]
async fn a_store_that_was_made_to_look_old_or_new_does_not_open() {
    let (folder, _) = filled().await;
    make_old(folder.path());
    let store = SledStore::open(folder.path(), CACHE_BYTES).unwrap();
    assert!(matches!(store.protect(protection(), None), Err(StoreError::Damaged(_))));
    store.files.live().tree.remove(FORMAT_KEY).unwrap();
    let as_new = store.protect(protection(), Some(&mut Entries));
    assert!(matches!(as_new, Err(StoreError::Damaged(_))), "{as_new:?}");
}

#[test]
fn a_new_store_is_nobodys_until_its_first_row() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let store = SledStore::open(folder.path(), CACHE_BYTES).unwrap();
    let key = crate::crypto::integrity::IntegrityKey::derive(&crate::crypto::seal::Key::default());
    store.protect(crate::store::Protection { key, ..protection() }, None).unwrap();
}
