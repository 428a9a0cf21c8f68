//! Reading the index rows when the store opens, and what is read after that.
//!
//! One thread reads rows from sled while another puts them in order: each takes about as long. Kinds that are asked for
//! seldom, such as the log, may be read *later*: the store is open meanwhile, takes writes of every kind, and only who
//! asks for a page of such a kind waits. Nothing but the rows themselves is trusted, so that a restart finds the same
//! whether the process before was stopped or killed.
//!
//! Another form of rows to be found by: a prefix in [`FORMS`] and a function beside [`take_row`].

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, RwLock};
use sled::{IVec, Tree};
use tokio::sync::watch;

use super::failure::{unavailable, unreadable};
use super::files::Files;
use super::index::Index;
use super::packs;
use super::rows::{Address, Head, INDEX_PREFIX, PACK_PREFIX};
use crate::model::id::TenantId;
use crate::store::{Field, Kind, StoreError, Term};

/// Bytes of rows that are handed over at once, about.
const PORTION_BYTES: usize = 128 << 10;
/// Portions that wait to be put in order, at most.
const PORTIONS_MAX: usize = 16;
/// Changes that may be left to be applied while everybody waits.
const CHANGES_LEFT: usize = 256;

/// What rows to be found by begin with: packs of several records, and those of single ones. In this order: entries may go
/// from the one form to the other while they are read, and never back, and one that is met twice is taken once.
const FORMS: [&[u8]; 2] = [PACK_PREFIX, INDEX_PREFIX];

/// Rows as they were read, each its key and its value after their lengths.
#[derive(Default)]
struct Portion(Vec<u8>);

impl Portion {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value] {
            // Rows are far shorter than that.
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            self.0.extend_from_slice(&length.to_ne_bytes());
            self.0.extend_from_slice(part);
        }
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.0.as_slice();
        let mut part = move || {
            let (length, after) = rest.split_first_chunk()?;
            let (part, after) = after.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
            rest = after;
            Some(part)
        };
        std::iter::from_fn(move || Some((part()?, part()?)))
    }
}

/// Reads all index rows but those of some kinds.
pub fn read(tree: &Tree, but: &[Kind]) -> Result<Index, StoreError> {
    let mut index = Index::default();
    let ended = AtomicBool::new(false);
    for kind in kinds(tree)?.into_iter().filter(|kind| !but.contains(kind)) {
        index.merge(read_kind(tree, kind, &ended)?);
    }
    Ok(index)
}

/// Reads the index rows of a kind, unless that is to end early.
fn read_kind(tree: &Tree, kind: Kind, ended: &AtomicBool) -> Result<Index, StoreError> {
    std::thread::scope(|scope| {
        let (sender, portions) = bounded(PORTIONS_MAX);
        let (used, empty) = bounded(PORTIONS_MAX);
        let next = move || empty.try_recv().unwrap_or_default();
        let thread = std::thread::Builder::new().name("store reader".to_owned());
        let scan = move || scan(tree, (kind, ended), &sender, next);
        let scanning = thread.spawn_scoped(scope, scan).map_err(unavailable)?;
        let index = put_in_order(&portions, &used);
        // With nobody left to take them, no more rows are read.
        drop(portions);
        let scanned = scanning.join().map_err(|_| unavailable("a reader of the index panicked"))?;
        let index = index?;
        scanned.map(|()| index)
    })
}

fn scan(
    tree: &Tree,
    (kind, ended): (Kind, &AtomicBool),
    portions: &Sender<Portion>,
    empty: impl Fn() -> Portion,
) -> Result<(), StoreError> {
    let mut portion = Portion::default();
    let rows = FORMS.iter().flat_map(|form| tree.scan_prefix(beginning(form, kind.0)));
    for row in rows {
        let (key, value) = row.map_err(unreadable)?;
        portion.add(&key, &value);
        if portion.0.len() >= PORTION_BYTES {
            if ended.load(Ordering::Acquire) {
                return Err(StoreError::Closed);
            }
            if portions.send(std::mem::replace(&mut portion, empty())).is_err() {
                return Ok(());
            }
        }
    }
    let _ = portions.send(portion);
    Ok(())
}

fn put_in_order(portions: &Receiver<Portion>, used: &Sender<Portion>) -> Result<Index, StoreError> {
    let mut index = Index::default();
    for mut portion in portions {
        let cut_short = || StoreError::Damaged("a row is cut short".to_owned());
        let mut packed = Vec::new();
        for (key, value) in portion.rows() {
            if key.starts_with(PACK_PREFIX) {
                packed.extend(unpacked(key, value).ok_or_else(cut_short)?);
            } else {
                take_row(&mut index, key, value).ok_or_else(cut_short)?;
            }
        }
        take_packed(&mut index, packed);
        // Filled again: fresh memory has to be cleared first.
        portion.0.clear();
        let _ = used.try_send(portion);
    }
    Ok(index)
}

/// Adds what an index row says, without a copy of it.
fn take_row(index: &mut Index, key: &[u8], value: &[u8]) -> Option<()> {
    let (kind, key) = key.strip_prefix(INDEX_PREFIX)?.split_first()?;
    let (tenant, key) = key.split_first_chunk()?;
    let (order_ms, id) = key.split_first_chunk()?;
    let whose = (Kind(*kind), TenantId(uuid::Uuid::from_bytes(*tenant)));
    let place = (u64::from_be_bytes(*order_ms), std::str::from_utf8(id).ok()?);
    let (terms, value) = list::<16>(value)?;
    let (numbers, _) = list::<9>(value)?;
    let number = |[field, number @ ..]: &[u8; 9]| (Field(*field), u64::from_be_bytes(*number));
    index.put_parts(
        whose,
        place,
        (terms.iter().map(|term| Term(*term)), numbers.iter().map(number)),
    );
    Some(())
}

