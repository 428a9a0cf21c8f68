use super::{Account, Fair, Lane};
use futures::task::{ArcWake, waker};
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// So much that no test computes it.
const PLENTY: Duration = Duration::from_hours(1);

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl ArcWake for Bell {
    fn wake_by_ref(bell: &Arc<Self>) {
        bell.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A formula of so many slices that writes down each.
struct Slices<'d> {
    name: &'static str,
    left: usize,
    done: &'d RefCell<Vec<&'static str>>,
}

impl Future for Slices<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.done.borrow_mut().push(self.name);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn poll<F: Future + Unpin>(run: &mut Fair<'_, F>, bell: &Arc<Bell>) -> Poll<F::Output> {
    let waker = waker(Arc::clone(bell));
    Pin::new(run).poll(&mut Context::from_waker(&waker))
}

fn is_long<F>(run: &Fair<'_, F>) -> bool {
    run.long.load(Ordering::SeqCst)
}

/// A test's world: a lane, an account for each of three owners, and what was computed.
struct World {
    lane: Lane,
    accounts: [Account; 3],
    nobody: Account,
    done: RefCell<Vec<&'static str>>,
}

impl World {
    fn new(turns: usize, free: Duration) -> Self {
        Self {
            lane: Lane::new(turns, free),
            accounts: Default::default(),
            nobody: Account::default(),
            done: RefCell::default(),
        }
    }

    fn run(&self, owner: usize, name: &'static str, slices: usize) -> Fair<'_, Slices<'_>> {
        let run = Slices { name, left: slices, done: &self.done };
        let run = (run, Arc::default());
        self.lane.fair((owner as u128, &self.accounts[owner]), run, Instant::now())
    }

    /// A run that was polled once, so that all its slices from here on need turns.
    fn long(&self, owner: usize, name: &'static str, slices: usize) -> Fair<'_, Slices<'_>> {
        let mut run = self.run(owner, name, slices + 1);
        assert!(poll(&mut run, &Arc::default()).is_pending());
        assert!(is_long(&run));
        self.done.borrow_mut().clear();
        run
    }

    /// Takes a turn out of the lane, as a slice does that is being computed on another thread.
    fn busy(&self) -> super::Turn<'_> {
        let nobody = (99, &self.nobody);
        let turn = self.lane.turn(nobody, &mut None, futures::task::noop_waker_ref());
        turn.expect("a turn is left")
    }

    fn turns_left(&self) -> usize {
        let turns = self.lane.turns.lock();
        assert!(turns.queues.iter().all(|queue| !queue.runs.is_empty()));
        assert!(turns.left == 0 || turns.queues.is_empty(), "somebody waits beside a free turn");
        turns.left
    }

    fn done(&self) -> Vec<&'static str> {
        self.done.borrow().clone()
    }
}

#[test]
fn a_run_computes_freely_until_its_owners_time_is_used() {
    let world = World::new(1, PLENTY);
    let bell = Arc::default();
    let _busy = world.busy();
    let mut run = world.run(0, "a", 1_000);
    for _ in 0..999 {
        assert!(poll(&mut run, &bell).is_pending());
    }
    // No turn is left, and it never needed one.
    assert!(poll(&mut run, &bell).is_ready());
    assert_eq!(world.done().len(), 1_000);
}

#[test]
fn a_run_that_ends_in_its_first_slice_needs_no_turn_and_costs_nothing() {
    let world = World::new(1, Duration::ZERO);
    let _busy = world.busy();
    let mut run = world.run(0, "a", 1);
    assert!(poll(&mut run, &Arc::default()).is_ready());
    assert_eq!(run.charged_ns, 0);
    drop(run);
    assert_eq!(world.accounts[0].charge(0), 0);
}

#[test]
fn beyond_that_each_slice_needs_a_turn() {
    let world = World::new(1, Duration::ZERO);
    let bell: Arc<Bell> = Arc::default();
    let mut run = world.long(0, "a", 3);
    assert!(poll(&mut run, &bell).is_pending());
    // Between two slices it holds none: a run that waits for the vault stands in nobody's way.
    assert_eq!(world.turns_left(), 1);
    let busy = world.busy();
    for _ in 0..3 {
        assert!(poll(&mut run, &bell).is_pending());
    }
    assert_eq!((world.done(), bell.rings()), (vec!["a"], 0));
    drop(busy);
    assert_eq!(bell.rings(), 1);
    assert_eq!(world.turns_left(), 0, "the turn is kept for it");
    assert!(poll(&mut run, &bell).is_pending());
    assert!(poll(&mut run, &bell).is_ready());
    assert_eq!((world.done().len(), world.turns_left()), (3, 1));
}

