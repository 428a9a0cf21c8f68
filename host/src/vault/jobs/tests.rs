use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::in_hand::{Held, InHand, Standing};
use super::{By, Delivery, Ended, Job, JobStatus};
use crate::limits::JOB_TRIES_MAX;
use crate::model::id::{ApplicationId, InvocationId, ReactorId, TenantId};
use crate::store::{Batch, Expect, Put};
use crate::vault::audit::Actor;
use crate::vault::record::{Entity as _, Stored};
use crate::vault::tests::{Failing, vault, vault_on};
use crate::vault::{Error, Unfit, Vault};

/// Puts a job into the queue that nobody could begin.
async fn queued(vault: &Vault, tenant: TenantId) -> InvocationId {
    queued_of(vault, tenant, 1).await
}

/// Such a one of a reactor.
async fn queued_of(vault: &Vault, tenant: TenantId, reactor: u128) -> InvocationId {
    let job = Job {
        id: InvocationId(vault.draw_id()),
        tenant_id: tenant,
        reactor_id: ReactorId(Uuid::from_u128(reactor)),
        by: By::Application(ApplicationId(Uuid::from_u128(2))),
        args: None,
        callback_url: "https://example.com/hook".to_owned(),
        timeout_ms: 10_000,
        given: Vec::new(),
        status: JobStatus::Queued,
        response: None,
        error: None,
        elapsed_ms: 0,
        trace_id: None,
        created_at: vault.now(),
        started_at: None,
        finished_at: None,
    };
    let mut change = vault.change(tenant).await.unwrap();
    change.put(&job, Expect::New).unwrap();
    change.commit(Actor::OPERATOR, Vec::new()).await.unwrap();
    job.id
}

/// Such a one of the first reactor, as an earlier version put it: it is not found by that.
async fn queued_before(vault: &Vault, tenant: TenantId) -> InvocationId {
    let id = queued(vault, tenant).await;
    let (store, keys) = (&vault.0.store, vault.keys(tenant).await.unwrap());
    let name = id.to_string();
    let mut found = store.find(Job::KIND, tenant, &[&name]).await.unwrap();
    let mut record = found.pop().flatten().unwrap();
    let of_reactor = Job::term_of_reactor(&keys, ReactorId(Uuid::from_u128(1)));
    assert!(record.terms.contains(&of_reactor));
    record.terms.retain(|term| *term != of_reactor);
    let expect = Expect::Version(record.version);
    let batch = Batch { puts: vec![Put { record, expect }], ..Batch::default() };
    store.commit(batch).await.unwrap();
    id
}

