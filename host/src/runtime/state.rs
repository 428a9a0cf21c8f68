//! What a running formula's store holds, and what it calls in the host.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use wasmtime::component::{HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Engine, Result};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::ambient;
use super::call::{GuestProblem, GuestVault};
pub use super::http::Exchange;
use super::http::Outgoing;
use super::log::{Log, LogLevel, Printed};
use super::memory::Memory;
use super::script::{self, Work};
use super::slice::Slice;
use crate::limits::{HOST_CALLS_MAX, SVC_CALLS_MAX};
use crate::traces;

/// What the world's definition becomes.
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "formula",
        imports: {
            "tokamak:formula/logging": trappable,
            default: async | trappable,
        },
        exports: { default: async },
        with: {
            "tokamak:formula/vault.svc": super::BoundVault,
            "tokamak:formula/http.exchange": super::Exchange,
        },
    });
}

pub use generated::Formula;
pub use generated::exports::tokamak::formula::reactor::{Invocation, Request, Response};
pub use generated::tokamak::formula::http;
pub use generated::tokamak::formula::types::{CustomResponse, Error as GuestError, Fault};

use generated::tokamak::formula::vault::Problem;
use generated::tokamak::formula::{logging, types, vault};

/// Bytes of random numbers in one call.
const RANDOM_BYTES_MAX: u64 = 64 << 10;
/// Things of the host that a formula may hold at a time, and handles to them.
pub const HANDLES_MAX: usize = 1_024;

/// The vault that a formula was given.
pub struct BoundVault(Arc<dyn GuestVault>);

/// The formula called its host too often.
#[derive(Debug, thiserror::Error)]
#[error("too many calls of the host")]
pub struct TooManyCalls;

/// What a store holds beside the formula.
pub struct State {
    /// Made at the first call of it: most formulas on most arguments make none, and it is dear to make.
    wasi: Option<Box<WasiCtx>>,
    /// What of the host it holds.
    pub table: ResourceTable,
    log: Arc<Mutex<Log>>,
    host_calls: u64,
    svc_calls: u64,
    has_acted: bool,
    /// Whether it was told the time or a seed (`ambient`).
    pub was_told: bool,
    /// What the runner of scripts is to run.
    pub script: Option<Work>,
    /// Its way to other hosts.
    pub outgoing: Outgoing,
    /// Memory it holds and may hold.
    pub memory: Memory,
    /// What tells how long it has computed without a break.
    pub slice: Slice,
}

impl State {
    /// The state of a new instance in a run.
    pub fn new(memory: Memory, slice: Slice) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Self {
            wasi: None,
            table,
            log: Arc::default(),
            host_calls: 0,
            svc_calls: 0,
            has_acted: false,
            was_told: false,
            script: None,
            outgoing: Outgoing::default(),
            memory,
            slice,
        }
    }

    /// The log, to be read when the run is over.
    pub fn log(&self) -> Arc<Mutex<Log>> {
        Arc::clone(&self.log)
    }

    /// Hands the formula a vault.
    pub fn bind(&mut self, vault: Arc<dyn GuestVault>) -> Result<Resource<BoundVault>> {
        Ok(self.table.push(BoundVault(vault))?)
    }

    /// Counts a call of the host; one too many ends the run.
    pub fn count_call(&mut self) -> Result<()> {
        self.host_calls += 1;
        if self.host_calls > HOST_CALLS_MAX { Err(TooManyCalls.into()) } else { Ok(()) }
    }

    /// Whether the run asked its host for nothing that is not the same each time.
    pub fn asked_nothing(&self) -> bool {
        self.wasi.is_none() && !self.was_told && self.host_calls == 0
    }

    /// Whether the run asked its vault or another server for something that changes what is there.
    pub fn has_acted(&self) -> bool {
        self.has_acted || self.outgoing.has_acted
    }

    /// The vault behind a handle; refused when it was asked too often.
    fn vault(
        &mut self,
        this: &Resource<BoundVault>,
    ) -> Result<std::result::Result<Arc<dyn GuestVault>, Problem>> {
        self.count_call()?;
        self.svc_calls += 1;
        if self.svc_calls > SVC_CALLS_MAX {
            return Ok(Err(Problem {
                // To try again would come to the same.
                status: 500,
                title: "Reactor Runtime Error".to_owned(),
                detail: format!("One invocation may call the vault {SVC_CALLS_MAX} times."),
                errors: Vec::new(),
            }));
        }
        Ok(Ok(Arc::clone(&self.table.get(this)?.0)))
    }
}

