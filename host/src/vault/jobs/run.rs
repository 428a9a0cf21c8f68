//! One job, from its mark that it has begun to its end.

use std::pin::pin;
use std::time::{Duration, Instant};

use tracing::Instrument as _;

use super::in_hand::Standing;
use super::put_off::{Until, Want};
use super::{Ended, Job, JobStatus};
use crate::limits::{
    ASYNCHRONOUS_TIMEOUT_MS_MAX, JOB_SLOT_WAIT_MS_MAX, JOB_TRIES_MAX, JOB_TRIES_WITHOUT_MEMORY_MAX,
    RUN_WAIT_SECONDS, WORKERS_TICK_MS,
};
use crate::model::formula::{Formula, Reactor};
use crate::model::id::{InvocationId, ReactorId, TenantId};
use crate::model::permission::marker::TokenUse;
use crate::model::time::Timestamp;
use crate::runtime::{ComponentError, Slot};
use crate::store::Expect;
use crate::traces;
use crate::vault::authentication::Authenticated;
use crate::vault::effort::taken_on;
use crate::vault::permit::Permit;
use crate::vault::react::{Ready, Run, references};
use crate::vault::record::Stored;
use crate::vault::run_error::RunError;
use crate::vault::{Error, Vault, let_go_of_all_but, let_go_of_half, opened_so_far, uncounted};

/// How long a reactor is left alone whose formula the compiler was too slow for: the machine may be less busy then.
const SLOW_MACHINE_PAUSE: Duration = Duration::from_mins(1);

/// What became of a job's turn.
enum Turn {
    /// It is over with it, or it is put off.
    Taken,
    /// It has not begun, and its turn comes again.
    Passed,
    /// It has not begun, since its tenant's runs, or all, hold the memory that it takes.
    NoMemory(Want),
}

/// What a job lacks to begin.
enum Lacking {
    /// Its formula is not compiled, and others have the slot.
    Program,
    Memory(Want),
}

/// What a job needs to begin.
type Prepared = (Permit<TokenUse>, Ready, Slot);

impl Vault {
    /// Does a job, up to its end, in a slot that was taken for it or that it waits for.
    pub(super) async fn run_job(
        &self,
        tenant: TenantId,
        job: Stored<Job>,
        slot: Option<Slot>,
        stands: &Standing,
    ) {
        let (id, reactor) = (job.entity.id, job.entity.reactor_id);
        let (slot, job) = match slot {
            None => {
                // Its arguments may be long, and are in nobody's way while it waits.
                drop(job);
                let_go_of_all_but(0);
                (self.slot_for_job(tenant).await, None)
            }
            taken => (taken, Some(job)),
        };
        let tick = Duration::from_millis(WORKERS_TICK_MS);
        let Some(slot) = slot else {
            // Its turn comes again.
            tokio::time::sleep(tick).await;
            return;
        };
        stands.has_slot();
        let job = match job {
            None => self.kept::<Job>(tenant, id).await,
            Some(job) => Ok(job),
        };
        let turn = match job {
            Ok(job) if job.entity.status == JobStatus::Queued => {
                let trace_id = job.entity.trace_id();
                let stage = traces::stage(|| tracing::info_span!("reactor.job", trace_id));
                let run = Box::pin(self.try_run_job(tenant, job, slot, stands));
                traces::within(trace_id.into(), run.instrument(stage)).await
            }
            // It has ended while it waited.
            Ok(_) | Err(Error::NotFound(_)) => Ok(Turn::Taken),
            Err(error) => Err(error),
        };
        let waits_for_room = match &turn {
            Err(Error::Run(error)) => error.wait_seconds().map(Duration::from_secs),
            Err(Error::NotRunnable(ComponentError::TooSlow)) => Some(SLOW_MACHINE_PAUSE),
            _ => None,
        };
        match (waits_for_room, &turn) {
            (None, Ok(Turn::NoMemory(want))) => {
                self.0.queue.lacks_memory((tenant, reactor), id, *want, tick);
            }
            (None, _) => self.0.queue.was_tried(tenant, reactor, id),
            // What stands in its way does so for all others of its reactor.
            (Some(later), _) => self.0.queue.put_off_reactor(tenant, reactor, id, later),
        }
        match turn {
            // Or its tenant is erased, and all that is told of it with it.
            Ok(Turn::Taken) | Err(Error::TenantGone) => self.0.queue.is_over(tenant, id),
            Ok(Turn::Passed | Turn::NoMemory(_)) => {}
            Err(error) => {
                tracing::error!(invocation = %id, %error, "a run could not be begun or stored");
                let given_up = self.give_up_if_hopeless(tenant, id, &error).await;
                // It may have begun.
                self.0.queue.unended(tenant, id, Ended::Lost);
                // In nobody's place. What has no answer, or no memory, may have it in a while.
                let later = match error {
                    Error::Unavailable(_) => Duration::from_secs(RUN_WAIT_SECONDS),
                    Error::Busy(_) => self.0.queue.wait_for_memory(id),
                    _ => tick,
                };
                if !given_up {
                    self.0.queue.put_off_for(tenant, id, later);
                }
            }
        }
        self.0.queue.deliveries_of(tenant);
    }

