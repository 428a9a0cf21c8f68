//! What tenants share of the server's memory: one of them has at most half of it, or one thing that is larger.
//!
//! Nobody waits for room, so that nobody who is slow holds up another: who finds none is refused, and gives back what it
//! had. What is done already is not refused any more: its answer counts beyond that, and what the tenant asks for next is
//! refused instead. JSON counts as much as it takes once it is read, which may be many times its text. Of what little each
//! request has nothing counts.
//!
//! What is opened for a request, or for a run, counts by itself ([`opened`]) within [`sharing`], until that is over.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Error;
use crate::model::id::TenantId;
use crate::model::weight;

tokio::task_local! {
    /// The share of what is under way, once it is known whose it is.
    static OPENED: RefCell<Option<Share>>;
}

/// Carries out what has this share, or gets one by [`share_in`]; gives what it has of it in the end.
pub async fn sharing<F: Future>(share: Option<Share>, run: F) -> (F::Output, Option<Share>) {
    let run = async {
        let output = run.await;
        (output, OPENED.with(RefCell::take))
    };
    OPENED.scope(RefCell::new(share), run).await
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

/// Counts so many bytes that are opened. However many they are, there is room for a tenant that has nothing else.
pub fn opened(bytes: usize) -> Result<(), NoRoom> {
    let open = |opened: &RefCell<Option<Share>>| match opened.borrow_mut().as_mut() {
        Some(share) => share.grow(share.bytes.saturating_add(bytes), true),
        None => Ok(()),
    };
    OPENED.try_with(open).unwrap_or(Ok(()))
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
    by_tenant: HashMap<TenantId, usize>,
}

/// What one request has of it; given back when it is dropped.
pub struct Share {
    shares: Shares,
    tenant: TenantId,
    /// What it has, and what of that counts.
    bytes: usize,
    counted: usize,
    /// Whether it is never refused.
    is_unrefused: bool,
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

    /// Has a tenant hold so many bytes instead of what it held.
    fn set(&self, held: &mut Held, tenant: TenantId, own: usize) {
        let before = match held.by_tenant.entry(tenant) {
            Entry::Vacant(_) if own == 0 => 0,
            Entry::Vacant(none) => {
                none.insert(own);
                0
            }
            Entry::Occupied(some) if own == 0 => some.remove(),
            Entry::Occupied(mut some) => some.insert(own),
        };
        let part = self.part();
        held.bytes = (held.bytes + own.min(part)).saturating_sub(before.min(part));
        self.bytes.store(held.bytes, Ordering::Relaxed);
    }
}

impl Held {
    fn of(&self, tenant: TenantId) -> usize {
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
        Share { shares: self.clone(), tenant, bytes: 0, counted: 0, is_unrefused: false }
    }
}

impl Share {
    /// Whether its tenant may ask for anything: not while its answers have come to more than it may have.
    pub fn check(&self) -> Result<(), NoRoom> {
        let inner = &*self.shares.0;
        if inner.bytes.load(Ordering::Relaxed) < inner.part() {
            return Ok(());
        }
        if inner.held.lock().of(self.tenant) > inner.part() {
            Err(NoRoom::OfTenant)
        } else {
            Ok(())
        }
    }

    /// The same share, of somebody who is never refused.
    #[must_use]
    pub fn unrefused(mut self) -> Self {
        self.is_unrefused = true;
        self
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
            let before = held.of(self.tenant);
            let own = before.saturating_add(more);
            let is_alone = may_be_alone && before == self.counted;
            if own > inner.part() && !is_alone && !self.is_unrefused {
                return Err(NoRoom::OfTenant);
            }
            let part = inner.part();
            let all = held.bytes.saturating_sub(before.min(part)).saturating_add(own.min(part));
            if all > inner.bytes_max && !self.is_unrefused {
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
            let own = held.of(self.tenant).saturating_sub(self.counted).saturating_add(counted);
            inner.set(&mut held, self.tenant, own);
        }
        (self.bytes, self.counted) = (bytes, counted);
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{
        NoRoom, Ordering, Share, Shares, TenantId, let_go_of_all_but, opened, share_in, sharing,
    };

    fn share(shares: &Shares, tenant: u128, bytes: usize) -> Share {
        let mut share = shares.share(TenantId(Uuid::from_u128(tenant)));
        share.grow_to(bytes).unwrap();
        share
    }

    #[test]
    fn a_tenant_has_half_of_the_room_and_all_have_the_whole_of_it() {
        let shares = Shares::new(100, 0);
        let mut first = share(&shares, 1, 30);
        // What it has already is counted once.
        first.grow_to(40).unwrap();
        first.grow_to(10).unwrap();
        let mut second = share(&shares, 1, 10);
        assert_eq!(second.grow_to(11), Err(NoRoom::OfTenant));
        // What was refused is not counted, and what is held stays so.
        let other = share(&shares, 2, 50);
        let mut third = share(&shares, 3, 0);
        assert_eq!(third.grow_to(1), Err(NoRoom::OfAll));
        first.shrink_to(20);
        first.shrink_to(30);
        third.grow_to(20).unwrap();
        assert_eq!(third.grow_to(21), Err(NoRoom::OfAll));
        drop(first);
        third.grow_to(40).unwrap();
        assert_eq!(third.grow_to(usize::MAX), Err(NoRoom::OfTenant));
        drop((second, other, third));
        let held = shares.0.held.lock();
        assert!(held.bytes == 0 && held.by_tenant.is_empty());
    }

    #[test]
    fn what_is_done_counts_beyond_the_bound_and_its_tenant_alone_waits() {
        let shares = Shares::new(100, 0);
        let check = |tenant| shares.share(TenantId(Uuid::from_u128(tenant))).check();
        let mut first = share(&shares, 1, 50);
        assert_eq!(check(1), Ok(()));
        first.hold(51);
        assert_eq!((check(1), check(2)), (Err(NoRoom::OfTenant), Ok(())));
        // However much it is, others have what is theirs.
        first.hold(1_000);
        let mut second = share(&shares, 2, 50);
        assert_eq!(check(2), Ok(()));
        assert_eq!(shares.share(TenantId(Uuid::from_u128(3))).grow_to(1), Err(NoRoom::OfAll));
        second.hold(60);
        assert_eq!((check(1), check(2)), (Err(NoRoom::OfTenant), Err(NoRoom::OfTenant)));
        first.hold(10);
        assert_eq!(share(&shares, 3, 40).bytes, 40);
        assert_eq!((check(1), check(2), check(3)), (Ok(()), Err(NoRoom::OfTenant), Ok(())));
        drop((first, second));
        assert!(shares.0.held.lock().by_tenant.is_empty());
        assert_eq!(shares.0.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_first_of_each_share_does_not_count() {
        let shares = Shares::new(100, 10);
        let held = || shares.0.held.lock().bytes;
        let mut some: Vec<Share> = (0..20).map(|_| share(&shares, 1, 10)).collect();
        assert_eq!(held(), 0);
        some[0].grow_by(5).unwrap();
        assert_eq!(held(), 5);
        some[0].grow_by(45).unwrap();
        assert_eq!(some[0].grow_by(1), Err(NoRoom::OfTenant));
        assert_eq!((some[0].bytes, held()), (60, 50));
        some[0].shrink_to(10);
        assert_eq!(held(), 0);
        some[1].hold(70);
        assert_eq!(some[0].grow_to(11), Err(NoRoom::OfTenant));
        drop(some);
        assert_eq!(held(), 0);
    }

    #[tokio::test]
    async fn what_is_opened_counts_until_that_is_over_for_which_it_was() {
        let shares = Shares::new(1_000, 0);
        let other = share(&shares, 1, 100);
        let run = async {
            // Not yet anybody's.
            opened(200).unwrap();
            share_in(share(&shares, 1, 0));
            opened(200).unwrap();
            opened(200).unwrap();
            assert_eq!(opened(1), Err(NoRoom::OfTenant));
            // What goes on within it may have a share of its own.
            let (inner, own) = sharing(Some(share(&shares, 2, 0)), async { opened(200) }).await;
            assert_eq!((inner, own.map(|own| own.bytes)), (Ok(()), Some(200)));
            let_go_of_all_but(100);
            opened(200)
        };
        let (last, own) = sharing(None, run).await;
        assert_eq!((last, own.map(|share| share.bytes)), (Ok(()), Some(300)));
        assert_eq!(shares.0.held.lock().bytes, 100);
        // Of a tenant that has nothing else there is room for anything, but not beside it.
        let nothing_else = async || {
            let run = async { opened(5_000).and(opened(5_000)) };
            sharing(Some(shares.share(TenantId(Uuid::from_u128(3)))), run).await
        };
        let (large, own) = nothing_else().await;
        assert_eq!((large, shares.0.held.lock().bytes), (Ok(()), 600));
        assert_eq!(nothing_else().await.0, Err(NoRoom::OfTenant));
        drop(own);
        // Unless that is its own.
        let share = shares.share(TenantId(Uuid::from_u128(1))).unrefused();
        let (unrefused, _) = sharing(Some(share), async { opened(5_000).and(opened(5_000)) }).await;
        assert_eq!(unrefused, Ok(()));
        drop(other);
        // And without anybody's share it is not counted.
        opened(5_000).unwrap();
        assert_eq!(shares.0.held.lock().bytes, 0);
    }
}
