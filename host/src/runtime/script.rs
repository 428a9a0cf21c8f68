//! Scripts: formulas in JavaScript. One component runs them all; it lies in the binary, set up (see `host/build/image.rs`).
//!
//! To the runtime a script is a program like any other: the runner's, with the script's text for it to ask for. Each run
//! begins with the memory of the set-up and ends with its instance, so no script sees anything of another's, nor of its
//! own run before. Uploads cannot import what the runner asks for.
//!
//! One that arrives is parsed, and then its top level is evaluated, as far as that ends soon, to see what it leaves to call.
//!
//! A script's top level is then evaluated once for all runs, in an instance of its own that is given nothing but the text, and every run
//! begins with the memory that it left ([`prepare`], [`image`]). One that asks the host for anything (the time, a random
//! number, a line in the log), fails, or takes long is evaluated in each run instead: to a script both are the same.

mod image;
mod prepare;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::OnceCell;
use wasmtime::component::{ComponentType, Linker, Lower, WasmList};
use wasmtime::{Result, StoreContextMut, format_err};
use zeroize::Zeroize as _;

use super::call::{Budget, Call, Failure, FaultKind, GuestInvocation};
use super::component::Program;
use super::state::{State, http};
use super::{CompileError, ComponentError, Purpose, Runtime};
use crate::crypto::hash::sha256_hex;
use crate::limits::{
    FORMULA_MEMORY_MB_DEFAULT, FUEL_PER_MS_DEFAULT, SCRIPT_CHECK_MS, SCRIPT_DETAIL_CHARS_MAX,
    SCRIPT_IMAGE_BYTES_MAX, SCRIPT_PREPARE_MS,
};
use image::Image;

pub(super) use prepare::Preparing;

/// The component that runs scripts.
pub static SCRIPT_RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/script-runner.wasm"));

/// The interface by which it asks for its script.
pub(super) const SOURCE: &str = "tokamak:script/source@1.0.0";

static DIGEST: LazyLock<String> = LazyLock::new(|| sha256_hex(SCRIPT_RUNNER));

/// Whether what an error says that a script did not catch is logged with its run. It may be what the script was given, so
/// it is only in a process that tries scripts out for their author, and nobody else's runs are there.
static IN_WORDS: AtomicBool = AtomicBool::new(false);

/// Logs from now on what uncaught errors say, in all runs of this process.
pub fn log_uncaught_in_words() {
    IN_WORDS.store(true, Ordering::Relaxed);
}

/// Whether it is [`SCRIPT_RUNNER`].
pub fn is_script_runner(component: &[u8]) -> bool {
    component == SCRIPT_RUNNER
}

/// The digest of [`SCRIPT_RUNNER`].
pub fn script_runner_digest() -> &'static str {
    &DIGEST
}

/// A script for the runner. Cloning shares it, and what its top level left.
#[derive(Clone)]
pub struct Script {
    shared: Arc<Shared>,
    /// What is to be done with it instead of running it.
    only: Option<Task>,
}

struct Shared {
    code: Arc<str>,
    /// What its top level left; `None` if it is to be evaluated in each run. Empty until the first run.
    image: OnceCell<Option<Image>>,
}

impl Script {
    /// A script of this text.
    pub fn new(code: Arc<str>) -> Self {
        Self { shared: Arc::new(Shared { code, image: OnceCell::new() }), only: None }
    }

    /// Bytes that it takes in memory, about: before its first run, as many as it may come to take by that.
    pub fn bytes(&self) -> usize {
        let image = match self.shared.image.get() {
            None => SCRIPT_IMAGE_BYTES_MAX,
            Some(image) => image.as_ref().map_or(0, Image::bytes),
        };
        self.shared.code.len() + image
    }

    /// Whether it is only to be looked at.
    pub fn is_check(&self) -> bool {
        self.only.is_some()
    }

    /// Whether every run begins with what its top level left; false before the first.
    pub fn is_prepared(&self) -> bool {
        self.shared.image.get().is_some_and(Option::is_some)
    }
}

/// What the runner is to do, as it asks for it: the order is that of its `wit/`.
#[derive(Clone, Copy, PartialEq, Eq, ComponentType, Lower)]
#[component(enum)]
#[repr(u8)]
enum Task {
    #[component(name = "check")]
    Check,
    #[component(name = "prepare")]
    Prepare,
    #[component(name = "run")]
    Run,
    #[component(name = "resume")]
    Resume,
    #[component(name = "examine")]
    Examine,
}

/// What a script is called with. Its arguments are wiped once the script has them, or never will.
#[derive(Default, ComponentType, Lower)]
#[component(record)]
struct Called {
    args: String,
    configuration: String,
    id: String,
    #[component(name = "reactor-id")]
    reactor_id: String,
}

