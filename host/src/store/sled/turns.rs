//! Whose batch is next.
//!
//! The writer takes batches one group after the other, and everybody's requests wait for it. In the order in which they
//! come, who writes little would wait behind everything that another tenant has on the way. So tenants take turns by what
//! their batches weigh (start-time fair queueing): a batch is as far back as what its tenant has had since others came, and
//! not as what others have. A tenant's own batches stay in their order, and a tenant that is alone notices nothing.
//!
//! What is not one tenant's comes after all that came before it: who destroys a tenant's keys or changes them counts on what
//! was on its way being there.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tokio::sync::mpsc::Receiver;

use super::waiting::Waiting;
use crate::model::id::TenantId;

/// Batches that are put in order, at most; others wait in the queue.
const ORDERED_MAX: usize = 1_024;
/// What a batch weighs beside its bytes: it takes the writer about as long as so many of them.
const BATCH_BYTES: u64 = 1 << 10;
/// Tenants that are remembered, at least, before those that are even are let go of.
const TENANTS_MIN: usize = 64;

/// The batches that wait for the writer, in the order of their turns.
pub struct Turns {
    queue: Receiver<Waiting>,
    ordered: BinaryHeap<Reverse<Place>>,
    /// Those that others were taken before although their turns come first.
    aside: Vec<Reverse<Place>>,
    /// Where the batch that was taken last had begun, in bytes.
    now: u64,
    /// Where the last batch of each tenant ends.
    ends: HashMap<TenantId, u64>,
    /// Where the last of all ends.
    last_end: u64,
    /// Tenants that may be remembered until it is looked who is even.
    tenants_max: usize,
    /// Batches put in order so far.
    count: u64,
}

/// What is to be done with a batch whose turn it is.
pub enum Turn {
    /// It is taken.
    Taken,
    /// It is set aside: others may be taken before it.
    Aside,
    /// It is left where it is, and so are all behind it.
    Later,
}

/// A batch's place.
struct Place {
    begins: u64,
    number: u64,
    waiting: Waiting,
}

