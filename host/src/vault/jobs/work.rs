//! The workers: one task that hands out jobs and deliveries, fairly between tenants, and a task for each in hand.
//!
//! What waits lies in the store and nowhere else: the workers know which tenants have something waiting, ask the index
//! for the oldest of it, and hold only what is in hand. A tenant's turn comes after every other's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::{self, JoinError, JoinHandle};
use tracing::Instrument as _;

use super::in_hand::{Held, InHand, Standing, Told};
use super::receivers::Pace;
use super::{Delivery, Ended, Job, JobStatus};
use crate::limits::{JOBS_APART_MAX, TENANTS_LOOKED_AT, WORKERS_TICK_MS};
use crate::model::id::{InvocationId, TenantId};
use crate::store::{Filter, Start};
use crate::traces;
use crate::vault::index::{term, term_of};
use crate::vault::record::{Entity, Stored, from_record};
use crate::vault::{Error, Vault, sharing, sharing_out_of_row};

/// How long the store may take over what is on its way to it when everything ends.
const SETTLING_MAX: Duration = Duration::from_secs(10);
/// How long it may take until everything in hand has let go.
const CUTTING_OFF_MAX: Duration = Duration::from_secs(2);

/// The workers of a vault, until they are stopped.
pub struct Workers {
    vault: Vault,
    task: JoinHandle<()>,
}

impl Vault {
    /// Ends what an earlier process left running, and begins to work on what waits.
    pub fn start_workers(&self) -> Workers {
        // What the clock says before anything of it is gone by, so that it is seen when it is set.
        if let Err(error) = self.clock_is_believed() {
            tracing::warn!(%error, "the clock cannot be compared with the log");
        }
        let vault = self.clone();
        let task = tokio::spawn(async move {
            let mut left = Ended::Interrupted;
            // A fault of ours in the loop ends what is in hand, and nothing else. Where it panicked tells the hook.
            while AssertUnwindSafe(vault.clone().work(left)).catch_unwind().await.is_err() {
                tracing::error!("the workers broke and begin anew");
                left = Ended::Broken;
                tick().await;
            }
        });
        Workers { vault: self.clone(), task }
    }

    /// Works, once it has ended what workers before it left running.
    async fn work(self, left: Ended<'static>) {
        let queue = &self.0.queue;
        let mut in_hand = InHand::default();
        let mut untaken: Option<Vec<TenantId>> = None;
        let mut ticks = tokio::time::interval(Duration::from_millis(WORKERS_TICK_MS));
        while !queue.is_stopping() {
            // A store that takes no writes could keep no note of what was done: it would be done again and again.
            if self.health().is_ok() {
                self.take_over(&mut untaken, left, &in_hand).await;
                self.hand_out_jobs(&mut in_hand).await;
                self.hand_out_deliveries(&mut in_hand).await;
            }
            tokio::select! {
                () = queue.woken(), if self.health().is_ok() => {}
                Some(done) = in_hand.tasks.join_next_with_id() => self.put_down(&mut in_hand, done).await,
                _ = ticks.tick() => {
                    queue.look_again(TENANTS_LOOKED_AT);
                    if queue.has_put_off() {
                        let is_believed = self.clock_is_believed().unwrap_or(false);
                        queue.take_up_put_off(is_believed);
                    }
                    self.end_unended(&in_hand).await;
                }
            }
        }
        // What is in hand finishes, as long as it is waited for.
        loop {
            tokio::select! {
                done = in_hand.tasks.join_next_with_id() => match done {
                    Some(done) => self.put_down(&mut in_hand, done).await,
                    None => return,
                },
                () = queue.cut_off() => return in_hand.tasks.shutdown().await,
            }
        }
    }