    /// Waits for a slot in the row with those who wait for an answer; `None` when none came in time, or nothing is to be
    /// begun any more.
    async fn slot_for_job(&self, tenant: TenantId) -> Option<Slot> {
        let wait = Duration::from_millis(JOB_SLOT_WAIT_MS_MAX);
        self.unless_stopping(self.0.runtime.acquire(tenant.0.as_u128(), wait)).await?.ok()
    }

    /// Waits for something; `None` when nothing is to be begun any more.
    async fn unless_stopping<T>(&self, awaited: impl Future<Output = T>) -> Option<T> {
        let mut awaited = pin!(awaited);
        let mut tick = tokio::time::interval(Duration::from_millis(WORKERS_TICK_MS));
        loop {
            tokio::select! {
                done = &mut awaited => return Some(done),
                _ = tick.tick() => if self.0.queue.is_stopping() {
                    return None;
                },
            }
        }
    }

    /// Ends a job that could not be begun so often that it never will be; gives whether it did. A store that takes no writes
    /// is not the job's fault, and is waited for; one that takes them, and cannot read what the job needs, is tried so often.
    pub(super) async fn give_up_if_hopeless(
        &self,
        tenant: TenantId,
        id: InvocationId,
        error: &Error,
    ) -> bool {
        let (wants_memory, tries_max) = match error {
            Error::Unavailable(_) if self.health().is_err() => return false,
            // Others of its tenant have the memory that it needs, as long as they go on.
            Error::Busy(_) => (true, JOB_TRIES_WITHOUT_MEMORY_MAX),
            _ => (false, JOB_TRIES_MAX),
        };
        if self.0.queue.failed_to_begin(id, wants_memory) < tries_max {
            return false;
        }
        let job = match uncounted(self.get::<Job>(tenant, &id.to_string())).await {
            Ok(job) if job.entity.status == JobStatus::Queued => job,
            _ => return false,
        };
        let broken = Error::Run(Box::new(RunError::NeverBegun));
        let tells_why = matches!(error, Error::Run(_) | Error::Busy(_) | Error::NotRunnable(_));
        let error = if tells_why { error } else { &broken };
        let ended = self.end_unrun(&job, error).await;
        match &ended {
            Ok(()) => self.0.queue.forget_failures(id),
            Err(error) => tracing::error!(invocation = %id, %error, "a job cannot be ended"),
        }
        ended.is_ok()
    }

