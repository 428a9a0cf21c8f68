//! Memory: what one run may hold, what one owner's runs may hold together, and what all may. What the host keeps for a run
//! until it takes it counts as its owner's too.
//!
//! Every slot comes with a little memory of its own, set aside when the server starts, so that a small formula counts
//! nothing. What a run grows beyond it is taken from the [`Room`] of all, by way of its owner's part of it, in steps, and
//! goes back when the run ends, however it ends.

use std::error::Error as StdError;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use wasmtime::{Error, OutOfMemory, ResourceLimiter, Result};

use super::engine::TABLE_ELEMENTS_MAX;
use crate::limits::RUN_MEMORY_BYTES_FIRST;

#[cfg(test)]
mod tests;

/// Bytes that a growing run takes at a time, if there are so many: formulas grow by pages of 64 KiB.
const STEP_BYTES: u64 = 1 << 20;

/// Why a run is refused memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It holds what its formula may.
    Formula,
    /// Its owner's runs hold what they may.
    Owner,
    /// All runs together hold what they may.
    Host,
    /// The system gave none, although all of them may have more.
    System,
}

/// What the system gives none of: memory or addresses for it, or files, of which the image of a memory is one.
const WANTS: [Errno; 3] = [Errno::NOMEM, Errno::MFILE, Errno::NFILE];

/// Whether something failed because the system gave no memory, or no addresses for it: of a formula that says nothing.
pub fn is_of_the_system(error: &Error) -> bool {
    error.is::<OutOfMemory>() || error.chain().any(is_a_want)
}

/// The same of one cause: wasmtime passes on the system's own number, or what the standard library made of it.
fn is_a_want(cause: &(dyn StdError + 'static)) -> bool {
    match cause.downcast_ref::<io::Error>() {
        Some(error) => is_a_want_of_io(error),
        None => cause.downcast_ref::<Errno>().is_some_and(|number| WANTS.contains(number)),
    }
}

/// The same of an error of input and output.
pub fn is_a_want_of_io(error: &io::Error) -> bool {
    // Without a number when it is the standard library itself that has no memory.
    error.kind() == io::ErrorKind::OutOfMemory
        || Errno::from_io_error(error).is_some_and(|number| WANTS.contains(&number))
}

/// Memory of all runs together.
#[derive(Debug)]
pub struct Room {
    /// Bytes that each run has without asking.
    first: u64,
    /// Bytes that all may take beyond those.
    bytes_max: u64,
    taken: AtomicU64,
    /// What all runs of the queue may still come to take.
    promised: AtomicU64,
}

impl Room {
    /// So many bytes for all, a little of them set aside for each slot: never more than half in all.
    pub fn new(bytes: u64, slots: u32) -> Self {
        let slots = u64::from(slots.max(1));
        let first = RUN_MEMORY_BYTES_FIRST.min(bytes / 2 / slots);
        let (taken, promised) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { first, bytes_max: bytes - first * slots, taken, promised }
    }
}

/// An owner's part of it: half at most.
#[derive(Debug)]
pub struct Part {
    room: Arc<Room>,
    taken: AtomicU64,
    /// What its runs of the queue may still come to take.
    promised: AtomicU64,
}

impl Part {
    /// The part of an owner that has nothing yet.
    pub fn of(room: &Arc<Room>) -> Self {
        Self { room: Arc::clone(room), taken: AtomicU64::new(0), promised: AtomicU64::new(0) }
    }

    /// Takes so many bytes, if there are so many.
    pub fn take(&self, bytes: u64) -> std::result::Result<(), Refusal> {
        add(&self.taken, bytes, self.room.bytes_max / 2).ok_or(Refusal::Owner)?;
        add(&self.room.taken, bytes, self.room.bytes_max).ok_or_else(|| {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
            Refusal::Host
        })
    }

    /// Promises a run of the queue what it may come to hold, if there is as much beside what its owner's runs, and all, hold
    /// and others of the queue are promised; no more than three quarters of what the part may have, since what the host keeps
    /// for it is to have some too. A promise takes nothing: it holds back other runs of the queue alone.
    pub fn promise(part: &Arc<Self>, bytes: u64) -> std::result::Result<Promise, Refusal> {
        let Room { first, bytes_max, taken, promised } = &*part.room;
        let most = bytes_max / 2;
        let bytes = bytes.saturating_sub(*first).min(most / 4 * 3);
        let held = part.taken.load(Ordering::Relaxed);
        add(&part.promised, bytes, most.saturating_sub(held)).ok_or(Refusal::Owner)?;
        let held = taken.load(Ordering::Relaxed);
        add(promised, bytes, bytes_max.saturating_sub(held)).ok_or_else(|| {
            part.promised.fetch_sub(bytes, Ordering::Relaxed);
            Refusal::Host
        })?;
        Ok(Promise { part: Arc::clone(part), bytes })
    }

    /// Gives back what was taken.
    pub fn give_back(&self, bytes: u64) {
        self.room.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that a run may still come to take, as far as its owner's part was promised to it. Over when this is dropped.
#[derive(Debug)]
pub struct Promise {
    part: Arc<Part>,
    bytes: u64,
}

impl Promise {
    /// So much of it is taken now.
    fn keep(&mut self, taken: u64) {
        let kept = taken.min(self.bytes);
        self.bytes -= kept;
        self.part.promised.fetch_sub(kept, Ordering::Relaxed);
        self.part.room.promised.fetch_sub(kept, Ordering::Relaxed);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep(self.bytes);
    }
}

/// Adds to a counter, unless it would go past its most.
fn add(counter: &AtomicU64, bytes: u64, most: u64) -> Option<()> {
    let sum = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= most);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok().map(|_| ())
}

/// Bytes of each answer that need no room: of all that may be under way together, some tens of MiB.
const KEPT_BYTES_FREE: u64 = 16 << 10;

/// What the host keeps for a run, such as an answer that it has not taken yet. It goes back when this is dropped.
#[derive(Debug, Default)]
pub struct Kept {
    part: Option<Arc<Part>>,
    bytes: AtomicU64,
    refused: OnceLock<Refusal>,
}

impl Kept {
    /// Nothing yet, of an owner's part; without one it is bounded by nothing.
    pub fn of(part: Option<Arc<Part>>) -> Self {
        Self { part, bytes: AtomicU64::new(0), refused: OnceLock::new() }
    }

    /// Takes so much more, if there is so much. Only one reader grows it.
    pub fn grow(&self, bytes: usize) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before.saturating_add(bytes as u64);
        let more = counted(after) - counted(before);
        let part = self.part.as_ref().filter(|_| more > 0);
        let taken = part.map_or(Ok(()), |part| part.take(more));
        match taken {
            Ok(()) => self.bytes.store(after, Ordering::Relaxed),
            Err(refusal) => {
                self.refused.get_or_init(|| refusal);
            }
        }
        taken.is_ok()
    }

    /// The same of so much that there may never be as much: it counts no more than there is room for beside this run, if its
    /// owner has nothing else.
    pub fn grow_beside(&self, run: &Memory, bytes: usize) -> bool {
        let most = (run.part.room.bytes_max / 2).saturating_sub(run.taken);
        self.grow(bytes.min(usize::try_from(most).unwrap_or(usize::MAX)))
    }

    /// Why there was no room for all of it, if there was none.
    pub(super) fn refused(&self) -> Option<Refusal> {
        self.refused.get().copied()
    }
}

/// What counts of so many bytes. The other server has done by then what it was asked for: a short answer is never thrown
/// away for what others hold.
fn counted(bytes: u64) -> u64 {
    bytes.saturating_sub(KEPT_BYTES_FREE)
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            part.give_back(counted(*self.bytes.get_mut()));
        }
    }
}

