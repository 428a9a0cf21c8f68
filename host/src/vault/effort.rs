//! Evaluating expressions without standing in anybody's way.
//!
//! Almost all expressions cost microseconds and are evaluated where they are met. What costs more is begun anew on a
//! thread that may block, as many at a time as there are cores; the rest waits, and tenants take turns ([`turns`]). Whoever
//! waits holds a thread too, and there are not many: so those have seats, a tenant only some of them. Without one, what is
//! slow waits where it takes no thread, for a time and with so many others ([`unless_crowded`]), or for as long as it takes
//! where it must not be refused any more ([`taken_on`]). So a mask made to be slow delays hardly anybody but those who ask
//! for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use self::turns::Places;
use super::Error;
use crate::expression::Work;
use crate::limits::REACT_TIMEOUT_MS;
use crate::model::id::TenantId;

#[cfg(test)]
mod tests;
mod turns;

/// Work that is done on the spot: well under a millisecond.
const QUICK_BYTES: usize = 64 << 10;
/// Seats in all. Each takes one of the 512 threads that tokio has at most beside its workers; were all of them taken,
/// nothing else would run.
const SEATS: usize = 256;
/// Seats of one tenant.
const SEATS_PER_TENANT: usize = 32;
/// As many as may wait for a seat and be refused. They take no thread, but each keeps what it was sent, as read JSON, which
/// is many times the size of its text.
const WAITING: usize = 128;
/// The same, of one tenant.
const WAITING_PER_TENANT: usize = 32;
/// How long they wait: as long as somebody waits for a run.
const PATIENCE: Duration = Duration::from_millis(REACT_TIMEOUT_MS);
const CROWDED: &str = "Too much that takes long to evaluate is under way; try again.";

static EFFORT: LazyLock<Effort> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Effort::new(cores, SEATS, SEATS_PER_TENANT)
});

tokio::task_local! {
    static TAKEN_ON: ();
    static UNTIL: Instant;
}

thread_local! {
    /// For whom this thread evaluates. Evaluations stand deep in checks that collect faults, and that one was refused
    /// is no fault: it is told past them.
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Evaluates with up to so much work. What is evaluated may be so twice: it must change nothing.
///
/// Outside of [`unless_crowded`] it waits on its thread: that is for what comes one at a time.
pub fn with_effort<T>(work_bytes_max: usize, evaluate: impl Fn(&Work) -> T) -> T {
    let quick = Work::new(QUICK_BYTES.min(work_bytes_max));
    let outcome = evaluate(&quick);
    if !quick.is_spent() {
        return outcome;
    }
    // Of one that is refused, nobody looks at what came of it.
    let Some(Seated { effort, tenant, until }) = seated() else { return outcome };
    let patiently = || {
        let _place = effort.places.take(tenant, until)?;
        Some(evaluate(&Work::new(work_bytes_max)))
    };
    let patiently = match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(patiently),
        _ => patiently(),
    };
    patiently.unwrap_or_else(|| {
        SCOPE.with_borrow_mut(|scope| scope.iter_mut().for_each(|scope| scope.refused = true));
        outcome
    })
}

/// Evaluates for a tenant what asks for its work [`with_effort`]. What is slow in it waits for a seat; [`Error::Busy`]
/// when that takes too long, or too many wait. It may be evaluated twice.
pub async fn unless_crowded<T>(tenant: TenantId, evaluate: impl Fn() -> T) -> Result<T, Error> {
    if TAKEN_ON.try_with(|()| ()).is_ok() {
        return Ok(EFFORT.in_turn(tenant, evaluate).await);
    }
    EFFORT.unless_crowded(tenant, evaluate).await.ok_or(Error::Busy(CROWDED))
}

/// Does what is in vain from then on: what is slow in it waits no longer than that.
pub async fn until<T>(end: Instant, work: impl Future<Output = T>) -> T {
    UNTIL.scope(end, work).await
}

/// Does what must not be refused any more, such as to store what a formula has answered or to begin a run that was taken
/// into the queue: what is slow in it waits as long as it takes.
pub async fn taken_on<T>(work: impl Future<Output = T>) -> T {
    TAKEN_ON.scope((), work).await
}

/// Where something slow is evaluated now, for whom, and until when it may wait for its turn.
struct Seated {
    effort: &'static Effort,
    tenant: Option<TenantId>,
    until: Option<Instant>,
}

/// Where something slow is evaluated now; nowhere when it is refused.
fn seated() -> Option<Seated> {
    SCOPE.with_borrow_mut(|scope| {
        let Some(scope) = scope else {
            return Some(Seated { effort: &EFFORT, tenant: None, until: None });
        };
        if scope.seat.is_none() && !scope.refused {
            scope.seat = scope.effort.try_seat(scope.tenant);
            scope.refused = scope.seat.is_none();
        }
        let (effort, tenant, until) = (scope.effort, Some(scope.tenant), scope.until);
        (!scope.refused).then_some(Seated { effort, tenant, until })
    })
}