    async fn try_run_job(
        &self,
        tenant: TenantId,
        mut job: Stored<Job>,
        slot: Slot,
        stands: &Standing,
    ) -> Result<Turn, Error> {
        let (id, reactor) = (job.entity.id, job.entity.reactor_id);
        match self.prepared(tenant, &mut job.entity, slot).await {
            Ok(Ok(prepared)) => self.begin_and_run(tenant, job, prepared).await,
            Ok(Err(Lacking::Memory(want))) => Ok(Turn::NoMemory(want)),
            Ok(Err(Lacking::Program)) => {
                // It may have to wait long, and its arguments may be.
                drop(job);
                let_go_of_all_but(0);
                match self.compiled(tenant, reactor, id, stands).await {
                    Ok(()) => Ok(Turn::Passed),
                    Err(error) => match self.get::<Job>(tenant, &id.to_string()).await {
                        Ok(job) => self.unprepared(&job, error).await,
                        Err(Error::NotFound(_)) => Ok(Turn::Taken),
                        Err(error) => Err(error),
                    },
                }
            }
            Err(error) => self.unprepared(&job, error).await,
        }
    }

    /// Ends a job that something stands in the way of, if that is the run's own. The store's failure is not, nor is want of
    /// memory, nor what the compiler is too slow for on this machine as it is.
    async fn unprepared(&self, job: &Stored<Job>, error: Error) -> Result<Turn, Error> {
        match error {
            Error::Unavailable(_)
            | Error::Internal
            | Error::Busy(_)
            | Error::NotRunnable(ComponentError::TooSlow) => Err(error),
            Error::Run(run) if run.wait_seconds().is_some() => Err(Error::Run(run)),
            error => self.refuse(job, &error).await.map(|()| Turn::Taken),
        }
    }

    /// Notes that a job begins, and runs it.
    async fn begin_and_run(
        &self,
        tenant: TenantId,
        job: Stored<Job>,
        (permit, mut ready, slot): Prepared,
    ) -> Result<Turn, Error> {
        if self.0.queue.is_stopping() {
            // The next process finds it as it was.
            return Ok(Turn::Passed);
        }
        // What it may do was looked up before it waited to open tokens: by what it may do now, its next turn is judged.
        if self.expect_unchanged(&permit.authenticated()).await.is_err() {
            return Ok(Turn::Passed);
        }
        let id = job.entity.id;
        let job = self.begin_job(job, &permit, &mut ready).await?;
        self.read_again(tenant, &mut ready).await;
        let mut run = Run::new(self, &permit, ready, (job.entity.timeout_ms, Instant::now()))
            .of_job(job, slot);
        let ended = match self.invoke(&mut run).await {
            Ok(outcome) => match self.settle(run, outcome).await.map_err(|failed| failed.error) {
                // The run's failure is its result; only the store's is not.
                Err(error @ (Error::Unavailable(_) | Error::Internal | Error::Busy(_))) => {
                    Err(error)
                }
                Err(Error::Conflict(_)) => {
                    // One of the run's own is its result. After one of the store's it has none yet, and is to have one.
                    self.0.queue.unended(tenant, id, Ended::Lost);
                    Ok(())
                }
                _ => Ok(()),
            },
            Err(error) => match run.into_job() {
                Some(job) => self.end_unrun(&job, &error).await,
                None => Ok(()),
            },
        };
        ended.map(|()| Turn::Taken)
    }

    /// What a job needs to begin.
    async fn prepared(
        &self,
        tenant: TenantId,
        job: &mut Job,
        mut slot: Slot,
    ) -> Result<Result<Prepared, Lacking>, Error> {
        let who = self.caller_of(tenant, job.by, self.now()).await?.ok_or(Error::AskerEnded)?;
        let permit = self.permit::<TokenUse>(&who, None).await?;
        let arguments = references(job.args.take())?;
        // They are there once now, and the rest of the job is short.
        let_go_of_half();
        // Before any token is opened for it.
        let program = self.program_is_there(tenant, job.reactor_id);
        let short = Duration::from_millis(WORKERS_TICK_MS);
        let Ok(found) = tokio::time::timeout(short, program).await else {
            return Ok(Err(Lacking::Program));
        };
        let formula = found?;
        // What was accepted is not to end for what others hold, and once it has begun it would.
        let most = u64::from(formula.limits.memory_mb) << 20;
        let longest = Duration::from_millis(ASYNCHRONOUS_TIMEOUT_MS_MAX);
        if let Err(refusal) = slot.await_memory(formula.id.0.as_u128(), most, longest) {
            return Ok(Err(Lacking::Memory(Want::of(most, refusal))));
        }
        // Nor is it refused for what others ask for.
        let ready = taken_on(self.ready(&permit, job.reactor_id, arguments)).await?;
        Ok(Ok((permit, ready, slot)))
    }