#[test]
fn an_owners_runs_use_its_time_together_and_give_it_back() {
    let free = Duration::from_secs(20);
    let world = World::new(1, free);
    let bell = Arc::default();
    // What other runs of the owner have used counts.
    let half = u64::try_from(free.as_nanos() / 2).unwrap();
    world.accounts[0].charge(half);
    let mut first = world.run(0, "a", 9);
    assert!(poll(&mut first, &bell).is_pending());
    assert!(!is_long(&first));
    world.accounts[0].charge(half);
    let mut second = world.run(0, "b", 9);
    assert!(poll(&mut second, &bell).is_pending());
    assert!(is_long(&second));
    // Another owner has its own.
    let mut other = world.run(1, "c", 9);
    assert!(poll(&mut other, &bell).is_pending());
    assert!(!is_long(&other));
    world.accounts[0].refund(2 * half);
    assert!(first.charged_ns + second.charged_ns > 0);
    drop((first, second, other));
    assert_eq!(world.accounts[0].charge(0), 0);
    assert_eq!(world.accounts[1].charge(0), 0);
}

/// Slices that take so many milliseconds each.
struct Lasting<'d>(Slices<'d>, u64);

impl Future for Lasting<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        std::thread::sleep(Duration::from_millis(self.1));
        Pin::new(&mut self.0).poll(context)
    }
}

/// Has runs of owners, with so long slices each, take so many turns; whose they were, in order.
fn whose_turns(runs: &[(usize, &'static str, u64)], turns: usize) -> Vec<&'static str> {
    let world = World::new(1, Duration::ZERO);
    let lasting = |&(owner, name, ms): &(usize, &'static str, u64)| {
        let run = Lasting(Slices { name, left: 999, done: &world.done }, ms);
        let account = (owner as u128, &world.accounts[owner]);
        let mut run = world.lane.fair(account, (run, Arc::default()), Instant::now());
        assert!(poll(&mut run, &Arc::default()).is_pending() && is_long(&run));
        run
    };
    let mut runs: Vec<_> = runs.iter().map(lasting).collect();
    let bells: Vec<Arc<Bell>> = runs.iter().map(|_| Arc::default()).collect();
    world.done.borrow_mut().clear();
    let busy = world.busy();
    for (run, bell) in runs.iter_mut().zip(&bells) {
        assert!(poll(run, bell).is_pending());
    }
    assert_eq!(world.done(), Vec::<&str>::new());
    drop(busy);
    // As an executor does: whoever was woken computes a slice and asks for the next turn at once.
    for turn in 0..turns {
        let woken: Vec<usize> = (0..runs.len()).filter(|&at| bells[at].rings() > 0).collect();
        let [at] = woken[..] else { panic!("{woken:?} were woken at turn {turn}") };
        bells[at].0.store(0, Ordering::SeqCst);
        assert!(poll(&mut runs[at], &bells[at]).is_pending());
        assert!(poll(&mut runs[at], &bells[at]).is_pending());
    }
    let done = world.done();
    drop(runs);
    done
}

#[test]
fn turns_go_round_by_owner_then_in_order() {
    let all = [(0, "a1", 2), (0, "a2", 2), (0, "a3", 2), (1, "b", 2), (2, "c", 2)];
    let done = whose_turns(&all, 60);
    assert_eq!(done[..3], ["a1", "b", "c"]);
    // A sleep may last longer than it was to.
    for owner in ["a", "b", "c"] {
        let turns = done.iter().filter(|name| name.starts_with(owner)).count();
        assert!((6..=36).contains(&turns), "{done:?}");
    }
    let of_a: Vec<_> = done.iter().filter(|name| name.starts_with('a')).collect();
    let in_order = ["a1", "a2", "a3"].iter().cycle();
    assert!(of_a.iter().zip(in_order).all(|(done, expected)| *done == expected), "{done:?}");
}

/// Slices with a break between each two, as a formula makes them.
struct Computes<'d>(Lasting<'d>);

impl Future for Computes<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        context.waker().wake_by_ref();
        Pin::new(&mut self.0).poll(context)
    }
}

