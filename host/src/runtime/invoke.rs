//! One invocation: a fresh instance, a call, an outcome.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wasmtime::{PoolConcurrencyLimitError, Store, Trap};
use wasmtime_wasi::I32Exit;

use super::call::{Budget, Call, Failure, GuestResponse, Outcome, Usage};
use super::component::Program;
use super::http::Outgoing;
use super::state::{HostFailed, Invocation, Request, State, TooManyCalls};
use super::{Runtime, response};
use crate::limits::{HTTP_BODY_BYTES_MAX, RESPONSE_BYTES_MAX};

/// How much a formula burns before others on its thread get their turn: about 0.1 ms.
const YIELD_FUEL: u64 = 1_000_000;
/// Handles of the host that a formula may hold.
const HANDLES_MAX: usize = 1_024;
/// What a formula may hand its host in one call: twice the largest answer or body that is taken, so that one of a little
/// more is told apart from one that would fill the host's memory.
const HANDED_BYTES_MAX: usize = 2 * if RESPONSE_BYTES_MAX > HTTP_BODY_BYTES_MAX {
    RESPONSE_BYTES_MAX
} else {
    HTTP_BODY_BYTES_MAX
};

impl Runtime {
    /// Runs a formula. Nothing of it remains when this returns or is dropped.
    pub async fn invoke(&self, program: &Program, mut call: Call) -> Outcome {
        let began = Instant::now();
        let Budget { memory_bytes, timeout, fuel } = call.budget;
        let slot = match self.slot(timeout).await {
            Ok(slot) => slot,
            Err(failure) => return without_a_run(failure, began.elapsed()),
        };
        let mut state = State::new(memory_bytes);
        state.outgoing = Outgoing::new(call.http.take(), began + timeout);
        let mut store = Store::new(&self.0.engine, state);
        let log = store.data().log();
        let left = timeout.saturating_sub(began.elapsed());
        let run = tokio::time::timeout(left, run(program, call, &mut store));
        let result = match run.await {
            Ok(result) => result,
            Err(_) => Err(Failure::Deadline),
        };
        let fuel_left = store.get_fuel().unwrap_or_default();
        let memory_peak_bytes = store.data().memory.peak_bytes;
        // The instance goes before the slot does.
        drop(store);
        drop(slot);
        let fuel = match result {
            Err(Failure::OutOfFuel) => fuel,
            _ => fuel.saturating_sub(fuel_left),
        };
        let usage = Usage { fuel, memory_peak_bytes, elapsed: began.elapsed() };
        let (log, log_truncated) = log.lock().finish();
        Outcome { result, usage, log, log_truncated }
    }

    /// Waits for a slot, within the call's own time and with a bounded crowd.
    async fn slot(&self, timeout: Duration) -> Result<tokio::sync::SemaphorePermit<'_>, Failure> {
        if let Ok(slot) = self.0.slots.try_acquire() {
            return Ok(slot);
        }
        let waiting = Waiting::join(self).ok_or(Failure::Saturated)?;
        let slot = tokio::time::timeout(timeout, self.0.slots.acquire()).await;
        drop(waiting);
        slot.ok().and_then(Result::ok).ok_or(Failure::Saturated)
    }
}

/// A place among those that wait for a slot; given up when dropped, however the wait ends.
struct Waiting<'r>(&'r Runtime);

impl<'r> Waiting<'r> {
    fn join(runtime: &'r Runtime) -> Option<Self> {
        let place = Self(runtime);
        let before = runtime.0.waiting.fetch_add(1, Ordering::Relaxed);
        (before < runtime.0.waiting_max).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn without_a_run(failure: Failure, elapsed: Duration) -> Outcome {
    let usage = Usage { elapsed, ..Usage::default() };
    Outcome { result: Err(failure), usage, log: Vec::new(), log_truncated: false }
}

async fn run(
    program: &Program,
    call: Call,
    store: &mut Store<State>,
) -> Result<GuestResponse, Failure> {
    let Call { args, configuration, vault, invocation, budget, .. } = call;
    let prepare = |store: &mut Store<State>| -> wasmtime::Result<Request> {
        store.limiter(|state| &mut state.memory);
        store.set_fuel(budget.fuel)?;
        store.fuel_async_yield_interval(Some(YIELD_FUEL))?;
        store.set_hostcall_fuel(HANDED_BYTES_MAX);
        store.set_max_component_handles(HANDLES_MAX);
        let svc = vault.map(|vault| store.data_mut().bind(vault)).transpose()?;
        let invocation = Invocation {
            id: invocation.id,
            reactor_id: invocation.reactor_id,
            attempt: invocation.attempt,
            deadline_ms: invocation.deadline_ms,
        };
        Ok(Request { args, configuration, svc, invocation })
    };
    let request = prepare(store).map_err(|error| Failure::HostFault(error.to_string()))?;
    let answer = async {
        let formula = program.0.instantiate_async(&mut *store).await?;
        formula.tokamak_formula_reactor().call_react(&mut *store, &request).await
    };
    match answer.await {
        Ok(Ok(answer)) => response::read(answer),
        Ok(Err(error)) => Err(response::read_error(error)),
        Err(error) => Err(classify(&error, store.data().memory.refused)),
    }
}

/// What ended a run that did not return.
fn classify(error: &wasmtime::Error, memory_refused: bool) -> Failure {
    if error.is::<I32Exit>() {
        return Failure::Exited;
    }
    if error.is::<HostFailed>() {
        return Failure::HostFault(error.to_string());
    }
    if error.is::<TooManyCalls>() {
        return Failure::OutOfFuel;
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Failure::Saturated;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Failure::OutOfFuel,
        // A formula that is refused memory gives up by a trap of its own.
        _ if memory_refused => Failure::OutOfMemory,
        Some(trap) => Failure::Trapped { cause: describe(*trap) },
        // wasmtime's own type is private; it means that more than `HANDED_BYTES_MAX` were handed over.
        None if error.root_cause().to_string().contains("hostcalls") => Failure::TooLarge,
        None => {
            tracing::debug!(%error, "a formula broke its contract");
            Failure::Trapped { cause: "it broke the contract with its host" }
        }
    }
}

fn describe(trap: Trap) -> &'static str {
    match trap {
        Trap::StackOverflow => "the stack overflowed",
        Trap::MemoryOutOfBounds => "it reached outside its memory",
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
