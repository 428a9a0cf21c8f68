//! What a caller sees of a job: its result, and its delivery.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::delivery::{Delivery, DeliveryView};
use super::{By, Job, JobStatus};
use crate::model::id::{InvocationId, ReactorId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::TokenUse;
use crate::model::plaintext::opaque;
use crate::model::time::Timestamp;
use crate::store::Expect;
use crate::vault::audit::Event;
use crate::vault::authentication::Authenticated;
use crate::vault::permit::Permit;
use crate::vault::react::ReactResponse;
use crate::vault::record::Stored;
use crate::vault::retry::{HOLDING_TRIES, unless_lost};
use crate::vault::{Error, Vault};

/// An asynchronous run and what came of it (decisions §7). Kept for 7 days after its end.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub struct JobView {
    /// Identifies the run; the webhook's `webhook-id` too.
    pub invocation_id: InvocationId,
    /// The reactor.
    pub reactor_id: ReactorId,
    /// Where it stands.
    status: JobStatus,
    /// What the formula answered. Of tokens that were changed or are gone since, it says which they were and no more. Who
    /// did not ask for the run sees no more of them, and no more than it may read itself, but at least which they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReactResponse>)]
    response: Option<Value>,
    /// The problem it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    /// The webhook. It waits until there is a result to tell. Absent where the run was just queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<DeliveryView>,
    /// When it was queued.
    created_at: Timestamp,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
}

opaque!(JobView);

impl JobView {
    pub(super) fn of(job: Job, delivery: Option<DeliveryView>) -> Self {
        Self {
            invocation_id: job.id,
            reactor_id: job.reactor_id,
            status: job.status,
            response: job.response,
            error: job.error,
            delivery,
            created_at: job.created_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
        }
    }

    /// Where it is to be had.
    pub fn location(&self) -> String {
        format!("/reactors/{}/results/{}", self.reactor_id, self.invocation_id)
    }
}

impl Vault {
    /// Shows an asynchronous run to those who could have asked for it.
    pub async fn find_result(
        &self,
        permit: &Permit<TokenUse>,
        reactor_id: ReactorId,
        id: InvocationId,
    ) -> Result<JobView, Error> {
        let mut job = self.job_for(permit, (reactor_id, id), Operation::Read).await?;
        let read = self.show_kept_in(&mut job, Some(permit)).await?;
        let delivery = self.delivery_of(&job).await?;
        let mut events = vec![event_of(&job, Operation::Read, "Reactor result read")];
        events.extend(read);
        self.log(permit.tenant(), permit.actor(), events).await?;
        let delivery = delivery.as_ref().map(|stored| stored.entity.view());
        Ok(JobView::of(job, Some(delivery.unwrap_or_else(DeliveryView::waiting))))
    }

    /// Shows the tokens in a result ([`Vault::show_kept`]): to who asked for the run and to its receiver as they were shown
    /// then, to others within their own rights. Gives the reads that these are when somebody asked.
    pub(super) async fn show_kept_in(
        &self,
        job: &mut Job,
        reader: Option<&Permit<TokenUse>>,
    ) -> Result<Vec<Event>, Error> {
        let other = reader.filter(|reader| By::from(reader.actor()) != job.by);
        let rights = other.map(Permit::rights);
        let tokens = job.response.as_mut().and_then(|response| response.get_mut("tokens"));
        match tokens {
            Some(tokens) => self.show_kept(job.tenant_id, tokens, rights).await,
            None => Ok(Vec::new()),
        }
    }

    /// Shows the tokens in a result that was kept as an answer, as [`Vault::find_result`] would show them. Gives the reads
    /// that these are.
    pub async fn show_kept_of_result(
        &self,
        who: &Authenticated,
        id: &str,
        tokens: &mut Value,
    ) -> Result<Vec<Event>, Error> {
        let tenant = who.0.tenant();
        let job = self.find::<Job>(tenant, &[id]).await?.pop().flatten();
        let own = job.is_some_and(|job| job.entity.by == By::from(who.0.actor()));
        self.show_kept(tenant, tokens, (!own).then_some(&who.0.rights)).await
    }

    /// Tells a result once more, whatever became of it before.
    pub async fn redeliver(
        &self,
        permit: &Permit<TokenUse>,
        reactor_id: ReactorId,
        id: InvocationId,
    ) -> Result<JobView, Error> {
        let job = self.job_for(permit, (reactor_id, id), Operation::Update).await?;
        // Before anything is done: what fails here has not been carried out.
        let mut shown = job.clone();
        let read = self.show_kept_in(&mut shown, Some(permit)).await?;
        let delivery = self
            .retried(HOLDING_TRIES, || Box::pin(self.queue_delivery_again(permit, &job, &read)))
            .await?;
        self.0.queue.deliveries_of(permit.tenant());
        Ok(JobView::of(shown, Some(delivery)))
    }

    async fn queue_delivery_again(
        &self,
        permit: &Permit<TokenUse>,
        job: &Job,
        read: &[Event],
    ) -> Result<Option<DeliveryView>, Error> {
        let unfinished = Error::Conflict("The run has not ended: there is nothing to deliver yet.");
        let stored = self.delivery_of(job).await?.ok_or(unfinished)?;
        let Stored { entity: mut delivery, version } = stored;
        let mut change = self.change(permit.tenant()).await?;
        // One that was not tried yet too: its first try may be under way, with what is to be told anew.
        delivery.again(self.now());
        change.put(&delivery, Expect::Version(version))?;
        let view = JobView::of(job.clone(), Some(delivery.view()));
        permit.keep_answer_of(&mut change, &view, &job.given)?;
        let mut events = vec![event_of(job, Operation::Update, "Webhook queued again")];
        events.extend_from_slice(read);
        unless_lost(change.try_commit(permit.actor(), events).await?, delivery.view())
    }

    /// The job, if the caller may use every token that it was given as it was given it, whatever it asks for.
    async fn job_for(
        &self,
        permit: &Permit<TokenUse>,
        (reactor_id, id): (ReactorId, InvocationId),
        attempted: Operation,
    ) -> Result<Job, Error> {
        let job = self.get::<Job>(permit.tenant(), &id.to_string()).await?.entity;
        if job.reactor_id != reactor_id {
            return Err(Error::NotFound("result"));
        }
        let reactor = job.reactor_id.to_string();
        let asked = Some((EntityType::Reactor, reactor.as_str()));
        self.expect_given_to(permit, &job.given, (asked, attempted)).await?;
        Ok(job)
    }

    async fn delivery_of(&self, job: &Job) -> Result<Option<Stored<Delivery>>, Error> {
        let id = job.id.to_string();
        Ok(self.find::<Delivery>(job.tenant_id, &[&id]).await?.pop().flatten())
    }
}

fn event_of(job: &Job, operation: Operation, message: &str) -> Event {
    // A reactor has many runs.
    let message = format!("{message}: {}", job.id);
    Event::done(EntityType::Reactor, job.reactor_id, operation, message)
}
