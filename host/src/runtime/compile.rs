//! From a component's bytes to a program: checked, compiled in a bounded place, kept, loaded.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tokio::task::JoinError;

use super::child::{self, CompileBounds};
use super::component::{self, CompileError, ComponentError, Program, fault};
use super::lanes::{Place, Purpose, Turn};
use super::load::{self, Compiled};
use super::{Runtime, engine, script};
use crate::crypto::hash::sha256_hex;

/// Bytes that describe a component's parts: those of a large program in any language are a tenth of it.
const DESCRIBED_BYTES_MAX: u64 = 4 << 20;

/// Where components are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// Each in a process of its own, bounded by the kernel.
    Process {
        /// This very program.
        program: PathBuf,
        /// What each may use.
        bounds: CompileBounds,
    },
    /// On a thread of this process, without a bound: for components that one knows.
    Thread,
}

impl Runtime {
    /// The program of a component with this digest, if its code is kept on disk. [`CompileError::NoMemory`], and no other
    /// error, when the system gives none to load it: the code stays where it is.
    pub async fn load(&self, digest: &str) -> Result<Option<Program>, CompileError> {
        let (runtime, digest) = (self.clone(), digest.to_owned());
        let load = move || {
            let Some(cache) = runtime.0.cache.as_ref() else { return Ok(None) };
            let found = cache.find(&digest);
            let found = found.map_err(|error| CompileError::NoMemory(error.to_string()))?;
            let Some(compiled) = found else { return Ok(None) };
            match runtime.program(&compiled) {
                Ok(program) => {
                    tracing::debug!(digest, "a program was loaded");
                    Ok(Some(program))
                }
                Err(error @ CompileError::NoMemory(_)) => Err(error),
                Err(error) => {
                    tracing::warn!(digest, %error, "kept code does not load; it is compiled anew");
                    cache.discard(&digest);
                    Ok(None)
                }
            }
        };
        blocking(load).await.unwrap_or(Ok(None))
    }

    /// The digests of components whose code is kept on disk for this sandbox alone.
    pub async fn kept_digests(&self) -> BTreeSet<String> {
        let runtime = self.clone();
        let list = move || {
            let cache = runtime.0.cache.as_ref()?;
            let failed = |error: &_| tracing::warn!(%error, "compiled code cannot be listed");
            cache.digests().inspect_err(failed).ok()
        };
        blocking(list).await.ok().flatten().unwrap_or_default()
    }

    /// Removes the code of these components; gives whether none of it is left.
    pub async fn discard(&self, digests: BTreeSet<String>) -> bool {
        let runtime = self.clone();
        let discard = move || {
            let failed = |error: &_| tracing::warn!(%error, "compiled code cannot be removed");
            let cache = runtime.0.cache.as_ref();
            cache.is_none_or(|cache| cache.remove(&digests).inspect_err(failed).is_ok())
        };
        blocking(discard).await.is_ok_and(|gone| gone)
    }

    /// A place for an upload of this owner; `None` when too many are under way.
    pub fn place(&self, owner: u128) -> Option<Place> {
        self.0.lanes.place(owner)
    }

    /// Checks and compiles a component, and keeps its code. Others may be compiled before it.
    pub async fn compile(
        &self,
        component: Vec<u8>,
        purpose: Purpose,
    ) -> Result<Program, CompileError> {
        let check = move || {
            component::check_bytes(&component)?;
            Ok((sha256_hex(&component), component))
        };
        let (digest, component) = on_a_thread(check).await?;
        let (compiled, turn) = self.machine_code(component, &purpose).await?;
        few_names(&compiled)?;
        if compiled.memory_bytes() > purpose.code_bytes_max {
            return Err(ComponentError::CodeTooLarge.into());
        }
        let runtime = self.clone();
        let load = move || {
            // What is loaded is copied: no other one is compiled meanwhile.
            let _turn = turn;
            let program = runtime.program(&compiled);
            // Whoever finds memory for it later is not to compile it once more.
            if let Some(cache) = &runtime.0.cache
                && matches!(program, Ok(_) | Err(CompileError::NoMemory(_)))
            {
                cache.keep(&digest, &compiled);
            }
            tracing::debug!(digest, "a program was compiled");
            program
        };
        on_a_thread(load).await
    }

