//! Large batches, and what others commit while they are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use uuid::Uuid;

use super::{LEFT_PREFIX, open, reopen};
use crate::model::id::TenantId;
use crate::store::conformance::{self, KIND, TENANT, record};
use crate::store::sled::SledStore;
use crate::store::sled::space::{Room, Space};
use crate::store::{Batch, Expect, Put, Record, Removal, Store as _, StoreError, Unique};

/// So large that it is written in a dozen portions.
const LARGE_BYTES: usize = 12 << 20;
const OTHER: TenantId = TenantId(Uuid::from_u128(77));

fn of(tenant: TenantId, id: &str, body: Vec<u8>) -> Record {
    Record { tenant, body, ..record(id, 1) }
}

fn put(record: Record, expect: Expect) -> Batch {
    Batch { puts: vec![Put { record, expect }], ..Batch::default() }
}

fn large(byte: u8) -> Record {
    of(TENANT, "large", vec![byte; LARGE_BYTES])
}

/// Commits small batches of another tenant until that is over; gives how many were durable before.
async fn beside<T>(store: &SledStore, work: impl Future<Output = T>) -> (T, usize) {
    let is_over = AtomicBool::new(false);
    let others = async {
        let mut done = 0;
        while !is_over.load(Ordering::Acquire) {
            let id = (done % 7).to_string();
            let batch = if done % 3 == 2 {
                let removal = Removal { kind: KIND, tenant: OTHER, id, expect: Expect::Any };
                Batch { removals: vec![removal], ..Batch::default() }
            } else {
                put(of(OTHER, &id, vec![7; 100]), Expect::Any)
            };
            store.commit(batch).await.unwrap();
            done += usize::from(!is_over.load(Ordering::Acquire));
        }
        done
    };
    let work = async {
        let done = work.await;
        is_over.store(true, Ordering::Release);
        done
    };
    futures::join!(work, others)
}

/// Pieces of long bodies that there are, and notes of such as belong to no record; once all is done that was begun.
async fn pieces(store: &SledStore) -> (usize, usize) {
    store.commit(Batch::cleared()).await.unwrap();
    let tree = &store.files.live().tree;
    (tree.scan_prefix(b"c").count(), tree.scan_prefix(LEFT_PREFIX).count())
}

