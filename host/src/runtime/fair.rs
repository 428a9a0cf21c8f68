//! Fair turns: long runs do not hold up short ones, nor one owner's another's.
//!
//! Formulas begin on the threads that everything runs on, and give them back every 0.1 ms or so. That alone lets a
//! hundred endless loops put a hundred such slices before whatever else has to be done. So a run may compute there only
//! as long as its owner's runs under way have used little; from then on it is long, belongs to the threads in
//! [`super::slow`], and each of its slices needs a turn in the [`Lane`]. A turn goes to the owner whose turns have taken
//! least time, and there to the run that asked first. What an owner does not use while nobody of it waits is lost to it.
//!
//! A slice may be far longer than that, since what it burns says nothing of pages that it is the first to touch, or of a large
//! memory that is filled at once. An owner whose runs had such slices pays for them: its next ones are long from the
//! beginning, until that is made up for.
//!
//! A turn lasts for one slice, and for the next as well while nobody waits whose turns have taken less: otherwise each short
//! slice of one owner would wait for a long one of another. A run that waits, for the vault or for time, holds none.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use self::account::Account;
use self::account::{OVERLONG, computed_by_this_thread, nanoseconds};

mod account;
#[cfg(test)]
mod tests;

/// Where long runs wait for their turns.
#[derive(Debug)]
pub struct Lane {
    /// What one owner's runs may use before they come here.
    free_ns: u64,
    started: Instant,
    turns: Mutex<Turns>,
}

/// Invariant: while a turn is left, nobody waits.
#[derive(Debug)]
struct Turns {
    left: usize,
    /// The time that the turns of the owner had taken who got the last one: whoever comes begins no earlier.
    now_ns: u64,
    /// One for each owner with waiting runs, those that came first in front.
    queues: Vec<Queue>,
}

/// Never empty.
#[derive(Debug)]
struct Queue {
    owner: u128,
    /// The time that the owner's turns have taken.
    taken_ns: u64,
    runs: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    waker: Waker,
}

/// A place in the lane, and whether the turn has come.
type Ticket = Arc<AtomicBool>;

/// A run that takes turns.
pub struct Fair<'l, F> {
    run: F,
    owner: u128,
    account: &'l Account,
    lane: &'l Lane,
    /// When the first poll begins, if it was told.
    began: Option<Instant>,
    /// What it charged to the account.
    charged_ns: u64,
    /// Whether its slices need turns; shared with whoever has to move it.
    long: Arc<AtomicBool>,
    /// Its place in the lane.
    ticket: Option<Ticket>,
    /// Its turn, if that goes on.
    turn: Option<Turn<'l>>,
}

/// The right to one slice. The next in the lane gets it when it is dropped.
struct Turn<'l> {
    lane: &'l Lane,
    owner: u128,
    account: &'l Account,
    began: Instant,
}

impl Lane {
    /// A lane for runs beyond what is `free`, `turns` of them at a time.
    pub fn new(turns: usize, free: Duration) -> Self {
        Self {
            free_ns: nanoseconds(free),
            started: Instant::now(),
            turns: Mutex::new(Turns { left: turns.max(1), now_ns: 0, queues: Vec::new() }),
        }
    }

