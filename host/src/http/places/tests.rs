use super::{Arrival, Asked, BESIDE_MIN, Place, Places, Row, Waiting, beside, told};
use crate::limits::{CONNECTIONS_BESIDE_MAX, CONNECTIONS_TOLD_MAX};
use futures::FutureExt as _;
use futures::future::join_all;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A place, and whether it is one of the last.
fn placed(places: &Places, from: &str) -> (Place, bool) {
    match places.arrive(address(from)) {
        Arrival::Placed { place, few_left } => (place, few_left),
        Arrival::Waiting(_) => panic!("{from} waits"),
        Arrival::Refused { .. } => panic!("{from} is refused"),
    }
}

fn waiting(places: &Places, from: &str) -> Waiting {
    match places.arrive(address(from)) {
        Arrival::Waiting(waiting) => waiting,
        Arrival::Placed { .. } => panic!("{from} has a place"),
        Arrival::Refused { .. } => panic!("{from} is refused"),
    }
}

/// The place that it can have now.
fn now(waiting: &mut Waiting) -> Option<Place> {
    waiting.place().now_or_never().flatten()
}

#[test]
fn there_is_a_place_and_not_too_many() {
    for (wanted, given) in [(0, 1), (1, 1), (5_000, 5_000), (usize::MAX, 1 << 20)] {
        let places = Places::new(wanted);
        assert_eq!((places.all, places.free.left()), (given, given));
    }
    let without = [1, 64, 400, usize::MAX].map(beside);
    assert_eq!(without, [BESIDE_MIN, 16, 100, CONNECTIONS_BESIDE_MAX]);
    assert_eq!([1, 400, usize::MAX].map(told), [BESIDE_MIN, 50, CONNECTIONS_TOLD_MAX]);
}

#[test]
fn who_has_more_than_half_gets_none_of_the_last_and_waits_for_another() {
    let places = Places::new(32);
    let (crowd, other) = ("192.0.2.1", "198.51.100.7");
    // As long as there are any, all are for whoever comes.
    let mut held: Vec<_> = (0..30).map(|_| placed(&places, crowd)).collect();
    assert!(held.iter().all(|(_, few_left)| !few_left));
    let mut waits = waiting(&places, crowd);
    let (first, few_left) = placed(&places, other);
    assert!(few_left);
    let _second = placed(&places, other);
    let mut others = waiting(&places, other);
    // One that is spare is not for those who crowd.
    drop(first);
    assert!(now(&mut waits).is_none());
    let third = now(&mut others);
    assert!(third.is_some());
    // Nor is one of its own that makes up for one that is spare, whether it waits or comes.
    for _ in 0..2 {
        drop(held.pop());
        assert!(now(&mut waits).is_none());
        drop(waiting(&places, crowd));
    }
    drop(held.pop());
    assert!(now(&mut waits).is_some());
    drop(placed(&places, crowd));
}

#[test]
fn who_crowds_and_waits_is_woken_for_each_place_that_is_not_spare() {
    let places = Places::new(32);
    let mut held: Vec<_> = (0..30).map(|_| placed(&places, "192.0.2.1")).collect();
    let mut row: Vec<_> = (0..4).map(|_| waiting(&places, "192.0.2.1")).collect();
    let (last, first) = row.split_last_mut().unwrap();
    let mut first = Box::pin(join_all(first.iter_mut().map(Waiting::place)));
    let mut last = Box::pin(last.place());
    // All of them wait before the first is freed.
    assert!(first.as_mut().now_or_never().is_none());
    assert!(last.as_mut().now_or_never().is_none());
    held.truncate(27);
    let given = first.as_mut().now_or_never().unwrap();
    assert_eq!(given.iter().flatten().count(), 3);
    assert!(last.as_mut().now_or_never().is_none());
    assert_eq!(places.free.left(), 2);
    drop(given);
    assert!(last.as_mut().now_or_never().flatten().is_some());
}

#[test]
fn who_crowds_comes_after_those_who_do_not() {
    // None of these is spare.
    let places = Places::new(2);
    let _first = placed(&places, "192.0.2.1");
    let last = placed(&places, "192.0.2.1");
    let mut crowd = waiting(&places, "192.0.2.1");
    let mut other = waiting(&places, "198.51.100.7");
    let mut crowd = Box::pin(crowd.place());
    let mut other = Box::pin(other.place());
    assert!(crowd.as_mut().now_or_never().is_none());
    assert!(other.as_mut().now_or_never().is_none());
    drop(last);
    assert!(crowd.as_mut().now_or_never().is_none());
    let place = other.as_mut().now_or_never().flatten();
    assert!(place.is_some());
    drop(place);
    assert!(crowd.as_mut().now_or_never().flatten().is_some());
}

#[test]
fn whoever_has_one_connection_does_not_crowd() {
    for (all, half) in [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4)] {
        let places = Places::new(all);
        let _held: Vec<_> = (0..all).map(|_| placed(&places, "127.0.0.1")).collect();
        let row: Vec<_> = (0..=half).map(|_| waiting(&places, "192.0.2.1")).collect();
        let crowds: Vec<_> = row.iter().map(Waiting::crowds).collect();
        // All but the last.
        let expected: Vec<_> = (0..=half).map(|number| number == half).collect();
        assert_eq!(crowds, expected, "{all}");
    }
}

