//! Much work for one request, apart from the threads that everything runs on.
//!
//! On those nothing gives way until it waits for something, and to read a token of a megabyte takes a twentieth of a
//! second: a few clients or formulas that do so again and again would hold up everybody. So whoever meets something large
//! says so ([`apart`]), and what it is for goes on where it may block, up to its end or until it says that the rest is
//! little ([`together`]). A tenant has few places for that, and there are some in all; the system shares the processors out
//! among them and all else. A place is held while something is computed, and not while that waits; nothing that every
//! commit waits for is held while one waits for a place ([`out_of_row`]).
//!
//! What is neither little nor much, such as a page of several tokens, goes on where everything does, but in turn
//! ([`in_turn`]): of one tenant as many at a time as there are processors, each behind whatever else is ready to go on.
//! Otherwise hundreds that one tenant asked for at once would all be ahead of what another asks for next.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::thread::available_parallelism;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::id::TenantId;

/// Bytes of one thing that are little.
pub const LITTLE_BYTES: usize = 16 << 10;
/// Bytes that are little of what a page of things comes to.
pub const LITTLE_BYTES_OF_A_PAGE: usize = 64 << 10;
/// Things that are few of a page, however small: each is opened, shown and told of in the log.
pub const FEW_OF_A_PAGE: usize = 32;
/// How much may be computed at a time, by different tenants.
const PLACES_PER_PROCESSOR: usize = 4;

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Places::new(PLACES_PER_PROCESSOR * processors, (processors / 2).max(1))
});

/// Who goes on in turn: as many of a tenant's as there are processors.
static TURNS: LazyLock<Places> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Places::new(Semaphore::MAX_PERMITS, processors)
});

/// How something goes on otherwise than everything does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Where it is, with a place among its tenant's.
    InTurn,
    /// Where it may block.
    Apart,
}

tokio::task_local! {
    /// For whom what is under way is to go on otherwise, and how.
    static WANTED: Cell<Option<(TenantId, Way)>>;
}

/// Goes on apart from here on, if this is much for one thing. Gives whether it may have waited for that, however long.
pub async fn apart(tenant: TenantId, bytes: usize) -> bool {
    bytes > LITTLE_BYTES && anyway(tenant).await
}

/// The same, of whatever will be much.
pub async fn anyway(tenant: TenantId) -> bool {
    go_on(tenant, Way::Apart).await
}

/// Goes on in turn from here on, unless it goes on apart. Gives whether it may have waited for that.
pub async fn in_turn(tenant: TenantId) -> bool {
    !is_apart() && go_on(tenant, Way::InTurn).await
}

async fn go_on(tenant: TenantId, way: Way) -> bool {
    let before = WANTED.try_with(|wanted| wanted.replace(Some((tenant, way))));
    let is_new = before.is_ok_and(|before| before.is_none_or(|(_, before)| before != way));
    if is_new {
        let mut has_asked = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut has_asked, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
    is_new
}

/// Whether what is under way goes on apart, and may have waited for that.
pub fn is_apart() -> bool {
    let wanted = WANTED.try_with(Cell::get).ok().flatten();
    wanted.is_some_and(|(_, way)| way == Way::Apart)
}

/// Does something for which others wait: not apart, where it would stand in its tenant's row with what it holds. What comes
/// after it goes on as what came before.
pub async fn out_of_row<F: Future>(run: F) -> F::Output {
    let wanted = WANTED.try_with(Cell::take).ok().flatten();
    let done = run.await;
    if let Some((tenant, way)) = wanted {
        go_on(tenant, way).await;
    }
    done
}

/// Goes on as everybody does from here on.
pub fn together() {
    let _ = WANTED.try_with(Cell::take);
}

pin_project! {
    /// Something that goes on apart, or in turn, once it wants that.
    pub struct Able<F> {
        #[pin]
        run: F,
        wanted: Option<(TenantId, Way)>,
        place: Option<BoxFuture<'static, Option<Place>>>,
        turn: Option<Place>,
    }
}

/// What can go on apart, or in turn.
pub fn able<F: Future>(run: F) -> Able<F> {
    Able { run, wanted: None, place: None, turn: None }
}

impl<F: Future> Future for Able<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let (before, run, wanted) = (*this.wanted, this.run, this.wanted);
        let poll = |context: &mut Context<'_>| {
            WANTED.sync_scope(Cell::new(before), || {
                let polled = run.poll(context);
                *wanted = WANTED.with(Cell::get);
                polled
            })
        };
        let Some((tenant, way)) = before else { return poll(context) };
        if let Some(_held) = this.turn.take() {
            return poll(context);
        }
        let places = if way == Way::Apart { &PLACES } else { &TURNS };
        let place = this.place.get_or_insert_with(|| places.place(tenant).boxed());
        let held = ready!(place.poll_unpin(context));
        *this.place = None;
        if way == Way::InTurn {
            // With its place, behind all that is ready: whoever has one at once is not to be ahead of others.
            *this.turn = held;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| poll(context)),
            _ => poll(context),
        }
    }
}