impl Drop for Called {
    fn drop(&mut self) {
        self.args.zeroize();
        self.configuration.zeroize();
    }
}

/// What the runner has to do in one run.
pub(super) struct Work {
    task: Task,
    script: Script,
    called: Called,
    /// The memory before the script is evaluated, and what it differs in then.
    before: Option<Vec<u8>>,
    left: Option<Image>,
}

impl Work {
    fn new(task: Task, script: Script) -> Self {
        Self { task, script, called: Called::default(), before: None, left: None }
    }

    /// A run. What the script is called with is taken out of the call: see the runner's `wit/`.
    pub(super) fn run(script: &Script, call: &mut Call) -> Self {
        let task = match (script.only, script.is_prepared()) {
            (Some(task), _) => task,
            (None, true) => Task::Resume,
            (None, false) => Task::Run,
        };
        let called = Called {
            args: std::mem::take(&mut *call.args),
            configuration: std::mem::take(&mut *call.configuration),
            id: std::mem::take(&mut call.invocation.id),
            reactor_id: std::mem::take(&mut call.invocation.reactor_id),
        };
        Self { called, ..Self::new(task, script.clone()) }
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
            CompileError::NoMemory(cause) | CompileError::Host(cause) => Self::Host(cause),
        }
    }
}

impl From<Failure> for ScriptError {
    /// What kept a script from being checked.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Saturated | Failure::OwnerOutOfMemory => Self::Saturated,
            Failure::HostFault(cause) | Failure::NoSandbox(cause) => Self::Host(cause),
            failure => Self::Host(format!("{failure:?}")),
        }
    }
}

/// Offers the interface. Who has no script to run, and so is not the runner, ends by asking.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> Result<()> {
    fn work<'s>(store: &'s mut StoreContextMut<'_, State>) -> Result<&'s mut Work> {
        store.data_mut().script.as_mut().ok_or_else(|| format_err!("there is no script"))
    }
    let mut source = linker.instance(SOURCE)?;
    source.func_wrap("to-do", |mut store, ()| Ok((work(&mut store)?.task,)))?;
    source.func_wrap("code", |mut store, ()| {
        Ok((Arc::clone(&work(&mut store)?.script.shared.code),))
    })?;
    source.func_wrap("called-with", |mut store, ()| {
        Ok((std::mem::take(&mut work(&mut store)?.called),))
    })?;
    source.func_wrap("in-words", |mut store, ()| {
        work(&mut store)?;
        Ok((IN_WORDS.load(Ordering::Relaxed),))
    })?;
    source.func_wrap("keep", |mut store, (start, memory): (u32, WasmList<u8>)| {
        if work(&mut store)?.task != Task::Prepare {
            return Err(format_err!("nothing is to be kept"));
        }
        match work(&mut store)?.before.take() {
            None => {
                let memory = memory.as_le_slice(&store).to_vec();
                work(&mut store)?.before = Some(memory);
            }
            Some(before) => {
                let left = Image::of(start, &before, memory.as_le_slice(&store));
                work(&mut store)?.left = left;
            }
        }
        Ok(())
    })?;
    source.func_wrap("image", |mut store, ()| {
        let script = &work(&mut store)?.script;
        let image = script.shared.image.get().and_then(Option::as_ref);
        let image = image.ok_or_else(|| format_err!("there is no image"))?;
        Ok(((image.pages, u32::try_from(image.pieces.len())?),))
    })?;
    source.func_wrap("piece", |mut store, (index,): (u32,)| {
        let script = &work(&mut store)?.script;
        let image = script.shared.image.get().and_then(Option::as_ref);
        let piece = image.and_then(|image| image.pieces.get(index as usize));
        Ok((Arc::clone(piece.ok_or_else(|| format_err!("there is no such piece"))?),))
    })?;
    source.func_wrap("begin", |mut store, (request,): (http::Request,)| {
        work(&mut store)?;
        store.data_mut().count_call()?;
        Ok((store.data_mut().outgoing.begin(request)?,))
    })?;
    source.func_wrap("abandon", |mut store, (number,): (u32,)| {
        work(&mut store)?;
        store.data_mut().count_call()?;
        store.data_mut().outgoing.abandon(number)
    })?;
    source.func_wrap_async("next-answer", |mut store, (within_ms,): (Option<u32>,)| {
        Box::new(async move {
            work(&mut store)?;
            store.data_mut().count_call()?;
            let answer = store.data_mut().outgoing.next_answer(within_ms).await?;
            Ok::<_, wasmtime::Error>((answer,))
        })
    })
}

