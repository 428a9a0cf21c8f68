//! The runtime: formulas, each invocation in a sandbox of its own.
//!
//! It takes WebAssembly components of the world in `wit/formula.wit`, checks and compiles them, and runs them with
//! bounded memory, fuel and time. It knows nothing of tenants, tokens, records or HTTP: what a formula may ask of the
//! vault comes in as a [`GuestVault`], its way to other hosts as a [`GuestHttp`], and what came of a run goes out as an
//! [`Outcome`].
//!
//! To offer formulas another interface: add it to the world, implement its `Host` for [`state`]'s `State`, and name it in
//! [`component`]'s table.

mod call;
mod component;
mod engine;
mod http;
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

pub use call::{
    Budget, Call, Failure, FaultKind, GuestHttp, GuestHttpError, GuestHttpRequest,
    GuestHttpResponse, GuestInvocation, GuestProblem, GuestResponse, GuestVault, Outcome, Usage,
};
pub use component::{ComponentError, Program};
pub use log::{LogLevel, LogLine};

use state::State;

/// How the runtime is set up.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeConfig {
    /// Invocations that run at the same time; fewer if the machine cannot hold them.
    pub slots: u32,
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
    /// Compiling takes a core and much memory: one small and one large component at a time.
    compiling: [parking_lot::Mutex<()>; 2],
}

impl Runtime {
    /// Sets up the sandbox; reserves address space for every slot.
    pub fn new(config: RuntimeConfig) -> Result<Self, RuntimeError> {
        let failed = |error: wasmtime::Error| RuntimeError(error.to_string());
        let (engine, slots) = engine::serving(config.slots).map_err(failed)?;
        let linker = state::linker(&engine).map_err(failed)?;
        Ok(Self(Arc::new(Inner {
            engine,
            linker,
            slots: Semaphore::new(slots as usize),
            waiting: AtomicU32::new(0),
            waiting_max: slots.saturating_mul(8),
            compiling: Default::default(),
        })))
    }
}