#[test]
fn who_crowds_is_asked_whichever_is_there_longest_and_nobody_else() {
    let (places, row) = (Places::new(4), Row::default());
    let (kept, _) = placed(&places, "198.51.100.7");
    let mut kept = Box::pin(kept.asked(&row));
    assert!(kept.as_mut().now_or_never().is_none());
    let half: Vec<_> = (0..2).map(|_| placed(&places, "192.0.2.1").0).collect();
    assert_eq!(places.ask_who_crowds(), Asked::NoCrowd);
    let (more, _) = placed(&places, "192.0.2.1");
    let crowd = half.iter().chain([&more]);
    let mut crowd: Vec<_> = crowd.map(|place| Box::pin(place.asked(&row))).collect();
    for one in &mut crowd {
        assert!(one.as_mut().now_or_never().is_none());
    }
    for one in &mut crowd {
        assert_eq!(places.ask_who_crowds(), Asked::One);
        assert!(one.as_mut().now_or_never().is_some());
    }
    assert_eq!(places.ask_who_crowds(), Asked::AllBefore);
    assert!(kept.as_mut().now_or_never().is_none());
    assert!(row.ask());
    assert!(kept.as_mut().now_or_never().is_some());
    assert!(!row.ask());
    drop(crowd);
    drop(more);
    assert_eq!(places.ask_who_crowds(), Asked::NoCrowd);
}

#[test]
fn who_is_asked_twice_leaves_the_other_asking_to_the_next() {
    let (places, row) = (Places::new(4), Row::default());
    let crowd: Vec<_> = (0..3).map(|_| placed(&places, "192.0.2.1").0).collect();
    let mut staying: Vec<_> = crowd.iter().map(|place| Box::pin(place.asked(&row))).collect();
    for one in &mut staying {
        assert!(one.as_mut().now_or_never().is_none());
    }
    assert_eq!(places.ask_who_crowds(), Asked::One);
    assert!(row.ask());
    let left: Vec<_> = staying.iter_mut().map(|one| one.as_mut().now_or_never()).collect();
    assert_eq!(left, [Some(()), Some(()), None]);
}

#[test]
fn half_is_not_too_much_and_what_has_gone_does_not_count() {
    let places = Places::new(32);
    let own: Vec<_> = (0..15).map(|_| placed(&places, "192.0.2.1")).collect();
    let others: Vec<_> = (0..15).map(|_| placed(&places, "198.51.100.7")).collect();
    // Its sixteenth, which has gone, and again.
    assert!(placed(&places, "192.0.2.1").1);
    let last = placed(&places, "192.0.2.1");
    assert!(last.1);
    assert!(waiting(&places, "192.0.2.1").crowds());
    drop((own, others, last));
    assert!(places.clients.lock().by_network.is_empty());
}

#[test]
fn a_network_of_ipv6_is_one_client() {
    let places = Places::new(32);
    let of_one = |n: usize| format!("2001:db8:1:2::{n:x}");
    let _held: Vec<_> = (0..30).map(|n| placed(&places, &of_one(n))).collect();
    assert!(waiting(&places, &of_one(30)).crowds());
    let _other = placed(&places, "2001:db8:1:3::1");
    // IPv4 in IPv6's spelling is IPv4.
    let _mapped = placed(&places, "::ffff:192.0.2.1");
    let _plain = waiting(&places, "192.0.2.1");
    assert_eq!(places.clients.lock().by_network.len(), 3);
}

#[test]
fn this_machine_has_all_places() {
    let places = Places::new(32);
    let own = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
    let _held: Vec<_> = (0..32).map(|n| placed(&places, own[n % own.len()])).collect();
    assert!(places.clients.lock().by_network.is_empty());
    assert!(!waiting(&places, "127.0.0.1").crowds());
}

#[test]
fn no_room_is_made_for_who_has_more_than_half() {
    let places = Places::new(32);
    let (crowd, other) = ("192.0.2.1", "198.51.100.7");
    let mut held: Vec<_> = (0..30).map(|_| placed(&places, crowd)).collect();
    let _other = placed(&places, other);
    drop(held.pop());
    // As few are left as before the other.
    assert!(waiting(&places, crowd).crowds());
    assert!(placed(&places, other).1);
}

#[test]
fn who_is_told_is_not_among_those_who_wait() {
    let places = Places::new(32);
    let _held: Vec<_> = (0..32).map(|_| placed(&places, "127.0.0.1")).collect();
    let told: Vec<_> = std::iter::from_fn(|| places.tell()).collect();
    assert_eq!(told.len(), 16);
    let _row: Vec<_> = (0..16).map(|_| waiting(&places, "127.0.0.1")).collect();
    drop(told);
    assert!(places.tell().is_some());
}

#[test]
fn so_many_wait_and_half_of_them_at_most_crowd() {
    let places = Places::new(32);
    let _held: Vec<_> = (0..30).map(|_| placed(&places, "192.0.2.1")).collect();
    let crowd: Vec<_> = (0..8).map(|_| waiting(&places, "192.0.2.1")).collect();
    let refused = |from| match places.arrive(address(from)) {
        Arrival::Refused { crowds } => Some(crowds),
        _ => None,
    };
    assert_eq!(refused("192.0.2.1"), Some(true));
    let _last = [placed(&places, "127.0.0.1"), placed(&places, "127.0.0.1")];
    let others: Vec<_> = (0..8).map(|_| waiting(&places, "127.0.0.1")).collect();
    assert_eq!(refused("127.0.0.1"), Some(false));
    drop(crowd);
    let _more = waiting(&places, "127.0.0.1");
    drop(others);
}

#[tokio::test]
async fn all_are_free_once_the_last_is() {
    let places = Places::new(32);
    let place = placed(&places, "127.0.0.1");
    let wait = Duration::from_millis(50);
    assert!(timeout(wait, places.all_free()).await.is_err());
    drop(place);
    places.all_free().await;
    let _again = placed(&places, "127.0.0.1");
}
