use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::{Condvar, Mutex};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

use super::{
    EFFORT, Effort, Held, QUICK_BYTES, WAITING_PER_TENANT, taken_on, unless_crowded, with_effort,
};
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::id::{ApplicationId, TenantId};
use crate::model::member;
use crate::model::permission::marker::{TokenCreate, TokenRead, TokenUpdate};
use crate::model::permission::{ApplicationType, Permission};
use crate::vault::authentication::{Authenticated, Caller};
use crate::vault::tests::vault;
use crate::vault::{CreateToken, Error, UpdateToken, Vault};

const TENANT: TenantId = TenantId(Uuid::from_u128(7));
/// Seats in a test, and tasks that want one.
const ROOM: usize = 3;
const TASKS: usize = 20;
/// Far longer than anything takes here.
const LONG: Duration = Duration::from_mins(1);

#[test]
fn what_is_quick_is_evaluated_once_and_the_rest_with_all_it_may_have() {
    let runs = Cell::new(0);
    let evaluate = |bytes: usize| {
        runs.set(0);
        with_effort(10 * QUICK_BYTES, |work| {
            runs.set(runs.get() + 1);
            work.pay(bytes)
        })
    };
    assert!(evaluate(100).is_ok());
    assert_eq!(runs.get(), 1);
    assert!(evaluate(9 * QUICK_BYTES).is_ok());
    assert_eq!(runs.get(), 2);
    assert!(evaluate(11 * QUICK_BYTES).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_ones_leave_the_threads_to_others() {
    // They end once another task has run, which needs a thread that none of them holds.
    let (open, gate) = (AtomicBool::new(false), Condvar::new());
    let shared = Arc::new((Mutex::new(open), gate));
    let slow = (0..8).map(|_| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            with_effort(10 * QUICK_BYTES, |work| {
                let paid = work.pay(2 * QUICK_BYTES).is_ok();
                let mut open = shared.0.lock();
                let closed = |open: &mut AtomicBool| paid && !*open.get_mut();
                shared.1.wait_while(&mut open, closed);
                paid
            })
        })
    });
    let slow: Vec<_> = slow.collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let other = tokio::spawn(async move {
        *shared.0.lock().get_mut() = true;
        shared.1.notify_all();
    });
    other.await.unwrap();
    for slow in slow {
        assert!(slow.await.unwrap());
    }
}

/// What slow evaluations wait for once they are begun.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.opened.wait_while(&mut self.open.lock(), |open| !*open);
    }
}

/// Evaluates something slow, up to a gate.
fn slow(gate: &Gate) -> bool {
    with_effort(10 * QUICK_BYTES, |work| {
        let paid = work.pay(2 * QUICK_BYTES).is_ok();
        if paid {
            gate.pass();
        }
        paid
    })
}

/// A runtime of few threads, but more than there are seats.
fn few_threads() -> Runtime {
    let threads = ROOM + 1;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(threads).enable_time().build().unwrap()
}

/// The next of what is told; fewer when nothing more is told for long.
fn next<T>(told: &Receiver<T>, count: usize) -> Vec<T> {
    (0..count).map_while(|_| told.recv_timeout(LONG).ok()).collect()
}

fn runs_another(runtime: &Runtime) -> bool {
    let (tell, told) = channel();
    runtime.spawn(async move { tell.send(()).unwrap() });
    told.recv_timeout(LONG).is_ok()
}

#[test]
fn however_many_are_slow_the_threads_are_left_to_others() {
    static FEW: LazyLock<Effort> = LazyLock::new(|| Effort::new(1, ROOM, ROOM));
    let runtime = few_threads();
    let gate = Arc::new(Gate::default());
    let (tell, told) = channel();
    for _ in 0..TASKS {
        let (gate, tell) = (Arc::clone(&gate), tell.clone());
        runtime.spawn(async move {
            tell.send(FEW.attempt((TENANT, None), None, || slow(&gate))).unwrap();
        });
    }
    let refused = next(&told, TASKS - ROOM);
    let another_ran = runs_another(&runtime);
    gate.open();
    assert_eq!(refused, [None::<bool>; TASKS - ROOM]);
    assert!(another_ran);
    assert_eq!(next(&told, ROOM), [Some(true); ROOM]);
}

