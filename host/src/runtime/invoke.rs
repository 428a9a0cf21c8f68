//! One invocation: a fresh instance, a call, an outcome.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use wasmtime::{PoolConcurrencyLimitError, Store, Trap};
use wasmtime_wasi::I32Exit;
use zeroize::Zeroize as _;

use super::call::{Budget, Call, Failure, FaultKind, GuestResponse, Outcome, Usage};
use super::component::{Program, brief};
use super::http::Outgoing;
use super::memory::{Kept, Memory, Refusal, is_of_the_system};
use super::script::{Preparing, Script, Work};
use super::slice::{AfterHost, Slice};
use super::slots::Slot;
use super::state::{HANDLES_MAX, HostFailed, Invocation, Request, State, TooManyCalls};
use super::{Runtime, response};
use crate::limits::{HTTP_BODY_BYTES_MAX, RESPONSE_BYTES_MAX};

/// How much a formula burns before others on its thread get their turn: about 0.1 ms.
const YIELD_FUEL: u64 = 1_000_000;
/// What a formula may hand its host in one call: twice the largest answer or body that is taken, so that one of a little
/// more is told apart from one that would fill the host's memory.
const HANDED_BYTES_MAX: usize = 2 * if RESPONSE_BYTES_MAX > HTTP_BODY_BYTES_MAX {
    RESPONSE_BYTES_MAX
} else {
    HTTP_BODY_BYTES_MAX
};

/// Bytes that each answer may take once it is read, about as much as its slot has for a small run.
const ANSWER_BYTES_FREE: usize = 1 << 20;

/// Said of a formula that holds more than [`HANDLES_MAX`].
const HELD_TOO_MUCH: &str = "it held more than 1024 things of its host at a time";

/// What the SDK, and the runner of scripts, say of a server that cannot be reached when the formula does not.
const UNANSWERED: &str = "the other server cannot be reached";

impl Runtime {
    /// Runs a formula, in a slot of the call's owner. Nothing of it remains when this returns or is dropped.
    pub async fn invoke(&self, program: &Program, call: Call) -> Outcome {
        let began = Instant::now();
        match self.acquire(call.owner, call.budget.timeout).await {
            Ok(slot) => self.run_in(slot, began, program, call).await,
            Err(failure) => Outcome::without_a_run(failure, began.elapsed()),
        }
    }

    /// As [`Self::invoke`], in a slot that was taken before; the call's time begins now.
    pub async fn invoke_in(&self, slot: Slot, program: &Program, call: Call) -> Outcome {
        self.run_in(slot, Instant::now(), program, call).await
    }