    /// Forgets what is done. What broke is ended, since nobody else would, or begun anew if it had not begun: not at once,
    /// and not for ever.
    pub(super) async fn put_down(
        &self,
        in_hand: &mut InHand,
        done: Result<(task::Id, ()), JoinError>,
    ) {
        let (id, broke) = match done {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), true),
        };
        let Some(held) = in_hand.held.remove(&id) else { return };
        let Held { tenant, id, receiver, stands: _ } = held;
        let queue = &self.0.queue;
        if broke {
            tracing::error!(invocation = %id, "a worker broke");
        }
        match (receiver, broke) {
            (Some(told), broke) => {
                queue.ended(tenant, &told, in_hand);
                if broke {
                    self.note_broken_try(tenant, id).await;
                }
            }
            (None, false) => queue.jobs_of(tenant),
            (None, true) => {
                self.give_up_if_hopeless(tenant, id, &Error::Internal).await;
                queue.unended(tenant, id, Ended::Broken);
                queue.deliveries_of(tenant);
                queue.jobs_later(tenant);
            }
        }
    }

    /// Ends jobs that ran but whose end could not be stored, or whose task broke. One that is in hand was begun anew since
    /// then, or is about to be put down.
    pub(super) async fn end_unended(&self, in_hand: &InHand) {
        for (tenant, id, ended) in self.0.queue.take_unended() {
            let is_held = in_hand.jobs(Some(tenant)).any(|held| held.id == id);
            let over = if is_held { None } else { Some(self.interrupt(tenant, id, ended).await) };
            if !matches!(over, Some(Ok(()) | Err(Error::TenantGone))) {
                self.0.queue.unended(tenant, id, ended);
            }
        }
    }

    async fn interrupt(
        &self,
        tenant: TenantId,
        id: InvocationId,
        ended: Ended<'static>,
    ) -> Result<(), Error> {
        let job = match self.kept::<Job>(tenant, id).await {
            Ok(job) if job.entity.status == JobStatus::Running => job,
            Ok(_) | Err(Error::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.end_all(tenant, &[job], ended).await?;
        self.0.queue.forget_failures(id);
        Ok(())
    }

    /// Finds what waits in every tenant, and ends jobs that had begun when earlier workers ended. A tenant that cannot be
    /// looked at stands in no other's way; it is looked at again, when some of its jobs may be in hand.
    pub(super) async fn take_over(
        &self,
        untaken: &mut Option<Vec<TenantId>>,
        left: Ended<'static>,
        in_hand: &InHand,
    ) {
        let tenants = match untaken.take() {
            Some(tenants) => tenants,
            None => match self.tenants().await {
                Ok(tenants) => tenants.into_iter().map(|tenant| tenant.id).collect(),
                Err(error) => {
                    tracing::warn!(%error, "the tenants cannot be looked at");
                    return;
                }
            },
        };
        let mut failed = Vec::new();
        for tenant in tenants {
            match self.end_those(tenant, JobStatus::Running, left, in_hand).await {
                Ok(_) => {
                    self.0.queue.jobs_of(tenant);
                    self.0.queue.deliveries_of(tenant);
                }
                Err(Error::TenantGone) => {}
                Err(error) => {
                    tracing::error!(tenant = %tenant, %error, "its queue cannot be looked at");
                    failed.push(tenant);
                }
            }
        }
        *untaken = Some(failed);
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

    /// The oldest entities that match, at least one of them if there is any. One that does not open is told to the
    /// operator and left.
    pub(super) async fn oldest<E: Entity>(
        &self,
        tenant: TenantId,
        filter: &Filter,
        count: usize,
    ) -> Result<Vec<Stored<E>>, Error> {
        let store = self.0.store.as_ref();
        let mut left = store.page(E::KIND, tenant, filter, Start::Offset(0), 0).await?.total;
        while left > 0 {
            let first = left.saturating_sub(count as u64);
            let slice = store.page(E::KIND, tenant, filter, Start::Offset(first), count).await?;
            let keys = self.keys(tenant).await?;
            let opened = slice.records.iter().rev().filter_map(|record| {
                match from_record::<E>(record, &keys) {
                    // It will open when others are done.
                    Err(error @ Error::Busy(_)) => Some(Err(error)),
                    Err(_) => {
                        let kind = record.kind.0;
                        tracing::error!(kind, "a record does not open, and is not worked on");
                        None
                    }
                    opened => Some(opened),
                }
            });
            let opened = opened.collect::<Result<Vec<_>, Error>>()?;
            if !opened.is_empty() {
                return Ok(opened);
            }
            left = first;
        }
        Ok(Vec::new())
    }

    /// Begins jobs, one of each tenant in turn, as long as there is room.
    async fn hand_out_jobs(&self, in_hand: &mut InHand) {
        let mut later = Vec::new();
        let places = self.0.jobs.places(self.0.runtime.slots_for_jobs());
        let most = places.all + JOBS_APART_MAX;
        while in_hand.places(None) < places.all && in_hand.jobs(None).count() < most {
            let Some(tenant) = self.0.queue.next_for_jobs() else { break };
            // As many again may wait for the compiler.
            let own = [in_hand.places(Some(tenant)), in_hand.jobs(Some(tenant)).count() / 2];
            if own.into_iter().any(|count| count >= places.per_tenant) {
                // Its turn comes when one of its own is done.
                continue;
            }
            let free = places.all - in_hand.places(None);
            if free <= places.last && in_hand.jobs(Some(tenant)).next().is_some() {
                later.push(tenant);
                continue;
            }
            // While others wait for slots, one job of each tenant waits in the row with them: neither those who wait for an
            // answer nor those who are called back keep the others from their turn.
            let slot = self.0.runtime.try_acquire(tenant.0.as_u128());
            let waits = slot.is_none();
            if waits && in_hand.waits_for_slot(tenant) {
                later.push(tenant);
                continue;
            }
            // What is opened for a job counts until that is done.
            let share = Some(self.share(tenant));
            let (next, share) = sharing_out_of_row(share, self.next_job(tenant, in_hand)).await;
            match next {
                Ok(Some(job)) => {
                    let (vault, id) = (self.clone(), job.entity.id);
                    let stands = Standing::new(waits);
                    let held = Held { tenant, id, receiver: None, stands: Arc::clone(&stands) };
                    let work = async move {
                        let run = Box::pin(vault.run_job(tenant, job, slot, &stands));
                        sharing(share, run).await;
                    };
                    in_hand.take(held, work);
                    self.0.queue.jobs_again(tenant);
                }
                // Nothing waits, or the tenant was erased.
                Ok(None) | Err(Error::TenantGone) => {}
                // Its runs that are under way have the memory.
                Err(Error::Busy(_)) => later.push(tenant),
                Err(error) => {
                    tracing::warn!(%error, "the queue cannot be read");
                    later.push(tenant);
                }
            }
        }
        // Not at once: what they wait for takes a while.
        for tenant in later {
            self.0.queue.jobs_later(tenant);
        }
    }

    /// Begins deliveries that are due, of one tenant after the other, until there are no more or no places.
    async fn hand_out_deliveries(&self, in_hand: &mut InHand) {
        loop {
            let turns = self.0.queue.delivery_turns();
            let mut begun = 0;
            for _ in 0..turns {
                let Some(tenant) = self.0.queue.next_for_deliveries() else { return };
                match self.due_deliveries(tenant, in_hand).await {
                    Ok((due, more)) => {
                        begun += due.len();
                        if due.is_empty() && more {
                            self.0.queue.deliveries_later(tenant);
                        } else if more {
                            self.0.queue.deliveries_again(tenant);
                        }
                        for (delivery, pace) in due {
                            self.begin(tenant, delivery, pace, in_hand);
                        }
                    }
                    Err(Error::TenantGone) => self.0.queue.receivers.forget(tenant),
                    Err(error) => {
                        tracing::warn!(%error, "the deliveries cannot be read");
                        self.0.queue.deliveries_later(tenant);
                    }
                }
            }
            if begun == 0 {
                return;
            }
        }
    }

    fn begin(
        &self,
        tenant: TenantId,
        delivery: Stored<Delivery>,
        pace: Pace,
        in_hand: &mut InHand,
    ) {
        let (vault, id) = (self.clone(), delivery.entity.id);
        let receiver = Some(Told { receiver: delivery.entity.receiver(), pace });
        // Whose result it is is read first of all.
        let trace_id = tracing::field::Empty;
        let stage = traces::stage(|| tracing::info_span!("webhook.send", trace_id));
        let work = async move { vault.deliver(tenant, delivery).await }.instrument(stage);
        in_hand.take(Held { tenant, id, receiver, stands: Arc::default() }, work);
    }
}

impl Workers {
    /// Begins nothing more, and waits for what is in hand. Whatever still runs when `bound` is over is left: a delivery for
    /// the next process, a run to end as interrupted.
    pub async fn stop(mut self, bound: Duration) {
        self.vault.begin_no_more();
        if tokio::time::timeout(bound, &mut self.task).await.is_ok() {
            return;
        }
        self.vault.0.queue.cut_off_all();
        if tokio::time::timeout(CUTTING_OFF_MAX, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
        }
        // What was on its way to the store when it was cut off is there now, or not at all.
        match tokio::time::timeout(SETTLING_MAX, self.vault.settled()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "interrupted runs are left to the next start");
                return;
            }
            Err(_) => {
                tracing::warn!("interrupted runs are left to the next start");
                return;
            }
        }
        let (running, ended, none) = (JobStatus::Running, Ended::Interrupted, InHand::default());
        for tenant in self.vault.tenants().await.unwrap_or_default() {
            if let Err(error) = self.vault.end_those(tenant.id, running, ended, &none).await {
                tracing::warn!(%error, "interrupted runs are left to the next start");
            }
        }
    }
}

async fn tick() {
    tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
}
