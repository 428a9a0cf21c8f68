//! The run itself: in a sandbox, with what comes of it stored in one commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tracing::Instrument as _;

use super::unanswered::Unanswered;
use super::{FailedRun, ReactResponse, Ready};
use crate::figures::{Ending, figures};
use crate::model::faults::Faults;
use crate::model::formula::{Formula, Language, Reactor};
use crate::model::id::InvocationId;
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::{TokenCreate, TokenUse};
use crate::model::plaintext::Plaintext;
use crate::model::time::Timestamp;
use crate::model::weight;
use crate::runtime::{
    Budget, Call, Failure, GuestInvocation, GuestResponse, GuestVault, Outcome, Program, Slot,
};
use crate::store::Expect;
use crate::traces;
use crate::vault::apart::{apart, together};
use crate::vault::audit::Event;
use crate::vault::authentication::{Authenticated, goes_on_anyway};
use crate::vault::effort::taken_on;
use crate::vault::given::UsedToken;
use crate::vault::invocations::{Invocation, InvocationStatus, LineView};
use crate::vault::jobs::{Ended, Job};
use crate::vault::permit::Permit;
use crate::vault::record::{Stored, json_string};
use crate::vault::run_error::RunError;
use crate::vault::svc::Svc;
use crate::vault::tokenize::Kept;
use crate::vault::{Change, Error, Share, Vault, let_go_of_all_but, uncounted};

/// The part of a run's time that is left for the formula, at least: with less, one that moves money would be cut off. It
/// does not begin then.
const LEFT_TO_RUN: u32 = 10;

/// How long a run of so much time may wait until it begins.
pub fn time_to_begin(timeout_ms: u64) -> Duration {
    let time = Duration::from_millis(timeout_ms);
    time.saturating_sub(time / LEFT_TO_RUN)
}

/// A run that is under way or over.
pub struct Run<'p> {
    pub(super) permit: &'p Permit<TokenUse>,
    reactor: Reactor,
    pub(super) formula: Formula,
    /// Taken by the call, and what they take of the memory until then.
    args: Plaintext,
    room: Option<Share>,
    id: InvocationId,
    began: Timestamp,
    asked: Instant,
    timeout_ms: u64,
    /// The reactor's application, when it has one.
    application: Option<Authenticated>,
    /// One entry for each token that was detokenized.
    uses: Vec<Event>,
    /// These tokens.
    given: Vec<UsedToken>,
    /// What it was queued as.
    job: Option<Stored<Job>>,
    /// The slot that was taken for it before it began.
    slot: Option<Slot>,
}

impl<'p> Run<'p> {
    /// A run that somebody waits for, which has so much time since then.
    pub fn new(
        vault: &Vault,
        permit: &'p Permit<TokenUse>,
        ready: Ready,
        (timeout_ms, asked): (u64, Instant),
    ) -> Self {
        let Ready { reactor, formula, application, args, room, uses, given } = ready;
        let room = Some(room);
        let id = InvocationId(vault.draw_id());
        let so_far = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        let began = Timestamp(vault.now().0.saturating_sub(so_far));
        let (job, slot) = (None, None);
        Self {
            permit,
            reactor,
            formula,
            args,
            room,
            id,
            began,
            asked,
            timeout_ms,
            application,
            uses,
            given,
            job,
            slot,
        }
    }

    /// The same as the run of a job, in a slot that it has.
    #[must_use]
    pub fn of_job(self, job: Stored<Job>, slot: Slot) -> Self {
        let (id, timeout_ms) = (job.entity.id, job.entity.timeout_ms);
        Self { id, timeout_ms, job: Some(job), slot: Some(slot), ..self }
    }

    /// Whether it may do something that stays so, whatever becomes of it.
    fn has_effects(&self) -> bool {
        !self.formula.allowed_hosts.is_empty() || self.application.is_some()
    }

