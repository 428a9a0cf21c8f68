//! Pages, while others write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::open;
use crate::store::conformance::{KIND, TENANT, record};
use crate::store::{Batch, Expect, Filter, Put, Removal, Start, Store as _, Term};

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
