//! What tenants share of the server's memory: one of them has at most half of it, or one thing that is larger.
//!
//! Nobody waits for room, so that nobody who is slow holds up another: who finds none is refused, and gives back what it
//! had. What is done already is not refused any more: its answer counts beyond that, and while answers alone come to more
//! than its half, what the tenant asks for next is refused instead. JSON counts as much as it takes once it is read, which
//! may be many times its text. Of what little each request has nothing counts.
//!
//! What is opened for a request, or for a run, counts by itself ([`opened`]) within [`sharing`], until that is over.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Error;
use super::apart::able;
use super::authentication::asked;
use crate::model::id::TenantId;
use crate::model::weight;

tokio::task_local! {
    /// The share of what is under way, once it is known whose it is.
    static OPENED: RefCell<Option<Share>>;
}

/// Carries out what has this share, or gets one by [`share_in`]; gives what it has of it in the end. What is much of it may go
/// on [`apart`](super::apart).
pub async fn sharing<F: Future>(share: Option<Share>, run: F) -> (F::Output, Option<Share>) {
    OPENED.scope(RefCell::new(share), asked(able(giving_back(run)))).await
}

/// The same of what all tenants wait for: it stands in no row of one.
pub async fn sharing_out_of_row<F: Future>(
    share: Option<Share>,
    run: F,
) -> (F::Output, Option<Share>) {
    OPENED.scope(RefCell::new(share), giving_back(run)).await
}

async fn giving_back<F: Future>(run: F) -> (F::Output, Option<Share>) {
    let output = run.await;
    (output, OPENED.with(RefCell::take))
}

/// Carries out what opens something that does not count.
pub async fn uncounted<T>(run: impl Future<Output = T>) -> T {
    OPENED.scope(RefCell::new(None), run).await
}

/// Has what is under way share in a tenant's memory from here on.
pub fn share_in(share: Share) {
    // What is under way for nobody's request counts as nobody's.
    let _ = OPENED.try_with(|opened| opened.replace(Some(share)));
}

/// Counts so many bytes that are opened at once. However many they are, there is room for a tenant that has nothing else;
/// and for little more beside them.
pub fn opened(bytes: usize) -> Result<(), NoRoom> {
    let open = |opened: &RefCell<Option<Share>>| match opened.borrow_mut().as_mut() {
        Some(share) => share.grow(share.bytes.saturating_add(bytes), true),
        None => Ok(()),
    };
    OPENED.try_with(open).unwrap_or(Ok(()))
}

/// How many bytes were opened so far.
pub fn opened_so_far() -> usize {
    let bytes = |opened: &RefCell<Option<Share>>| opened.borrow().as_ref().map(|share| share.bytes);
    OPENED.try_with(bytes).ok().flatten().unwrap_or_default()
}

/// Of what was opened so far, each of which counts twice, one of the two is gone.
pub fn let_go_of_half() {
    let_go_until(|bytes| bytes / 2);
}

/// What was opened so far is gone, but for so many bytes that were made of it.
pub fn let_go_of_all_but(bytes: usize) {
    let_go_until(|_| bytes);
}

fn let_go_until(left: impl FnOnce(usize) -> usize) {
    let _ = OPENED.try_with(|opened| {
        if let Some(share) = opened.borrow_mut().as_mut() {
            share.hold(left(share.bytes));
        }
    });
}

/// Memory that is shared. Cloning shares it.
#[derive(Clone)]
pub struct Shares(Arc<Inner>);

struct Inner {
    bytes_max: usize,
    /// Bytes of each share that do not count.
    free: usize,
    held: Mutex<Held>,
    /// As `held` has it, to be looked at for every request.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Held {
    /// Of all tenants, but of none more than it may have: whoever has more is in nobody else's way.
    bytes: usize,
    by_tenant: HashMap<TenantId, Own>,
}

/// What one tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Own {
    bytes: usize,
    /// Of these, of answers that are not taken yet.
    answers: usize,
}

/// What one request has of it; given back when it is dropped.
pub struct Share {
    shares: Shares,
    tenant: TenantId,
    /// What it has, and what of that counts.
    bytes: usize,
    counted: usize,
    /// Whether it is an answer by now.
    is_answer: bool,
}

/// Why a share cannot be as large as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Its tenant has all that it may.
    OfTenant,
    /// All tenants together have.
    OfAll,
}

impl Inner {
    /// What one tenant may have.
    fn part(&self) -> usize {
        self.bytes_max / 2
    }