/// Everything that formulas can import, put in place once.
pub fn linker(engine: &Engine) -> Result<Linker<State>> {
    use wasmtime_wasi::p2::bindings::{cli, random};
    let mut linker = Linker::<State>::new(engine);
    let l = &mut linker;
    // Clocks, random numbers, standard streams and what they need; no files, no sockets.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    ambient::add_to_linker(l)?;
    random::insecure::add_to_linker::<State, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    Formula::add_to_linker::<_, HasSelf<_>>(l, |state| state)?;
    script::add_to_linker(l)?;
    Ok(linker)
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let Self { wasi, log, table, .. } = self;
        WasiCtxView { ctx: wasi.get_or_insert_with(|| Box::new(wasi_of(log))), table }
    }
}

/// Closed but for clocks, random numbers and the two streams that are logged.
fn wasi_of(log: &Arc<Mutex<Log>>) -> WasiCtx {
    let printed = |level| Printed { log: Arc::clone(log), level };
    WasiCtx::builder()
        .stdout(printed(LogLevel::Stdout))
        .stderr(printed(LogLevel::Stderr))
        .max_random_size(RANDOM_BYTES_MAX)
        .build()
}

impl types::Host for State {}

impl logging::Host for State {
    fn write(&mut self, level: logging::Level, message: String) -> Result<()> {
        self.count_call()?;
        let level = match level {
            logging::Level::Trace => LogLevel::Trace,
            logging::Level::Debug => LogLevel::Debug,
            logging::Level::Info => LogLevel::Info,
            logging::Level::Warn => LogLevel::Warn,
            logging::Level::Error => LogLevel::Error,
        };
        self.log.lock().add(level, &message);
        Ok(())
    }
}

impl vault::Host for State {}

/// The host failed while a formula waited for it.
#[derive(Debug, thiserror::Error)]
#[error("the host failed during a call")]
pub struct HostFailed;

/// Runs a call of the host as a task. The formula's own stack is small and not a thread's: parsers that look at how much
/// of their thread's stack is left, as pest does, would refuse to work there. Ends with whoever waits for it.
pub async fn on_its_own_stack<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let mut task = JoinSet::new();
    task.spawn(traces::carried(call));
    match task.join_next().await {
        Some(Ok(answer)) => Ok(answer),
        _ => Err(HostFailed.into()),
    }
}

/// A call of the vault: counted, passed on, its refusal told to the formula. One that acts changes what is there.
macro_rules! passed_on {
    (@act $state:ident) => { $state.has_acted = true };
    (@look $state:ident) => {};
    ($($kind:ident $method:ident($($argument:ident),+) -> $answer:ty;)+) => {
        impl vault::HostSvc for State {
            $(async fn $method(
                &mut self,
                this: Resource<BoundVault>,
                $($argument: String),+
            ) -> Result<std::result::Result<$answer, Problem>> {
                let vault = match self.vault(&this)? {
                    Ok(vault) => vault,
                    Err(problem) => return Ok(Err(problem)),
                };
                passed_on!(@$kind self);
                let call = async move { vault.$method($($argument),+).await };
                Ok(on_its_own_stack(call).await?.map_err(Problem::from))
            })+

            async fn drop(&mut self, this: Resource<BoundVault>) -> Result<()> {
                self.table.delete(this)?;
                Ok(())
            }
        }
    };
}

passed_on! {
    act create_token(token) -> String;
    look get_token(id) -> String;
    look list_tokens(filter) -> String;
    look search_tokens(search) -> String;
    act update_token(id, patch) -> String;
    act delete_token(id) -> ();
    act tokenize(value) -> String;
    look detokenize(value) -> String;
}

impl From<GuestProblem> for Problem {
    fn from(problem: GuestProblem) -> Self {
        let GuestProblem { status, title, detail, errors } = problem;
        Self { status, title, detail, errors }
    }
}
