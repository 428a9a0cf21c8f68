//! Jobs that are ended without a run of this process: an earlier one had begun them, or they were restored.

use super::in_hand::InHand;
use super::{Ended, Job, JobStatus};
use crate::figures::figures;
use crate::limits::{HANDED_OUT_MAX, TOKENS_PER_CALL_MAX};
use crate::model::id::TenantId;
use crate::store::Filter;
use crate::vault::audit::Actor;
use crate::vault::record::Stored;
use crate::vault::{Error, Vault};

impl Vault {
    /// Ends whatever was accepted and has not ended, in every tenant of a vault that was made of a backup; gives how much
    /// that is. What waited then may have run since.
    pub async fn end_restored_jobs(&self) -> Result<usize, Error> {
        let (mut ended, none) = (0, InHand::default());
        for tenant in self.tenants().await? {
            for status in [JobStatus::Queued, JobStatus::Running] {
                ended += self.end_those(tenant.id, status, Ended::Restored, &none).await?;
            }
        }
        Ok(ended)
    }

    /// Ends a tenant's jobs of a status without a run, but for those in hand; gives how many.
    pub(super) async fn end_those(
        &self,
        tenant: TenantId,
        status: JobStatus,
        ended: Ended<'_>,
        in_hand: &InHand,
    ) -> Result<usize, Error> {
        let mut count = 0;
        loop {
            let jobs = self.some_but_arguments(tenant, status, in_hand).await?;
            if jobs.is_empty() {
                return Ok(count);
            }
            let mut left = jobs.as_slice();
            while !left.is_empty() {
                // Each of their tokens may have an entry, and a change is as short as others are.
                let mut tokens = 0;
                let fits = left.iter().take_while(|job| {
                    tokens += job.entity.given.len();
                    tokens <= TOKENS_PER_CALL_MAX
                });
                let (now, later) = left.split_at(fits.count().max(1));
                self.end_all(tenant, now, ended).await?;
                left = later;
            }
            count += jobs.len();
        }
    }

    /// Some of a tenant's jobs of a status, without their arguments: those may take a hundred MiB once they are read, which
    /// nobody counts here, so that one is read at a time.
    async fn some_but_arguments(
        &self,
        tenant: TenantId,
        status: JobStatus,
        in_hand: &InHand,
    ) -> Result<Vec<Stored<Job>>, Error> {
        let (mut jobs, mut ids) = (Vec::<Stored<Job>>::new(), Vec::new());
        while jobs.len() < HANDED_OUT_MAX {
            let those = self.jobs_that_are(tenant, status).await?;
            let others = Filter::Not(Box::new(Filter::Ids(ids.clone())));
            let those = Filter::And(vec![those, in_hand.not_jobs_of(tenant), others]);
            let Some(mut job) = self.oldest::<Job>(tenant, &those, 1).await?.pop() else { break };
            job.entity.args = None;
            ids.push(job.entity.id.to_string());
            jobs.push(job);
        }
        Ok(jobs)
    }

    /// Ends a job that came to no run.
    pub(super) async fn end_unrun(&self, job: &Stored<Job>, error: &Error) -> Result<(), Error> {
        let mut change = self.change(job.entity.tenant_id).await?;
        let ended = Ended::Failed(error);
        let events = job.end_without_outcome(&mut change, ended)?;
        change.commit(job.entity.by.actor(), events).await?;
        self.0.queue.deliveries_of(job.entity.tenant_id);
        figures().invocation_over(&ended.ending());
        Ok(())
    }

    /// Ends them in one change.
    pub(super) async fn end_all(
        &self,
        tenant: TenantId,
        jobs: &[Stored<Job>],
        ended: Ended<'_>,
    ) -> Result<(), Error> {
        let mut change = self.change(tenant).await?;
        let mut events = Vec::with_capacity(jobs.len());
        for job in jobs {
            tracing::warn!(invocation = %job.entity.id, "was interrupted and is not run again");
            events.extend(job.end_without_outcome(&mut change, ended)?);
        }
        change.commit(Actor::SERVER, events).await?;
        for _ in jobs {
            figures().invocation_over(&ended.ending());
        }
        self.0.queue.deliveries_of(tenant);
        Ok(())
    }
}