    /// Has a tenant hold so much instead of what it held.
    fn set(&self, held: &mut Held, tenant: TenantId, own: Own) {
        let before = match held.by_tenant.entry(tenant) {
            Entry::Vacant(_) if own == Own::default() => own,
            Entry::Vacant(none) => {
                none.insert(own);
                Own::default()
            }
            Entry::Occupied(some) if own == Own::default() => some.remove(),
            Entry::Occupied(mut some) => some.insert(own),
        };
        let part = self.part();
        held.bytes = (held.bytes + own.bytes.min(part)).saturating_sub(before.bytes.min(part));
        self.bytes.store(held.bytes, Ordering::Relaxed);
    }
}

impl Held {
    fn of(&self, tenant: TenantId) -> Own {
        self.by_tenant.get(&tenant).copied().unwrap_or_default()
    }
}

impl Shares {
    /// So many bytes; the first few of each share do not count.
    pub fn new(bytes_max: usize, free: usize) -> Self {
        let (held, bytes) = (Mutex::default(), AtomicUsize::default());
        Self(Arc::new(Inner { bytes_max, free, held, bytes }))
    }

    /// The share of a tenant's request that has nothing yet.
    pub fn share(&self, tenant: TenantId) -> Share {
        Share { shares: self.clone(), tenant, bytes: 0, counted: 0, is_answer: false }
    }
}

impl Share {
    /// Whether its tenant may ask for anything: not while its answers have come to more than it may have.
    pub fn check(&self) -> Result<(), NoRoom> {
        let inner = &*self.shares.0;
        if inner.bytes.load(Ordering::Relaxed) < inner.part() {
            return Ok(());
        }
        if inner.held.lock().of(self.tenant).answers > inner.part() {
            Err(NoRoom::OfTenant)
        } else {
            Ok(())
        }
    }

    /// Has at least so many bytes from now on.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.grow(bytes, false)
    }

    fn grow(&mut self, bytes: usize, may_be_alone: bool) -> Result<(), NoRoom> {
        let inner = &*self.shares.0;
        let more = bytes.saturating_sub(inner.free).saturating_sub(self.counted);
        if more > 0 {
            let mut held = inner.held.lock();
            let (before, part) = (held.of(self.tenant), inner.part());
            let own = Own { bytes: before.bytes.saturating_add(more), ..before };
            // One thing may be larger by itself, and not each of many.
            let is_alone = may_be_alone
                && before.bytes == self.counted
                && (self.counted <= part / 8 || more <= inner.free);
            if own.bytes > part && !is_alone {
                return Err(NoRoom::OfTenant);
            }
            let others = held.bytes.saturating_sub(before.bytes.min(part));
            if others.saturating_add(own.bytes.min(part)) > inner.bytes_max {
                return Err(NoRoom::OfAll);
            }
            inner.set(&mut held, self.tenant, own);
            self.counted += more;
        }
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }

    /// Has so many bytes more.
    pub fn grow_by(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.grow_to(self.bytes.saturating_add(bytes))
    }

    /// What this JSON counts as, of a body: none counts so much that a tenant which has nothing else would have no room.
    pub fn weight_of(&self, text: &[u8]) -> usize {
        weight::of_json(text).min(self.shares.0.bytes_max / 4)
    }

    /// Has this many bytes and no others from now on, whether there is room for them or not.
    pub fn hold(&mut self, bytes: usize) {
        let inner = &*self.shares.0;
        let counted = bytes.saturating_sub(inner.free);
        if counted != self.counted {
            let mut held = inner.held.lock();
            let instead = |of: usize| of.saturating_sub(self.counted).saturating_add(counted);
            let Own { bytes, answers } = held.of(self.tenant);
            let answers = if self.is_answer { instead(answers) } else { answers };
            inner.set(&mut held, self.tenant, Own { bytes: instead(bytes), answers });
        }
        (self.bytes, self.counted) = (bytes, counted);
    }

    /// Is an answer of so many bytes from now on, and nothing else.
    pub fn answer(&mut self, bytes: usize) {
        self.hold(0);
        self.is_answer = true;
        self.hold(bytes);
    }

    /// Gives back all but so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        if bytes < self.bytes {
            self.hold(bytes);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Of what is read for a request; of its body `http` tells.
impl From<NoRoom> for Error {
    fn from(no_room: NoRoom) -> Self {
        Self::Busy(match no_room {
            NoRoom::OfTenant => {
                "What the tenant's requests have read, or were answered, holds all the memory that it may; try again, or read less at once."
            }
            NoRoom::OfAll => {
                "What requests have read, or were answered, holds all the memory that it may; try again."
            }
        })
    }
}
