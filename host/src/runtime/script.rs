//! Scripts: formulas in JavaScript. One component runs them all; it lies in the binary, set up (see `host/build/image.rs`).
//!
//! To the runtime a script is a program like any other: the runner's, with the script's text for it to ask for. Each run
//! begins with the memory of the set-up and ends with its instance, so no script sees anything of another's, nor of its
//! own run before. Uploads cannot import what the runner asks for.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use thiserror::Error;
use wasmtime::component::Linker;
use wasmtime::{Result, format_err};

use super::call::{Budget, Call, Failure, FaultKind, GuestInvocation};
use super::component::Program;
use super::state::State;
use super::{CompileError, ComponentError, Purpose, Runtime};
use crate::crypto::hash::sha256_hex;
use crate::limits::{
    FORMULA_MEMORY_MB_DEFAULT, FUEL_PER_MS_DEFAULT, SCRIPT_CHECK_MS, SCRIPT_DETAIL_CHARS_MAX,
};

/// The component that runs scripts.
pub const SCRIPT_RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/script-runner.wasm"));

/// The interface by which it asks for its script.
pub(super) const SOURCE: &str = "tokamak:script/source@1.0.0";

static DIGEST: LazyLock<String> = LazyLock::new(|| sha256_hex(SCRIPT_RUNNER));

/// The digest of [`SCRIPT_RUNNER`].
pub fn script_runner_digest() -> &'static str {
    &DIGEST
}

/// A script for the runner.
#[derive(Clone)]
pub struct Script {
    code: Arc<str>,
    /// Whether it is only to be parsed.
    is_check: bool,
}

impl Script {
    /// A script to run.
    pub(super) fn to_run(code: Arc<str>) -> Self {
        Self { code, is_check: false }
    }
}

/// Why a script is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// It is no formula.
    #[error(transparent)]
    Refused(#[from] ComponentError),
    /// Too much of its owner's is under way.
    #[error("no slot for it is free")]
    Saturated,
    /// A fault of ours; the cause is for the operator.
    #[error("scripts cannot be checked: {0}")]
    Host(String),
}

impl From<CompileError> for ScriptError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Component(refusal) => Self::Refused(refusal),
            CompileError::Host(cause) => Self::Host(cause),
        }
    }
}

/// Offers the interface. Who has no script to run, and so is not the runner, ends by asking.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    fn script(state: &mut State) -> Result<&Script> {
        state.count_call()?;
        state.script.as_ref().ok_or_else(|| format_err!("there is no script"))
    }
    let mut source = linker.instance(SOURCE)?;
    source.func_wrap("code", |mut store, ()| {
        Ok((script(store.data_mut())?.code.as_ref().to_owned(),))
    })?;
    source.func_wrap("is-check", |mut store, ()| Ok((script(store.data_mut())?.is_check,)))
}

impl Runtime {
    /// A script as a program, parsed first: for [`Self::invoke`] without a vault around it.
    pub async fn script(&self, code: &str, owner: u128) -> Result<Program, ScriptError> {
        let runner = match self.load(script_runner_digest()).await {
            Some(runner) => runner,
            None => self.compile(SCRIPT_RUNNER.to_vec(), Purpose::run(0)).await?,
        };
        self.check_script(&runner, code.into(), owner).await?;
        Ok(runner.of_script(code.into()))
    }

    /// Whether a script parses, by the runner's program, in a slot of this owner.
    pub async fn check_script(
        &self,
        runner: &Program,
        code: Arc<str>,
        owner: u128,
    ) -> Result<(), ScriptError> {
        let program = runner.with_script(Script { code, is_check: true });
        let refused = |words: String| Err(ComponentError::Script(words).into());
        match self.invoke(&program, check_call(owner)).await.result {
            Ok(_) => Ok(()),
            Err(Failure::Reported { kind: FaultKind::BadRequest, detail, .. }) => {
                refused(detail.chars().take(SCRIPT_DETAIL_CHARS_MAX).collect())
            }
            Err(Failure::Saturated) => Err(ScriptError::Saturated),
            Err(Failure::HostFault(cause)) => Err(ScriptError::Host(cause)),
            Err(Failure::OutOfFuel | Failure::Deadline) => {
                refused("it takes too long to parse".to_owned())
            }
            Err(Failure::OutOfMemory | Failure::OwnerOutOfMemory | Failure::HostOutOfMemory) => {
                refused("it takes too much memory to parse".to_owned())
            }
            // The one way in which parsing itself gives up.
            Err(_) => refused("its parts are nested too deeply".to_owned()),
        }
    }
}

fn check_call(owner: u128) -> Call {
    Call {
        args: "null".to_owned(),
        configuration: "{}".to_owned(),
        vault: None,
        http: None,
        invocation: GuestInvocation {
            id: String::new(),
            reactor_id: String::new(),
            attempt: 1,
            deadline_ms: 0,
        },
        owner,
        budget: Budget {
            memory_bytes: u64::from(FORMULA_MEMORY_MB_DEFAULT) << 20,
            timeout: Duration::from_millis(SCRIPT_CHECK_MS),
            fuel: SCRIPT_CHECK_MS * FUEL_PER_MS_DEFAULT,
        },
    }
}