async fn body(store: &SledStore, tenant: TenantId, id: &str) -> Option<Vec<u8>> {
    let found = store.find(KIND, tenant, &[id]).await.unwrap();
    found.into_iter().flatten().next().map(|record| record.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn others_take_their_turns_while_it_is_written_and_what_it_replaces_is_removed() {
    let (store, folder) = open();
    let whole = LARGE_BYTES.div_ceil(super::PIECE_BYTES);
    for (byte, expect) in [(1, Expect::Absent), (2, Expect::Any), (3, Expect::Any)] {
        let (done, others) = beside(&store, store.commit(put(large(byte), expect))).await;
        done.unwrap();
        assert!(others >= 3, "{others} of others");
        assert!(
            body(&store, TENANT, "large").await.is_some_and(|body| body == vec![byte; LARGE_BYTES])
        );
        assert_eq!(pieces(&store).await, (whole, 0));
    }
    drop(store);
    let store = reopen(folder.path());
    assert_eq!(body(&store, TENANT, "large").await.unwrap(), vec![3; LARGE_BYTES]);
    assert_eq!(pieces(&store).await, (whole, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_leaves_nothing() {
    let (store, _folder) = open();
    store.commit(put(of(TENANT, "large", vec![1]), Expect::Absent)).await.unwrap();
    // When it is checked first.
    let (refused, _) = beside(&store, store.commit(put(large(2), Expect::Absent))).await;
    assert!(matches!(refused, Err(StoreError::Exists { .. })), "{refused:?}");
    assert_eq!(pieces(&store).await, (0, 0));
    // When others have taken by then what it wants to have.
    let unique = Unique([9; 32]);
    let wants = Record { uniques: vec![unique], ..large(3) };
    let takes = Record { uniques: vec![unique], ..of(OTHER, "taker", vec![1]) };
    // The next one of the same record has the version that the refused one did not take, and pieces of its own.
    let next = of(TENANT, "large", vec![5; 3 * super::PIECE_BYTES]);
    let (wants, takes, next) = futures::join!(
        store.commit(put(wants, Expect::Any)),
        store.commit(put(takes, Expect::Any)),
        store.commit(put(next, Expect::Any)),
    );
    takes.unwrap();
    next.unwrap();
    assert!(matches!(wants, Err(StoreError::Taken { .. })), "{wants:?}");
    assert_eq!(pieces(&store).await, (3, 0));
    assert_eq!(body(&store, TENANT, "large").await, Some(vec![5; 3 * super::PIECE_BYTES]));
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_a_tenant_stay_in_their_order() {
    let (store, _folder) = open();
    for round in 0..3_u8 {
        let small = put(of(TENANT, "large", vec![round]), Expect::Any);
        let remove =
            Removal { kind: KIND, tenant: TENANT, id: "large".to_owned(), expect: Expect::Any };
        let other_large = put(of(OTHER, "large", vec![round; LARGE_BYTES]), Expect::Any);
        let other_small = put(of(OTHER, "large", vec![round]), Expect::Any);
        // Sent in this order.
        let sent = futures::join!(
            store.commit(put(large(round), Expect::Any)),
            store.commit(other_large),
            store.commit(small),
            store.commit(other_small),
            store.commit(Batch { removals: vec![remove], ..Batch::default() }),
            store.commit(put(of(TENANT, "large", vec![round, round]), Expect::Absent)),
        );
        assert_eq!(sent, (Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(())));
        assert_eq!(body(&store, TENANT, "large").await, Some(vec![round, round]));
        assert_eq!(body(&store, OTHER, "large").await, Some(vec![round]));
        assert_eq!(pieces(&store).await, (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_made_anew_beside_it() {
    let (store, folder) = open();
    let store = Arc::new(store);
    store.commit(put(large(1), Expect::Any)).await.unwrap();
    let ((first, compacted, second), _) = beside(&store, async {
        futures::join!(
            store.commit(put(large(2), Expect::Any)),
            store.compact(),
            store.commit(put(of(OTHER, "large", vec![4; LARGE_BYTES]), Expect::Any)),
        )
    })
    .await;
    first.unwrap();
    compacted.unwrap();
    second.unwrap();
    let whole = LARGE_BYTES.div_ceil(super::PIECE_BYTES);
    assert_eq!(pieces(&store).await, (2 * whole, 0));
    drop(store);
    let store = reopen(folder.path());
    assert_eq!(body(&store, TENANT, "large").await.unwrap(), vec![2; LARGE_BYTES]);
    assert_eq!(body(&store, OTHER, "large").await.unwrap(), vec![4; LARGE_BYTES]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_large_one_keeps_nobody_else_waiting() {
    let (store, _folder) = open();
    let third = TenantId(Uuid::from_u128(78));
    let nobodys = put(of(TenantId(Uuid::nil()), "nobodys", vec![1]), Expect::Any);
    let ((), others) = beside(&store, async {
        let done = futures::join!(
            store.commit(put(large(1), Expect::Any)),
            store.commit(put(of(third, "large", vec![2; LARGE_BYTES]), Expect::Any)),
            store.commit(put(of(TENANT, "small", vec![1]), Expect::Any)),
            store.commit(put(of(third, "small", vec![2]), Expect::Any)),
            store.commit(nobodys),
        );
        assert_eq!(done, (Ok(()), Ok(()), Ok(()), Ok(()), Ok(())));
    })
    .await;
    assert!(others >= 12, "{others} of others");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_made_anew_although_large_ones_keep_coming() {
    let (store, folder) = open();
    for number in 0..3 {
        let one = of(OTHER, &number.to_string(), vec![number; LARGE_BYTES]);
        store.commit(put(one, Expect::Absent)).await.unwrap();
    }
    let is_over = AtomicBool::new(false);
    let keep_coming = async {
        let mut count = 0_u8;
        while !is_over.load(Ordering::Acquire) && count < 40 {
            store.commit(put(large(count), Expect::Any)).await.unwrap();
            count += 1;
        }
        count
    };
    let compacted = async {
        store.compact().await.unwrap();
        is_over.store(true, Ordering::Release);
    };
    let (count, ()) = futures::join!(keep_coming, compacted);
    assert!(count < 40, "{count} came");
    drop(store);
    let store = reopen(folder.path());
    for number in 0..3 {
        let found = body(&store, OTHER, &number.to_string()).await;
        assert!(found.is_some_and(|body| body == vec![number; LARGE_BYTES]));
    }
    assert!(
        body(&store, TENANT, "large")
            .await
            .is_some_and(|body| body == vec![count - 1; LARGE_BYTES])
    );
    assert_eq!(pieces(&store).await, (4 * LARGE_BYTES.div_ceil(super::PIECE_BYTES), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_goes_by_portions_too() {
    let (store, folder) = open();
    for round in 0..3_u8 {
        store.commit(put(large(round), Expect::Any)).await.unwrap();
        let one = of(OTHER, "large", vec![round; LARGE_BYTES]);
        store.commit(put(one, Expect::Any)).await.unwrap();
        // By somebody who puts little in its place, and by somebody who removes it, one beside the other's next.
        let remove =
            |tenant| Removal { kind: KIND, tenant, id: "large".to_owned(), expect: Expect::Any };
        let small = put(of(TENANT, "large", vec![round]), Expect::Any);
        let removed = Batch { removals: vec![remove(OTHER)], ..Batch::default() };
        let third = of(TenantId(Uuid::from_u128(78)), "large", vec![round; LARGE_BYTES]);
        let done = futures::join!(
            store.commit(put(third, Expect::Any)),
            store.commit(small),
            store.commit(removed),
        );
        assert_eq!(done, (Ok(()), Ok(()), Ok(())));
        assert_eq!(body(&store, TENANT, "large").await, Some(vec![round]));
        assert_eq!(body(&store, OTHER, "large").await, None);
        assert_eq!(pieces(&store).await, (LARGE_BYTES.div_ceil(super::PIECE_BYTES), 0));
    }
    drop(store);
    let store = reopen(folder.path());
    assert_eq!(pieces(&store).await, (LARGE_BYTES.div_ceil(super::PIECE_BYTES), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_what_others_left_to_be_removed() {
    let (store, folder) = open();
    let gone: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    for id in &gone {
        store.commit(put(of(TENANT, id, vec![1; 4 << 20]), Expect::Absent)).await.unwrap();
    }
    let removals = gone.iter().map(|id| {
        let removal = Removal { kind: KIND, tenant: TENANT, id: id.clone(), expect: Expect::Any };
        store.commit(Batch { removals: vec![removal], ..Batch::default() })
    });
    let left = || store.files.live().tree.scan_prefix(LEFT_PREFIX).count();
    let bytes = 2 << 20;
    let removals = futures::future::join_all(removals);
    let uploaded = store.commit(put(of(OTHER, "large", vec![2; bytes]), Expect::Absent));
    let (removed, uploaded) = futures::join!(removals, uploaded);
    // A portion goes with each of what is written, and there are many more.
    assert!(left() > 0);
    uploaded.unwrap();
    assert!(removed.iter().all(Result::is_ok));
    store.commit(Batch::nothing_of(OTHER)).await.unwrap();
    assert!(left() > 0);
    // Files that are made anew have nothing of it.
    store.compact().await.unwrap();
    assert_eq!(left(), 0);
    let whole = bytes.div_ceil(super::PIECE_BYTES);
    assert_eq!(pieces(&store).await, (whole, 0));
    assert!(!store.has_removed());
    drop(store);
    let store = reopen(folder.path());
    assert_eq!(body(&store, OTHER, "large").await.unwrap(), vec![2; bytes]);
    for id in &gone {
        assert_eq!(body(&store, TENANT, id).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_goes_while_nothing_else_is_to_be_done_and_the_next_process_goes_on() {
    let (store, folder) = open();
    let long = || put(of(TENANT, "long", vec![1; 8 << 20]), Expect::Any);
    let removal = || {
        let id = "long".to_owned();
        let removals = vec![Removal { kind: KIND, tenant: TENANT, id, expect: Expect::Any }];
        Batch { removals, ..Batch::default() }
    };
    let rows = |store: &SledStore| store.files.live().tree.scan_prefix(b"c").count();
    let gone = async |store: &SledStore| {
        let began = std::time::Instant::now();
        while rows(store) > 0 {
            assert!(began.elapsed() < std::time::Duration::from_mins(1));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    store.commit(long()).await.unwrap();
    store.commit(removal()).await.unwrap();
    gone(&store).await;
    store.commit(long()).await.unwrap();
    store.commit(removal()).await.unwrap();
    // Nobody waits for it at the end either.
    drop(store);
    let store = reopen(folder.path());
    assert!(rows(&store) > 0);
    // Made anew under the same id it has pieces of its own.
    let small = 3 * super::PIECE_BYTES;
    store.commit(put(of(TENANT, "long", vec![2; small]), Expect::Absent)).await.unwrap();
    assert_eq!(pieces(&store).await, (3, 0));
    assert_eq!(body(&store, TENANT, "long").await, Some(vec![2; small]));
    store.commit(removal()).await.unwrap();
    gone(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_waits_for_a_disk_that_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    // So many questions are answered with much space, and those after them with this.
    let disk = Arc::new(Mutex::new((u32::MAX, Room::Untold)));
    let told = Arc::clone(&disk);
    let space = Space::told(move || {
        let (questions, then) = &mut *told.lock();
        *questions = questions.saturating_sub(1);
        if *questions == 0 { *then } else { Room::Untold }
    });
    let store = SledStore::open_within(folder.path(), 8 << 20, space).unwrap();
    store.protect(conformance::protection(), Some(&mut conformance::Entries)).unwrap();
    let whole = LARGE_BYTES.div_ceil(super::PIECE_BYTES);
    let rows = || {
        let tree = &store.files.live().tree;
        (tree.scan_prefix(b"c").count(), tree.scan_prefix(LEFT_PREFIX).count())
    };
    for low in [Room::Free(60 << 20), Room::ReadOnly] {
        store.commit(put(large(1), Expect::Absent)).await.unwrap();
        let id = "large".to_owned();
        let removals = vec![Removal { kind: KIND, tenant: TENANT, id, expect: Expect::Any }];
        // The removal itself asks once.
        *disk.lock() = (2, low);
        store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
        assert!(store.commit(put(of(OTHER, "small", vec![1]), Expect::Any)).await.is_err());
        assert!(store.compact().await.is_err(), "{low:?}");
        assert_eq!(rows(), (whole, 1), "{low:?}");
        *disk.lock() = (u32::MAX, low);
        assert_eq!(pieces(&store).await, (0, 0));
    }
    assert!(store.compact().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn not_too_much_is_given_up_at_once_beside_a_large_one() {
    let (store, _folder) = open();
    let others = (80..88).map(|number| TenantId(Uuid::from_u128(number)));
    let others: Vec<TenantId> = others.collect();
    for tenant in &others {
        store.commit(put(of(*tenant, "long", vec![1; 2 << 20]), Expect::Absent)).await.unwrap();
    }
    let replaced = others.iter().map(|tenant| {
        let batch = put(of(*tenant, "long", vec![2]), Expect::Any);
        store.commit(batch)
    });
    let uploaded = store.commit(put(large(1), Expect::Absent));
    let (uploaded, replaced) = futures::join!(uploaded, futures::future::join_all(replaced));
    uploaded.unwrap();
    assert!(replaced.iter().all(Result::is_ok));
    for tenant in &others {
        assert_eq!(body(&store, *tenant, "long").await, Some(vec![2]));
    }
    assert_eq!(pieces(&store).await, (LARGE_BYTES.div_ceil(super::PIECE_BYTES), 0));
}