#[tokio::test]
async fn a_job_that_cannot_be_begun_ends_after_so_many_tries() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing::on(folder.path());
    let vault = vault_on(store.clone(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let id = queued(&vault, tenant).await;
    let other = queued(&vault, tenant).await;
    let job =
        async |id: InvocationId| vault.get::<Job>(tenant, &id.to_string()).await.unwrap().entity;
    // A store that takes no writes is waited for, however long.
    *store.is_full.lock() = true;
    for _ in 0..3 * JOB_TRIES_MAX {
        vault.give_up_if_hopeless(tenant, id, &Error::Unavailable(Unfit::Full)).await;
    }
    // One that takes them, and cannot read what the job needs, is not.
    *store.is_full.lock() = false;
    for _ in 1..JOB_TRIES_MAX {
        vault.give_up_if_hopeless(tenant, id, &Error::Unavailable(Unfit::Full)).await;
        vault.give_up_if_hopeless(tenant, other, &Error::Internal).await;
    }
    assert_eq!(job(id).await.status, JobStatus::Queued);
    vault.give_up_if_hopeless(tenant, id, &Error::Internal).await;
    let ended = job(id).await;
    assert_eq!(ended.status, JobStatus::Failed);
    let error = ended.error.unwrap();
    // Of a job that knows no request, as those of earlier versions.
    assert_eq!(error["trace_id"], id.to_string());
    assert_eq!(
        (&error["title"], &error["detail"]),
        (&json!("Internal Server Error"), &json!("The run could not be begun in 5 tries."))
    );
    // It is told, as every end is; the other one waits still.
    vault.get::<Delivery>(tenant, &id.to_string()).await.unwrap();
    assert_eq!(job(other).await.status, JobStatus::Queued);
    // One that has begun meanwhile is not ended so.
    vault.give_up_if_hopeless(tenant, id, &Error::Internal).await;
}

/// Puts a job into the queue and notes that it has begun.
async fn running(vault: &Vault, tenant: TenantId) -> InvocationId {
    let id = queued(vault, tenant).await;
    let stored = vault.get::<Job>(tenant, &id.to_string()).await.unwrap();
    let Stored { entity, version } = stored;
    let begun = Job { status: JobStatus::Running, started_at: Some(vault.now()), ..entity };
    let mut change = vault.change(tenant).await.unwrap();
    change.put(&begun, Expect::Version(version)).unwrap();
    change.commit(Actor::OPERATOR, Vec::new()).await.unwrap();
    id
}

#[tokio::test]
async fn what_is_in_hand_is_not_ended_as_what_nobody_has_in_hand() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let running = async || running(&vault, tenant).await;
    let status = async |id: InvocationId| {
        vault.get::<Job>(tenant, &id.to_string()).await.unwrap().entity.status
    };
    let (held, left, unended) = (running().await, running().await, running().await);
    let mut in_hand = InHand::default();
    let job = |id| Held { tenant, id, receiver: None, stands: Arc::default() };
    in_hand.take(job(held), std::future::pending());
    in_hand.take(job(unended), std::future::pending());
    vault.0.queue.unended(tenant, unended, Ended::Lost);
    vault.end_unended(&in_hand).await;
    let mut untaken = Some(vec![tenant]);
    vault.take_over(&mut untaken, Ended::Interrupted, &in_hand).await;
    assert_eq!(untaken, Some(Vec::new()));
    assert_eq!(status(held).await, JobStatus::Running);
    assert_eq!(status(left).await, JobStatus::Failed);
    assert_eq!(status(unended).await, JobStatus::Running);
    // It is not forgotten: once it is put down, it ends, and what never was noted goes on.
    vault.end_unended(&InHand::default()).await;
    assert_eq!(status(unended).await, JobStatus::Failed);
    assert_eq!(status(held).await, JobStatus::Running);
    // Each is told what is so: the server ended with an earlier process, and did not since.
    for (id, words) in [(left, "The server ended"), (unended, "failed to store")] {
        let job = vault.get::<Job>(tenant, &id.to_string()).await.unwrap().entity;
        let error = job.error.unwrap();
        assert_eq!(error["title"], "Reactor Interrupted");
        assert!(error["detail"].as_str().unwrap().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_delivery_that_cannot_be_read_is_put_off_and_one_that_cannot_be_noted_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing::on(folder.path());
    let vault = vault_on(store.clone(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let id = running(&vault, tenant).await;
    vault.0.queue.unended(tenant, id, Ended::Lost);
    vault.end_unended(&InHand::default()).await;
    let delivery = async || vault.get::<Delivery>(tenant, &id.to_string()).await.unwrap();
    let due = async || {
        let (due, pending) = vault.due_deliveries(tenant, &InHand::default()).await.unwrap();
        (due.len(), pending)
    };
    assert_eq!(due().await, (1, true));
    // Whatever becomes of a try then could not be noted.
    (*store.is_full.lock(), *store.damaged.lock()) = (true, Some(Job::KIND));
    vault.deliver(tenant, delivery().await).await;
    *store.is_full.lock() = false;
    assert_eq!((delivery().await.entity.attempts, due().await), (0, (1, true)));
    // Its receiver is not kept from others for it, and one day it is given up.
    vault.deliver(tenant, delivery().await).await;
    assert_eq!((delivery().await.entity.attempts, due().await), (1, (0, true)));
}

#[tokio::test]
async fn jobs_of_a_reactor_that_cannot_be_run_now_keep_no_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let held = ReactorId(Uuid::from_u128(1));
    let mut of_held = Vec::new();
    for _ in 0..3 {
        of_held.push(queued(&vault, tenant).await);
        of_held.push(queued_before(&vault, tenant).await);
    }
    let of_other = queued_of(&vault, tenant, 2).await;
    let mut in_hand = InHand::default();
    let next = async |in_hand: &InHand| {
        let next = vault.next_job(tenant, in_hand).await.unwrap();
        next.map(|job| job.entity.id)
    };
    let queue = &vault.0.queue;
    let put_off = || queue.put_off_of(tenant).unwrap();
    assert_eq!(next(&in_hand).await, Some(of_held[0]));
    queue.put_off_reactor(tenant, held, of_held[0], Duration::from_mins(5));
    assert_eq!(next(&in_hand).await, Some(of_other));
    // What the index tells of is not even read.
    let mut one_by_one = put_off().jobs;
    one_by_one.sort();
    assert_eq!(one_by_one, [of_held[1], of_held[3], of_held[5]]);
    assert_eq!((put_off().reactors, put_off().triers), (vec![held], vec![]));
    queue.was_begun(tenant, held, of_held[0]);
    assert_eq!(queue.next_for_jobs(), Some(tenant));
    queue.take_up_put_off(true);
    assert_eq!(next(&in_hand).await, Some(of_held[0]));
    // The one by which it is tried comes as often as it has to.
    assert!(queue.holds_back(tenant, held, of_held[2], Duration::from_mins(5)));
    assert_eq!(next(&in_hand).await, Some(of_held[2]));
    let stands = Standing::new(true);
    let job = Held { tenant, id: of_held[2], receiver: None, stands: Arc::clone(&stands) };
    in_hand.take(job, std::future::pending());
    assert_eq!(next(&in_hand).await, Some(of_other));
    // It waits for a slot, then in a place, and then in none.
    assert!(in_hand.waits_for_slot(tenant));
    stands.has_slot();
    assert!(!in_hand.waits_for_slot(tenant));
    assert_eq!((in_hand.places(None), in_hand.places(Some(tenant))), (1, 1));
    stands.goes_apart();
    assert_eq!((in_hand.places(None), in_hand.places(Some(tenant))), (0, 0));
    assert_eq!(in_hand.jobs(Some(tenant)).count(), 1);
}

async fn breaks() {
    tokio::task::yield_now().await;
    panic!("a worker is to break here");
}

#[tokio::test]
async fn a_run_that_had_begun_when_its_worker_broke_is_said_to_have_ended_by_that() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let id = running(&vault, tenant).await;
    let mut in_hand = InHand::default();
    in_hand.take(Held { tenant, id, receiver: None, stands: Arc::default() }, breaks());
    let done = in_hand.tasks.join_next_with_id().await.unwrap();
    vault.put_down(&mut in_hand, done).await;
    vault.end_unended(&in_hand).await;
    let job = vault.get::<Job>(tenant, &id.to_string()).await.unwrap().entity;
    assert_eq!(job.status, JobStatus::Failed);
    let error = job.error.unwrap();
    assert_eq!(error["title"], "Reactor Interrupted");
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("A fault of the server ended"), "{error}");
    assert!(!detail.contains("store"), "{error}");
}