#[test]
fn short_slices_do_not_wait_for_a_long_one_each() {
    let world = World::new(1, Duration::ZERO);
    let computes = |owner: usize, name, ms| {
        let run = Computes(Lasting(Slices { name, left: 999, done: &world.done }, ms));
        let account = (owner as u128, &world.accounts[owner]);
        let mut run = world.lane.fair(account, (run, Arc::default()), Instant::now());
        assert!(poll(&mut run, &Arc::default()).is_pending() && is_long(&run));
        run
    };
    let mut runs = [computes(0, "long", 20), computes(0, "long", 20), computes(1, "short", 1)];
    let bells: [Arc<Bell>; 3] = Default::default();
    world.done.borrow_mut().clear();
    // All of them want to compute all the time.
    while world.done().len() < 60 {
        for (run, bell) in runs.iter_mut().zip(&bells) {
            assert!(poll(run, bell).is_pending());
        }
    }
    let done = world.done();
    let long = done.iter().filter(|name| **name == "long").count();
    assert!((2..=8).contains(&long), "{done:?}");
    // What is done with holds no turn.
    drop(runs);
    assert_eq!(world.turns_left(), 1);
}

#[test]
fn who_has_computed_alone_does_not_stand_still_for_as_long() {
    let world = World::new(1, Duration::ZERO);
    let computes = |owner: usize, name| {
        let run = Computes(Lasting(Slices { name, left: 999, done: &world.done }, 2));
        let account = (owner as u128, &world.accounts[owner]);
        world.lane.fair(account, (run, Arc::default()), Instant::now())
    };
    let mut first = computes(0, "first");
    for _ in 0..60 {
        assert!(poll(&mut first, &Arc::default()).is_pending());
    }
    world.done.borrow_mut().clear();
    let mut second = computes(1, "second");
    assert!(poll(&mut second, &Arc::default()).is_pending());
    let bells: [Arc<Bell>; 2] = Default::default();
    while world.done().len() < 40 {
        assert!(poll(&mut first, &bells[0]).is_pending());
        assert!(poll(&mut second, &bells[1]).is_pending());
    }
    let of_first = world.done().iter().filter(|name| **name == "first").count();
    assert!((8..=32).contains(&of_first), "{:?}", world.done());
}

#[test]
fn who_waits_for_something_else_holds_no_turn() {
    let world = World::new(1, Duration::ZERO);
    let mut waits = world.long(0, "waits", 9);
    assert!(poll(&mut waits, &Arc::default()).is_pending());
    assert_eq!(world.turns_left(), 1);
    let computes = Computes(Lasting(Slices { name: "a", left: 9, done: &world.done }, 0));
    let account = (1, &world.accounts[1]);
    let mut computes = world.lane.fair(account, (computes, Arc::default()), Instant::now());
    for turns_left in [1, 0, 0] {
        assert!(poll(&mut computes, &Arc::default()).is_pending());
        assert_eq!(world.turns_left(), turns_left);
    }
    // Another run of the owner's comes before its next slice.
    let mut other = world.long(1, "b", 9);
    let bell: Arc<Bell> = Arc::default();
    assert!(poll(&mut other, &bell).is_pending());
    assert!(poll(&mut computes, &Arc::default()).is_pending());
    assert_eq!((bell.rings(), world.turns_left()), (1, 0));
}

#[test]
fn what_an_owner_does_not_use_is_lost_to_it() {
    let world = World::new(1, Duration::ZERO);
    let turn = |account: usize| {
        let owner = (account as u128, &world.accounts[account]);
        world.lane.turn(owner, &mut None, futures::task::noop_waker_ref()).expect("it is free")
    };
    let first = turn(0);
    std::thread::sleep(Duration::from_millis(5));
    drop(first);
    drop(turn(0));
    // Whoever comes now begins where the others are, and not with all that they have had.
    drop(turn(1));
    let had = |account: usize| world.accounts[account].turns_ns.load(Ordering::SeqCst);
    assert!(had(1) >= 5_000_000 && had(1) <= had(0) + 5_000_000, "{} {}", had(0), had(1));
}

/// A run of one slice that computes for so long.
struct Computing(Duration);

impl Future for Computing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let before = super::computed_by_this_thread();
        while super::computed_by_this_thread().saturating_sub(before) < self.0 {}
        Poll::Ready(())
    }
}

