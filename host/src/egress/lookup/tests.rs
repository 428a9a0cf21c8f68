use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{CROWDED, Lookup, Lookups, Remembered, SystemLookup};
use crate::limits::{
    HTTP_LOOKUP_OWNERS_MAX, HTTP_LOOKUPS_MAX, HTTP_OTHER_LOOKUPS_MAX,
    HTTP_OTHER_LOOKUPS_PER_OWNER_MAX, HTTP_SLOW_LOOKUP_MS, HTTP_SLOW_LOOKUPS_PER_OWNER_MAX,
    HTTP_UNKNOWN_MAX, HTTP_UNKNOWN_MS,
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SHORT: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers for names that begin with `slow` when it is allowed to, for `no` that there is no such name, for others at
/// once.
struct Zone {
    asked: Mutex<Vec<String>>,
    answers: Arc<Semaphore>,
}

impl Zone {
    fn new() -> (Arc<Self>, Arc<Lookups>) {
        let (asked, answers) = (Mutex::default(), Arc::new(Semaphore::new(0)));
        let zone = Arc::new(Self { asked, answers });
        (Arc::clone(&zone), Arc::new(Lookups::new(zone)))
    }

    fn asked(&self, name: &str) -> usize {
        self.asked.lock().iter().filter(|asked| asked.starts_with(name)).count()
    }
}

impl Lookup for Zone {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (slow, none) = (name.starts_with("slow"), name.starts_with("no"));
        self.asked.lock().push(name);
        let answers = Arc::clone(&self.answers);
        async move {
            if slow {
                answers.acquire().await.unwrap().forget();
            }
            if none { Err(io::ErrorKind::NotFound.into()) } else { Ok(vec![HERE]) }
        }
        .boxed()
    }
}

/// Asks for so many names that are not answered, and gives up.
async fn give_up(lookups: &Lookups, owner: u128, count: usize) {
    let ask = |at| async move {
        let name = format!("slow-{owner}-{at}");
        assert!(tokio::time::timeout(SHORT, lookups.find(owner, &name)).await.is_err());
    };
    futures::future::join_all((0..count).map(ask)).await;
}