/// What is added to why a script does not parse, if it is of another kind.
const NO_MODULE: &str = "; a script is no ES module: it has `module.exports = …` in the place of \
    `export`, and `require(…)` in the place of `import`";

/// Whether a text seems to be an ES module: a line begins as only theirs do.
fn is_module(code: &str) -> bool {
    code.lines().any(|line| {
        let mut words = line.trim_start().split(|c: char| c != '_' && !c.is_alphanumeric());
        matches!(words.next(), Some("import" | "export"))
    })
}

impl Runtime {
    /// A script as a program, parsed first: for [`Self::invoke`] without a vault around it.
    pub async fn script(&self, code: &str, owner: u128) -> Result<Program, ScriptError> {
        let runner = match self.load(script_runner_digest()).await? {
            Some(runner) => runner,
            None => self.compile(SCRIPT_RUNNER.to_vec(), Purpose::run(0)).await?,
        };
        self.check_script(&runner, code.into(), owner).await??;
        Ok(runner.of_script(Script::new(code.into())))
    }

    /// Whether a script parses and leaves a function to call, by the runner's program, in a slot of this owner. What kept it
    /// from being checked, and says nothing of it, stands apart: [`Failure::Saturated`] when it had no slot in time or not
    /// enough of its turns, the failures for want of memory that others hold, and faults of ours.
    pub async fn check_script(
        &self,
        runner: &Program,
        code: Arc<str>,
        owner: u128,
    ) -> Result<Result<(), ComponentError>, Failure> {
        // Waiting is no part of what parsing may take.
        let wait = Duration::from_millis(SCRIPT_CHECK_MS);
        let slot = self.acquire(owner, wait).await.map_err(|_| Failure::Saturated)?;
        let script = Script::new(Arc::clone(&code));
        let program = runner.of_script(Script { only: Some(Task::Check), ..script });
        let refused = |words: String| Ok(Err(ComponentError::Script(words)));
        match self.invoke_in(slot, &program, check_call(owner)).await.result {
            Ok(_) => Ok(self.examine_script(runner, code, owner).await),
            Err(Failure::Reported { kind: FaultKind::BadRequest, detail, .. }) => {
                let words = detail.chars().take(SCRIPT_DETAIL_CHARS_MAX).collect::<String>();
                refused(if is_module(&code) { words + NO_MODULE } else { words })
            }
            // Its fuel is gone long before its time, unless others compute meanwhile.
            Err(Failure::Deadline) => Err(Failure::Saturated),
            Err(
                failure @ (Failure::Saturated
                | Failure::OwnerOutOfMemory
                | Failure::HostOutOfMemory
                | Failure::NoSandbox(_)
                | Failure::HostFault(_)),
            ) => Err(failure),
            Err(Failure::OutOfFuel | Failure::TooManyCalls) => {
                refused("it takes too long to parse".to_owned())
            }
            Err(Failure::OutOfMemory) => refused("it takes too much memory to parse".to_owned()),
            // The one way in which parsing itself gives up.
            Err(_) => refused("its parts are nested too deeply".to_owned()),
        }
    }

    /// Whether a script that parses leaves a function to call. One whose top level throws, or takes long, is taken: it may
    /// do another thing in another run. So is one for which there is no slot any more: that it parses is known by now.
    async fn examine_script(
        &self,
        runner: &Program,
        code: Arc<str>,
        owner: u128,
    ) -> Result<(), ComponentError> {
        let wait = Duration::from_millis(SCRIPT_CHECK_MS);
        let Ok(slot) = self.acquire(owner, wait).await else { return Ok(()) };
        let script = Script { only: Some(Task::Examine), ..Script::new(code) };
        let mut call = check_call(owner);
        call.budget.fuel = SCRIPT_PREPARE_MS * FUEL_PER_MS_DEFAULT;
        match self.invoke_in(slot, &runner.of_script(script), call).await.result {
            Err(Failure::Reported { kind: FaultKind::BadRequest, .. }) => {
                Err(ComponentError::NoFunction)
            }
            _ => Ok(()),
        }
    }
}

fn check_call(owner: u128) -> Call {
    Call {
        args: "null".to_owned().into(),
        configuration: "{}".to_owned().into(),
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

#[cfg(test)]
mod tests {
    use super::Called;

    /// Nobody may read what was freed; but that it is dropped in a way of its own is seen by the compiler.
    #[test]
    fn what_a_script_is_called_with_is_wiped_whether_it_asks_for_it_or_not() {
        #[expect(drop_bounds, reason = "that is what is asked")]
        fn is_wiped<T: Drop>(_: &T) {}
        is_wiped(&Called::default());
    }
}
