//! Taking a run into the queue.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::results::JobView;
use super::{By, Job, JobStatus};
use crate::egress::{EgressError, Url};
use crate::limits::CALLBACK_URL_CHARS_MAX;
use crate::model::id::{ApplicationId, InvocationId, TenantId};
use crate::model::log::{ActorType, EntityType, Operation};
use crate::model::permission::marker::TokenUse;
use crate::store::{Expect, Start};
use crate::traces;
use crate::vault::audit::{Actor, Event};
use crate::vault::permit::Permit;
use crate::vault::react::{Asynchronous, Ready};
use crate::vault::record::Entity as _;
use crate::vault::run_error::RunError;
use crate::vault::{Error, Vault};

static TOO_LONG: LazyLock<String> =
    LazyLock::new(|| format!("must have at most {CALLBACK_URL_CHARS_MAX} characters"));

impl Vault {
    /// Checks an address to call back. What its name stands for is looked at when it is called.
    pub(in crate::vault) fn check_callback(&self, text: &str) -> Result<String, &'static str> {
        if text.chars().count() > CALLBACK_URL_CHARS_MAX {
            return Err(TOO_LONG.as_str());
        }
        match self.0.egress.check_address(text, !self.0.allow_http_callbacks) {
            Ok(url) => Ok(url.into()),
            Err(EgressError::Denied(reason) | EgressError::Invalid(reason)) => Err(reason),
            Err(_) => Err("is no address that can be called back"),
        }
    }

    /// Commits a run that was checked as if it were to begin, with its arguments as they were given.
    pub(in crate::vault) async fn queue_job(
        &self,
        permit: &Permit<TokenUse>,
        ready: Ready,
        args: Option<Map<String, Value>>,
        asynchronous: Asynchronous,
    ) -> Result<JobView, Error> {
        let tenant = permit.tenant();
        let Ready { reactor, args: plaintext, room, uses, given, .. } = ready;
        // What is kept are the references; wiped before anything is waited for.
        drop((plaintext, room));
        let coming = self.0.queue.comes(tenant);
        let ahead = self.jobs_waiting(tenant).await? + coming.ahead;
        if ahead >= self.0.jobs.waiting_per_tenant {
            // Its place is not held up; the tokens were read, although nothing comes of it.
            drop(coming);
            self.log(tenant, permit.actor(), uses).await?;
            return Err(Error::Run(Box::new(RunError::QueueFull)));
        }
        let job = Job {
            id: InvocationId(self.draw_id()),
            tenant_id: tenant,
            reactor_id: reactor.id,
            by: By::from(permit.actor()),
            args,
            callback_url: asynchronous.callback_url,
            timeout_ms: asynchronous.timeout_ms,
            given,
            status: JobStatus::Queued,
            response: None,
            error: None,
            elapsed_ms: 0,
            trace_id: traces::current_id().as_deref().map(str::to_owned),
            created_at: self.now(),
            started_at: None,
            finished_at: None,
        };
        let (entity, id) = (EntityType::Reactor, job.reactor_id);
        let message = queued(&job.callback_url);
        let event = Event::done(entity, id, Operation::Invoke, message);
        let mut change = self.change(tenant).await?;
        change.put(&job, Expect::New)?;
        let view = JobView::of(job, None);
        permit.keep_answer(&mut change, &view)?;
        change.commit(permit.actor(), vec![event]).await?;
        drop(coming);
        self.0.queue.jobs_of(tenant);
        Ok(view)
    }

    /// How many jobs of a tenant wait.
    async fn jobs_waiting(&self, tenant: TenantId) -> Result<u64, Error> {
        let queued = self.jobs_that_are(tenant, JobStatus::Queued).await?;
        let store = self.0.store.as_ref();
        Ok(store.page(Job::KIND, tenant, &queued, Start::Offset(0), 0).await?.total)
    }
}

/// What the log says: where the result will go, but for the path and the query, which may hold what is secret.
fn queued(callback_url: &str) -> String {
    match Url::parse(callback_url).map(|url| url.origin()) {
        Ok(origin) if origin.is_tuple() => {
            format!("Reactor run queued, to be told to {}", origin.ascii_serialization())
        }
        _ => "Reactor run queued".to_owned(),
    }
}

impl From<Actor> for By {
    fn from(actor: Actor) -> Self {
        let id = actor.id.unwrap_or_default();
        match actor.kind {
            Some(ActorType::Session) => Self::Session(id),
            _ => Self::Application(ApplicationId(id)),
        }
    }
}
