//! The workers: one task that hands out jobs and deliveries, fairly between tenants, and a task for each in hand.
//!
//! What waits lies in the store and nowhere else: the workers know which tenants have something waiting, ask the index
//! for the oldest of it, and hold only what is in hand. A tenant's turn comes after every other's.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{self, JoinError, JoinSet};

use super::{Ended, Job, JobStatus};
use crate::limits::{HANDED_OUT_MAX, WORKERS_TICK_MS};
use crate::model::id::{InvocationId, TenantId};
use crate::store::{Filter, Start};
use crate::vault::audit::Actor;
use crate::vault::index::{term, term_of};
use crate::vault::record::{Entity, Stored, from_record};
use crate::vault::{Error, Vault};

/// Which tenants have something waiting. What it is, the store knows.
#[derive(Default)]
pub struct Queue {
    jobs: Mutex<Turns>,
    deliveries: Mutex<Turns>,
    wake: Notify,
}

/// Tenants in the order of their turns, each once.
#[derive(Default)]
struct Turns {
    order: VecDeque<TenantId>,
    members: HashSet<TenantId>,
}

impl Turns {
    fn add(&mut self, tenant: TenantId) {
        if self.members.insert(tenant) {
            self.order.push_back(tenant);
        }
    }

    /// Takes a turn's tenant out.
    fn next(&mut self) -> Option<TenantId> {
        let tenant = self.order.pop_front()?;
        self.members.remove(&tenant);
        Some(tenant)
    }
}

impl Queue {
    /// A tenant has jobs waiting.
    pub fn jobs_of(&self, tenant: TenantId) {
        self.jobs.lock().add(tenant);
        self.wake.notify_one();
    }

    /// A tenant has deliveries waiting.
    pub fn deliveries_of(&self, tenant: TenantId) {
        self.deliveries.lock().add(tenant);
        self.wake.notify_one();
    }
}

/// The workers of a vault, until they are stopped.
pub struct Workers {
    vault: Vault,
    task: tokio::task::JoinHandle<()>,
    stop: Arc<Notify>,
}

/// What is in hand: a task for each, and by the task what it is.
#[derive(Default)]
pub(super) struct InHand {
    tasks: JoinSet<()>,
    held: HashMap<task::Id, Held>,
}

struct Held {
    tenant: TenantId,
    id: InvocationId,
    /// Of a delivery; a job has none.
    receiver: Option<String>,
}

impl Vault {
    /// Ends what an earlier process left running, and begins to work on what waits.
    pub fn start_workers(&self) -> Workers {
        let stop = Arc::new(Notify::new());
        let (vault, stopped) = (self.clone(), Arc::clone(&stop));
        let task = tokio::spawn(async move { vault.work(&stopped).await });
        Workers { vault: self.clone(), task, stop }
    }

    async fn work(&self, stop: &Notify) {
        while let Err(error) = self.take_over().await {
            tracing::warn!(%error, "what an earlier process left cannot be looked at");
            tokio::select! {
                () = stop.notified() => return,
                () = tick() => {}
            }
        }
        let mut in_hand = InHand::default();
        loop {
            self.hand_out_jobs(&mut in_hand).await;
            self.hand_out_deliveries(&mut in_hand).await;
            tokio::select! {
                () = stop.notified() => break,
                () = self.0.queue.wake.notified() => {}
                Some(done) = in_hand.tasks.join_next_with_id() => self.put_down(&mut in_hand, done).await,
                () = tick() => {}
            }
        }
        // What is in hand finishes, as long as it is waited for.
        while let Some(done) = in_hand.tasks.join_next_with_id().await {
            self.put_down(&mut in_hand, done).await;
        }
    }

