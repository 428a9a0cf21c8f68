//! Slots: how many formulas run at the same time, in all and for each owner.
//!
//! An owner is whoever runs are counted for; here it is a number and nothing else. A call takes one of its owner's slots
//! first and one of all slots then, so that an owner that uses up its own stands in nobody's way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use super::call::Failure;
use super::fair::Account;
use super::memory::{Memory, Part, Promise, Refusal, Room};

#[cfg(test)]
mod tests;

/// Owners remembered before the idle ones are looked for.
const OWNERS_MIN: usize = 64;
/// Formulas of an owner of which it is remembered that their runs wait for memory.
const WAITS_MAX: usize = 256;

/// All slots. Cloning shares them.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    count: u32,
    all: Semaphore,
    per_owner: u32,
    queue_per_owner: u32,
    room: Arc<Room>,
    owners: RwLock<Owners>,
}

struct Owners {
    by_number: HashMap<u128, Arc<Owner>>,
    /// How many there may be before the idle ones go.
    clean_at: usize,
}

struct Owner {
    slots: Semaphore,
    /// Calls that wait for a slot of the owner's.
    waiting: AtomicU32,
    account: Account,
    /// What its runs hold of the memory of all.
    memory: Arc<Part>,
    /// Since when runs of the queue wait for memory, and when one last did, by their formula.
    waits: Mutex<HashMap<u128, [Instant; 2]>>,
}

impl Owner {
    /// Whether a run of this formula waits for memory for so long that it is to begin without; the next waits as long again.
    fn has_waited(&self, formula: u128, longest: Duration) -> bool {
        let mut waits = self.waits.lock();
        if waits.len() >= WAITS_MAX && !waits.contains_key(&formula) {
            // They wait anew.
            waits.clear();
        }
        let now = Instant::now();
        let [since, last] = waits.entry(formula).or_insert([now, now]);
        // Those that waited do no more, and have ended otherwise: a look takes a slot, and other runs have those for a while,
        // but not for so long.
        if last.elapsed() > 2 * longest {
            *since = now;
        }
        *last = now;
        let has_waited = since.elapsed() >= longest;
        if has_waited {
            waits.remove(&formula);
        }
        has_waited
    }
}

/// A slot that is taken, for one run. Free again when it is dropped.
pub struct Slot {
    slots: Slots,
    owner: Arc<Owner>,
    number: u128,
    /// Memory that it was promised before it began.
    promise: Option<Promise>,
}

impl Slots {
    /// `all` slots, `per_owner` of them at most for one owner, and `queue_per_owner` calls that wait for those; `room` is
    /// the memory of all.
    pub fn new(all: u32, per_owner: u32, queue_per_owner: u32, room: Room) -> Self {
        let owners = Owners { by_number: HashMap::new(), clean_at: OWNERS_MIN };
        Self(Arc::new(Inner {
            count: all,
            all: Semaphore::new(all as usize),
            per_owner,
            queue_per_owner,
            room: Arc::new(room),
            owners: RwLock::new(owners),
        }))
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.count
    }

    /// A slot for a run of this owner, if one is free now and nobody waits for it.
    pub fn try_acquire(&self, number: u128) -> Option<Slot> {
        self.take(number, &self.owner(number))
    }

    /// Waits for a slot for a run of this owner. [`Failure::Saturated`] when too many wait already,
    /// [`Failure::NoSlot`] when none is free in time.
    pub async fn acquire(&self, number: u128, timeout: Duration) -> Result<Slot, Failure> {
        let owner = self.owner(number);
        if let Some(slot) = self.take(number, &owner) {
            return Ok(slot);
        }
        let both = async {
            let own = if let Ok(own) = owner.slots.try_acquire() {
                own
            } else {
                let _place = Place::join(&owner.waiting, self.0.queue_per_owner)?;
                owner.slots.acquire().await.ok()?
            };
            // Here wait at most as many as the owner has slots.
            let all = self.0.all.acquire().await.ok()?;
            own.forget();
            all.forget();
            Some(())
        };
        match tokio::time::timeout(timeout, both).await {
            Ok(Some(())) => Ok(self.taken(number, &owner)),
            Ok(None) => Err(Failure::Saturated),
            Err(_) => Err(Failure::NoSlot),
        }
    }

    fn take(&self, number: u128, owner: &Arc<Owner>) -> Option<Slot> {
        let own = owner.slots.try_acquire().ok()?;
        let all = self.0.all.try_acquire().ok()?;
        own.forget();
        all.forget();
        Some(self.taken(number, owner))
    }

    fn taken(&self, number: u128, owner: &Arc<Owner>) -> Slot {
        Slot { slots: self.clone(), owner: Arc::clone(owner), number, promise: None }
    }

    /// The one entry of an owner.
    fn owner(&self, number: u128) -> Arc<Owner> {
        if let Some(owner) = self.0.owners.read().by_number.get(&number) {
            return Arc::clone(owner);
        }
        let mut owners = self.0.owners.write();
        if owners.by_number.len() >= owners.clean_at {
            // Whoever runs or waits holds its owner; an entry that nobody holds says nothing, unless of what is to be made up for.
            let says_something =
                |owner: &Arc<Owner>| Arc::strong_count(owner) > 1 || owner.account.has_owed();
            owners.by_number.retain(|_, owner| says_something(owner));
            owners.clean_at = OWNERS_MIN.max(2 * owners.by_number.len());
        }
        let made = || {
            Arc::new(Owner {
                slots: Semaphore::new(self.0.per_owner as usize),
                waiting: AtomicU32::new(0),
                account: Account::default(),
                memory: Arc::new(Part::of(&self.0.room)),
                waits: Mutex::default(),
            })
        };
        Arc::clone(owners.by_number.entry(number).or_insert_with(made))
    }
}

impl Slot {
    /// Whose run it is for, and what that owner's runs have used.
    pub(super) fn owner(&self) -> (u128, &Account) {
        (self.number, &self.owner.account)
    }

    /// What that owner's runs may hold of the memory of all.
    pub(super) fn memory(&self) -> Arc<Part> {
        Arc::clone(&self.owner.memory)
    }

    /// Whether a run of the queue may begin that may come to hold so many bytes: with these promised, or since runs of its
    /// formula, which here is a number, have waited for so long. If not, whether its owner's runs have the memory or all.
    pub fn await_memory(
        &mut self,
        formula: u128,
        bytes_max: u64,
        longest: Duration,
    ) -> Result<(), Refusal> {
        match Part::promise(&self.owner.memory, bytes_max) {
            Ok(promise) => {
                self.promise = Some(promise);
                self.owner.waits.lock().remove(&formula);
                Ok(())
            }
            Err(_) if self.owner.has_waited(formula, longest) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// The memory of the run, which may hold so many bytes.
    pub(super) fn memory_of_run(&mut self, bytes_max: u64) -> Memory {
        Memory::new(self.memory(), bytes_max).with(self.promise.take())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.0.all.add_permits(1);
        self.owner.slots.add_permits(1);
    }
}

/// A place among those that wait; given up when dropped, however the wait ends.
struct Place<'w>(&'w AtomicU32);

impl<'w> Place<'w> {
    fn join(waiting: &'w AtomicU32, most: u32) -> Option<Self> {
        let place = Self(waiting);
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
