//! One job, from its mark that it has begun to its end.

use std::sync::Arc;
use std::time::Duration;

use super::{By, Ended, Job, JobStatus};
use crate::limits::{REACT_TIMEOUT_MS, WORKERS_TICK_MS};
use crate::model::id::TenantId;
use crate::model::permission::marker::TokenUse;
use crate::store::Expect;
use crate::vault::applications::KeptApplication;
use crate::vault::audit::Actor;
use crate::vault::authentication::{Authenticated, Caller};
use crate::vault::react::Run;
use crate::vault::record::Stored;
use crate::vault::{Error, Vault};

impl Vault {
    /// Does a job, up to its end.
    pub(super) async fn run_job(&self, tenant: TenantId, job: Stored<Job>) {
        let id = job.entity.id;
        match self.try_run_job(tenant, job).await {
            Ok(()) => {}
            // The store took nothing: the job stays as it was, and is looked at again at the next start.
            Err(error) => tracing::error!(invocation = %id, %error, "a run could not be stored"),
        }
        self.0.queue.jobs_of(tenant);
        self.0.queue.deliveries_of(tenant);
    }

    async fn try_run_job(&self, tenant: TenantId, job: Stored<Job>) -> Result<(), Error> {
        // A job that there is no room for has not begun.
        let waits = Duration::from_millis(REACT_TIMEOUT_MS);
        let Ok(slot) = self.0.runtime.acquire(tenant.0.as_u128(), waits).await else {
            tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
            return Ok(());
        };
        let Stored { entity: queued, version } = job;
        let args = queued.args.clone();
        let begun =
            Job { status: JobStatus::Running, started_at: Some(self.now()), args: None, ..queued };
        // From here on it is not begun again, whatever happens.
        let mut change = self.change(tenant).await?;
        change.put(&begun, Expect::Version(version))?;
        change.commit(Actor::OPERATOR, Vec::new()).await?;
        // A commit counts the version on by one.
        let job = Stored { entity: begun, version: version + 1 };
        let actor = job.entity.by.actor();
        let permit = match self.caller_of(tenant, job.entity.by).await {
            Ok(who) => self.permit::<TokenUse>(&who, None).await,
            Err(error) => Err(error),
        };
        let ready = match &permit {
            Ok(permit) => self.ready(permit, job.entity.reactor_id, args).await,
            Err(_) => Err(Error::Unauthenticated),
        };
        let (permit, ready) = match (permit, ready) {
            (Ok(permit), Ok(ready)) => (permit, ready),
            (Err(error), _) | (_, Err(error)) => return self.end_unrun(&job, actor, &error).await,
        };
        let mut run = Run::new(self, &permit, ready, job.entity.timeout_ms).of_job(job, slot);
        match self.invoke(&mut run).await {
            Ok(outcome) => match self.settle(run, outcome).await {
                // The run's failure is its result; only the store's is not.
                Err(error @ (Error::Unavailable | Error::Internal)) => Err(error),
                _ => Ok(()),
            },
            Err(error) => match run.into_job() {
                Some(job) => self.end_unrun(&job, actor, &error).await,
                None => Ok(()),
            },
        }
    }

    /// Ends a job that came to no run.
    async fn end_unrun(&self, job: &Stored<Job>, actor: Actor, error: &Error) -> Result<(), Error> {
        let mut change = self.change(job.entity.tenant_id).await?;
        job.end(&mut change, Ended::Failed(error), 0)?;
        change.commit(actor, Vec::new()).await
    }

    /// Who asked for a run, with the rights it has now.
    async fn caller_of(&self, tenant: TenantId, by: By) -> Result<Authenticated, Error> {
        let caller = match by {
            By::Application(id) => {
                let kept = self.find::<KeptApplication>(tenant, &[&id.to_string()]).await?;
                kept.into_iter().flatten().next().map(|kept| Caller::new(kept.entity.application))
            }
            By::Session(id) => self.session_caller_of(tenant, id).await?,
        };
        let caller = caller.filter(|caller| caller.ends.is_none_or(|ends| ends > self.now()));
        caller.map(|caller| Authenticated(Arc::new(caller))).ok_or(Error::Unauthenticated)
    }
}
