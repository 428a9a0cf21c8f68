//! Asynchronous runs: a queue of references, a result kept, a webhook (interface §4.5, §6; decisions §7).
//!
//! `POST …/react` with a `callback_url` checks everything that a run checks, and commits a [`Job`]: the references as
//! they were given, sealed, never what they stand for. A worker ([`work`]) takes it, marks it as begun, durably, before anything
//! runs, and goes the way of every run; the result, the invocation, its log entry and the [`Delivery`] are one commit.
//! So a crash leaves a job queued (it begins after the restart), running (it may have moved money: it is never begun
//! again and ends as interrupted) or ended (it is delivered). A backup knows nothing of what was begun after it was made, so
//! that in a vault made of one no job begins that it holds: all of them end as interrupted.

mod accept;
mod deliver;
mod delivery;
mod due;
mod ended;
mod in_hand;
mod next;
mod put_off;
mod queue;
mod receivers;
mod results;
mod run;
#[cfg(test)]
mod tests;
mod waiting;
mod work;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

pub use queue::Queue;
pub use results::JobView;
pub use work::Workers;

pub(super) use delivery::Delivery;

use super::audit::{Actor, Event};
use super::given::UsedToken;
use super::index::{Index, term, term_of};
use super::invocations::{Invocation, InvocationStatus};
use super::record::{Entity, Stored, from_json_text, json_text, kind};
use super::run_error::RunError;
use super::{Change, Error};
use crate::crypto::keys::TenantKeys;
use crate::crypto::wiped::Wiped;
use crate::figures::Ending;
use crate::limits::INVOCATION_KEPT_MS;
use crate::model::id::{ApplicationId, InvocationId, ReactorId, TenantId};
use crate::model::log::{ActorType, EntityType, Operation};
use crate::model::plaintext::opaque;
use crate::model::time::Timestamp;
use crate::store::{Expect, Kind, Term};

/// The title of the problem that a run ends with when what came of it is not known (decisions §7).
pub(super) const INTERRUPTED: &str = "Reactor Interrupted";
const WHILE_IT_RAN: &str =
    "The server ended while the reactor ran. It is not run again, since it may have had effects.";
const NOT_STORED: &str = "The server failed to store what came of the reactor's run. It is not run again, since it may \
    have had effects.";
const BROKE: &str = "A fault of the server ended the reactor's run. It is not run again, since it may have had \
    effects.";
const SINCE_THE_BACKUP: &str = "The vault was restored from a backup. The reactor is not run again, since it may have run \
    after the backup was made.";

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// It waits for a worker.
    Queued,
    /// It has begun.
    Running,
    /// The formula answered.
    Completed,
    /// It failed.
    Failed,
}

impl JobStatus {
    /// The name, as the index has it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing more comes of it.
    fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Who asked for a run. Its rights are looked up anew when the run begins: what was taken away meanwhile is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    Application(ApplicationId),
    Session(Uuid),
}

impl By {
    /// How the log names it.
    fn actor(self) -> Actor {
        match self {
            Self::Application(id) => Actor { id: Some(id.0), kind: Some(ActorType::Application) },
            Self::Session(id) => Actor { id: Some(id), kind: Some(ActorType::Session) },
        }
    }
}

/// A run that was put into the queue, and what came of it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Job {
    /// The invocation it is.
    pub id: InvocationId,
    tenant_id: TenantId,
    /// The reactor.
    pub reactor_id: ReactorId,
    by: By,
    /// The arguments as they were given, references and all; gone once it has begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    args: Option<Map<String, Value>>,
    callback_url: String,
    /// How long the run may take.
    pub timeout_ms: u64,
    /// The tokens it is given: who may use them so may read the result.
    given: Vec<UsedToken>,
    status: JobStatus,
    /// The formula's answer, as `POST …/react` would give it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    response: Option<Value>,
    /// The problem it ended with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    error: Option<Value>,
    #[serde(default)]
    elapsed_ms: u64,
    /// That of the request that asked for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    trace_id: Option<String>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    finished_at: Option<Timestamp>,
}

opaque!(Job);

/// How a job ends.
#[derive(Clone, Copy)]
pub enum Ended<'a> {
    /// With an answer.
    Completed {
        /// What was tokenized.
        tokens: Option<&'a Value>,
        /// The formula's own output.
        raw: Option<&'a Value>,
    },
    /// With a problem.
    Failed(&'a Error),
    /// The server ended while it ran.
    Interrupted,
    /// What came of it could not be stored.
    Lost,
    /// A fault of ours ended it.
    Broken,
    /// It may have run since the backup was made that the vault is from.
    Restored,
}

impl Ended<'_> {
    /// How a job without an outcome is counted; its title is that of the problem it ends with.
    fn ending(&self) -> Ending {
        match self {
            Self::Failed(error) => {
                Ending { title: error.describe().title, is_fault: error.is_ours() }
            }
            Self::Lost | Self::Broken => Ending { title: INTERRUPTED, is_fault: true },
            // Servers are ended by those that operate them.
            Self::Completed { .. } | Self::Interrupted | Self::Restored => {
                Ending { title: INTERRUPTED, is_fault: false }
            }
        }
    }
}

