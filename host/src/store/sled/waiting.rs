//! A batch between the one who waits for it and the writer.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::guard;
use crate::crypto::integrity::Hash;
use crate::store::{Batch, Expect, Put, Record, StoreError};

/// Batches that one sync acknowledges, at most.
const GROUP_BATCHES_MAX: usize = 512;
/// Bytes of bodies in a group, about, at most, and rows that come of it: [`super::journal`] takes so many. Whatever is
/// larger by itself is a group of its own.
const GROUP_BYTES_MAX: usize = 128 << 10;
const GROUP_ROWS_MAX: usize = 200;
/// The head and the index row of a record.
const ROWS_OF_A_RECORD: usize = 2;
/// Batches that must have come together for others to be waited for: below that, nobody gains by it.
const GATHERED_MIN: usize = 4;
/// How long that is. A group takes several times as long to be on the disk, and the system some more to wake who sleeps.
const GATHERING: Duration = Duration::from_micros(100);

/// A batch on its way, and where its outcome goes.
pub struct Waiting {
    /// What is to be committed.
    pub batch: Batch,
    /// The [`guard::content`] of each put.
    pub contents: Vec<Hash>,
    /// Told once it is durable, or refused.
    pub done: oneshot::Sender<Result<(), StoreError>>,
}

impl Waiting {
    /// A batch, made ready as far as the writer is not needed: whoever waits for the batch does the hashing.
    pub fn new(batch: Batch, done: oneshot::Sender<Result<(), StoreError>>) -> Self {
        let content = |put: &Put| {
            let Record { terms, numbers, uniques, body, .. } = &put.record;
            guard::content((terms, numbers, uniques), body)
        };
        let contents = batch.puts.iter().map(content).collect();
        Self { batch, contents, done }
    }

    /// Bytes of its bodies.
    pub fn bytes(&self) -> usize {
        self.batch.puts.iter().map(|put| put.record.body.len()).sum()
    }

    /// Rows that come of it, about. Log entries lie together in few.
    fn rows(&self) -> usize {
        let rows = |put: &Put| match put.expect {
            Expect::Chained(_) => 0,
            _ => ROWS_OF_A_RECORD + put.record.uniques.len(),
        };
        let puts: usize = self.batch.puts.iter().map(rows).sum();
        puts + self.batch.removals.len() * ROWS_OF_A_RECORD
    }
}

/// The batches of the next group, from the first on: those that wait, and when these are several, those that come within a
/// moment. A sync, and all the waking that it takes, costs as much for one batch as for fifty; whoever is alone is not
/// held up.
pub fn gathered(first: Waiting, queue: &mut mpsc::Receiver<Waiting>) -> Vec<Waiting> {
    let (mut bytes, mut rows) = (first.bytes(), first.rows());
    let mut waiting = vec![first];
    // Whether there is room for more.
    let mut take = |waiting: &mut Vec<Waiting>| {
        while waiting.len() < GROUP_BATCHES_MAX && bytes < GROUP_BYTES_MAX && rows < GROUP_ROWS_MAX
        {
            let Ok(next) = queue.try_recv() else { return true };
            bytes += next.bytes();
            rows += next.rows();
            waiting.push(next);
        }
        false
    };
    if take(&mut waiting) && waiting.len() >= GATHERED_MIN {
        std::thread::sleep(GATHERING);
        take(&mut waiting);
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::{
        GATHERED_MIN, GROUP_BATCHES_MAX, GROUP_BYTES_MAX, GROUP_ROWS_MAX, ROWS_OF_A_RECORD,
        Waiting, gathered,
    };
    use crate::model::id::TenantId;
    use crate::store::{Batch, Expect, Kind, Put, Record, TextDigest};
    use tokio::sync::{mpsc, oneshot};

    const RECORD: Expect = Expect::Any;
    const ENTRY: Expect = Expect::Chained(TextDigest([0; 32]));

    fn waiting(bytes: usize, expect: Expect) -> Waiting {
        let record = Record {
            kind: Kind(1),
            tenant: TenantId(uuid::Uuid::nil()),
            id: "id".to_owned(),
            version: 0,
            order_ms: 0,
            terms: Vec::new(),
            numbers: Vec::new(),
            uniques: Vec::new(),
            body: vec![0; bytes],
        };
        let batch = Batch { puts: vec![Put { record, expect }], ..Batch::default() };
        Waiting::new(batch, oneshot::channel().0)
    }

    #[test]
    fn a_group_is_what_waits_and_no_more_than_a_group_holds() {
        for (queued, bytes, expect, taken) in [
            (0, 10, RECORD, 1),
            (1, 10, RECORD, 2),
            (GATHERED_MIN, 10, RECORD, GATHERED_MIN + 1),
            (600, 10, RECORD, GROUP_ROWS_MAX / ROWS_OF_A_RECORD),
            // Log entries share their rows.
            (600, 10, ENTRY, GROUP_BATCHES_MAX),
            (600, GROUP_BYTES_MAX / 10 + 1, ENTRY, 10),
            (3, GROUP_BYTES_MAX, RECORD, 1),
        ] {
            let (sender, mut queue) = mpsc::channel(1_024);
            for _ in 0..queued {
                sender.try_send(waiting(bytes, expect)).ok().unwrap();
            }
            let group = gathered(waiting(bytes, expect), &mut queue);
            assert_eq!(group.len(), taken, "{queued} of {bytes}");
            assert_eq!(queue.len(), queued + 1 - taken);
        }
    }

    #[test]
    fn who_comes_while_others_are_waited_for_is_of_the_group() {
        // The sender is as likely to be late as not, on a busy machine: once in many tries it is not.
        let joined = (0..1_000).any(|_| {
            let (sender, mut queue) = mpsc::channel(1_024);
            for _ in 1..GATHERED_MIN {
                sender.try_send(waiting(1, RECORD)).ok().unwrap();
            }
            let late = std::thread::spawn(move || {
                while sender.capacity() < 1_024 {
                    std::thread::yield_now();
                }
                sender.try_send(waiting(1, RECORD)).is_ok()
            });
            let group = gathered(waiting(1, RECORD), &mut queue).len();
            assert!(late.join().unwrap());
            group == GATHERED_MIN + 1
        });
        assert!(joined);
    }
}