    /// Makes a run of an owner take turns once it is long, which `long` tells. It is first polled at once: `began` is now.
    pub fn fair<'l, F: Future + Unpin>(
        &'l self,
        (owner, account): (u128, &'l Account),
        (run, long): (F, Arc<AtomicBool>),
        began: Instant,
    ) -> Fair<'l, F> {
        Fair {
            run,
            owner,
            account,
            lane: self,
            began: Some(began),
            charged_ns: 0,
            long,
            ticket: None,
            turn: None,
        }
    }

    /// A turn, or a place to wait for one. Whoever waits is woken when it comes.
    fn turn<'l>(
        &'l self,
        (owner, account): (u128, &'l Account),
        place: &mut Option<Ticket>,
        waker: &Waker,
    ) -> Option<Turn<'l>> {
        let mut turns = self.turns.lock();
        match place {
            None if turns.left > 0 => {
                turns.left -= 1;
                turns.now_ns = turns.now_ns.max(account.turns_ns.load(Ordering::Relaxed));
            }
            None => {
                let ticket = Ticket::default();
                *place = Some(Arc::clone(&ticket));
                let taken_ns = account.turns_ns.load(Ordering::Relaxed).max(turns.now_ns);
                turns.join((owner, taken_ns), Waiting { ticket, waker: waker.clone() });
                return None;
            }
            Some(ticket) if ticket.load(Ordering::Relaxed) => {}
            Some(ticket) => {
                if let Some(waiting) = turns.find(owner, ticket) {
                    waiting.waker.clone_from(waker);
                }
                return None;
            }
        }
        *place = None;
        let now_ns = turns.now_ns;
        drop(turns);
        account.turns_ns.fetch_max(now_ns, Ordering::Relaxed);
        Some(Turn { lane: self, owner, account, began: Instant::now() })
    }

    /// Gives a turn to the next, after one that took so long.
    fn pass_on(&self, (owner, account): (u128, &Account), ns: u64) {
        // Woken when the lock is free again: waking may run code of anybody's.
        let next = {
            let mut turns = self.turns.lock();
            let taken_ns = account.turns_ns.fetch_add(ns, Ordering::Relaxed) + ns;
            if let Some(queue) = turns.queues.iter_mut().find(|queue| queue.owner == owner) {
                queue.taken_ns = queue.taken_ns.max(taken_ns);
            }
            turns.next()
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }

    /// Nanoseconds since the lane was made.
    fn since_start(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.started))
    }

    /// Gives up a place; a turn that has come goes to the next.
    fn leave(&self, owner: u128, ticket: &Ticket) {
        let next = {
            let mut turns = self.turns.lock();
            if ticket.load(Ordering::Relaxed) {
                turns.next()
            } else {
                turns.remove(owner, ticket);
                None
            }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl Turns {
    fn join(&mut self, (owner, taken_ns): (u128, u64), waiting: Waiting) {
        match self.queues.iter_mut().find(|queue| queue.owner == owner) {
            Some(queue) => queue.runs.push_back(waiting),
            None => self.queues.push(Queue { owner, taken_ns, runs: VecDeque::from([waiting]) }),
        }
    }

    /// Whom a turn that ended goes to.
    fn next(&mut self) -> Option<Waker> {
        let next = (0..self.queues.len()).min_by_key(|&at| self.queues[at].taken_ns);
        let waiting = next.and_then(|at| {
            let queue = &mut self.queues[at];
            self.now_ns = self.now_ns.max(queue.taken_ns);
            // Its next one comes after those that have had as much: how long this one takes is told at its end.
            queue.taken_ns += 1;
            let waiting = queue.runs.pop_front();
            if queue.runs.is_empty() {
                self.queues.remove(at);
            }
            waiting
        });
        let Some(Waiting { ticket, waker }) = waiting else {
            self.left += 1;
            return None;
        };
        ticket.store(true, Ordering::Relaxed);
        Some(waker)
    }

    fn find(&mut self, owner: u128, ticket: &Ticket) -> Option<&mut Waiting> {
        let queue = self.queues.iter_mut().find(|queue| queue.owner == owner)?;
        queue.runs.iter_mut().find(|waiting| Arc::ptr_eq(&waiting.ticket, ticket))
    }

    fn remove(&mut self, owner: u128, ticket: &Ticket) {
        let Some(at) = self.queues.iter().position(|queue| queue.owner == owner) else { return };
        let runs = &mut self.queues[at].runs;
        runs.retain(|waiting| !Arc::ptr_eq(&waiting.ticket, ticket));
        if runs.is_empty() {
            self.queues.remove(at);
        }
    }
}

impl Turn<'_> {
    /// Whether nobody waits who comes before this run's next slice. What the turn has taken while nobody else waited counts
    /// from here on: whoever comes later does not have that much before its owner.
    fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        let ns = nanoseconds(now.saturating_duration_since(self.began));
        self.began = now;
        let mut turns = self.lane.turns.lock();
        let taken_ns = self.account.turns_ns.fetch_add(ns, Ordering::Relaxed) + ns;
        let least_ns = turns.queues.iter().map(|queue| queue.taken_ns).min();
        turns.now_ns = turns.now_ns.max(least_ns.map_or(taken_ns, |least| least.min(taken_ns)));
        turns.queues.iter().all(|queue| queue.owner != self.owner && queue.taken_ns > taken_ns)
    }
}

/// Notes that whoever is polled is woken.
struct Woken {
    waker: Waker,
    at_once: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.at_once.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.lane.pass_on((self.owner, self.account), nanoseconds(self.began.elapsed()));
    }
}

impl<F: Future + Unpin> Future for Fair<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if this.long.load(Ordering::Relaxed) {
            let owner = (this.owner, this.account);
            let turn = this.turn.take();
            let turn = turn.or_else(|| this.lane.turn(owner, &mut this.ticket, context.waker()));
            let Some(mut turn) = turn else { return Poll::Pending };
            let woken =
                Arc::new(Woken { waker: context.waker().clone(), at_once: AtomicBool::default() });
            let waker = Waker::from(Arc::clone(&woken));
            let polled = Pin::new(&mut this.run).poll(&mut Context::from_waker(&waker));
            // Whoever wakes itself has only made a break.
            if polled.is_pending() && woken.at_once.load(Ordering::Relaxed) && turn.goes_on() {
                this.turn = Some(turn);
            }
            return polled;
        }
        let first = this.began.take();
        let began = first.unwrap_or_else(Instant::now);
        if first.is_some() && this.account.even_at_ns.load(Ordering::Relaxed) > 0 {
            let owed = this.account.owes(this.lane.since_start(began));
            if owed > 0 && owed >= this.lane.free_ns {
                // Whoever moves it polls it again.
                this.long.store(true, Ordering::Relaxed);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let is_looked_into = this.account.looks.load(Ordering::Relaxed) > 0;
        let computed = is_looked_into.then(computed_by_this_thread);
        let polled = Pin::new(&mut this.run).poll(context);
        let took = began.elapsed();
        if polled.is_pending() {
            let ns = nanoseconds(took);
            this.charged_ns += ns;
            if this.account.charge(ns) >= this.lane.free_ns {
                this.long.store(true, Ordering::Relaxed);
            }
        }
        if took > OVERLONG || is_looked_into {
            this.account.look_into(took, computed, this.lane.since_start(began + took));
        }
        polled
    }
}

impl<F> Drop for Fair<'_, F> {
    fn drop(&mut self) {
        if self.charged_ns > 0 {
            self.account.refund(self.charged_ns);
        }
        if let Some(ticket) = self.ticket.take() {
            self.lane.leave(self.owner, &ticket);
        }
    }
}
