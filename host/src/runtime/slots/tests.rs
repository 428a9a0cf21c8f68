use super::{OWNERS_MIN, Slot, Slots};
use crate::runtime::Failure;
use crate::runtime::memory::Room;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Longer than anything here takes, and never waited for to the end.
const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(20);

fn slots(all: u32, per_owner: u32, queue_per_owner: u32) -> Slots {
    Slots::new(all, per_owner, queue_per_owner, Room::new(0, all))
}

#[tokio::test]
async fn an_owner_has_its_own_slots_and_no_more() {
    let slots = slots(4, 2, 0);
    let _held = [slots.try_acquire(1).unwrap(), slots.try_acquire(1).unwrap()];
    assert!(slots.try_acquire(1).is_none());
    // Nobody may wait here: refused at once.
    assert_eq!(slots.acquire(1, LONG).await.err(), Some(Failure::Saturated));
    // Another owner does not notice.
    let other = [slots.try_acquire(2).unwrap(), slots.acquire(2, LONG).await.unwrap()];
    assert!(slots.try_acquire(2).is_none());
    // All slots are taken now: a third waits for one, although its queue holds nobody.
    assert!(slots.try_acquire(3).is_none());
    let third = tokio::spawn({
        let slots = slots.clone();
        async move { slots.acquire(3, LONG).await.is_ok() }
    });
    tokio::task::yield_now().await;
    assert!(!third.is_finished());
    drop(other);
    assert!(third.await.unwrap());
    assert!(slots.try_acquire(2).is_some());
}

#[tokio::test]
async fn those_that_wait_are_served_in_order_and_counted() {
    let slots = slots(8, 1, 2);
    let held = slots.try_acquire(7).unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let slots = slots.clone();
            tokio::spawn(async move { slots.acquire(7, LONG).await })
        })
        .collect();
    tokio::task::yield_now().await;
    // One past the queue is refused at once; other owners have a queue of their own.
    assert_eq!(slots.acquire(7, LONG).await.err(), Some(Failure::Saturated));
    assert!(slots.acquire(8, LONG).await.is_ok());
    drop(held);
    let mut waiting = waiting.into_iter();
    let first = waiting.next().unwrap().await.unwrap().unwrap();
    let second = waiting.next().unwrap();
    assert!(!second.is_finished());
    // A place in the queue is free again.
    assert_eq!(slots.acquire(7, SHORT).await.err(), Some(Failure::NoSlot));
    // A free slot goes to whoever waits, not to whoever asks just now.
    drop(first);
    assert!(slots.try_acquire(7).is_none());
    drop(second.await.unwrap().unwrap());
    assert!(slots.try_acquire(7).is_some());
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_nothing_behind() {
    let slots = slots(2, 1, 1);
    let held = slots.try_acquire(1).unwrap();
    for _ in 0..10 {
        // Dropped in the middle, as a caller does that hangs up; then out of its own time.
        assert!(timeout(SHORT, slots.acquire(1, LONG)).await.is_err());
        assert_eq!(slots.acquire(1, SHORT).await.err(), Some(Failure::NoSlot));
    }
    // Also while it has a slot of its own and waits for one of all.
    let other = slots.try_acquire(2).unwrap();
    for _ in 0..10 {
        assert!(timeout(SHORT, slots.acquire(3, LONG)).await.is_err());
        assert_eq!(slots.acquire(3, SHORT).await.err(), Some(Failure::NoSlot));
    }
    drop((held, other));
    let again = [slots.try_acquire(1).unwrap(), slots.try_acquire(3).unwrap()];
    assert!(slots.try_acquire(2).is_none());
    drop(again);
    assert_eq!(slots.0.all.available_permits(), 2);
}

#[tokio::test]
async fn owners_without_runs_are_forgotten() {
    let slots = slots(1_000, 1, 1);
    let held: Vec<_> = (0..10).map(|number| slots.try_acquire(number).unwrap()).collect();
    for number in 0..100_000 {
        drop(slots.try_acquire(number));
    }
    let remembered = slots.0.owners.read().by_number.len();
    assert!(remembered <= OWNERS_MIN, "{remembered}");
    // Those with runs are not: their slots are still taken.
    for number in 0..10 {
        assert!(slots.try_acquire(number).is_none(), "{number}");
    }
    drop(held);
    assert!(slots.try_acquire(0).is_some());
}

#[tokio::test]
async fn runs_of_the_queue_wait_for_what_they_may_hold_and_not_for_ever() {
    let slots = Slots::new(4, 4, 0, Room::new(64 << 20, 4));
    let take = || slots.try_acquire(1).unwrap();
    let (long, much) = (Duration::from_mins(1), u64::MAX);
    let has = |slot: &mut Slot, formula: u128| slot.await_memory(formula, much, long).is_ok();
    let mut first = take();
    assert!(has(&mut first, 1));
    // The next one has no promise, and begins once it has waited; the one after it waits as long again.
    let mut next = take();
    assert!(!has(&mut next, 1));
    let before = Instant::now().checked_sub(2 * long).unwrap();
    // But not one that comes long after those that waited have gone.
    let long_before = before.checked_sub(long).unwrap();
    next.owner.waits.lock().insert(1, [long_before, long_before]);
    assert!(!has(&mut next, 1));
    next.owner.waits.lock().insert(1, [before, Instant::now()]);
    assert!(!has(&mut take(), 2));
    assert!(has(&mut next, 1) && !has(&mut next, 1));
    // What a run was promised that never began is there for another.
    drop(first);
    assert!(has(&mut next, 1) && next.owner.waits.lock().len() == 1);
}