/// Where much is computed.
struct Places {
    all: Arc<Semaphore>,
    per_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// The tenant's, and one of all.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Places {
    fn new(all: usize, per_tenant: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), per_tenant, tenants: Mutex::default() }
    }

    /// A place, once there is one. The tenant's first, so that who waits for that keeps none from others.
    fn place(&self, tenant: TenantId) -> impl Future<Output = Option<Place>> + Send + use<> {
        let (own, all) = (self.of_tenant(tenant), Arc::clone(&self.all));
        async move {
            let own = own.acquire_owned().await.ok()?;
            Some((own, all.acquire_owned().await.ok()?))
        }
    }

    fn of_tenant(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        // An entry that nobody holds says nothing.
        tenants.retain(|_, own| Arc::strong_count(own) > 1);
        let made = || Arc::new(Semaphore::new(self.per_tenant));
        Arc::clone(tenants.entry(tenant).or_insert_with(made))
    }
}

/// All that a tenant has.
#[cfg(test)]
pub async fn every_place_of(tenant: TenantId) -> Vec<impl Sized> {
    let places = (0..PLACES.per_tenant).map(|_| PLACES.place(tenant));
    futures::future::join_all(places).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::timeout;
    use uuid::Uuid;

    use super::{
        LITTLE_BYTES, PLACES, Places, TURNS, Way, able, anyway, apart, in_turn, out_of_row,
        together,
    };
    use crate::model::id::TenantId;

    const SOON: Duration = Duration::from_millis(50);

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(0xa9a7 << 64 | number))
    }

    /// Whether this goes on apart: nobody else of the tenant's can.
    fn is_apart(number: u128) -> bool {
        PLACES.of_tenant(tenant(number)).available_permits() < PLACES.per_tenant
    }

    #[tokio::test]
    async fn what_is_much_goes_on_apart_and_what_is_little_does_not() {
        let run = async {
            apart(tenant(1), LITTLE_BYTES).await;
            assert!(!is_apart(1));
            apart(tenant(1), LITTLE_BYTES + 1).await;
            assert!(is_apart(1));
            // As what it waits for takes time, too.
            tokio::time::sleep(Duration::from_millis(1)).await;
            apart(tenant(1), LITTLE_BYTES + 1).await;
            assert!(is_apart(1));
            together();
            tokio::task::yield_now().await;
            assert!(!is_apart(1));
            anyway(tenant(1)).await;
            is_apart(1)
        };
        assert!(able(run).await);
        assert!(!is_apart(1));
        // Where nothing can go on apart, it goes on.
        anyway(tenant(1)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_tenant_computes_at_few_places_at_a_time() {
        let (at_work, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let runs = (0..8).map(|_| {
            let (at_work, most) = (Arc::clone(&at_work), Arc::clone(&most));
            tokio::spawn(able(async move {
                anyway(tenant(2)).await;
                most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                at_work.fetch_sub(1, Ordering::SeqCst);
            }))
        });
        let done = futures::future::join_all(runs).await;
        assert!(done.iter().all(Result::is_ok));
        let most = most.load(Ordering::SeqCst);
        assert!((1..=PLACES.per_tenant).contains(&most), "{most}");
    }

    #[tokio::test]
    async fn what_goes_on_in_turn_is_not_all_ahead_of_another_tenants() {
        let done = Arc::new(AtomicUsize::new(0));
        let much: Vec<_> = (0..100)
            .map(|_| {
                let done = Arc::clone(&done);
                tokio::spawn(able(async move {
                    assert!(in_turn(tenant(6)).await);
                    assert!(!in_turn(tenant(6)).await && !super::is_apart());
                    done.fetch_add(1, Ordering::SeqCst);
                }))
            })
            .collect();
        let seen = Arc::clone(&done);
        let other = tokio::spawn(able(async move {
            in_turn(tenant(7)).await;
            seen.load(Ordering::SeqCst)
        }));
        // Three times round: to ask, to have a turn, to go on.
        assert!(other.await.unwrap() <= 3 * TURNS.per_tenant);
        assert!(futures::future::join_all(much).await.iter().all(Result::is_ok));
        assert_eq!(done.load(Ordering::SeqCst), 100);
    }

    #[tokio::test]
    async fn what_goes_on_in_turn_may_go_on_apart_and_not_the_other_way_round() {
        let run = async {
            assert!(in_turn(tenant(8)).await && !is_apart(8));
            assert!(anyway(tenant(8)).await && is_apart(8));
            assert!(!in_turn(tenant(8)).await && is_apart(8));
            together();
            assert!(in_turn(tenant(8)).await && !is_apart(8));
        };
        able(run).await;
        assert_eq!(TURNS.of_tenant(tenant(8)).available_permits(), TURNS.per_tenant);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on_beside_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let much = tokio::spawn(able(async move {
            anyway(tenant(3)).await;
            // Until the other task has run, on the only worker.
            told.recv_timeout(Duration::from_mins(1)).is_ok()
        }));
        let beside = tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            tell.send(()).unwrap();
        });
        beside.await.unwrap();
        assert!(much.await.unwrap());
    }

    #[tokio::test]
    async fn no_place_is_held_while_something_is_waited_for() {
        let waits = async {
            anyway(tenant(4)).await;
            std::future::pending::<()>().await;
        };
        let other = async {
            anyway(tenant(4)).await;
            7
        };
        let (waited, done) =
            futures::future::join(timeout(SOON, able(waits)), timeout(SOON, able(other))).await;
        assert!(waited.is_err());
        assert_eq!(done, Ok(7));
        assert!(!is_apart(4));
    }

    #[tokio::test]
    async fn who_holds_what_others_wait_for_stands_in_no_row() {
        let taken = PLACES.place(tenant(5)).await;
        let lock = tokio::sync::Mutex::new(());
        let run = async {
            // As if it had had its place.
            super::WANTED.with(|wanted| wanted.set(Some((tenant(5), Way::Apart))));
            out_of_row(async {
                let _held = lock.lock().await;
                tokio::task::yield_now().await;
            })
            .await;
        };
        // It gets as far as to let go, and then waits for its turn.
        assert!(timeout(SOON, able(run)).await.is_err());
        assert!(lock.try_lock().is_ok());
        drop(taken);
    }

    #[tokio::test]
    async fn each_tenant_has_its_own_of_all_places() {
        let places = Places::new(2, 1);
        let first = places.place(tenant(1)).await;
        assert!(timeout(SOON, places.place(tenant(1))).await.is_err());
        let second = places.place(tenant(2)).await;
        assert!(timeout(SOON, places.place(tenant(3))).await.is_err());
        drop(first);
        assert!(places.place(tenant(3)).await.is_some());
        drop(second);
        assert!(places.place(tenant(1)).await.is_some());
        // Of nobody there is anything left.
        places.of_tenant(tenant(9));
        assert_eq!(places.tenants.lock().len(), 1);
    }
}