    /// Waits until a reactor's formula is compiled. One job of a reactor does, in nobody's place, and its others come when it
    /// is over with it.
    async fn compiled(
        &self,
        tenant: TenantId,
        reactor: ReactorId,
        id: InvocationId,
        stands: &Standing,
    ) -> Result<(), Error> {
        let queue = &self.0.queue;
        let tick = Duration::from_millis(WORKERS_TICK_MS);
        let mut found = pin!(self.program_is_there(tenant, reactor));
        let holds_back = || !queue.is_stopping() && queue.holds_back(tenant, reactor, id, 2 * tick);
        if holds_back() {
            stands.goes_apart();
            queue.jobs_of(tenant);
        }
        // Up to its end, which is in any case: what goes wrong with it is to be known here.
        while holds_back() {
            if let Ok(found) = tokio::time::timeout(tick, &mut found).await {
                return found.map(drop);
            }
        }
        Ok(())
    }

    async fn program_is_there(
        &self,
        tenant: TenantId,
        reactor: ReactorId,
    ) -> Result<Formula, Error> {
        let before = opened_so_far();
        loop {
            let_go_of_all_but(before);
            let reactor = self.get::<Reactor>(tenant, &reactor.to_string()).await?.entity;
            let formula = self.formula(tenant, reactor.formula_id).await?;
            match self.program_of(tenant, &formula).await {
                Ok(_) => return Ok(formula),
                Err(Error::Replaced) => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
        }
    }

    /// Notes that a job has begun, with the entries of the tokens it is given: whatever happens from here on, it is not
    /// begun again, and who saw what is in the log.
    async fn begin_job(
        &self,
        job: Stored<Job>,
        permit: &Permit<TokenUse>,
        ready: &mut Ready,
    ) -> Result<Stored<Job>, Error> {
        let Stored { entity: queued, version } = job;
        let begun = Job {
            status: JobStatus::Running,
            started_at: Some(self.now()),
            args: None,
            given: ready.given.clone(),
            ..queued
        };
        let mut change = self.change(permit.tenant()).await?;
        change.put(&begun, Expect::Version(version))?;
        change.commit(permit.actor(), std::mem::take(&mut ready.uses)).await?;
        self.0.queue.was_begun(permit.tenant(), begun.reactor_id, begun.id);
        // It has begun, whether that can be read now or not.
        let version = self.version_of(permit.tenant(), &begun).await.unwrap_or(version + 1);
        Ok(Stored { entity: begun, version })
    }

    /// Ends a job that something stands in the way of. While the clock is in doubt that may be the clock alone, by which the
    /// caller or a token has ended, and the job waits until it is known.
    async fn refuse(&self, job: &Stored<Job>, error: &Error) -> Result<(), Error> {
        if self.clock_is_believed()? {
            return self.end_unrun(job, error).await;
        }
        let Job { id, tenant_id, .. } = &job.entity;
        tracing::info!(invocation = %id, "a run that cannot begin is put off: the clock is in doubt");
        self.0.queue.put_off(*tenant_id, *id, Until::ClockBelieved);
        Ok(())
    }

    /// Who asked for a run that goes on, with the rights it has by now. What ends by its time is let finish what it began,
    /// with what it still had then: its record is there for longer than a run goes on.
    pub(in crate::vault) async fn caller_by_now(
        &self,
        permit: &Permit<TokenUse>,
    ) -> Result<Authenticated, Error> {
        let began = permit.authenticated();
        let last = began.0.ends.map(|ends| Timestamp(ends.0.saturating_sub(1)));
        let now = self.now();
        let at = last.map_or(now, |last| last.min(now));
        let caller = self.caller_of(permit.tenant(), permit.actor().into(), at).await?;
        caller.ok_or(Error::AskerEnded)
    }
}