#[test]
fn who_waits_for_a_turn_holds_no_thread() {
    static FEW: LazyLock<Effort> =
        LazyLock::new(|| Effort { patience: LONG, ..Effort::new(1, ROOM, ROOM) });
    let runtime = few_threads();
    let gate = Arc::new(Gate::default());
    let (beginning, has_begun) = channel();
    let (tell, told) = channel();
    for number in 0..TASKS {
        let (gate, begins, tell) = (Arc::clone(&gate), beginning.clone(), tell.clone());
        runtime.spawn(async move {
            let evaluate = || {
                begins.send(()).unwrap();
                slow(&gate)
            };
            let outcome = match number % 2 {
                0 => Some(FEW.in_turn(TENANT, evaluate).await),
                _ => FEW.unless_crowded(TENANT, evaluate).await,
            };
            tell.send(outcome).unwrap();
        });
    }
    let all_begun = next(&has_begun, TASKS).len();
    let another_ran = runs_another(&runtime);
    gate.open();
    assert_eq!(all_begun, TASKS);
    assert!(another_ran);
    assert_eq!(next(&told, TASKS), [Some(true); TASKS]);
}

/// Evaluates something slow that waits for nothing.
fn slow_alone() -> bool {
    with_effort(10 * QUICK_BYTES, |work| work.pay(9 * QUICK_BYTES).is_ok())
}

#[tokio::test]
async fn what_finds_no_seat_waits_for_one() {
    static ONE: LazyLock<Effort> =
        LazyLock::new(|| Effort { patience: LONG, ..Effort::new(1, 1, 1) });
    let seat = ONE.try_seat(TENANT);
    let mut waits = Box::pin(ONE.unless_crowded(TENANT, slow_alone));
    assert!(seat.is_some() && waits.as_mut().now_or_never().is_none());
    drop(seat);
    assert_eq!(waits.await, Some(true));
}

#[tokio::test]
async fn what_waits_too_long_or_with_too_many_is_refused() {
    static IMPATIENT: LazyLock<Effort> =
        LazyLock::new(|| Effort { patience: Duration::ZERO, ..Effort::new(1, 1, 1) });
    static PATIENT: LazyLock<Effort> =
        LazyLock::new(|| Effort { patience: LONG, ..Effort::new(1, 1, 1) });
    let seats = [IMPATIENT.try_seat(TENANT), PATIENT.try_seat(TENANT)];
    assert!(seats.iter().all(Option::is_some));
    assert_eq!(IMPATIENT.unless_crowded(TENANT, slow_alone).await, None);
    let waiting: Vec<_> = std::iter::from_fn(|| PATIENT.try_wait(TENANT)).collect();
    assert_eq!(waiting.len(), WAITING_PER_TENANT);
    assert_eq!(PATIENT.unless_crowded(TENANT, slow_alone).await, None);
    drop((seats, waiting));
    for effort in [&IMPATIENT, &PATIENT] {
        assert_eq!(effort.unless_crowded(TENANT, slow_alone).await, Some(true));
    }
}

#[test]
fn no_tenant_takes_all_the_seats() {
    let effort = Effort::new(1, 3, 2);
    let [one, two, three] = [1, 2, 3].map(|number| TenantId(Uuid::from_u128(number)));
    let (first, _second) = (effort.try_seat(one), effort.try_seat(one));
    assert!(first.is_some() && effort.try_seat(one).is_none());
    let other = effort.try_seat(two);
    assert!(other.is_some() && effort.try_seat(three).is_none());
    drop(first);
    assert!(effort.try_seat(three).is_some());
    assert!(effort.try_seat(one).is_some());
}

#[test]
fn what_is_refused_in_part_is_refused_as_a_whole() {
    static NONE: LazyLock<Effort> = LazyLock::new(|| Effort::new(1, 0, 0));
    let quick = || with_effort(10 * QUICK_BYTES, |work| work.pay(100).is_ok());
    assert_eq!(NONE.attempt((TENANT, None), None, quick), Some(true));
    assert_eq!(NONE.attempt((TENANT, None), None, || (slow_alone(), quick()).1), None);
    // And nothing of it stays behind.
    assert_eq!(NONE.attempt((TENANT, None), None, quick), Some(true));
    assert!(slow_alone());
}