impl Place {
    fn place(&self) -> (u64, u64) {
        (self.begins, self.number)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl Turns {
    /// Those of a queue.
    pub fn of(queue: Receiver<Waiting>) -> Self {
        Self {
            queue,
            ordered: BinaryHeap::new(),
            aside: Vec::new(),
            now: 0,
            ends: HashMap::new(),
            last_end: 0,
            tenants_max: TENANTS_MIN,
            count: 0,
        }
    }

    /// The next batch, if one waits and it is to be taken.
    pub fn next_if(&mut self, take: impl FnOnce(&Waiting) -> bool) -> Option<Waiting> {
        self.order();
        let Reverse(turn) = self.ordered.peek()?;
        if take(&turn.waiting) { self.pop() } else { None }
    }

    /// The next batch that this says is to be taken, past those that it sets aside until [`Self::restore`].
    pub fn next_past(&mut self, mut look: impl FnMut(&Waiting) -> Turn) -> Option<Waiting> {
        loop {
            self.order();
            match look(&self.ordered.peek()?.0.waiting) {
                Turn::Taken => return self.pop(),
                // As many as are put in order.
                Turn::Aside if self.aside.len() < ORDERED_MAX => {
                    self.aside.extend(self.ordered.pop());
                }
                Turn::Aside | Turn::Later => return None,
            }
        }
    }

    /// Puts those back in their places that were set aside.
    pub fn restore(&mut self) {
        self.ordered.extend(self.aside.drain(..));
    }

    /// Whether none waits, and none will come.
    pub fn is_over(&self) -> bool {
        // In this order: the last one may be sent and its sender go in between.
        self.queue.is_closed() && self.queue.is_empty() && self.ordered.is_empty()
    }

    /// The next batch, once there is one; `None` when there will be none.
    pub fn wait(&mut self) -> Option<Waiting> {
        self.next_if(|_| true).or_else(|| {
            // Nobody waits for anybody: all are even.
            self.now = self.last_end;
            self.ends.clear();
            let first = self.queue.blocking_recv()?;
            self.put(first);
            self.pop()
        })
    }

    /// Puts in order what has come.
    fn order(&mut self) {
        while self.ordered.len() < ORDERED_MAX
            && let Ok(waiting) = self.queue.try_recv()
        {
            self.put(waiting);
        }
    }

    fn put(&mut self, waiting: Waiting) {
        if self.ends.len() >= self.tenants_max {
            self.ends.retain(|_, end| *end > self.now);
            self.tenants_max = TENANTS_MIN.max(2 * self.ends.len());
        }
        let begins = if let Some(tenant) = waiting.tenant() {
            let weight = u64::try_from(waiting.bytes()).unwrap_or(u64::MAX);
            let end = self.ends.entry(tenant).or_default();
            let begins = self.now.max(*end);
            *end = begins.saturating_add(weight.saturating_add(BATCH_BYTES));
            self.last_end = self.last_end.max(*end);
            begins
        } else {
            // Whatever was put in order before begins earlier, or ends there as another of these does.
            self.last_end.max(self.now)
        };
        self.count += 1;
        self.ordered.push(Reverse(Place { begins, number: self.count, waiting }));
    }

    fn pop(&mut self) -> Option<Waiting> {
        let Reverse(turn) = self.ordered.pop()?;
        // Those that were set aside begin earlier.
        self.now = self.now.max(turn.begins);
        Some(turn.waiting)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::sync::mpsc::{self, Sender};
    use uuid::Uuid;

    use super::{ORDERED_MAX, Turn, Turns, Waiting};
    use crate::model::id::TenantId;
    use crate::store::sled::waiting::tests::{RECORD, waiting};

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    /// A batch of a tenant with a body of so many bytes, told from others by its version.
    fn batch(whose: u128, bytes: usize, version: u64) -> Waiting {
        let mut one = waiting(bytes, RECORD);
        let record = &mut one.batch.puts[0].record;
        (record.tenant, record.version) = (tenant(whose), version);
        one
    }

    fn send(sender: &Sender<Waiting>, whose: u128, bytes: usize, version: u64) {
        sender.try_send(batch(whose, bytes, version)).ok().unwrap();
    }

    fn taken(turns: &mut Turns) -> Option<(u128, u64)> {
        turns.next_if(|_| true).map(|next| {
            let record = &next.batch.puts[0].record;
            (record.tenant.0.as_u128(), record.version)
        })
    }

    fn queue() -> (Sender<Waiting>, Turns) {
        let (sender, queue) = mpsc::channel(4 * ORDERED_MAX);
        (sender, Turns::of(queue))
    }

    #[test]
    fn what_is_set_aside_has_its_place_again_afterwards() {
        let (sender, mut turns) = queue();
        for version in 0..3 {
            (1..=3).for_each(|whose| send(&sender, whose, 100, version));
        }
        let whose = |next: &Waiting| next.batch.puts[0].record.tenant;
        // The second tenant's alone, past the first one's; the third one's hold up what is behind them.
        let mut past = || {
            turns.next_past(|next| match whose(next).0.as_u128() {
                1 => Turn::Aside,
                2 => Turn::Taken,
                _ => Turn::Later,
            })
        };
        assert!(past().is_some_and(|next| whose(&next) == tenant(2)));
        assert!(past().is_none());
        turns.restore();
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut turns)).collect();
        let expected = [(1, 0), (3, 0), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)];
        assert_eq!(order, expected);
        // No more are set aside than are put in order.
        (0..2 * ORDERED_MAX as u64).for_each(|version| send(&sender, 1, 1, version));
        assert!(turns.next_past(|_| Turn::Aside).is_none());
        assert_eq!(turns.aside.len(), ORDERED_MAX);
        turns.restore();
        let all: Vec<_> = std::iter::from_fn(|| taken(&mut turns)).collect();
        assert!(all.into_iter().eq((0..2 * ORDERED_MAX as u64).map(|version| (1, version))));
    }

