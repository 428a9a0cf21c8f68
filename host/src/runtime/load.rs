//! Loading compiled code: the one place that must trust its bytes.

use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// Machine code that [`compile`] made: nobody else can make one.
pub struct Compiled(Vec<u8>);

/// Compiles a component in an engine of its own.
pub fn compile(engine: &Engine, component: &[u8]) -> Result<Compiled> {
    engine.precompile_component(component).map(Compiled)
}

impl Compiled {
    /// Loads the code for an engine of the same configuration.
    #[expect(
        unsafe_code,
        reason = "the bytes come from the compiler of this very process, unchanged"
    )]
    pub fn load(&self, engine: &Engine) -> Result<Component> {
        // SAFETY: `self` was made by `compile` and its bytes are not reachable for anybody else. A mismatch of
        // configuration or version is found by wasmtime and is an error.
        unsafe { Component::deserialize(engine, &self.0) }
    }
}
