//! A batch between the one who waits for it and the writer.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::guard;
use super::log::{bytes_of, pieces_of};
use super::rows::PIECES_MAX;
use super::turns::Turns;
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::store::{Batch, Put, Record, StoreError};

/// Batches that one sync acknowledges, at most.
const GROUP_BATCHES_MAX: usize = 512;
/// Bytes of records in a group, about, at most, and rows that come of it: [`super::journal`] takes some more. A batch
/// that is larger by itself is a group of its own. What goes with a removal is not known yet: a group that has come to more
/// than the journal takes is written past it, which takes longer.
const GROUP_BYTES_MAX: usize = 128 << 10;
const GROUP_ROWS_MAX: usize = 100;
/// The head and the index row of a record; a tenant's ledger, and the rows in which its log entries lie together and what is
/// told of its runs.
const ROWS_OF_A_RECORD: usize = 2;
const ROWS_OF_A_TENANT: usize = 3;
/// Records in packs that one row more is for, and bytes of their bodies: most have room for some more.
const ENTRIES_OF_A_ROW: usize = 4;
const ENTRY_BYTES_OF_A_ROW: usize = 2 << 10;
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

    /// Whose it is, if all of it is one tenant's. What belongs to none is not, nor is a batch with nothing in it that
    /// somebody waits for who wants to know that all before it is there, and not all of one tenant's.
    pub fn tenant(&self) -> Option<TenantId> {
        let Batch { puts, removals, .. } = &self.batch;
        let put = puts.iter().map(|put| put.record.tenant);
        let mut tenants = put.chain(removals.iter().map(|gone| gone.tenant));
        let first = tenants.next().or(self.batch.of).filter(|tenant| !tenant.0.is_nil())?;
        tenants.all(|tenant| tenant == first).then_some(first)
    }

    /// Whether its records have more pieces than are written in one go.
    pub fn is_large(&self) -> bool {
        let pieces: usize = self.batch.puts.iter().map(|put| pieces_of(&put.record)).sum();
        pieces > PIECES_MAX
    }

    /// Bytes of its records, about.
    pub fn bytes(&self) -> usize {
        self.batch.puts.iter().map(|put| bytes_of(&put.record)).sum()
    }
}

/// How large a group has become.
#[derive(Default)]
pub struct Size {
    batches: usize,
    bytes: usize,
    rows: usize,
    entries: usize,
    entry_bytes: usize,
    tenants: HashSet<TenantId>,
}

impl Size {
    /// Counts a batch in.
    pub fn add(&mut self, waiting: &Waiting) {
        let Batch { puts, removals, .. } = &waiting.batch;
        self.batches += 1;
        self.bytes += waiting.bytes();
        for Put { record, expect } in puts {
            if expect.is_lasting() && record.uniques.is_empty() {
                self.entries += 1;
                self.entry_bytes += record.body.len();
            } else {
                self.rows += ROWS_OF_A_RECORD + record.uniques.len();
            }
            self.rows += pieces_of(record);
            self.tenants.insert(record.tenant);
        }
        self.rows += removals.len() * ROWS_OF_A_RECORD;
        self.tenants.extend(removals.iter().map(|removal| removal.tenant));
    }

    /// Whether one sync can acknowledge all of it.
    pub fn fits(&self) -> bool {
        let packs = (self.entries / ENTRIES_OF_A_ROW).max(self.entry_bytes / ENTRY_BYTES_OF_A_ROW);
        self.batches <= GROUP_BATCHES_MAX
            && self.bytes <= GROUP_BYTES_MAX
            && self.rows + self.tenants.len() * ROWS_OF_A_TENANT + packs <= GROUP_ROWS_MAX
    }
}

/// The batches of a group, from the first on, in their turns: those that wait, and when these are several, those that come
/// until that is over, or within a moment. A sync, and all the waking that it takes, costs as much for one batch as for
/// fifty; whoever is alone is not held up.
pub struct Gathering<'a> {
    turns: &'a mut Turns,
    size: Size,
    next: Option<Waiting>,
    until: Option<Instant>,
}

impl<'a> Gathering<'a> {
    /// A group that begins with this batch.
    pub fn begin(first: Waiting, turns: &'a mut Turns) -> Self {
        Self {
            turns,
            size: Size::default(),
            next: Some(first),
            until: Some(Instant::now() + GATHERING),
        }
    }

    /// The next batch, if one waits that the group has room for. One that was looked at counts whether it has or not: once
    /// there is no room the group is at its end.
    fn next_that_fits(&mut self) -> Option<Waiting> {
        let size = &mut self.size;
        self.turns.next_if(|next| {
            size.add(next);
            // What was removed with this group is still to go.
            size.fits() && !next.batch.clears
        })
    }

    /// Waits a moment for others, once, if there are several already and room for more; whether it did.
    fn wait(&mut self) -> bool {
        let may = self.size.batches >= GATHERED_MIN && self.size.fits();
        let until = if may { self.until.take() } else { None };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.inspect(|left| std::thread::sleep(*left)).is_some()
    }
}

impl Iterator for Gathering<'_> {
    type Item = Waiting;

    fn next(&mut self) -> Option<Waiting> {
        if let Some(first) = self.next.take() {
            self.size.add(&first);
            return Some(first);
        }
        self.next_that_fits().or_else(|| if self.wait() { self.next_that_fits() } else { None })
    }
}

