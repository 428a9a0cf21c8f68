use super::{Lanes, Purpose, SMALL_BYTES_MAX, Turn, UPLOADS_MAX, UPLOADS_PER_TENANT_MAX, Wanted};
use futures::FutureExt as _;
use parking_lot::Mutex;
use std::sync::Arc;

const SMALL: usize = SMALL_BYTES_MAX;
const LARGE: usize = SMALL_BYTES_MAX + 1;

fn upload(lanes: &Lanes, owner: u128) -> Purpose {
    Purpose::upload(lanes.place(owner).unwrap(), Wanted::default())
}

/// The turn, if it is free.
fn at_once(lanes: &Lanes, bytes: usize, purpose: &Purpose) -> Option<Turn> {
    lanes.enter(bytes, purpose).now_or_never().flatten()
}

#[tokio::test]
async fn runs_go_before_uploads_and_owners_take_turns() {
    let lanes = Arc::new(Lanes::default());
    let held = at_once(&lanes, SMALL, &upload(&lanes, 1)).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    let runs = [(5, "5a"), (5, "5b"), (5, "5c"), (7, "7a"), (7, "7b"), (2, "2a")];
    let uploads = [(9, "u9a"), (9, "u9b"), (3, "u3a")];
    let uploads = uploads.map(|(owner, name)| (upload(&lanes, owner), name));
    let runs = runs.map(|(owner, name)| (Purpose::run(owner), name));
    for (purpose, name) in uploads.into_iter().chain(runs) {
        let (lanes, order) = (Arc::clone(&lanes), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let _turn = lanes.enter(SMALL, &purpose).await.unwrap();
            order.lock().push(name);
        }));
        tokio::task::yield_now().await;
    }
    assert!(order.lock().is_empty());
    drop(held);
    for one in waiting {
        one.await.unwrap();
    }
    assert_eq!(*order.lock(), ["2a", "5a", "7a", "5b", "7b", "5c", "u3a", "u9a", "u9b"]);
    // Nobody has the turn now.
    assert!(at_once(&lanes, SMALL, &Purpose::run(1)).is_some());
}

#[tokio::test]
async fn what_is_compiled_ahead_comes_last_and_alone() {
    let lanes = Lanes::default();
    let (run, ahead) = (Purpose::run(1), Purpose::ahead(Wanted::default()));
    let upload = upload(&lanes, 2);
    for (of_ahead, of_others) in [(SMALL, LARGE), (LARGE, SMALL), (SMALL, SMALL)] {
        let held = at_once(&lanes, of_others, &run).unwrap();
        let mut waiting = Box::pin(lanes.enter(of_ahead, &ahead));
        assert!(waiting.as_mut().now_or_never().is_none(), "{of_ahead} {of_others}");
        // They come later, and go before.
        let mut others = [&upload, &run].map(|purpose| Box::pin(lanes.enter(of_others, purpose)));
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        let [uploads, runs] = others;
        drop(held);
        drop(runs.now_or_never().flatten().unwrap());
        drop(uploads.now_or_never().flatten().unwrap());
        let last = waiting.now_or_never().flatten().unwrap();
        // It holds up nobody in the other lane.
        let other = if of_ahead == SMALL { LARGE } else { SMALL };
        drop(at_once(&lanes, other, &run).unwrap());
        drop(last);
    }
    assert!(at_once(&lanes, SMALL, &ahead).is_some());
}

#[tokio::test]
async fn what_a_run_waits_for_goes_with_the_runs_whatever_it_was_begun_for() {
    let lanes = Lanes::default();
    let wanted = [Wanted::default(), Wanted::default()];
    let [of_upload, of_ahead] = wanted.clone();
    let late = [Purpose::upload(lanes.place(3).unwrap(), of_upload), Purpose::ahead(of_ahead)];
    let before = upload(&lanes, 2);
    for (purpose, wanted) in late.iter().zip(&wanted) {
        let held = at_once(&lanes, SMALL, &Purpose::run(1)).unwrap();
        let mut first = Box::pin(lanes.enter(SMALL, &before));
        let mut then = Box::pin(lanes.enter(SMALL, purpose));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(then.as_mut().now_or_never().is_none());
        wanted.tell();
        assert!(then.as_mut().now_or_never().is_none());
        drop(held);
        let turn = then.now_or_never().flatten().unwrap();
        assert!(first.as_mut().now_or_never().is_none());
        drop(turn);
        assert!(first.now_or_never().flatten().is_some());
    }
}

#[tokio::test]
async fn a_large_component_holds_up_no_small_one() {
    let lanes = Lanes::default();
    let run = Purpose::run(1);
    let large = at_once(&lanes, LARGE, &run).unwrap();
    assert!(at_once(&lanes, LARGE, &run).is_none());
    let small = at_once(&lanes, SMALL, &run).unwrap();
    assert!(at_once(&lanes, 0, &run).is_none());
    drop(small);
    assert!(at_once(&lanes, SMALL, &run).is_some());
    drop(large);
    assert!(at_once(&lanes, LARGE, &run).is_some());
}

#[tokio::test]
async fn who_gives_up_waiting_holds_up_nobody() {
    let lanes = Arc::new(Lanes::default());
    let run = Purpose::run(1);
    let held = at_once(&lanes, SMALL, &run).unwrap();
    let (mut early, mut late) =
        (Box::pin(lanes.enter(SMALL, &run)), Box::pin(lanes.enter(SMALL, &run)));
    let mut last = Box::pin(lanes.enter(SMALL, &run));
    for waiting in [&mut early, &mut late, &mut last] {
        assert!(waiting.now_or_never().is_none());
    }
    // One gives up before it is its turn, one when it has been told.
    drop(early);
    drop(held);
    drop(late);
    drop(last.await.unwrap());
    assert!(at_once(&lanes, SMALL, &run).is_some());
}

#[test]
fn uploads_have_so_many_places_and_an_owner_so_many_of_them() {
    let lanes = Lanes::default();
    let mut places = Vec::new();
    for owner in 0..(UPLOADS_MAX / UPLOADS_PER_TENANT_MAX) as u128 {
        places.extend((0..UPLOADS_PER_TENANT_MAX).map(|_| lanes.place(owner).unwrap()));
        assert!(lanes.place(owner).is_none());
    }
    assert_eq!(places.len(), UPLOADS_MAX);
    assert!(lanes.place(99).is_none());
    drop(places.pop());
    let place = lanes.place(99);
    assert!(place.is_some() && lanes.place(100).is_none());
    drop((places, place));
    assert!(lanes.uploads.0.lock().is_empty());
}