/// What all that is slow shares.
struct Effort {
    places: Places,
    of_all: Room,
    per_tenant: usize,
    patience: Duration,
    tenants: Mutex<HashMap<TenantId, Room>>,
}

/// Seats, and where to wait for one.
#[derive(Clone)]
struct Room {
    seats: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// A seat, or where to wait for one; and so one of its tenant's too. A seat is kept until all is evaluated, since until
/// then the thread may serve nobody else.
struct Held {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// What a thread evaluates for.
struct Scope {
    effort: &'static Effort,
    tenant: TenantId,
    /// Until when it may wait, if it may not for as long as it takes.
    until: Option<Instant>,
    /// Taken at the first evaluation that is slow.
    seat: Option<Held>,
    refused: bool,
}

/// Ends the scope, also of what panics.
struct Open;

impl Drop for Open {
    fn drop(&mut self) {
        drop(SCOPE.take());
    }
}

impl Effort {
    fn new(places: usize, seats: usize, per_tenant: usize) -> Self {
        let places = Places::new(places);
        let of_all = Room::new(seats, WAITING);
        Self { places, of_all, per_tenant, patience: PATIENCE, tenants: Mutex::default() }
    }

    /// Evaluates in this seat, or in one that is taken when it is needed; nothing when there is none.
    fn attempt<T>(
        &'static self,
        (tenant, until): (TenantId, Option<Instant>),
        seat: Option<Held>,
        evaluate: impl FnOnce() -> T,
    ) -> Option<T> {
        SCOPE.set(Some(Scope { effort: self, tenant, until, seat, refused: false }));
        let open = Open;
        let outcome = evaluate();
        let refused = SCOPE.with_borrow(|scope| scope.as_ref().is_some_and(|scope| scope.refused));
        drop(open);
        (!refused).then_some(outcome)
    }

    async fn in_turn<T>(&'static self, tenant: TenantId, evaluate: impl Fn() -> T) -> T {
        let mut seat = None;
        loop {
            if let Some(outcome) = self.attempt((tenant, None), seat, &evaluate) {
                return outcome;
            }
            seat = self.seat(tenant).await;
        }
    }

    async fn unless_crowded<T>(
        &'static self,
        tenant: TenantId,
        evaluate: impl Fn() -> T,
    ) -> Option<T> {
        let (now, end) = (Instant::now(), UNTIL.try_with(|end| *end).ok());
        if end.is_some_and(|end| end <= now) {
            return None;
        }
        let until = now + self.patience;
        let until = end.map_or(until, |end| until.min(end));
        let who = (tenant, Some(until));
        if let Some(outcome) = self.attempt(who, None, &evaluate) {
            return Some(outcome);
        }
        let waiting = self.try_wait(tenant)?;
        let seat = timeout_at(until.into(), self.seat(tenant)).await.ok()?;
        drop(waiting);
        self.attempt(who, seat, evaluate)
    }

    fn try_seat(&self, tenant: TenantId) -> Option<Held> {
        Held::try_of(self.of_tenant(tenant).seats, &self.of_all.seats)
    }

    /// Where to wait for a seat.
    fn try_wait(&self, tenant: TenantId) -> Option<Held> {
        Held::try_of(self.of_tenant(tenant).waiting, &self.of_all.waiting)
    }

    /// Waits for a seat; for one of the tenant's first, so that it keeps none from others meanwhile.
    async fn seat(&self, tenant: TenantId) -> Option<Held> {
        let own = self.of_tenant(tenant).seats.acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.of_all.seats).acquire_owned().await.ok()?;
        Some(Held { _own: own, _of_all: of_all })
    }

    fn of_tenant(&self, tenant: TenantId) -> Room {
        let mut tenants = self.tenants.lock();
        // Whoever has a seat or waits for one holds its tenant's; an entry that nobody holds says nothing.
        tenants.retain(|_, room| room.is_held());
        let made = || Room::new(self.per_tenant, WAITING_PER_TENANT);
        tenants.entry(tenant).or_insert_with(made).clone()
    }
}

impl Room {
    fn new(seats: usize, waiting: usize) -> Self {
        let [seats, waiting] = [seats, waiting].map(|count| Arc::new(Semaphore::new(count)));
        Self { seats, waiting }
    }

    fn is_held(&self) -> bool {
        [&self.seats, &self.waiting].into_iter().any(|places| Arc::strong_count(places) > 1)
    }
}

impl Held {
    fn try_of(own: Arc<Semaphore>, of_all: &Arc<Semaphore>) -> Option<Self> {
        let own = own.try_acquire_owned().ok()?;
        let of_all = Arc::clone(of_all).try_acquire_owned().ok()?;
        Some(Self { _own: own, _of_all: of_all })
    }
}
