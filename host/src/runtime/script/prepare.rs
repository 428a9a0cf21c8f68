//! A script's top level, evaluated once: in an instance of its own, which is given the script's text and nothing else.

use wasmtime::{Engine, PoolConcurrencyLimitError, Store};

use super::image::Image;
use super::{Script, Task, Work};
use crate::limits::{FORMULA_MEMORY_MB_DEFAULT, FUEL_PER_MS_DEFAULT, SCRIPT_PREPARE_MS};
use crate::runtime::component::Program;
use crate::runtime::invoke::bound;
use crate::runtime::memory::{Memory, Refusal, is_of_the_system};
use crate::runtime::slice::Slice;
use crate::runtime::slots::Slot;
use crate::runtime::state::{Invocation, Request, State};

/// What preparing a script takes: the program, and the slot of the run that wants it, before it begins itself.
#[derive(Clone, Copy)]
pub struct Preparing<'r> {
    /// The runner's, with the script.
    pub program: &'r Program,
    /// Whose memory it counts as.
    pub slot: &'r Slot,
    /// The run's.
    pub slice: &'r Slice,
}

/// What kept a script from being prepared says nothing of the script: the next run tries again.
struct NotNow;

impl Preparing<'_> {
    /// Prepares a script, unless it was tried before; runs that want the same one wait for it.
    pub async fn prepare(self, script: &Script, engine: &Engine) {
        if script.is_check() {
            return;
        }
        let prepared = || self.image(script, engine);
        // Without one the run evaluates the script itself.
        let _ = script.shared.image.get_or_try_init(prepared).await;
    }

    /// What the script's top level leaves; `None` if it is to be evaluated in each run.
    async fn image(self, script: &Script, engine: &Engine) -> Result<Option<Image>, NotNow> {
        let bytes = u64::from(FORMULA_MEMORY_MB_DEFAULT) << 20;
        let mut state = State::new(Memory::new(self.slot.memory(), bytes), self.slice.clone());
        state.script = Some(Work::new(Task::Prepare, script.clone()));
        let mut store = Store::new(engine, state);
        bound(&mut store, SCRIPT_PREPARE_MS * FUEL_PER_MS_DEFAULT).map_err(|_| NotNow)?;
        let text = String::new;
        let invocation = Invocation { id: text(), reactor_id: text(), attempt: 0, deadline_ms: 0 };
        let request = Request { args: text(), configuration: text(), svc: None, invocation };
        let answer = self.program.entry.call(&request, &mut store).await;
        let state = store.data_mut();
        // A script may catch that it was refused memory, and go on in another way than it would elsewhere.
        let is_for_others = state.memory.refused.is_some_and(|refusal| refusal != Refusal::Formula);
        match answer {
            Ok(_) if is_for_others => Err(NotNow),
            Ok(Ok(_)) if state.asked_nothing() && state.memory.refused.is_none() => {
                Ok(state.script.as_mut().and_then(|work| work.left.take()))
            }
            Err(error) if error.is::<PoolConcurrencyLimitError>() => Err(NotNow),
            Err(error) if is_for_others || is_of_the_system(&error) => Err(NotNow),
            _ => Ok(None),
        }
    }
}
