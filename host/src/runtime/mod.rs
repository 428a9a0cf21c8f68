//! The runtime: formulas, each invocation in a sandbox of its own.
//!
//! It takes WebAssembly components of the world in `wit/formula.wit`, checks and compiles them, and runs them with
//! bounded memory, fuel and time. It knows nothing of tenants, tokens, records or of how it is asked: what a formula may ask of the
//! vault comes in as a [`GuestVault`], its way to other hosts as a [`GuestHttp`], and what came of a run goes out as an
//! [`Outcome`].
//!
//! To offer formulas another interface: add it to the world, implement its `Host` for [`state`]'s `State`, and name it in
//! [`component`]'s table.

mod ambient;
mod cache;
mod call;
mod child;
mod compile;
mod component;
mod describe;
mod engine;
mod entry;
mod fair;
mod http;
mod invoke;
mod lanes;
mod load;
mod log;
mod memory;
mod response;
mod script;
mod slice;
mod slots;
mod slow;
mod state;

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use thiserror::Error;
use wasmtime::Engine;
use wasmtime::component::Linker;

pub use cache::CacheConfig;
pub use call::{
    Budget, Call, Failure, FaultKind, GuestHttp, GuestHttpError, GuestHttpRequest,
    GuestHttpResponse, GuestInvocation, GuestProblem, GuestResponse, GuestVault, Outcome, Usage,
};
pub use child::{
    COMMAND as COMPILE_COMMAND, CompileBounds, close_to_others, compile_standard_input,
};
pub use compile::Compiler;
pub use component::{CompileError, ComponentError, Program, check as check_component};
pub use describe::{Description, describe};
pub use lanes::{Place, Purpose, Wanted};
pub use log::{LogLevel, LogLine};
pub use memory::{Kept, Refusal};
pub use script::{SCRIPT_RUNNER, Script, ScriptError, log_uncaught_in_words, script_runner_digest};
pub use slots::Slot;

use crate::limits::{FREE_CPU_MS, REACTOR_MEMORY_MB_UNKNOWN, REACTOR_QUEUE_PER_SLOT};
use cache::Cache;
use fair::Lane;
use lanes::Lanes;
use memory::Room;
use slots::Slots;
use slow::Slow;
use state::State;

/// How the runtime is set up.
#[derive(Clone)]
pub struct RuntimeConfig {
    /// Invocations that run at the same time; fewer if the machine cannot hold them.
    pub slots: u32,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// Where compiled code outlives the process, if anywhere.
    pub cache: Option<CacheConfig>,
    /// Of these, most for one owner: half of them, and at least one, unless it is said here. 0 for all of them.
    pub slots_per_owner: Option<u32>,
    /// Invocations of one owner that wait for a slot: eight for each slot it may have, unless it is said here.
    pub queue_per_owner: Option<u32>,
    /// Bytes that all invocations together may hold; one owner's hold half of them. A slot keeps up to 1.4 MiB more of what
    /// its last invocation touched.
    pub memory_bytes: u64,
    /// Whether what computes for long leaves the processors to everything else. A server's does, so that nobody's short run
    /// waits for another's long one. An author's does not: there is nobody to protect, and a compiler at work beside it
    /// would take all of the time that a run has.
    pub long_runs_stand_back: bool,
}

impl RuntimeConfig {
    /// A server's runtime with so many slots and the usual part of them for each owner, which compiles on its own threads
    /// and keeps nothing.
    pub fn new(slots: u32) -> Self {
        Self {
            slots,
            compiler: Compiler::Thread,
            cache: None,
            slots_per_owner: None,
            queue_per_owner: None,
            memory_bytes: REACTOR_MEMORY_MB_UNKNOWN << 20,
            long_runs_stand_back: true,
        }
    }

    /// Slots in all, slots of one owner and places in its queue, for a machine that holds `slots`.
    fn shares(&self, slots: u32) -> (u32, u32, u32) {
        let per_owner = match self.slots_per_owner {
            None => (slots / 2).max(1),
            Some(0) => slots,
            Some(given) => given.min(slots),
        };
        let usual = per_owner.saturating_mul(REACTOR_QUEUE_PER_SLOT);
        (slots, per_owner, self.queue_per_owner.unwrap_or(usual))
    }
}

/// Why the runtime cannot start.
#[derive(Debug, Error)]
#[error("the sandbox cannot be set up: {0}")]
pub struct RuntimeError(String);

/// The sandbox. Cloning shares it; a process has one.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    engine: Engine,
    linker: Linker<State>,
    /// One for each invocation that may run.
    slots: Slots,
    /// Where those that run long take turns.
    lane: Lane,
    /// What computes those.
    slow: Slow,
    compiler: Compiler,
    lanes: Lanes,
    cache: Option<Cache>,
}

impl Runtime {
    /// Sets up the sandbox; reserves address space for every slot.
    pub fn new(config: RuntimeConfig) -> Result<Self, RuntimeError> {
        let failed = |error: wasmtime::Error| RuntimeError(error.to_string());
        let (engine, slots) = engine::serving(config.slots).map_err(failed)?;
        let linker = state::linker(&engine).map_err(failed)?;
        let threads = available_parallelism().map_or(1, usize::from);
        let slow = Slow::start(threads, config.long_runs_stand_back)
            .map_err(|error| RuntimeError(error.to_string()))?;
        let (slots, per_owner, queue_per_owner) = config.shares(slots);
        let room = Room::new(config.memory_bytes, slots);
        let cache = config.cache.map(|cache| Cache::new(cache, &engine::fingerprint(&engine)));
        Ok(Self(Arc::new(Inner {
            engine,
            linker,
            slots: Slots::new(slots, per_owner, queue_per_owner, room),
            lane: Lane::new(threads, Duration::from_millis(FREE_CPU_MS)),
            slow,
            compiler: config.compiler,
            lanes: Lanes::default(),
            cache,
        })))
    }

    /// How many slots runs that nobody waits for may take together: some are left for those that somebody waits for.
    pub fn slots_for_jobs(&self) -> usize {
        let slots = self.0.slots.count() as usize;
        (slots - slots / 4).max(1)
    }

    /// A slot for a run of this owner, if one is free now and nobody waits for it; for [`Self::invoke_in`].
    pub fn try_acquire(&self, owner: u128) -> Option<Slot> {
        self.0.slots.try_acquire(owner)
    }

    /// Waits for a slot for a run of this owner. [`Failure::Saturated`] when as many wait as may,
    /// [`Failure::NoSlot`] when none was free in time.
    pub async fn acquire(&self, owner: u128, timeout: Duration) -> Result<Slot, Failure> {
        self.0.slots.acquire(owner, timeout).await
    }
}

#[cfg(test)]
mod tests {
    use super::RuntimeConfig;

    #[test]
    fn an_owner_has_half_of_the_slots_unless_it_is_said() {
        let config = |slots_per_owner, queue_per_owner| RuntimeConfig {
            slots_per_owner,
            queue_per_owner,
            ..RuntimeConfig::new(256)
        };
        for (config, held, expected) in [
            (RuntimeConfig::new(256), 256, (256, 128, 1_024)),
            (RuntimeConfig::new(1), 1, (1, 1, 8)),
            // The machine holds fewer than asked for.
            (RuntimeConfig::new(256), 10, (10, 5, 40)),
            (config(Some(3), None), 256, (256, 3, 24)),
            (config(Some(300), Some(7)), 256, (256, 256, 7)),
            (config(Some(0), Some(0)), 256, (256, 256, 0)),
        ] {
            assert_eq!(config.shares(held), expected, "{expected:?}");
        }
    }
}
