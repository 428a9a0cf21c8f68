//! Chains whose entries do not come in the order of their ids, as where a clock was ahead once: what is there is sound,
//! what is missing is told, and the log is removed from its beginning.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::chain::{Chains, Entry};
use super::{open, pack_key};
use crate::store::conformance::{ENTRY, TENANT, entry, protection, puts};
use crate::store::sled::guard::{Chain, Ledger, linked};
use crate::store::sled::rows::{Address, Link};
use crate::store::{Damage, Store as _, TextDigest, Walked};

/// The entries of a log, in the order of the chain.
fn log(length: u64) -> Vec<Entry> {
    let (key, text) = (protection().key, TextDigest([7; 32]));
    let mut before = [0; 32];
    let entry = |sequence: u64| {
        let address = Address { kind: ENTRY, tenant: TENANT, id: sequence.to_string() };
        let hash = key.link(&linked(&address, sequence, (sequence, &before), text));
        before = hash;
        Entry { address, order_ms: sequence, text: Some(text), link: Link { sequence, hash } }
    };
    (1..=length).map(entry).collect()
}

/// What is told when these entries come of a log that ends so.
fn told(entries: impl IntoIterator<Item = Entry>, last: Link) -> Vec<String> {
    let key = protection().key;
    let chain = Chain { last: (last.sequence, last.hash), ..Chain::default() };
    let kept = HashMap::from([(TENANT, Ledger { chain, ..Ledger::default() })]);
    let mut chains = Chains::new(&key, &kept, &[]);
    let (mut walked, mut told) = (Walked::default(), Vec::new());
    let mut tell = |damage: Damage| told.push(damage.what);
    for entry in entries {
        chains.take(entry, &mut walked, &mut tell);
    }
    chains.finish(&mut walked, &mut tell);
    assert_eq!(walked.damages, told.len() as u64);
    told
}

#[test]
fn entries_of_a_time_ahead_may_come_after_any_number_of_those_made_later() {
    for ahead in [1, 3_000] {
        let mut entries = log(130_000);
        let last = entries[129_999].link;
        entries.rotate_left(ahead);
        assert_eq!(told(entries, last), [""; 0], "{ahead}");
    }
}

#[tokio::test]
async fn a_first_entry_of_a_time_ahead_is_found_at_the_end_and_holds_up_all_others_until_it_is_due()
{
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.commit(puts([entry(TENANT, "z", 1_000)])).await.unwrap();
    for batch in 0..60 {
        let entries =
            (0..32).map(|number| entry(TENANT, &format!("p{batch:03}-{number:02}"), batch));
        store.commit(puts(entries)).await.unwrap();
    }
    // What lies between is not looked at: it may be anything.
    store.files.live().tree.insert(pack_key("p030-00"), b"no pack").unwrap();
    let ids = |before_ms| -> Vec<String> {
        let removals = store.oldest_entries(ENTRY, TENANT, before_ms..=u64::MAX, 300).unwrap();
        removals.into_iter().map(|gone| gone.id).collect()
    };
    assert_eq!(ids(1_000), [""; 0]);
    let due = ids(1_001);
    assert_eq!((due.len(), due[0].as_str(), due[1].as_str()), (300, "z", "p000-00"));
    assert_eq!(due[299], "p009-10");
}

#[tokio::test]
async fn entries_of_a_time_ahead_of_the_clock_go_with_the_one_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    // In the order of the chain; ids ascend with the times that entries carry.
    let times = [900, 901, 5, 902, 6, 7, 903, 904];
    for ms in times {
        store.commit(puts([entry(TENANT, &format!("e{ms:04}"), ms)])).await.unwrap();
    }
    let due = |kept_ms, max| store.oldest_entries(ENTRY, TENANT, kept_ms, max).unwrap().len();
    for (kept_ms, count) in [
        // None is ahead.
        (5..=1_000, 0),
        (6..=1_000, 0),
        // Those of 900 and more are.
        (5..=100, 0),
        (6..=100, 3),
        (7..=100, 5),
        (8..=100, 6),
        (100..=100, 6),
        // All are due.
        (1_000..=1_000, 8),
    ] {
        assert_eq!(due(kept_ms.clone(), 100), count, "{kept_ms:?}");
    }
    // However few are removed at a time.
    assert_eq!((due(8..=100, 2), due(8..=100, 3)), (2, 3));
}

proptest! {
    #[test]
    fn in_whatever_order_entries_come_only_what_is_missing_is_told(
        order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(),
        missing in prop::collection::btree_set(0..39_usize, 0..8),
    ) {
        let mut entries: Vec<Option<Entry>> = log(40).into_iter().map(Some).collect();
        let last = entries[39].as_ref().unwrap().link;
        let mut gaps: Vec<(usize, usize)> = Vec::new();
        for number in missing.iter().map(|index| index + 1) {
            match gaps.last_mut() {
                Some((_, to)) if *to + 1 == number => *to = number,
                _ => gaps.push((number, number)),
            }
        }
        let gap = |(from, to): (usize, usize)| format!("entries {from} to {to} of the log are missing");
        let expected: Vec<String> = gaps.into_iter().map(gap).collect();
        let there = order.into_iter().filter(|index| !missing.contains(index));
        prop_assert_eq!(told(there.filter_map(|index| entries[index].take()), last), expected);
    }
}