    async fn run_in(&self, slot: Slot, began: Instant, program: &Program, call: Call) -> Outcome {
        let long = Arc::new(AtomicBool::new(false));
        let whole = Whole { slot, began, program: program.clone(), call, long: Arc::clone(&long) };
        let mut whole = Box::pin(whole.run(self.clone()));
        let ended_here = poll_fn(|context| match whole.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if long.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(outcome) = ended_here.await {
            return outcome;
        }
        let outcome = self.0.slow.finish(whole).await;
        let failed = || Failure::HostFault("a run panicked".to_owned());
        outcome.unwrap_or_else(|| Outcome::without_a_run(failed(), began.elapsed()))
    }
}

/// A run and all that it takes, so that it can move to other threads.
struct Whole {
    slot: Slot,
    began: Instant,
    program: Program,
    call: Call,
    /// Whether it is to move.
    long: Arc<AtomicBool>,
}

impl Whole {
    async fn run(self, runtime: Runtime) -> Outcome {
        let Self { mut slot, began, program, mut call, long } = self;
        let Budget { memory_bytes, timeout, fuel } = call.budget;
        let slice = Slice::default();
        let mut state = State::new(slot.memory_of_run(memory_bytes), slice.clone());
        state.outgoing = Outgoing::new(call.http.take(), began + timeout, slot.memory());
        let mut store = Store::new(&runtime.0.engine, state);
        let log = store.data().log();
        let kept = Kept::of(Some(slot.memory()));
        let result = {
            let preparing = Preparing { program: &program, slot: &slot, slice: &slice };
            let mut run = pin!(run(preparing, call, &mut store, &kept));
            let run = poll_fn(|context| {
                slice.begin();
                run.as_mut().poll(context)
            });
            let now = Instant::now();
            let run = runtime.0.lane.fair(slot.owner(), (run, long), now);
            let left = timeout.saturating_sub(now - began);
            let result = tokio::time::timeout(left, run).await;
            result.unwrap_or(Err(Failure::Deadline))
        };
        let fuel_left = store.get_fuel().unwrap_or_default();
        let state = store.data();
        let memory_peak_bytes = state.memory.peak_bytes;
        let result = if state.has_acted() { result.map_err(Failure::after_acts) } else { result };
        // The instance goes before its memory is given back, and that before the slot.
        drop(store.into_data());
        drop(slot);
        let fuel = match result {
            Err(Failure::OutOfFuel) => fuel,
            _ => fuel.saturating_sub(fuel_left),
        };
        let usage = Usage { fuel, memory_peak_bytes, elapsed: began.elapsed() };
        let (log, log_truncated) = log.lock().finish();
        Outcome { result, usage, log, log_truncated, _kept: kept }
    }
}

/// What a formula is called with. It is wiped however the call ends, even if it is given up.
struct Handed(Request);

impl Drop for Handed {
    fn drop(&mut self) {
        self.0.args.zeroize();
        self.0.configuration.zeroize();
    }
}

async fn run(
    preparing: Preparing<'_>,
    mut call: Call,
    store: &mut Store<State>,
    kept: &Kept,
) -> Result<GuestResponse, Failure> {
    let program = preparing.program;
    if let Some(script) = program.script() {
        preparing.prepare(script, store.engine()).await;
        store.data_mut().script = Some(Work::run(script, &mut call));
    }
    let checks = program.script().is_some_and(Script::is_check);
    let Call { mut args, mut configuration, vault, invocation, budget, .. } = call;
    let prepare = |store: &mut Store<State>| -> wasmtime::Result<Handed> {
        bound(store, budget.fuel)?;
        let svc = vault.map(|vault| store.data_mut().bind(vault)).transpose()?;
        let invocation = Invocation {
            id: invocation.id,
            reactor_id: invocation.reactor_id,
            attempt: invocation.attempt,
            deadline_ms: invocation.deadline_ms,
        };
        let (args, configuration) =
            (std::mem::take(&mut *args), std::mem::take(&mut *configuration));
        Ok(Handed(Request { args, configuration, svc, invocation }))
    };
    let request = prepare(store).map_err(|error| Failure::HostFault(error.to_string()))?;
    match program.entry.call(&request.0, store).await {
        Ok(Ok(answer)) => {
            make_room(response::weight(&answer), kept, &store.data().memory)?;
            response::read(answer)
        }
        Ok(Err(error)) => Err(match store.data().memory.refused {
            // Whoever parses a script says that it is out of memory, and not whose.
            Some(Refusal::Owner) if checks => Failure::OwnerOutOfMemory,
            Some(Refusal::Host) if checks => Failure::HostOutOfMemory,
            Some(Refusal::System) if checks => cannot_grow(),
            _ => {
                let weight = response::weight_of_error(&error);
                make_room(weight, kept, &store.data().memory)?;
                for_want_of_room(response::read_error(error), store.data().outgoing.no_room)
            }
        }),
        Err(error) => Err(classify(&error, store.data().memory.refused)),
    }
}

/// Takes what an answer of this weight needs beside its run.
fn make_room(weight: usize, kept: &Kept, run: &Memory) -> Result<(), Failure> {
    if kept.grow_beside(run, weight.saturating_sub(ANSWER_BYTES_FREE)) {
        return Ok(());
    }
    Err(match kept.refused() {
        Some(Refusal::Owner) => Failure::OwnerOutOfMemory,
        _ => Failure::HostOutOfMemory,
    })
}

/// Bounds what a store's formula may use.
pub(super) fn bound(store: &mut Store<State>, fuel: u64) -> wasmtime::Result<()> {
    store.limiter(|state| &mut state.memory);
    store.set_fuel(fuel)?;
    store.fuel_async_yield_interval(Some(YIELD_FUEL))?;
    store.call_hook_async(AfterHost);
    store.set_hostcall_fuel(HANDED_BYTES_MAX);
    store.set_max_component_handles(HANDLES_MAX);
    Ok(())
}

/// A formula that fails because it got no answer, and has no words of its own for that, says that another server is not
/// there. When there was no room for the answer, that is not so. Words of its own stay: they may say what to do now.
fn for_want_of_room(failure: Failure, no_room: Option<Refusal>) -> Failure {
    let is_unanswered = matches!(
        &failure,
        Failure::Reported { kind: FaultKind::ServiceUnavailable, detail, .. }
            if detail == UNANSWERED
    );
    match no_room {
        Some(Refusal::Owner) if is_unanswered => Failure::OwnerOutOfMemory,
        Some(_) if is_unanswered => Failure::HostOutOfMemory,
        _ => failure,
    }
}

/// What ended a run that did not return.
fn classify(error: &wasmtime::Error, refused: Option<Refusal>) -> Failure {
    if error.is::<I32Exit>() {
        return Failure::Exited;
    }
    if error.is::<HostFailed>() {
        return Failure::HostFault(error.to_string());
    }
    if error.is::<TooManyCalls>() {
        return Failure::TooManyCalls;
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Failure::Saturated;
    }
    if is_of_the_system(error) {
        return Failure::NoSandbox(brief(error));
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::OutOfFuel) {
        return Failure::OutOfFuel;
    }
    // A formula that is refused memory gives up by a trap of its own.
    match refused {
        Some(Refusal::Formula) => return Failure::OutOfMemory,
        Some(Refusal::Owner) => return Failure::OwnerOutOfMemory,
        Some(Refusal::Host) => return Failure::HostOutOfMemory,
        Some(Refusal::System) => return cannot_grow(),
        None => {}
    }
    match trap {
        Some(trap) => Failure::Trapped { cause: describe(*trap) },
        // wasmtime's own type is private; it means that more than `HANDED_BYTES_MAX` were handed over.
        None if error.root_cause().to_string().contains("hostcalls") => Failure::TooLarge,
        None => {
            tracing::debug!(%error, "a formula broke its contract");
            Failure::Trapped { cause: broken(&error.root_cause().to_string()) }
        }
    }
}

/// What of the contract with its host a formula broke, which libraries say in words alone.
fn broken(cause: &str) -> &'static str {
    let told = [
        ("exceeds limit", "it asked for more than 65536 random bytes at once"),
        ("no free keys", HELD_TOO_MUCH),
        ("handle limit exceeded", HELD_TOO_MUCH),
        ("empty poll list", "it waited for none of a list of events"),
    ];
    let found = told.into_iter().find(|(words, _)| cause.contains(words));
    found.map_or("it broke the contract with its host", |(_, told)| told)
}

fn cannot_grow() -> Failure {
    Failure::NoSandbox("a memory cannot grow".to_owned())
}

fn describe(trap: Trap) -> &'static str {
    match trap {
        Trap::StackOverflow => "the stack overflowed",
        // Most languages have a stack in their memory, which ends where that does.
        Trap::MemoryOutOfBounds => "it reached outside its memory, or its stack overflowed",
        Trap::HeapMisaligned => "it used memory that is not aligned",
        Trap::TableOutOfBounds => "it reached outside a table",
        Trap::IndirectCallToNull => "it called a function that is not there",
        Trap::BadSignature => "it called a function of another signature",
        Trap::IntegerOverflow => "an integer overflowed",
        Trap::IntegerDivisionByZero => "it divided by zero",
        Trap::BadConversionToInteger => "a number does not convert to an integer",
        Trap::UnreachableCodeReached => "it panicked or aborted",
        _ => "it broke a rule of WebAssembly",
    }
}

#[cfg(test)]
mod tests;