    /// Forgets what is done. A job whose task broke is ended, since nobody else would.
    async fn put_down(&self, in_hand: &mut InHand, done: Result<(task::Id, ()), JoinError>) {
        let (id, broke) = match done {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), true),
        };
        let Some(held) = in_hand.held.remove(&id) else { return };
        if !broke || held.receiver.is_some() {
            return;
        }
        tracing::error!(invocation = %held.id, "a worker broke");
        if let Err(error) = self.interrupt(held.tenant, held.id).await {
            tracing::error!(invocation = %held.id, %error, "its job is left to the next start");
        }
    }

    async fn interrupt(&self, tenant: TenantId, id: InvocationId) -> Result<(), Error> {
        let job = self.get::<Job>(tenant, &id.to_string()).await?;
        if job.entity.status.is_over() {
            return Ok(());
        }
        let mut change = self.change(tenant).await?;
        job.end(&mut change, Ended::Interrupted, 0)?;
        change.commit(Actor::OPERATOR, Vec::new()).await?;
        self.0.queue.deliveries_of(tenant);
        Ok(())
    }

    /// Finds what waits in every tenant, and ends jobs that had begun when an earlier process ended.
    async fn take_over(&self) -> Result<(), Error> {
        for tenant in self.tenants().await? {
            self.interrupt_running(tenant.id).await?;
            self.0.queue.jobs_of(tenant.id);
            self.0.queue.deliveries_of(tenant.id);
        }
        Ok(())
    }

    async fn interrupt_running(&self, tenant: TenantId) -> Result<(), Error> {
        loop {
            let running = self.jobs_that_are(tenant, JobStatus::Running).await?;
            let jobs = self.oldest::<Job>(tenant, &running, HANDED_OUT_MAX).await?;
            if jobs.is_empty() {
                return Ok(());
            }
            let mut change = self.change(tenant).await?;
            for job in &jobs {
                tracing::warn!(invocation = %job.entity.id, "was interrupted and is not run again");
                let began = job.entity.started_at.unwrap_or(job.entity.created_at).0;
                job.end(&mut change, Ended::Interrupted, self.now().0.saturating_sub(began))?;
            }
            change.commit(Actor::OPERATOR, Vec::new()).await?;
        }
    }

    /// The filter for jobs of a status.
    pub(super) async fn jobs_that_are(
        &self,
        tenant: TenantId,
        status: JobStatus,
    ) -> Result<Filter, Error> {
        let keys = self.keys(tenant).await?;
        Ok(Filter::Term(term_of(&keys, term::JOB_STATUS, &[status.as_str()])))
    }

    /// The oldest entities that match. One that does not open is told to the operator and left.
    pub(super) async fn oldest<E: Entity>(
        &self,
        tenant: TenantId,
        filter: &Filter,
        count: usize,
    ) -> Result<Vec<Stored<E>>, Error> {
        let store = self.0.store.as_ref();
        let total = store.page(E::KIND, tenant, filter, Start::Offset(0), 0).await?.total;
        let start = Start::Offset(total.saturating_sub(count as u64));
        let slice = store.page(E::KIND, tenant, filter, start, count).await?;
        let keys = self.keys(tenant).await?;
        let opened = slice.records.iter().rev().filter_map(|record| {
            let opened = from_record::<E>(record, &keys);
            if opened.is_err() {
                tracing::error!(
                    kind = record.kind.0,
                    "a record does not open, and is not worked on"
                );
            }
            opened.ok()
        });
        Ok(opened.collect())
    }

    /// Begins jobs, one of each tenant in turn, as long as there is room.
    async fn hand_out_jobs(&self, in_hand: &mut InHand) {
        let mut later = Vec::new();
        while in_hand.jobs(None).count() < self.0.jobs.running {
            let Some(tenant) = self.0.queue.jobs.lock().next() else { break };
            if in_hand.jobs(Some(tenant)).count() >= self.0.jobs.running_per_tenant {
                later.push(tenant);
                continue;
            }
            match self.next_job(tenant, in_hand).await {
                Ok(Some(job)) => {
                    let (vault, id) = (self.clone(), job.entity.id);
                    let work = async move { vault.run_job(tenant, job).await };
                    in_hand.take(Held { tenant, id, receiver: None }, work);
                    self.0.queue.jobs.lock().add(tenant);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "the queue cannot be read");
                    later.push(tenant);
                    break;
                }
            }
        }
        let mut turns = self.0.queue.jobs.lock();
        for tenant in later {
            turns.add(tenant);
        }
    }

    /// The oldest job of a tenant that waits and is not in hand.
    async fn next_job(
        &self,
        tenant: TenantId,
        in_hand: &InHand,
    ) -> Result<Option<Stored<Job>>, Error> {
        let queued = self.jobs_that_are(tenant, JobStatus::Queued).await?;
        let held = in_hand.jobs(Some(tenant)).map(|held| held.id.to_string());
        let held = Filter::Ids(held.collect());
        let filter = Filter::And(vec![queued, Filter::Not(Box::new(held))]);
        Ok(self.oldest::<Job>(tenant, &filter, 1).await?.pop())
    }

    /// Begins deliveries that are due.
    async fn hand_out_deliveries(&self, in_hand: &mut InHand) {
        let tenants = self.0.queue.deliveries.lock().order.len();
        for _ in 0..tenants {
            let Some(tenant) = self.0.queue.deliveries.lock().next() else { break };
            match self.due_deliveries(tenant, in_hand).await {
                Ok((due, more)) => {
                    for delivery in due {
                        let (vault, id) = (self.clone(), delivery.entity.id);
                        let receiver = Some(delivery.entity.receiver());
                        let work = async move { vault.deliver(tenant, delivery).await };
                        in_hand.take(Held { tenant, id, receiver }, work);
                    }
                    if more {
                        self.0.queue.deliveries.lock().add(tenant);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the deliveries cannot be read");
                    self.0.queue.deliveries.lock().add(tenant);
                }
            }
        }
    }
}

impl InHand {
    fn take(&mut self, held: Held, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(work);
        self.held.insert(task.id(), held);
    }

    /// Jobs in hand, of one tenant or of all.
    fn jobs(&self, tenant: Option<TenantId>) -> impl Iterator<Item = &Held> {
        let of_tenant = move |held: &&Held| tenant.is_none_or(|tenant| held.tenant == tenant);
        self.held.values().filter(|held| held.receiver.is_none()).filter(of_tenant)
    }

    /// Deliveries in hand: tenant, invocation, receiver.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = (TenantId, InvocationId, &str)> {
        self.held.values().filter_map(|held| {
            let receiver = held.receiver.as_deref()?;
            Some((held.tenant, held.id, receiver))
        })
    }
}

impl Workers {
    /// Begins nothing more, and waits for what is in hand. Whatever still runs when `bound` is over is left: a delivery for
    /// the next process, a run to end as interrupted.
    pub async fn stop(mut self, bound: Duration) {
        self.stop.notify_one();
        if tokio::time::timeout(bound, &mut self.task).await.is_ok() {
            return;
        }
        self.task.abort();
        let _ = self.task.await;
        for tenant in self.vault.tenants().await.unwrap_or_default() {
            if let Err(error) = self.vault.interrupt_running(tenant.id).await {
                tracing::warn!(%error, "interrupted runs are left to the next start");
            }
        }
    }
}

async fn tick() {
    tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
}