/// Memory of one run: all of its memories together. What it took goes back when this is dropped.
#[derive(Debug)]
pub struct Memory {
    part: Arc<Part>,
    /// Bytes it took from its owner's part.
    taken: u64,
    bytes: u64,
    bytes_max: u64,
    /// The most it held.
    pub peak_bytes: u64,
    /// Why it was refused more, the last time it was: what it does then is for want of memory. That stays so when it goes
    /// on without. A formula gives up for want of memory by a trap that may have any other cause, sooner or later, and
    /// after much else; so one that traps in the end is told of the memory it was refused first.
    pub refused: Option<Refusal>,
    /// What it was promised.
    promise: Option<Promise>,
}

impl Memory {
    /// For a run of a formula that may hold so many bytes.
    pub fn new(part: Arc<Part>, bytes_max: u64) -> Self {
        Self { part, taken: 0, bytes: 0, bytes_max, peak_bytes: 0, refused: None, promise: None }
    }

    /// The same, with what it was promised of the same part.
    pub fn with(mut self, promise: Option<Promise>) -> Self {
        self.promise = promise;
        self
    }

    fn hold(&mut self, bytes: u64) -> std::result::Result<(), Refusal> {
        if bytes > self.bytes_max {
            return Err(Refusal::Formula);
        }
        let missing = bytes.saturating_sub(self.part.room.first + self.taken);
        if missing > 0 {
            let step = missing.next_multiple_of(STEP_BYTES);
            // What is too small for a step may do without.
            let taken = self.part.take(step).map(|()| step);
            let taken = taken.or_else(|_| self.part.take(missing).map(|()| missing))?;
            self.taken += taken;
            self.promise.iter_mut().for_each(|promise| promise.keep(taken));
        }
        self.bytes = bytes;
        self.peak_bytes = self.peak_bytes.max(bytes);
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.part.give_back(self.taken);
        }
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        declared: Option<usize>,
    ) -> Result<bool> {
        // The engine refuses what the formula itself has ruled out, and tells only of what the system refuses.
        if declared.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        let held = self.hold(self.bytes + (desired as u64).saturating_sub(current as u64));
        self.refused = held.err().or(self.refused);
        Ok(held.is_ok())
    }

    fn memory_grow_failed(&mut self, error: Error) -> Result<()> {
        if is_of_the_system(&error) {
            self.refused = Some(Refusal::System);
        }
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        let fits = desired <= TABLE_ELEMENTS_MAX;
        if !fits {
            self.refused = Some(Refusal::Formula);
        }
        Ok(fits)
    }
}