    #[test]
    fn who_writes_little_goes_before_what_others_have_on_the_way() {
        let (sender, mut turns) = queue();
        (0..16).for_each(|version| send(&sender, 1, 165_000, version));
        assert_eq!(taken(&mut turns), Some((1, 0)));
        send(&sender, 2, 100, 0);
        send(&sender, 2, 100, 1);
        send(&sender, 3, 100, 0);
        // The next one of the first tenant's comes when others have had as much.
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut turns)).take(4).collect();
        assert_eq!(order, [(2, 0), (3, 0), (2, 1), (1, 1)]);
        // Who was away for long has nothing saved up.
        send(&sender, 4, 165_000, 0);
        send(&sender, 4, 165_000, 1);
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut turns)).take(4).collect();
        assert_eq!(order, [(4, 0), (1, 2), (4, 1), (1, 3)]);
    }

    #[test]
    fn what_is_nobodys_comes_after_all_that_was_before_it() {
        let mut of_two = batch(1, 10, 0);
        of_two.batch.puts.push(batch(2, 10, 0).batch.puts.remove(0));
        let mut empty = batch(1, 10, 0);
        empty.batch.puts.clear();
        for nobodys in [batch(0, 10, 0), of_two, empty] {
            let (sender, mut turns) = queue();
            for version in 0..5 {
                send(&sender, 1, 165_000, version);
                send(&sender, 2, 10, version);
            }
            let tenants = nobodys.batch.puts.len();
            sender.try_send(nobodys).ok().unwrap();
            assert!(turns.next_if(|_| true).is_some());
            send(&sender, 3, 10, 0);
            let mut before = 1;
            let left = loop {
                let next = turns.next_if(|_| true).unwrap();
                if next.tenant().is_none() {
                    break turns.next_if(|_| true);
                }
                before += 1;
            };
            assert!(left.is_none() && before == 11, "{tenants} {before}");
        }
    }

    #[test]
    fn what_is_not_taken_stays_where_it_is() {
        let (sender, mut turns) = queue();
        send(&sender, 1, 10, 0);
        send(&sender, 1, 10, 1);
        assert!(turns.next_if(|_| false).is_none());
        // Nothing was charged for it: another tenant's is behind it and not before.
        send(&sender, 2, 10, 0);
        assert_eq!(taken(&mut turns), Some((1, 0)));
        assert_eq!(taken(&mut turns), Some((2, 0)));
        drop(sender);
        assert!(!turns.is_over());
        assert_eq!(taken(&mut turns), Some((1, 1)));
        assert!(turns.is_over() && turns.wait().is_none());
    }

    #[test]
    fn whoever_waits_gets_what_comes() {
        let (sender, mut turns) = queue();
        let sending = std::thread::spawn(move || send(&sender, 1, 10, 7));
        assert_eq!(turns.wait().unwrap().batch.puts[0].record.version, 7);
        sending.join().unwrap();
        assert!(turns.wait().is_none());
    }

    #[test]
    fn only_so_many_are_put_in_order_and_only_tenants_that_are_behind_are_remembered() {
        let (sender, mut turns) = queue();
        for tenant in 1..=3 * ORDERED_MAX {
            send(&sender, tenant as u128, 10, 0);
        }
        assert!(taken(&mut turns).is_some());
        assert_eq!(turns.ordered.len(), ORDERED_MAX - 1);
        let all = std::iter::from_fn(|| taken(&mut turns)).count();
        assert_eq!(all, 3 * ORDERED_MAX - 1);
        // Each has had one batch, and so has the one that gets on.
        assert_eq!(turns.ends.len(), 3 * ORDERED_MAX);
        for version in 1..4 {
            send(&sender, 1, 10, version);
            assert_eq!(taken(&mut turns), Some((1, version)));
        }
        let newcomers = turns.tenants_max;
        for newcomer in 0..newcomers as u128 {
            send(&sender, 1_000_000 + newcomer, 10, 0);
            assert!(taken(&mut turns).is_some());
        }
        assert!(turns.ends.len() <= newcomers + 1, "{} {newcomers}", turns.ends.len());
        // Once nobody waits; what comes before that is seen is one more to be remembered.
        let sending = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            send(&sender, 5, 10, 0);
        });
        assert!(turns.wait().is_some());
        assert_eq!(turns.ends.len(), 1);
        sending.join().unwrap();
    }

    proptest! {
        #[test]
        fn each_tenants_batches_stay_in_their_order_and_none_is_lost_or_left_behind(
            steps in prop::collection::vec((0_u128..4, 0_usize..200_000, any::<bool>()), 1..200)
        ) {
            let (sender, mut turns) = queue();
            let mut sent = [0_u64; 4];
            let mut seen = [0_u64; 4];
            // What had been sent before each that is nobody's.
            let mut before = Vec::new();
            let mut look = |(whose, version): (u128, u64), before: &[[u64; 4]]| {
                assert_eq!(version, seen[whose as usize]);
                if whose == 0 {
                    let all = before[usize::try_from(version).unwrap()];
                    assert!(all.iter().zip(&seen).all(|(sent, seen)| sent <= seen), "{all:?} {seen:?}");
                }
                seen[whose as usize] += 1;
            };
            for (whose, bytes, takes) in steps {
                if whose == 0 {
                    before.push(sent);
                }
                send(&sender, whose, bytes, sent[whose as usize]);
                sent[whose as usize] += 1;
                if takes {
                    look(taken(&mut turns).unwrap(), &before);
                }
            }
            while let Some(next) = taken(&mut turns) {
                look(next, &before);
            }
            prop_assert_eq!(sent, seen);
        }
    }
}