    /// What the log tells of it as it begins. What the formula sends out, or stores, stays so: that it was given the tokens is
    /// to be known whatever happens then, and that it runs, which else nobody is told of one that the server's end cuts off.
    fn told_before(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.uses);
        let (entity, id) = (EntityType::Reactor, self.reactor.id);
        events.push(Event::done(entity, id, Operation::Invoke, "Reactor run begun"));
        events
    }

    /// Gives the job back: nothing came of it.
    pub fn into_job(self) -> Option<Stored<Job>> {
        self.job
    }

    /// Adds the invocation to a change, with the end of its job, and gives the log entries of the run.
    fn left_behind(
        &self,
        change: &mut Change,
        invocation: &Invocation,
        ended: Ended<'_>,
    ) -> Result<Vec<Event>, Error> {
        // It may have done what cannot be undone: what is kept free on the disk is for that, too.
        change.batch.urgent |= self.has_effects();
        change.put(invocation, Expect::Lasting)?;
        if let Some(job) = &self.job {
            job.end(change, ended, invocation.elapsed_us / 1000)?;
        }
        let message = match &invocation.error {
            None => "Reactor invoked".to_owned(),
            Some(title) => format!("Reactor invoked: {title}"),
        };
        let id = self.reactor.id;
        let mut events = self.uses.clone();
        events.push(Event::done(EntityType::Reactor, id, Operation::Invoke, message));
        Ok(events)
    }
}

impl Vault {
    /// Runs the formula, and stores what comes of it.
    pub(in crate::vault) async fn run(&self, mut run: Run<'_>) -> Result<ReactResponse, FailedRun> {
        match self.invoke(&mut run).await {
            Ok(outcome) => self.settle(run, outcome).await,
            Err(error) => {
                // Tokens were opened for it, whatever came of that.
                let uses = std::mem::take(&mut run.uses);
                self.log(run.permit.tenant(), run.permit.actor(), uses).await?;
                Err(error.into())
            }
        }
    }

    /// Runs the formula. Its time is that of the whole: until its program is there, for a slot, and to run.
    pub(in crate::vault) async fn invoke(&self, run: &mut Run<'_>) -> Result<Outcome, Error> {
        let began = run.asked;
        let _counted = figures().invocation_begins();
        let time = Duration::from_millis(run.timeout_ms);
        let to_begin = time_to_begin(run.timeout_ms);
        // What runs scripts may be at hand, and the script not.
        let is_wasm = run.formula.language == Language::Wasm;
        let at_hand = is_wasm.then(|| self.program_at_hand(&run.formula)).flatten();
        let program = if let Some(at_hand) = at_hand {
            at_hand?
        } else {
            // A job keeps its slot meanwhile: what has begun is not to be refused for want of one.
            let program = Box::pin(self.program_to_run(run));
            let Ok(program) = tokio::time::timeout(to_begin, program).await else {
                return Ok(Outcome::without_a_run(Failure::NotCompiled, began.elapsed()));
            };
            program?
        };
        let owner = run.permit.tenant().0.as_u128();
        // All tenants wait for slots.
        together();
        let slot = if let Some(slot) = run.slot.take() {
            slot
        } else {
            let wait = to_begin.saturating_sub(began.elapsed());
            match self.0.runtime.acquire(owner, wait).await {
                Ok(slot) => slot,
                Err(failure) => return Ok(Outcome::without_a_run(failure, began.elapsed())),
            }
        };
        if began.elapsed() > to_begin {
            return Ok(Outcome::without_a_run(Failure::TooLate, began.elapsed()));
        }
        self.expect_to_go_on(run).await?;
        if run.has_effects() {
            let before = run.told_before();
            self.log(run.permit.tenant(), run.permit.actor(), before).await?;
        }
        let svc = |who: &Authenticated| -> Arc<dyn GuestVault> {
            Arc::new(Svc::new(self.clone(), who.clone()))
        };
        let args = json_string(run.args.expose())?;
        // Wiped before the run, which may take long.
        run.args = Plaintext::new(Value::Null);
        run.room = None;
        let_go_of_all_but(0);
        let call = Call {
            args,
            configuration: json_string(&run.reactor.configuration)?,
            vault: run.application.as_ref().map(svc),
            http: Some(self.formula_http(run.permit.tenant(), &run.formula)),
            owner,
            invocation: GuestInvocation {
                id: run.id.to_string(),
                reactor_id: run.reactor.id.to_string(),
                attempt: 1,
                deadline_ms: run.began.0 + run.timeout_ms,
            },
            budget: Budget {
                memory_bytes: u64::from(run.formula.limits.memory_mb) << 20,
                timeout: time.saturating_sub(began.elapsed()),
                fuel: run.timeout_ms.saturating_mul(self.0.fuel_per_ms),
            },
        };
        let mut outcome = self.invoke_in(slot, &program, call).await;
        outcome.usage.elapsed = began.elapsed();
        Ok(outcome)
    }