#[cfg(test)]
pub mod tests {
    use super::{
        ENTRIES_OF_A_ROW, GATHERED_MIN, GROUP_BYTES_MAX, GROUP_ROWS_MAX, Gathering,
        ROWS_OF_A_RECORD, ROWS_OF_A_TENANT, Turns, Waiting,
    };
    use crate::limits::TOKEN_TERMS_MAX;
    use crate::model::id::TenantId;
    use crate::store::sled::rows::PIECE_BYTES;
    use crate::store::{Batch, Expect, Kind, Put, Record, Term, TextDigest};
    use std::time::{Duration, Instant};
    use tokio::sync::{mpsc, oneshot};

    pub const RECORD: Expect = Expect::Any;
    const ENTRY: Expect = Expect::Chained(TextDigest([0; 32]));

    pub fn waiting(bytes: usize, expect: Expect) -> Waiting {
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

    /// The groups that come of what was sent, the first one and all together.
    fn gathered(first: Waiting, queue: mpsc::Receiver<Waiting>) -> (Vec<Waiting>, usize) {
        let mut turns = Turns::of(queue);
        let group: Vec<_> = Gathering::begin(first, &mut turns).collect();
        let mut all = group.len();
        while let Some(next) = turns.next_if(|_| true) {
            all += Gathering::begin(next, &mut turns).count();
        }
        (group, all)
    }

    #[test]
    fn a_group_is_what_waits_and_no_more_than_a_group_holds() {
        let records = (GROUP_ROWS_MAX - ROWS_OF_A_TENANT) / ROWS_OF_A_RECORD;
        for (queued, bytes, expect, taken) in [
            (0, 10, RECORD, 1),
            (1, 10, RECORD, 2),
            (GATHERED_MIN, 10, RECORD, GATHERED_MIN + 1),
            (600, 10, RECORD, records),
            // Log entries share their rows, and what is told of runs does.
            (600, 10, ENTRY, (GROUP_ROWS_MAX - ROWS_OF_A_TENANT) * ENTRIES_OF_A_ROW + 3),
            (600, 10, Expect::Lasting, (GROUP_ROWS_MAX - ROWS_OF_A_TENANT) * ENTRIES_OF_A_ROW + 3),
            (600, GROUP_BYTES_MAX / 10, RECORD, 10),
            // Two pieces each.
            (600, PIECE_BYTES + 900, RECORD, (GROUP_ROWS_MAX - ROWS_OF_A_TENANT) / 4),
            (600, 1_024, ENTRY, GROUP_BYTES_MAX / 1_024),
            // What is too large by itself is alone, and holds up nobody that came before.
            (3, GROUP_BYTES_MAX + 1, RECORD, 1),
        ] {
            let (sender, queue) = mpsc::channel(1_024);
            for _ in 0..queued {
                sender.try_send(waiting(bytes, expect)).ok().unwrap();
            }
            let (group, all) = gathered(waiting(bytes, expect), queue);
            assert_eq!(group.len(), taken, "{queued} of {bytes}");
            assert_eq!(all, queued + 1);
        }
        let (sender, queue) = mpsc::channel(1_024);
        sender.try_send(waiting(GROUP_BYTES_MAX + 1, RECORD)).ok().unwrap();
        let (group, all) = gathered(waiting(10, RECORD), queue);
        assert_eq!((group.len(), all), (1, 2));
    }

    #[test]
    fn what_records_are_found_by_fills_a_group_as_their_bodies_do() {
        let found_by_much = || {
            let mut one = waiting(10, RECORD);
            one.batch.puts[0].record.terms = vec![Term([7; 16]); TOKEN_TERMS_MAX];
            one
        };
        let (sender, queue) = mpsc::channel(1_024);
        for _ in 0..600 {
            sender.try_send(found_by_much()).ok().unwrap();
        }
        let (group, _) = gathered(found_by_much(), queue);
        assert_eq!(group.len(), GROUP_BYTES_MAX / (10 + 2 * 16 * TOKEN_TERMS_MAX));
    }

    #[test]
    fn each_tenant_takes_rows_of_its_own() {
        let (sender, queue) = mpsc::channel(1_024);
        for tenant in 1..300 {
            let mut one = waiting(10, ENTRY);
            one.batch.puts[0].record.tenant = TenantId(uuid::Uuid::from_u128(tenant));
            sender.try_send(one).ok().unwrap();
        }
        let (group, _) = gathered(waiting(10, ENTRY), queue);
        assert!((30..=GROUP_ROWS_MAX / ROWS_OF_A_TENANT).contains(&group.len()), "{}", group.len());
    }

    #[test]
    fn who_comes_while_others_are_waited_for_is_of_the_group() {
        // The sender may be late on a busy machine: once in many tries it is not.
        let joined = (0..20).any(|_| {
            let (sender, queue) = mpsc::channel(1_024);
            for _ in 1..GATHERED_MIN {
                sender.try_send(waiting(1, RECORD)).ok().unwrap();
            }
            let mut turns = Turns::of(queue);
            let mut group = Gathering::begin(waiting(1, RECORD), &mut turns);
            assert_eq!(group.by_ref().take(GATHERED_MIN).count(), GATHERED_MIN);
            group.until = Some(Instant::now() + Duration::from_millis(100));
            let late = std::thread::spawn(move || sender.try_send(waiting(1, RECORD)).is_ok());
            let joined = group.count();
            assert!(late.join().unwrap());
            joined == 1
        });
        assert!(joined);
    }
}
