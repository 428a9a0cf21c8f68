//! Pages, while others write.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::open;
use crate::store::conformance::{KIND, TENANT, record};
use crate::store::sled::SledStore;
use crate::store::{Batch, Expect, Filter, Put, Record, Removal, Start, Store as _, Term};

const RECORDS: usize = 20;
const ROUNDS: usize = 300;

/// What the round makes of all records: they have one term or the other, or are not there.
fn round(number: usize, terms: [Term; 2]) -> Batch {
    let ids = (0..RECORDS).map(|id| id.to_string());
    if number % 3 == 2 {
        let (kind, tenant, expect) = (KIND, TENANT, Expect::Any);
        let removals = ids.map(|id| Removal { kind, tenant, id, expect }).collect();
        return Batch { removals, ..Batch::default() };
    }
    let put = |id: String| {
        let mut record = record(&id, 1);
        record.terms = vec![terms[number % 3]];
        Put { record, expect: Expect::Any }
    };
    Batch { puts: ids.map(put).collect(), ..Batch::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_page_and_its_total_are_of_one_moment_whatever_is_written_meanwhile() {
    let (store, _folder) = open();
    let terms = [Term([1; 16]), Term([2; 16])];
    let over = AtomicBool::new(false);
    let write = async {
        for number in 0..ROUNDS {
            store.commit(round(number, terms)).await.unwrap();
        }
        over.store(true, Ordering::Release);
    };
    let read = async |term: Term| {
        let (filter, mut seen) = (Filter::Term(term), [false; 2]);
        while !over.load(Ordering::Acquire) {
            let slice = store.page(KIND, TENANT, &filter, Start::Offset(0), 2 * RECORDS).await;
            let slice = slice.unwrap();
            assert_eq!(slice.total, slice.records.len() as u64);
            assert!(slice.records.iter().all(|record| record.terms == [term]));
            assert!([0, RECORDS].contains(&slice.records.len()), "{}", slice.total);
            seen[usize::from(slice.total > 0)] = true;
            tokio::task::yield_now().await;
        }
        assert_eq!(seen, [true; 2]);
    };
    futures::join!(write, read(terms[0]), read(terms[1]));
}

/// Of long bodies, whose pieces are read after the heads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_long_bodies_of_a_page_are_of_one_moment_too() {
    let (store, _folder) = open();
    let over = AtomicBool::new(false);
    let write = async {
        for number in 0..u8::try_from(ROUNDS / 2).unwrap() {
            let put = |id: usize| {
                let record = Record { body: vec![number; 9_000], ..record(&id.to_string(), 1) };
                Put { record, expect: Expect::Any }
            };
            let puts = (0..RECORDS / 2).map(put).collect();
            store.commit(Batch { puts, ..Batch::default() }).await.unwrap();
            tokio::task::yield_now().await;
        }
        over.store(true, Ordering::Release);
    };
    let read = async {
        let mut seen = BTreeSet::new();
        while !over.load(Ordering::Acquire) {
            let slice = store.page(KIND, TENANT, &Filter::All, Start::Offset(0), RECORDS).await;
            let slice = slice.unwrap();
            let bodies: BTreeSet<_> = slice.records.into_iter().map(|record| record.body).collect();
            assert!(bodies.len() <= 1, "{} bodies", bodies.len());
            seen.extend(bodies);
            tokio::task::yield_now().await;
        }
        assert!(seen.len() > 1, "the bodies that are read change");
        assert!(seen.iter().all(|body| body.len() == 9_000 && body.iter().all(|b| *b == body[0])));
    };
    futures::join!(write, read, read_one(&store, &over));
}

/// A record that is read alone is whole, whatever is written meanwhile.
async fn read_one(store: &SledStore, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        for record in store.find(KIND, TENANT, &["3"]).await.unwrap().into_iter().flatten() {
            assert!(record.body.len() == 9_000 && record.body.iter().all(|b| *b == record.body[0]));
        }
        tokio::task::yield_now().await;
    }
}
