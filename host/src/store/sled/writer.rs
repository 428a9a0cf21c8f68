//! The one thread that writes: batches in groups, each group synced once before any of it is acknowledged.
//!
//! A group is kept small ([`super::log`] says why): the pieces of long bodies are written before it and removed after it,
//! with a note in the store as long as they belong to no record. [`super::large`] has others take their turns between
//! them, and [`super::backlog`] keeps what is to be removed. After any failure to write nothing is acknowledged any more:
//! what a failed sync lost cannot be known, and trying again would not find it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::backlog::Backlog;
use super::failure::unreadable;
use super::files::Files;
use super::group::{Group, IndexChange, address};
use super::guard::Guard;
use super::index::Index;
use super::log::Log;
use super::moments::{Changed, Moments};
use super::packs;
use super::progress::Progress;
use super::rows::{Address, Head, Left, read_unique, unique_key};
use super::space::Space;
use super::turns::Turns;
use super::waiting::Waiting;
use crate::model::id::TenantId;
use crate::store::{Batch, Expect, Kind, Put, Record, Removal, StoreError, Unique};

/// The writing end of the store.
pub struct Writer {
    /// Where it writes.
    pub log: Log,
    /// What readers search in; changed once a group is durable.
    pub index: Arc<RwLock<Index>>,
    /// Tells readers when they see a group in part.
    pub moments: Arc<Moments>,
    /// Raised by the first failure.
    pub failed: Arc<AtomicBool>,
    /// The store's files, which compacting makes anew.
    pub files: Arc<Files>,
    /// What protects rows; nothing is taken before it is there.
    pub guard: Arc<Mutex<Option<Guard>>>,
    /// What there is to write on.
    pub space: Arc<Space>,
    /// The versions of what is made.
    pub versions: Versions,
    /// Tells others whether it gets on.
    pub progress: Arc<Progress>,
    /// Pieces that are still to be removed.
    pub backlog: Backlog,
    /// Whether whoever asked for a copy has waited for those that there were.
    pub may_copy: bool,
}

/// The versions that new records begin at. Whoever read a record before it was removed must not take one for it that has
/// the same address: none begins at a version that an earlier one of its address came to.
pub struct Versions(pub(super) u64);

impl Versions {
    /// Updates of one record between two removals of any, at the most: more would take longer than any request does.
    pub const STEP: u64 = 1 << 20;
    /// Bits of the number that a process begins with.
    const PROCESS_BITS: u32 = 40;

    /// Those of a new process. What one before it has given is not known, so each begins somewhere else.
    pub fn begin() -> Self {
        let drawn = if cfg!(test) { 0 } else { RandomState::new().hash_one(0_u8) };
        let process = drawn & ((1 << Self::PROCESS_BITS) - 1);
        Self(1 + process * Self::STEP)
    }

    /// What was made so far may be gone.
    fn step(&mut self) {
        self.0 += Self::STEP;
    }
}

impl Writer {
    /// Writes until every sender is gone.
    pub fn run(mut self, mut turns: Turns) {
        while let Some(first) = self.next(&mut turns) {
            self.progress.begin();
            self.take(first, &mut turns);
        }
        self.progress.begin();
        // Nothing is left for the next start to do, as far as that is known.
        if !self.failed.load(Ordering::Acquire)
            && let Err(error) = self.log.close()
        {
            // Nobody waits for it, and the next start has what it would have written.
            tracing::error!(%error, "the store could not be closed as it should");
            self.fail();
        }
    }