impl Entity for Job {
    const KIND: Kind = kind::JOB;
    const NOUN: &'static str = "result";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.created_at.0
    }

    /// A job that waits or runs does not end by itself.
    fn expires_ms(&self) -> Option<u64> {
        self.finished_at.map(|finished| finished.0 + INVOCATION_KEPT_MS)
    }

    fn index(&self, index: &mut Index<'_>) {
        if !self.status.is_over() {
            index.term(term::JOB_STATUS, &[self.status.as_str()]);
        }
        if self.status == JobStatus::Queued {
            index.term(term::REACTOR, &[&self.reactor_id.to_string()]);
        }
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Job {
    /// What the queued jobs of a reactor are found by, but for those that an earlier version queued.
    pub fn term_of_reactor(keys: &TenantKeys, reactor: ReactorId) -> Term {
        term_of(keys, term::REACTOR, &[&reactor.to_string()])
    }

    /// That of the request that asked for it; of one that an earlier version queued, its own id.
    fn trace_id(&self) -> String {
        self.trace_id.clone().unwrap_or_else(|| self.id.to_string())
    }
}

impl Stored<Job> {
    /// Ends the job in a change: its result is kept and its delivery is due.
    pub(super) fn end(
        &self,
        change: &mut Change,
        ended: Ended<'_>,
        elapsed_ms: u64,
    ) -> Result<(), Error> {
        let now = change.now();
        let mut job = Job { args: None, elapsed_ms, finished_at: Some(now), ..self.entity.clone() };
        job.status = match ended {
            Ended::Completed { .. } => JobStatus::Completed,
            Ended::Failed(_)
            | Ended::Interrupted
            | Ended::Lost
            | Ended::Broken
            | Ended::Restored => JobStatus::Failed,
        };
        match ended {
            Ended::Completed { tokens, raw } => {
                let members = [("tokens", tokens), ("raw", raw)].into_iter();
                let members = members.filter_map(|(name, value)| Some((name, value?.clone())));
                job.response =
                    Some(members.map(|(name, value)| (name.to_owned(), value)).collect());
            }
            Ended::Failed(error) => job.error = Some(problem(error)),
            Ended::Interrupted => job.error = Some(interrupted(WHILE_IT_RAN)),
            Ended::Lost => job.error = Some(interrupted(NOT_STORED)),
            Ended::Broken => job.error = Some(interrupted(BROKE)),
            Ended::Restored => job.error = Some(interrupted(SINCE_THE_BACKUP)),
        }
        let trace_id = job.trace_id();
        if let Some(problem) = &mut job.error {
            // An earlier version kept none with what it queued.
            problem["trace_id"] = trace_id.into();
        }
        change.put(&Delivery::due(&job, now), Expect::Absent)?;
        change.put(&job, Expect::Version(self.version))?;
        Ok(())
    }

    /// Ends the job in a change without a run to tell of; gives its log entries. It is counted once that is committed.
    pub(super) fn end_without_outcome(
        &self,
        change: &mut Change,
        ended: Ended<'_>,
    ) -> Result<Vec<Event>, Error> {
        let now = change.now();
        let job = &self.entity;
        let began = job.started_at.unwrap_or(now);
        // What goes on between two processes is no time of the run's.
        let elapsed_ms = now.0.saturating_sub(began.0).min(job.timeout_ms);
        let title = ended.ending().title;
        let invocation = Invocation {
            id: job.id,
            reactor_id: job.reactor_id,
            status: InvocationStatus::Failed,
            error: Some(title.to_owned()),
            elapsed_us: elapsed_ms.saturating_mul(1_000),
            fuel: 0,
            memory_peak_bytes: 0,
            log: Vec::new(),
            log_truncated: false,
            created_at: began,
            finished_at: now,
            trace_id: Some(job.trace_id()),
        };
        change.put(&invocation, Expect::Lasting)?;
        self.end(change, ended, elapsed_ms)?;
        let message = format!("Reactor invoked: {title}");
        let event = Event::done(EntityType::Reactor, job.reactor_id, Operation::Invoke, message);
        let mut events = vec![event];
        if job.started_at.is_none() {
            // They were opened when it was accepted. Of one that begins, its beginning tells.
            let checked = |used: &UsedToken| used.checked(job.reactor_id).by(job.by.actor());
            events.extend(job.given.iter().map(checked));
        }
        Ok(events.into_iter().map(|event| event.of_request(job.trace_id())).collect())
    }
}

/// An error as the problem that a result and a webhook hold.
fn problem(error: &Error) -> Value {
    let described = error.describe();
    let mut problem = json!({
        "title": described.title,
        "status": described.status,
        "detail": described.detail,
    });
    if !described.errors.is_empty() {
        problem["errors"] = json!(described.errors);
    }
    // What the formula shaped itself has no other place here than a member of its own.
    if let Error::Run(run) = error
        && let RunError::Custom { headers, body, .. } = run.as_ref()
    {
        problem["body"] = body.clone();
        if !headers.is_empty() {
            let headers = headers.iter().map(|(name, value)| (name.clone(), json!(value)));
            problem["headers"] = headers.collect();
        }
    }
    problem
}

fn interrupted(detail: &str) -> Value {
    json!({"title": INTERRUPTED, "status": 500, "detail": detail})
}