    /// Refuses a run whose asker has ended while it waited, and one that nothing could be stored of: it would do its work, and
    /// be asked to do it again. What was queued is marked as begun, which the store has taken.
    async fn expect_to_go_on(&self, run: &Run<'_>) -> Result<(), Error> {
        if run.job.is_some() {
            return Ok(());
        }
        Box::pin(self.expect_asker_unchanged()).await?;
        if run.has_effects() { Ok(self.0.store.health()?) } else { Ok(()) }
    }

    async fn invoke_in(&self, slot: Slot, program: &Program, call: Call) -> Outcome {
        // Runs give way to each other by themselves, and go on to their end.
        together();
        goes_on_anyway();
        let stage = traces::stage(|| tracing::info_span!("formula.run"));
        self.0.runtime.invoke_in(slot, program, call).instrument(stage).await
    }

    /// Stores what the run left behind, in one commit, and answers. What cannot be stored of a run that somebody waits for
    /// is not told as if it had not begun.
    pub(in crate::vault) async fn settle(
        &self,
        run: Run<'_>,
        outcome: Outcome,
    ) -> Result<ReactResponse, FailedRun> {
        let (id, has_begun) = (run.id, outcome.has_begun());
        let is_told = has_begun && run.has_effects() && run.job.is_none();
        let settled = Box::pin(self.try_settle(run, outcome)).await;
        settled.map_err(|failed| match failed.error {
            Error::Unavailable(_) | Error::Internal if is_told => {
                tracing::error!(invocation = %id, "what came of a run cannot be stored");
                let error = Error::Run(Box::new(RunError::NotStored));
                FailedRun { error, invocation: Some(id) }
            }
            _ => failed,
        })
    }