    async fn machine_code(
        &self,
        component: Vec<u8>,
        purpose: &Purpose,
    ) -> Result<(Compiled, Turn), CompileError> {
        let turn = self.0.lanes.enter(component.len(), purpose).await;
        let turn = turn.ok_or_else(|| CompileError::Host("nobody's turn".to_owned()))?;
        match &self.0.compiler {
            Compiler::Process { program, bounds } => {
                let most = purpose.code_bytes_max;
                Ok((child::compile(program, *bounds, (&component, most)).await?, turn))
            }
            Compiler::Thread => {
                let compile = move || {
                    // Whoever gives up waiting leaves the thread at work, and the turn with it.
                    compile_here(&component).map(|compiled| (compiled, turn))
                };
                on_a_thread(compile).await
            }
        }
    }

    /// Loads code and links it: what takes no compiler.
    fn program(&self, compiled: &Compiled) -> Result<Program, CompileError> {
        few_names(compiled)?;
        let component = compiled.load(&self.0.engine).map_err(|error| unfit(&error))?;
        self.link(&component, compiled.memory_bytes())
    }
}

/// Checks a component and compiles it, in this very process. What a stranger wrote may make either take any time and any
/// memory.
pub fn compile_here(component: &[u8]) -> Result<Compiled, CompileError> {
    component::check(component, script::is_script_runner(component))?;
    let engine = engine::compiling().map_err(|error| fault(&error))?;
    load::compile(&engine, component).map_err(|error| component::invalid(&error))
}

/// Refuses code with a long description.
fn few_names(compiled: &Compiled) -> Result<(), CompileError> {
    let is_long = compiled.described_bytes() > DESCRIBED_BYTES_MAX;
    if is_long { Err(ComponentError::TooManyNames.into()) } else { Ok(()) }
}

/// Code that does not load: it wants more of a slot than there is, or the fault is ours.
fn unfit(error: &wasmtime::Error) -> CompileError {
    // wasmtime tells them apart by words alone.
    let is_of_the_slot = error.chain().any(|cause| cause.to_string().contains("pooling allocator"));
    if is_of_the_slot { ComponentError::TooManyParts.into() } else { fault(error) }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CompileError> + Send + 'static,
) -> Result<T, CompileError> {
    let done = blocking(work).await;
    done.unwrap_or_else(|error| Err(CompileError::Host(error.to_string())))
}

/// Does what blocks, in the span of whoever waits for it: what goes wrong there is to name the request.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await
}

#[cfg(test)]
mod tests {
    use super::{CompileError, ComponentError, component, unfit};
    use rustix::io::Errno;
    use wasmtime::Error;

    #[test]
    fn a_want_of_memory_is_no_fault_of_the_code_that_is_loaded() {
        for wants in [
            Error::from(Errno::NOMEM),
            Error::from(Errno::NOMEM).context("unable to make memory executable"),
            Error::from(std::io::Error::from(Errno::MFILE)),
        ] {
            assert!(matches!(unfit(&wants), CompileError::NoMemory(_)), "{wants:?}");
            assert!(matches!(component::invalid(&wants), CompileError::NoMemory(_)), "{wants:?}");
        }
        let broken = Error::msg("failed to parse precompiled artifact as an ELF");
        assert!(matches!(unfit(&broken), CompileError::Host(_)));
        let invalid = component::invalid(&broken);
        assert!(matches!(invalid, CompileError::Component(ComponentError::Invalid(_))));
        let parts = Error::msg("the module needs more than the pooling allocator has");
        let too_many = CompileError::Component(ComponentError::TooManyParts);
        assert_eq!(unfit(&parts), too_many);
    }
}