#[test]
fn overlong_slices_are_made_up_for() {
    let world = World::new(1, Duration::from_millis(20));
    let account = &world.accounts[0];
    let run = |future| {
        let mut run = world.lane.fair((0, account), (future, Arc::default()), Instant::now());
        (poll(&mut run, &Arc::default()).is_ready(), is_long(&run))
    };
    // The first that seems so has some of the next ones looked into.
    assert_eq!(run(Computing(Duration::from_millis(30))), (true, false));
    assert_eq!(account.owes(world.lane.since_start(Instant::now())), 0);
    assert!((1..=super::account::LOOKS_AT_FIRST).contains(&account.looks.load(Ordering::SeqCst)));
    assert_eq!(run(Computing(Duration::from_millis(30))), (true, false));
    assert_eq!(run(Computing(Duration::ZERO)), (false, true));
    // Another owner has nothing to do with it.
    let other = Computing(Duration::ZERO);
    let mut other =
        world.lane.fair((1, &world.accounts[1]), (other, Arc::default()), Instant::now());
    assert!(poll(&mut other, &Arc::default()).is_ready());
    let now = world.lane.since_start(Instant::now());
    assert!(account.owes(now) >= 20_000_000 && account.owes(now + 400_000_000) == 0);
}

#[test]
fn what_waited_for_others_is_not_overlong() {
    let world = World::new(1, Duration::from_millis(1));
    for _ in 0..3 {
        let run = Lasting(Slices { name: "a", left: 1, done: &world.done }, 10);
        let mut run =
            world.lane.fair((0, &world.accounts[0]), (run, Arc::default()), Instant::now());
        assert!(poll(&mut run, &Arc::default()).is_ready());
    }
    assert_eq!(world.accounts[0].owes(0), 0);
    // And in time nobody looks any more.
    let account = &world.accounts[0];
    account.looks.store(3, Ordering::SeqCst);
    for left in [2, 1, 0, 0] {
        let run = Computing(Duration::ZERO);
        let mut run = world.lane.fair((0, account), (run, Arc::default()), Instant::now());
        assert!(poll(&mut run, &Arc::default()).is_ready());
        assert_eq!(account.looks.load(Ordering::SeqCst), left);
    }
}

#[test]
fn a_run_that_is_dropped_gives_its_place_and_its_turn_to_the_next() {
    let world = World::new(1, Duration::ZERO);
    let (mut a, mut b, mut c) =
        (world.long(0, "a", 9), world.long(0, "b", 9), world.long(1, "c", 9));
    let bells: [Arc<Bell>; 3] = Default::default();
    let busy = world.busy();
    assert!(poll(&mut a, &bells[0]).is_pending());
    assert!(poll(&mut b, &bells[1]).is_pending());
    assert!(poll(&mut c, &bells[2]).is_pending());
    // One that waits goes without a trace.
    drop(b);
    drop(busy);
    let rings = || bells.each_ref().map(|bell| bell.rings());
    assert_eq!(rings(), [1, 0, 0]);
    // One whose turn has come, and that its deadline ends before it is polled, hands it on.
    drop(a);
    assert_eq!(rings(), [1, 0, 1]);
    assert_eq!(world.turns_left(), 0);
    drop(c);
    assert_eq!(world.turns_left(), 1);
    assert_eq!(world.done(), Vec::<&str>::new());
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    let world = World::new(1, Duration::ZERO);
    let mut run = world.long(0, "a", 9);
    let (first, second): (Arc<Bell>, Arc<Bell>) = Default::default();
    let busy = world.busy();
    assert!(poll(&mut run, &first).is_pending());
    assert!(poll(&mut run, &second).is_pending());
    drop(busy);
    assert_eq!((first.rings(), second.rings()), (0, 1));
}

#[test]
fn as_many_compute_at_once_as_there_are_turns_and_at_least_one() {
    for (turns, expected) in [(0, 1), (1, 1), (3, 3)] {
        let world = World::new(turns, Duration::ZERO);
        let held: Vec<_> = (0..expected).map(|_| world.busy()).collect();
        let owner = (1, &world.accounts[1]);
        assert!(world.lane.turn(owner, &mut None, futures::task::noop_waker_ref()).is_none());
        // That one left a place behind that nobody gives up; only the test does so.
        world.lane.turns.lock().queues.clear();
        drop(held);
        assert_eq!(world.turns_left(), expected);
    }
}

#[test]
fn a_slice_that_panics_keeps_no_turn() {
    let world = World::new(1, Duration::ZERO);
    let panics: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
        futures::pending!();
        panic!("as a bug does")
    });
    let mut run =
        world.lane.fair((0, &world.accounts[0]), (panics, Arc::default()), Instant::now());
    let bell = Arc::default();
    assert!(poll(&mut run, &bell).is_pending());
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = poll(&mut run, &bell);
    }));
    assert!(result.is_err());
    assert_eq!(world.turns_left(), 1);
}
