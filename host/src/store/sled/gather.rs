//! When a group is large enough to be written.
//!
//! A sync costs the same for one batch as for a hundred. Those who were just answered are about to ask again: a writer
//! that begins with the first of them syncs for one, and lets all others wait for the next sync. So it waits for as many
//! as there are about to be, but never for longer than a part of what a sync takes.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;

use super::waiting::Waiting;

/// Batches that one sync acknowledges, at most.
const GROUP_BATCHES_MAX: usize = 512;
/// Bytes of bodies in a group, about, at most.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Groups of fewer are not waited for: what a few clients would gain they would lose by waiting.
const EXPECTED_MIN: usize = 4;
/// How long is waited at most, whatever a sync takes.
const PATIENCE_MAX: Duration = Duration::from_millis(2);
/// How long the writer sleeps before it looks again.
const PAUSE: Duration = Duration::from_micros(50);

/// What the last groups were like.
#[derive(Debug, Default)]
pub struct Pace {
    /// Batches in the last two.
    sizes: [usize; 2],
    /// What it takes to make a group durable: the average of the last ones.
    took: Duration,
}

impl Pace {
    /// Notes a group that was written.
    pub fn note(&mut self, batches: usize, took: Duration) {
        self.sizes = [batches, self.sizes[0]];
        self.took = (self.took * 7 + took) / 8;
    }

    /// Batches that a group is to have before it is written without waiting. Half of what lately came in one: those who
    /// wait are seldom all there at once.
    fn expected(&self) -> usize {
        self.sizes[0].max(self.sizes[1]) / 2
    }

    /// How long is waited for them.
    fn patience(&self) -> Duration {
        (self.took / 4).min(PATIENCE_MAX)
    }

    /// The group that begins with this batch.
    pub fn gather(&self, first: Waiting, queue: &mut Receiver<Waiting>) -> Vec<Waiting> {
        let mut bytes = first.bytes();
        let mut group = vec![first];
        let expected = self.expected();
        let mut began = None;
        loop {
            while group.len() < GROUP_BATCHES_MAX && bytes < GROUP_BYTES_MAX {
                let Ok(next) = queue.try_recv() else { break };
                bytes += next.bytes();
                group.push(next);
            }
            let enough = group.len() >= expected || bytes >= GROUP_BYTES_MAX;
            if enough || expected < EXPECTED_MIN || queue.is_closed() {
                return group;
            }
            let began = *began.get_or_insert_with(Instant::now);
            if began.elapsed() >= self.patience() {
                return group;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio::sync::{mpsc, oneshot};

    use super::{EXPECTED_MIN, GROUP_BATCHES_MAX, PATIENCE_MAX, Pace};
    use crate::store::Batch;
    use crate::store::sled::waiting::Waiting;

    fn batch() -> Waiting {
        Waiting::new(Batch::default(), oneshot::channel().0)
    }

    /// After groups of this size, each of which took so long.
    fn after(batches: usize, took: Duration) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..64 {
            pace.note(batches, took);
        }
        pace
    }

    #[test]
    fn what_is_there_is_taken_up_to_a_bound() {
        let (sender, mut queue) = mpsc::channel(2_000);
        for _ in 0..GROUP_BATCHES_MAX + 10 {
            sender.try_send(batch()).unwrap();
        }
        let pace = after(GROUP_BATCHES_MAX, Duration::from_secs(9));
        assert_eq!(pace.gather(batch(), &mut queue).len(), GROUP_BATCHES_MAX);
        assert_eq!(Pace::default().gather(batch(), &mut queue).len(), 12);
    }

    #[test]
    fn those_who_come_while_it_waits_are_taken() {
        // The bound is of the machine's time, which may be short: what comes first is waited for until one comes.
        let pace = after(8, Duration::from_secs(9));
        let found = (0..1_000).any(|_| {
            let (sender, mut queue) = mpsc::channel(16);
            let later = std::thread::spawn(move || {
                for _ in 0..3 {
                    sender.try_send(batch()).unwrap();
                }
                sender
            });
            let group = pace.gather(batch(), &mut queue).len();
            drop(later.join().unwrap());
            group == 4
        });
        assert!(found);
    }

    #[test]
    fn nobody_waits_for_whom_nobody_expects() {
        assert_eq!(after(EXPECTED_MIN, Duration::from_secs(9)).expected(), EXPECTED_MIN / 2);
        assert_eq!(after(1_000, Duration::from_secs(9)).patience(), PATIENCE_MAX);
        assert_eq!(after(1_000, Duration::ZERO).patience(), Duration::ZERO);
        assert_eq!(after(64, Duration::from_micros(400)).expected(), 32);
        assert!(after(64, Duration::from_micros(400)).patience() <= Duration::from_micros(100));
        // One large group among small ones is expected once more.
        let mut pace = after(2, Duration::from_millis(1));
        pace.note(40, Duration::from_millis(1));
        assert_eq!(pace.expected(), 20);
        pace.note(2, Duration::from_millis(1));
        assert_eq!(pace.expected(), 20);
        pace.note(2, Duration::from_millis(1));
        assert_eq!(pace.expected(), 1);
    }

    #[test]
    fn a_queue_that_is_closed_is_not_waited_for() {
        let pace = after(500, Duration::from_secs(9));
        for _ in 0..100 {
            let (sender, mut queue) = mpsc::channel(16);
            sender.try_send(batch()).unwrap();
            drop(sender);
            assert_eq!(pace.gather(batch(), &mut queue).len(), 2);
        }
        // And one that stays open is waited for no longer than patience allows.
        let (_sender, mut queue) = mpsc::channel(16);
        let began = Instant::now();
        assert_eq!(pace.gather(batch(), &mut queue).len(), 1);
        assert!(began.elapsed() >= PATIENCE_MAX);
    }
}