async fn found(lookups: &Lookups, owner: u128, name: &str) -> Vec<IpAddr> {
    tokio::time::timeout(PATIENCE, lookups.find(owner, name)).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_system_knows_its_own_name() {
    let lookups = Lookups::new(Arc::new(SystemLookup));
    let found = found(&lookups, 1, "localhost").await;
    assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    assert!(lookups.find(1, "no-such-host.invalid").await.is_err());
}

#[tokio::test]
async fn one_owners_names_that_are_never_answered_are_nobody_elses() {
    let (zone, lookups) = Zone::new();
    give_up(&lookups, 1, 10 * HTTP_LOOKUPS_MAX).await;
    assert_eq!(zone.asked("slow"), HTTP_OTHER_LOOKUPS_PER_OWNER_MAX);
    assert_eq!(found(&lookups, 2, "prompt").await, [HERE]);
    let own = tokio::time::timeout(SHORT, lookups.find(1, "prompt")).await;
    assert!(own.is_err(), "its own places are taken: {own:?}");
}

#[tokio::test]
async fn one_name_that_is_never_answered_takes_one_place() {
    let (zone, lookups) = Zone::new();
    // As deliveries to one receiver do: many at a time, and again once they have given up.
    for _ in 0..3 {
        let ask = || tokio::time::timeout(SHORT, lookups.find(1, "slow"));
        let many = (0..4 * HTTP_OTHER_LOOKUPS_PER_OWNER_MAX).map(|_| ask());
        assert!(futures::future::join_all(many).await.iter().all(Result::is_err));
        assert_eq!(zone.asked("slow"), 1);
        assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
    }
    // Another owner's question is its own.
    assert!(tokio::time::timeout(SHORT, lookups.find(2, "slow")).await.is_err());
    assert_eq!(zone.asked("slow"), 2);
    // Whoever waits when the answer comes has it, and it is not kept for later.
    let waiting: Vec<_> = (0..5).map(|_| found(&lookups, 1, "slow")).collect();
    let answer = async {
        tokio::time::sleep(SHORT).await;
        zone.answers.add_permits(2);
    };
    let (all, ()) = futures::future::join(futures::future::join_all(waiting), answer).await;
    assert_eq!(all, vec![vec![HERE]; 5]);
    zone.answers.add_permits(1);
    assert_eq!(found(&lookups, 1, "slow").await, [HERE]);
    assert_eq!(zone.asked("slow"), 3);
    assert_eq!(lookups.0.places.0[0].available_permits(), HTTP_LOOKUPS_MAX);
}

#[tokio::test]
async fn whoever_gives_up_waiting_leaves_nothing_behind() {
    let (zone, lookups) = Zone::new();
    give_up(&lookups, 1, 100).await;
    // All that was begun ends. Had those who gave up kept their turns, theirs would begin now.
    zone.answers.add_permits(100);
    assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
    tokio::time::sleep(SHORT).await;
    assert_eq!(zone.asked("slow"), HTTP_OTHER_LOOKUPS_PER_OWNER_MAX);
    assert_eq!(zone.answers.available_permits(), 100 - HTTP_OTHER_LOOKUPS_PER_OWNER_MAX);
    assert_eq!(lookups.0.places.0[0].available_permits(), HTTP_LOOKUPS_MAX);
}

#[tokio::test]
async fn there_are_so_many_places_in_all() {
    let (zone, lookups) = Zone::new();
    let owners = HTTP_OTHER_LOOKUPS_MAX / HTTP_OTHER_LOOKUPS_PER_OWNER_MAX;
    let many = (0..owners).map(|owner| give_up(&lookups, owner as u128, 2 * HTTP_LOOKUPS_MAX));
    futures::future::join_all(many).await;
    assert_eq!(zone.asked("slow"), HTTP_OTHER_LOOKUPS_MAX);
    assert_eq!(lookups.0.places.0[1].available_permits(), 0);
    let (late, other) = (Arc::clone(&lookups), owners as u128);
    let late = tokio::spawn(async move { found(&late, other, "prompt").await });
    tokio::time::sleep(SHORT).await;
    assert_eq!(zone.asked("prompt"), 0);
    zone.answers.add_permits(1);
    assert_eq!(late.await.unwrap(), [HERE]);
}

#[tokio::test]
async fn a_name_without_an_address_is_not_asked_for_again_at_once() {
    let (zone, lookups) = Zone::new();
    for _ in 0..5 {
        assert!(lookups.find(1, "no.test").await.is_err());
    }
    assert_eq!(zone.asked("no.test"), 1);
    assert!(lookups.find(2, "no.test").await.is_err());
    assert_eq!(zone.asked("no.test"), 2, "what an owner asked for is its own");
    // Those who wait behind the one that finds out do not ask either.
    let many = (0..5 * HTTP_OTHER_LOOKUPS_PER_OWNER_MAX).map(|_| lookups.find(3, "none.test"));
    assert!(futures::future::join_all(many).await.iter().all(Result::is_err));
    assert_eq!(zone.asked("none.test"), 1);
    for _ in 0..2 {
        assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
    }
    assert_eq!(zone.asked("prompt"), 2);
}

#[test]
fn what_is_unknown_is_so_for_a_while_and_bounded() {
    let began = Instant::now();
    let mut unknown = Remembered::of(HTTP_UNKNOWN_MAX, HTTP_UNKNOWN_MS);
    let after = |ms| began + Duration::from_millis(ms);
    assert!(!unknown.holds(1, "a", began));
    unknown.note((1, "a".to_owned()), began);
    assert!(unknown.holds(1, "a", after(HTTP_UNKNOWN_MS - 1)));
    assert!(!unknown.holds(1, "a", after(HTTP_UNKNOWN_MS)));
    assert!(!unknown.holds(2, "a", began) && !unknown.holds(1, "b", began));
    for at in 1..3 * HTTP_UNKNOWN_MAX {
        let now = began + Duration::from_micros(at as u64);
        unknown.note((2, at.to_string()), now);
        assert!(unknown.names.len() <= HTTP_UNKNOWN_MAX);
        assert!(unknown.holds(2, &at.to_string(), now));
    }
    assert!(!unknown.holds(1, "a", began), "the oldest is forgotten first");
    unknown.note((1, "late".to_owned()), after(2 * HTTP_UNKNOWN_MS));
    assert_eq!(unknown.names.len(), 1);
}

#[tokio::test]
async fn owners_are_forgotten() {
    let (_zone, lookups) = Zone::new();
    give_up(&lookups, 0, 2 * HTTP_OTHER_LOOKUPS_PER_OWNER_MAX).await;
    for owner in 1..3 * HTTP_LOOKUP_OWNERS_MAX {
        found(&lookups, owner as u128, "prompt").await;
        assert!(lookups.0.shares.lock().len() <= HTTP_LOOKUP_OWNERS_MAX);
    }
    // One whose lookups go on keeps its share.
    let own = tokio::time::timeout(SHORT, lookups.find(0, "prompt")).await;
    assert!(own.is_err(), "{own:?}");
}

#[tokio::test]
async fn names_that_took_long_have_few_of_the_places() {
    let (zone, lookups) = Zone::new();
    let name = |at: usize| format!("slow-1-{at}");
    // As when each of them took long the last time.
    let count = HTTP_OTHER_LOOKUPS_PER_OWNER_MAX;
    for at in 0..count {
        lookups.0.slow.lock().note((1, name(at)), Instant::now());
    }
    give_up(&lookups, 1, count).await;
    assert_eq!(zone.asked("slow"), HTTP_SLOW_LOOKUPS_PER_OWNER_MAX);
    assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
    // One that is prompt again is like the others.
    zone.answers.add_permits(count);
    while lookups.0.places.0[0].available_permits() < HTTP_LOOKUPS_MAX {
        tokio::task::yield_now().await;
    }
    let slow = lookups.0.slow.lock().names.len();
    assert_eq!(slow, count - HTTP_SLOW_LOOKUPS_PER_OWNER_MAX);
}

#[tokio::test]
async fn a_name_waits_for_a_place_for_a_while() {
    let (zone, lookups) = Zone::new();
    let inner = Arc::into_inner(Arc::into_inner(lookups).unwrap().0).unwrap();
    let lookups = Lookups(Arc::new(super::Inner { patience: 2 * SHORT, ..inner }));
    give_up(&lookups, 1, HTTP_OTHER_LOOKUPS_PER_OWNER_MAX).await;
    let asked = zone.asked("");
    let refused = lookups.find(1, "prompt").await.unwrap_err();
    assert_eq!((refused.kind(), zone.asked("")), (CROWDED, asked));
    // That says nothing of the name.
    zone.answers.add_permits(HTTP_OTHER_LOOKUPS_PER_OWNER_MAX);
    assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
}

#[tokio::test]
async fn a_name_that_takes_long_is_remembered() {
    let (zone, lookups) = Zone::new();
    let answer = async {
        tokio::time::sleep(Duration::from_millis(HTTP_SLOW_LOOKUP_MS + 10)).await;
        zone.answers.add_permits(1);
    };
    let (address, ()) = futures::future::join(found(&lookups, 1, "slow"), answer).await;
    assert_eq!(address, [HERE]);
    let is_slow = |owner| lookups.0.slow.lock().holds(owner, "slow", Instant::now());
    assert!(is_slow(1) && !is_slow(2));
    zone.answers.add_permits(1);
    assert_eq!(found(&lookups, 1, "slow").await, [HERE]);
    assert!(!is_slow(1));
}

#[tokio::test]
async fn what_was_prompt_does_not_wait_for_names_that_nobody_knows() {
    let (zone, lookups) = Zone::new();
    assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
    give_up(&lookups, 1, 10 * HTTP_OTHER_LOOKUPS_PER_OWNER_MAX).await;
    assert_eq!(zone.asked("slow"), HTTP_OTHER_LOOKUPS_PER_OWNER_MAX);
    assert_eq!(found(&lookups, 1, "prompt").await, [HERE]);
    let new = tokio::time::timeout(SHORT, lookups.find(1, "new")).await;
    assert!(new.is_err(), "{new:?}");
}
