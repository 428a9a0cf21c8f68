use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

use super::{EFFORT, Effort, QUICK_BYTES, taken_on, unless_crowded, with_effort};
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
    builder.worker_threads(2).max_blocking_threads(threads).build().unwrap()
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
            tell.send(FEW.attempt(TENANT, None, || slow(&gate))).unwrap();
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
    static FEW: LazyLock<Effort> = LazyLock::new(|| Effort::new(1, ROOM, ROOM));
    let runtime = few_threads();
    let gate = Arc::new(Gate::default());
    let (beginning, has_begun) = channel();
    let (tell, told) = channel();
    for _ in 0..TASKS {
        let (gate, begins, tell) = (Arc::clone(&gate), beginning.clone(), tell.clone());
        runtime.spawn(async move {
            let evaluate = || {
                begins.send(()).unwrap();
                slow(&gate)
            };
            tell.send(FEW.in_turn(TENANT, evaluate).await).unwrap();
        });
    }
    let all_begun = next(&has_begun, TASKS).len();
    let another_ran = runs_another(&runtime);
    gate.open();
    assert_eq!(all_begun, TASKS);
    assert!(another_ran);
    assert_eq!(next(&told, TASKS), [true; TASKS]);
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
    let slow = || with_effort(10 * QUICK_BYTES, |work| work.pay(9 * QUICK_BYTES).is_ok());
    assert_eq!(NONE.attempt(TENANT, None, quick), Some(true));
    assert_eq!(NONE.attempt(TENANT, None, || (slow(), quick()).1), None);
    assert_eq!(NONE.attempt(TENANT, None, || unless_crowded(TENANT, slow).is_ok()), None);
    // And nothing of it stays behind.
    assert_eq!(NONE.attempt(TENANT, None, quick), Some(true));
    assert!(slow());
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

#[tokio::test]
async fn a_tenant_whose_seats_are_taken_is_refused_what_is_slow_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let other = vault.create_tenant("other", None).await.unwrap().tenant.id;
    create(&vault, tenant, "slow", 50_000).await.unwrap();
    let seats: Vec<_> = std::iter::from_fn(|| EFFORT.try_seat(tenant)).collect();
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
    // What must not be refused any more is done.
    taken_on(create(&vault, tenant, "taken on", 50_000)).await.unwrap();
    taken_on(read(&vault, tenant, "slow")).await.unwrap();
    drop(seats);
    read(&vault, tenant, "slow").await.unwrap();
    change(&vault, tenant, "slow").await.unwrap();
}