/// The entries of a pack, each with what it says of itself.
fn unpacked(key: &[u8], packed: &[u8]) -> Option<Vec<(Address, Head)>> {
    let entries = packs::entries(key, &IVec::from(packed)).ok()?.into_iter();
    entries.map(|(address, value)| Some((address, Head::read(&value).ok()?.0))).collect()
}

/// Adds them. They come by their ids, which are drawn when a run begins, and lie by the times when it ended: what is put
/// before others costs more than what comes last.
fn take_packed(index: &mut Index, mut entries: Vec<(Address, Head)>) {
    entries.sort_by_key(|(_, head)| head.order_ms);
    for (address, head) in entries {
        let whose = (address.kind, address.tenant);
        let found_by = (head.terms.iter().copied(), head.numbers.iter().copied());
        index.put_parts(whose, (head.order_ms, &address.id), found_by);
    }
}

fn list<const N: usize>(value: &[u8]) -> Option<(&[[u8; N]], &[u8])> {
    let (count, value) = value.split_first_chunk()?;
    let (list, rest) = value.split_at_checked(usize::from(u16::from_be_bytes(*count)) * N)?;
    Some((list.as_chunks().0, rest))
}

/// The kinds that have rows to be found by, found by leaping from one to the next.
fn kinds(tree: &Tree) -> Result<BTreeSet<Kind>, StoreError> {
    let mut kinds = BTreeSet::new();
    for form in FORMS {
        let mut next = Some(0);
        while let Some(kind) = next {
            let row = tree.range(beginning(form, kind)..).next().transpose();
            let row = row.map_err(unreadable)?;
            let found = row.and_then(|(key, _)| key.strip_prefix(form)?.first().copied());
            kinds.extend(found.map(Kind));
            next = found.and_then(|kind| kind.checked_add(1));
        }
    }
    Ok(kinds)
}

fn beginning(form: &[u8], kind: u8) -> Vec<u8> {
    [form, &[kind]].concat()
}

/// The kinds that are read while the store is open already.
pub struct Later {
    kinds: Vec<Kind>,
    /// How it ended, once it has.
    outcome: watch::Sender<Option<Result<(), StoreError>>>,
    ended: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Later {
    /// Begins to read these kinds. Nothing may be written before this returns.
    pub fn begin(
        kinds: &[Kind],
        files: &Files,
        index: &Arc<RwLock<Index>>,
    ) -> Result<Arc<Self>, StoreError> {
        let outcome = watch::Sender::new(kinds.is_empty().then_some(Ok(())));
        let (ended, thread) = (AtomicBool::new(false), Mutex::default());
        let later = Arc::new(Self { kinds: kinds.to_owned(), outcome, ended, thread });
        if kinds.is_empty() {
            return Ok(later);
        }
        for kind in kinds {
            index.write().await_kind(*kind);
        }
        let (own, index, live) = (Arc::clone(&later), Arc::clone(index), files.live());
        let read = move || {
            own.conclude(&index, || {
                let live = live;
                own.kinds.iter().try_for_each(|kind| own.read(*kind, &live.tree, &index))
            });
        };
        let thread = std::thread::Builder::new().name("store index".to_owned());
        *later.thread.lock() = Some(thread.spawn(read).map_err(unavailable)?);
        Ok(later)
    }

    /// Reads, and tells whoever waits how that ended. If it panicked they are told too: they would wait for ever.
    fn conclude(&self, index: &RwLock<Index>, read: impl FnOnce() -> Result<(), StoreError>) {
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|_| Err(unavailable("reading the index panicked")));
        if outcome.is_err() {
            // Nobody takes in any more what is kept aside for those that were not read.
            self.kinds.iter().for_each(|kind| index.write().complete(*kind, Index::default()));
        }
        match &outcome {
            Ok(()) => tracing::info!(indexed = ?began.elapsed(), "the rest of the store is read"),
            Err(_) if self.ended.load(Ordering::Acquire) => {}
            Err(error) => tracing::error!(%error, "a part of the store cannot be read"),
        }
        self.outcome.send_replace(Some(outcome));
    }

    fn read(&self, kind: Kind, tree: &Tree, index: &RwLock<Index>) -> Result<(), StoreError> {
        let mut read = read_kind(tree, kind, &self.ended)?;
        // Most of what was written meanwhile is applied while nobody waits.
        loop {
            let changes = index.write().take_changes(kind);
            let few = changes.len() <= CHANGES_LEFT;
            read.apply(kind, changes);
            if few {
                break;
            }
        }
        index.write().complete(kind, read);
        Ok(())
    }

    /// Waits until pages of a kind can be had.
    pub async fn wait(&self, kind: Kind) -> Result<(), StoreError> {
        if !self.kinds.contains(&kind) {
            return Ok(());
        }
        let mut outcome = self.outcome.subscribe();
        let outcome = outcome.wait_for(Option::is_some).await.map_err(unavailable)?;
        outcome.clone().unwrap_or(Ok(()))
    }

    /// What is wrong with it, as far as is known.
    pub fn fault(&self) -> Option<StoreError> {
        self.outcome.borrow().clone()?.err()
    }

    /// Ends it, if it has not.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("reading the index ended by a panic");
        }
    }
}