    async fn try_settle(&self, run: Run<'_>, outcome: Outcome) -> Result<ReactResponse, FailedRun> {
        // What the answer takes of the memory is given back with the rest of it, at the end.
        let Outcome { result, usage, log, log_truncated, .. } = outcome;
        let result = result.map_err(|failure| RunError::from_failure(failure, run.id));
        let mut invocation = Invocation {
            id: run.id,
            reactor_id: run.reactor.id,
            status: InvocationStatus::Completed,
            error: None,
            elapsed_us: u64::try_from(usage.elapsed.as_micros()).unwrap_or(u64::MAX),
            fuel: usage.fuel,
            memory_peak_bytes: usage.memory_peak_bytes,
            log: log.into_iter().map(LineView::from).collect(),
            log_truncated,
            created_at: run.began,
            finished_at: self.now(),
            trace_id: traces::current_id().as_deref().map(str::to_owned),
        };
        let error = match result {
            // What is opened for it does not count: what has had its effects is not to be refused any more.
            Ok(response) => {
                let values = [&response.raw, &response.tokenize].into_iter().flatten();
                let bytes = values.map(weight::of_value).sum::<usize>();
                apart(run.permit.tenant(), bytes).await;
                // In a place of its own, since whatever wraps it copies it.
                let answered = Box::pin(self.answer(&run, response, &invocation));
                match taken_on(uncounted(answered)).await {
                    Err(Unanswered::Failed(error)) => {
                        let error = error.unnamed();
                        let title = error.title();
                        let message = format!("What it wanted tokenized was refused: {title}.");
                        invocation.log.push(LineView::of_the_server(message));
                        error
                    }
                    Err(Unanswered::Uncommitted(error)) => return Err(error.into()),
                    Ok(answer) => {
                        figures().invocation_ended(&Ending::COMPLETED, usage.elapsed, usage.fuel);
                        return Ok(answer);
                    }
                }
            }
            Err(error) => {
                // For those who look into a run that somebody else asked for.
                invocation.log.extend(error.of_the_server().map(LineView::of_the_server));
                Error::Run(Box::new(error))
            }
        };
        invocation.status = InvocationStatus::Failed;
        invocation.error = Some(error.title().to_owned());
        let mut change = self.change(run.permit.tenant()).await?;
        let events = run.left_behind(&mut change, &invocation, Ended::Failed(&error))?;
        change.commit(run.permit.actor(), events).await?;
        // Before that it may still be ended otherwise.
        let ending = Ending { title: error.title(), is_fault: error.is_ours() };
        figures().invocation_ended(&ending, usage.elapsed, usage.fuel);
        Err(FailedRun { error, invocation: Some(invocation.id) })
    }

    /// Tokenizes what the formula wants tokenized and commits the run as completed.
    async fn answer(
        &self,
        run: &Run<'_>,
        response: GuestResponse,
        invocation: &Invocation,
    ) -> Result<ReactResponse, Unanswered> {
        let GuestResponse { raw, tokenize } = response;
        let caller = run.permit.actor();
        let left_behind = |change: &mut Change, tokens: Option<Kept<'_>>| {
            let keeps = run.job.is_some() || run.permit.claim().is_some();
            let tokens = tokens.filter(|_| keeps).map(|kept| kept()).transpose()?;
            let (tokens, raw) = (tokens.as_ref(), raw.as_ref());
            run.permit.keep_answer_of(change, &Answered { tokens, raw }, &run.given)?;
            run.left_behind(change, invocation, Ended::Completed { tokens, raw })
        };
        // Null is how most languages say that there is none.
        let Some(value) = tokenize.filter(|value| !value.is_null()) else {
            let change = self.change(run.permit.tenant()).await;
            let mut change = change.map_err(Unanswered::Uncommitted)?;
            let events = left_behind(&mut change, None).map_err(Unanswered::Uncommitted)?;
            change.commit(caller, events).await.map_err(Unanswered::Uncommitted)?;
            return Ok(ReactResponse { tokens: None, raw });
        };
        let maker = match &run.application {
            Some(application) => {
                let now = self.as_it_is_now(application).await.map_err(Unanswered::Uncommitted)?;
                now.ok_or(Unanswered::Failed(Error::ApplicationEnded))?
            }
            None => self.caller_by_now(run.permit).await.map_err(Unanswered::of_caller)?,
        };
        let permit = self.permit::<TokenCreate>(&maker, None).await.map_err(Unanswered::Failed)?;
        let prepared = Box::pin(self.prepare_tokens(&permit, value, Faults::new())).await;
        let prepared = prepared.map_err(Unanswered::tokenize)?;
        let more = |change: &mut Change, kept: Kept<'_>| left_behind(change, Some(kept));
        // Apart, since most runs make no tokens, and are moved with all that they could wait for.
        let made = Box::pin(self.tokenize_with(&permit, prepared, caller, more)).await;
        Ok(ReactResponse { tokens: Some(made.map_err(Unanswered::tokenize)?), raw })
    }
}

/// What is kept of a run's answer, while others still hold it: a [`ReactResponse`].
#[derive(Serialize)]
struct Answered<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a Value>,
}
