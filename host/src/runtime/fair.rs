//! Fair turns: long runs do not hold up short ones, nor one owner's another's.
//!
//! Formulas begin on the threads that everything runs on, and give them back every 0.1 ms or so. That alone lets a
//! hundred endless loops put a hundred such slices before whatever else has to be done. So a run may compute there only
//! as long as its owner's runs under way have used little; from then on it is long, belongs to the threads in
//! [`super::slow`], and each of its slices needs a turn in the [`Lane`]. A turn goes to the owner whose last one is
//! longest ago, and there to the run that asked first.
//!
//! A turn lasts for one poll: a run that waits, for the vault or for time, holds none.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

#[cfg(test)]
mod tests;

/// What an owner's runs have had.
#[derive(Debug, Default)]
pub struct Account {
    /// Time that those under way have used in slices that were not their last.
    used_ns: AtomicU64,
    /// The number of the last turn; 0 before the first.
    turn: AtomicU64,
}

impl Account {
    /// Adds to it; gives the sum.
    fn charge(&self, ns: u64) -> u64 {
        self.used_ns.fetch_add(ns, Ordering::Relaxed) + ns
    }

    fn refund(&self, ns: u64) {
        self.used_ns.fetch_sub(ns, Ordering::Relaxed);
    }
}

/// Where long runs wait for their turns.
#[derive(Debug)]
pub struct Lane {
    /// What one owner's runs may use before they come here.
    free_ns: u64,
    turns: Mutex<Turns>,
}

/// Invariant: while a turn is left, nobody waits.
#[derive(Debug)]
struct Turns {
    left: usize,
    /// Turns given out since the start.
    given: u64,
    /// One for each owner with waiting runs, those that came first in front.
    queues: Vec<Queue>,
}

/// Never empty.
#[derive(Debug)]
struct Queue {
    owner: u128,
    /// The number of the owner's last turn.
    last: u64,
    runs: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    waker: Waker,
}

/// A place in the lane; the number of the turn once that has come, 0 before.
type Ticket = Arc<AtomicU64>;

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
}

/// The right to one slice. The next in the lane gets it when it is dropped.
struct Turn<'l>(&'l Lane);

impl Lane {
    /// A lane for runs beyond what is `free`, `turns` of them at a time.
    pub fn new(turns: usize, free: Duration) -> Self {
        Self {
            free_ns: nanoseconds(free),
            turns: Mutex::new(Turns { left: turns.max(1), given: 0, queues: Vec::new() }),
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
        }
    }

    /// A turn, or a place to wait for one. Whoever waits is woken when it comes.
    fn turn(
        &self,
        (owner, account): (u128, &Account),
        place: &mut Option<Ticket>,
        waker: &Waker,
    ) -> Option<Turn<'_>> {
        let mut turns = self.turns.lock();
        let number = match place {
            None if turns.left > 0 => {
                turns.left -= 1;
                turns.draw()
            }
            None => {
                let ticket = Ticket::default();
                *place = Some(Arc::clone(&ticket));
                let last = account.turn.load(Ordering::Relaxed);
                turns.join((owner, last), Waiting { ticket, waker: waker.clone() });
                return None;
            }
            Some(ticket) => match ticket.load(Ordering::Relaxed) {
                0 => {
                    if let Some(waiting) = turns.find(owner, ticket) {
                        waiting.waker.clone_from(waker);
                    }
                    return None;
                }
                number => number,
            },
        };
        *place = None;
        account.turn.fetch_max(number, Ordering::Relaxed);
        Some(Turn(self))
    }

    /// Gives a turn to the next.
    fn pass_on(&self) {
        // Woken when the lock is free again: waking may run code of anybody's.
        let next = self.turns.lock().next();
        if let Some(waker) = next {
            waker.wake();
        }
    }

    /// Gives up a place; a turn that has come goes to the next.
    fn leave(&self, owner: u128, ticket: &Ticket) {
        let next = {
            let mut turns = self.turns.lock();
            if ticket.load(Ordering::Relaxed) > 0 {
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
    /// The number of a turn that is given out.
    fn draw(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    fn join(&mut self, (owner, last): (u128, u64), waiting: Waiting) {
        match self.queues.iter_mut().find(|queue| queue.owner == owner) {
            Some(queue) => queue.runs.push_back(waiting),
            None => self.queues.push(Queue { owner, last, runs: VecDeque::from([waiting]) }),
        }
    }

    /// Whom a turn that ended goes to.
    fn next(&mut self) -> Option<Waker> {
        let number = self.draw();
        let next = (0..self.queues.len()).min_by_key(|&at| self.queues[at].last);
        let waiting = next.and_then(|at| {
            let queue = &mut self.queues[at];
            queue.last = number;
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
        ticket.store(number, Ordering::Relaxed);
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

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl<F: Future + Unpin> Future for Fair<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if this.long.load(Ordering::Relaxed) {
            let owner = (this.owner, this.account);
            let turn = this.lane.turn(owner, &mut this.ticket, context.waker());
            let Some(_turn) = turn else { return Poll::Pending };
            return Pin::new(&mut this.run).poll(context);
        }
        let began = this.began.take().unwrap_or_else(Instant::now);
        let polled = Pin::new(&mut this.run).poll(context);
        // Most runs end in their first slice and never look at the clock here.
        if polled.is_pending() {
            let ns = nanoseconds(began.elapsed());
            this.charged_ns += ns;
            if this.account.charge(ns) >= this.lane.free_ns {
                this.long.store(true, Ordering::Relaxed);
            }
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

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