/// A caller of a tenant who may make, read and change tokens.
fn caller_of(vault: &Vault, tenant: TenantId) -> Authenticated {
    let application = Application {
        id: ApplicationId(vault.draw_id()),
        tenant_id: tenant,
        name: "test".to_owned(),
        kind: ApplicationType::Private,
        permissions: vec![Permission::TokenCreate, Permission::TokenRead, Permission::TokenUpdate],
        rules: Vec::new(),
        audit: Audit::created(None, vault.now()),
        expires_at: None,
    };
    Authenticated(Arc::new(Caller::new(application)))
}

/// Makes a token with a mask that is slow on many characters.
async fn create(vault: &Vault, tenant: TenantId, id: &str, chars: usize) -> Result<(), Error> {
    let permit = vault.permit::<TokenCreate>(&caller_of(vault, tenant), None).await?;
    let mask = "{{ data | upcase | downcase | upcase | downcase | size }}";
    let body = json!({"id": id, "type": "token", "data": "x".repeat(chars), "mask": mask});
    let body: CreateToken = member::read(body).unwrap();
    vault.create_token(&permit, body).await.map(drop)
}

async fn read(vault: &Vault, tenant: TenantId, id: &str) -> Result<(), Error> {
    let permit = vault.permit::<TokenRead>(&caller_of(vault, tenant), None).await?;
    vault.find_token(&permit, id).await.map(drop)
}

async fn change(vault: &Vault, tenant: TenantId, id: &str) -> Result<(), Error> {
    let permit = vault.permit::<TokenUpdate>(&caller_of(vault, tenant), None).await?;
    let body: UpdateToken = member::read(json!({"metadata": {"k": "v"}})).unwrap();
    vault.update_token(&permit, id, body).await.map(drop)
}

/// Vaults of tests draw the same ids: one that takes all that a tenant may have is not to meet another.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// All that a tenant may have of these.
fn all_of(take: impl Fn() -> Option<Held>) -> Vec<Held> {
    std::iter::from_fn(take).collect()
}

/// Lets others go on until one of a tenant's waits.
async fn somebody_waits(tenant: TenantId) {
    while EFFORT.of_tenant(tenant).waiting.available_permits() == WAITING_PER_TENANT {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_slow_waits_while_the_tenants_seats_are_taken() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    create(&vault, tenant, "slow", 50_000).await.unwrap();
    for number in 0..3 {
        let seats = all_of(|| EFFORT.try_seat(tenant));
        let slow = async {
            match number {
                0 => create(&vault, tenant, "another", 50_000).await,
                1 => read(&vault, tenant, "slow").await,
                _ => change(&vault, tenant, "slow").await,
            }
        };
        let mut slow = Box::pin(slow);
        tokio::select! {
            outcome = &mut slow => panic!("{number} did not wait: {outcome:?}"),
            () = somebody_waits(tenant) => {}
        }
        drop(seats);
        slow.await.unwrap();
    }
}

#[tokio::test]
async fn a_tenant_with_too_many_that_wait_is_refused_what_is_slow_and_nothing_else() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let other = vault.create_tenant("other", None).await.unwrap().tenant.id;
    create(&vault, tenant, "slow", 50_000).await.unwrap();
    let seats = all_of(|| EFFORT.try_seat(tenant));
    let waiting = all_of(|| EFFORT.try_wait(tenant));
    // What must not be refused any more waits all the same.
    let patient = Box::pin(async {
        taken_on(create(&vault, tenant, "taken on", 50_000)).await.unwrap();
        taken_on(read(&vault, tenant, "slow")).await.unwrap();
    });
    let refusals = Box::pin(async {
        for refused in [
            create(&vault, tenant, "another", 50_000).await,
            read(&vault, tenant, "slow").await,
            change(&vault, tenant, "slow").await,
        ] {
            let refused = refused.unwrap_err().describe();
            assert_eq!((refused.status, refused.title), (429, "Too Many Requests"));
        }
        create(&vault, tenant, "quick", 50).await.unwrap();
        read(&vault, tenant, "quick").await.unwrap();
        change(&vault, tenant, "quick").await.unwrap();
        create(&vault, other, "slow", 50_000).await.unwrap();
        drop((seats, waiting));
    });
    futures::future::join(patient, refusals).await;
    read(&vault, tenant, "slow").await.unwrap();
    change(&vault, tenant, "slow").await.unwrap();
    assert!(unless_crowded(tenant, slow_alone).await.unwrap());
}
