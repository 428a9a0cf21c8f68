//! The runtime: formulas, each invocation in a sandbox of its own.
//!
//! It takes WebAssembly components of the world in `wit/formula.wit`, checks and compiles them, and runs them with
//! bounded memory, fuel and time. It knows nothing of tenants, tokens, records or HTTP: what a formula may ask of the
//! vault comes in as a [`GuestVault`], and what came of a run goes out as an [`Outcome`].
//!
//! To offer formulas another interface: add it to the world, implement its `Host` in [`state`], and name it in
//! [`component`]'s table.

mod cache;
mod call;
mod child;
mod compile;
mod component;
mod engine;
mod invoke;
mod load;
mod log;
mod response;
mod state;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use thiserror::Error;
use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::Linker;

pub use cache::CacheConfig;
pub use call::{
    Budget, Call, Failure, FaultKind, GuestInvocation, GuestProblem, GuestResponse, GuestVault,
    Outcome, Usage,
};
pub use child::{COMMAND as COMPILE_COMMAND, CompileBounds, compile_standard_input};
pub use compile::{CompileError, Compiler};
pub use component::{ComponentError, Program};
pub use log::{LogLevel, LogLine};

use cache::Cache;
use compile::Lanes;
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
    /// One permit for each invocation that may run.
    slots: Semaphore,
    /// Invocations that wait for a slot.
    waiting: AtomicU32,
    waiting_max: u32,
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
        let cache = config.cache.map(|cache| Cache::new(cache, &engine::fingerprint(&engine)));
        Ok(Self(Arc::new(Inner {
            engine,
            linker,
            slots: Semaphore::new(slots as usize),
            waiting: AtomicU32::new(0),
            waiting_max: slots.saturating_mul(8),
            compiler: config.compiler,
            lanes: Lanes::default(),
            cache,
        })))
    }
}