    /// Notes that a write failed: nothing is acknowledged any more.
    pub(super) fn fail(&self) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.files.note_failure();
        }
    }

    /// Commits batches as a group; one that is refused does not harm the others. Gives pieces that were written before the
    /// group, of which no record came.
    pub(super) fn commit(
        &mut self,
        waiting: impl IntoIterator<Item = Waiting>,
        mut group: Group,
    ) -> Vec<Left> {
        let (space, guard) = (Arc::clone(&self.space), Arc::clone(&self.guard));
        let mut left = space.look();
        let (mut outcomes, mut unborn) = (Vec::new(), Vec::new());
        // Held until the group is durable: what the guard tells others is so on the disk too, unless a write failed.
        let mut guard = guard.lock();
        let Some(guard) = guard.as_mut() else {
            for one in waiting {
                let early = "it is not protected yet".to_owned();
                let _ = one.done.send(Err(StoreError::Unavailable(early)));
            }
            return group.written;
        };
        for one in waiting {
            if group.stands_before(&one.batch) {
                let (full, told) = (std::mem::take(&mut group), std::mem::take(&mut outcomes));
                unborn.append(&mut self.settle(full, told, guard));
                group = Group::new(self.versions.0);
            }
            // What is written has taken its space.
            let room = if group.is_written_first { Ok(()) } else { left.take(&one.batch) };
            let outcome = room.and_then(|()| self.check(&one.batch, &group, guard));
            let outcome = outcome.and_then(|found| group.add(&one, found, (&self.log.tree, guard)));
            outcomes.push((one, outcome));
        }
        unborn.append(&mut self.settle(group, outcomes, guard));
        unborn
    }

    /// Makes a group durable, and tells everybody.
    fn settle(
        &mut self,
        group: Group,
        outcomes: Vec<(Waiting, Result<(), StoreError>)>,
        guard: &mut Guard,
    ) -> Vec<Left> {
        if group.removes {
            self.versions.step();
        }
        let durable = if self.failed.load(Ordering::Acquire) {
            Err(StoreError::Failed)
        } else {
            self.make_durable(group, guard)
        };
        if durable.is_err() {
            self.fail();
        }
        let (durable, unborn) = match durable {
            Ok(unborn) => (Ok(()), unborn),
            // The next start removes what it finds.
            Err(error) => (Err(error), Vec::new()),
        };
        for (one, outcome) in outcomes {
            // Nobody waits any more when a request was cut off; the write stands.
            let _ = one.done.send(durable.clone().and(outcome));
        }
        unborn
    }

    /// Gives the pieces of which no record came.
    fn make_durable(
        &mut self,
        mut group: Group,
        guard: &mut Guard,
    ) -> Result<Vec<Left>, StoreError> {
        let unborn = std::mem::take(&mut group.written);
        if group.changes.is_empty() {
            return Ok(unborn);
        }
        if group.replaces {
            self.files.has_removed.store(true, Ordering::Release);
        }
        group.finish(&self.log.tree)?;
        guard.write(&mut group.rows)?;
        self.log.write_ahead(&group.ahead)?;
        let changed = Changed::of(group.changes.iter().map(IndexChange::whose));
        let written = self.log.write_seen(group.rows, || self.moments.begin(changed));
        if written.is_ok() {
            self.show(group.changes);
        }
        self.moments.end(changed);
        written?;
        self.backlog.add(group.behind);
        Ok(unborn)
    }

    /// Has what a group changes be found.
    fn show(&self, changes: Vec<IndexChange>) {
        let mut index = self.index.write();
        for change in changes {
            match change {
                IndexChange::Put(row) => index.put(row),
                IndexChange::Remove(kind, tenant, position) => {
                    index.remove(kind, tenant, &position);
                }
            }
        }
    }

    /// Whether a batch finds everything as it expects; gives the heads of what it replaces or removes.
    pub(super) fn check(
        &self,
        batch: &Batch,
        group: &Group,
        guard: &Guard,
    ) -> Result<Vec<Option<Head>>, StoreError> {
        let mut entries: HashMap<TenantId, u64> = HashMap::new();
        let mut found = Vec::with_capacity(batch.puts.len() + batch.removals.len());
        for Removal { kind, tenant, id, expect } in &batch.removals {
            let address = Address { kind: *kind, tenant: *tenant, id: id.clone() };
            let head = self.expected(&address, *expect, group)?;
            if let Some(link) = head.as_ref().and_then(Head::link) {
                // A log is removed from its beginning on, or the chain would have a gap.
                let first = entries.entry(*tenant).or_insert_with(|| guard.first(*tenant));
                if link.sequence != *first {
                    return Err(StoreError::Conflict { kind: *kind, id: id.clone() });
                }
                *first += 1;
            }
            found.push(head);
        }
        let mut seen = HashSet::with_capacity(batch.puts.len());
        for Put { record, expect } in &batch.puts {
            let address = address(record);
            if !seen.insert((record.kind, record.tenant, record.id.as_str())) {
                let (kind, id) = (record.kind, record.id.clone());
                return Err(if expect.is_absent() {
                    StoreError::Exists { kind, id }
                } else {
                    StoreError::Conflict { kind, id }
                });
            }
            let head = self.expected(&address, *expect, group)?;
            for unique in &record.uniques {
                self.free(record, *unique, batch, group)?;
            }
            found.push(head);
        }
        Ok(found)
    }

    fn expected(
        &self,
        address: &Address,
        expect: Expect,
        group: &Group,
    ) -> Result<Option<Head>, StoreError> {
        let head = match group.heads.get(address) {
            Some(head) => head.clone(),
            None if expect.is_drawn() => None,
            None => self.head(address)?,
        };
        let (kind, id) = (address.kind, address.id.clone());
        match (expect, &head) {
            (expect, Some(_)) if expect.is_absent() => Err(StoreError::Exists { kind, id }),
            (Expect::Version(version), found)
                if found.as_ref().is_none_or(|found| found.version != version) =>
            {
                Err(StoreError::Conflict { kind, id })
            }
            _ => Ok(head),
        }
    }

    fn head(&self, address: &Address) -> Result<Option<Head>, StoreError> {
        let Some((value, packed)) = packs::look_up(&self.log.tree, address)? else {
            return Ok(None);
        };
        let (head, _) = Head::read(&value)?;
        Ok(Some(Head { packed, ..head }))
    }

    /// Whether no other record has this value, or the batch takes it away from that one.
    fn free(
        &self,
        record: &Record,
        unique: Unique,
        batch: &Batch,
        group: &Group,
    ) -> Result<(), StoreError> {
        let kind = record.kind;
        let by = if let Some(by) = group.uniques.get(&(kind, unique)) {
            by.clone()
        } else {
            let value = self.log.tree.get(unique_key(kind, unique)).map_err(unreadable)?;
            value.map(|value| read_unique(&value)).transpose()?
        };
        let taken_by =
            |put: &Put| put.record.uniques.contains(&unique) && !same(&put.record, record);
        let twice = batch.puts.iter().find(|put| put.record.kind == kind && taken_by(put));
        if let Some(put) = twice {
            let by = (put.record.tenant, put.record.id.clone());
            return Err(StoreError::Taken { kind, unique, by });
        }
        match by {
            Some(by) if by != (record.tenant, record.id.clone()) && !leaves(batch, kind, &by) => {
                Err(StoreError::Taken { kind, unique, by })
            }
            _ => Ok(()),
        }
    }
}

/// Whether the batch removes or rewrites this record.
fn leaves(batch: &Batch, kind: Kind, (tenant, id): &(TenantId, String)) -> bool {
    let removed = |gone: &Removal| gone.kind == kind && gone.tenant == *tenant && gone.id == *id;
    let rewritten =
        |put: &Put| put.record.kind == kind && put.record.tenant == *tenant && put.record.id == *id;
    batch.removals.iter().any(removed) || batch.puts.iter().any(rewritten)
}

fn same(one: &Record, other: &Record) -> bool {
    (one.kind, one.tenant, &one.id) == (other.kind, other.tenant, &other.id)
}
