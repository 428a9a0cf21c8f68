//! Why there is no formula, or no program of one.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::FUNCTION_BYTES_MAX;
use crate::limits::{COMPONENT_BYTES_MAX, FORMULA_MEMORY_MB_MAX};
use crate::runtime::engine::{CORE_INSTANCES_EACH, MEMORIES_EACH, TABLE_ELEMENTS_MAX, TABLES_EACH};
use crate::runtime::entry;

/// Why bytes are no formula.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum ComponentError {
    /// Not WebAssembly at all.
    #[error("The formula is no WebAssembly component.")]
    NotWebAssembly,
    /// WebAssembly, but a core module.
    #[error("The formula is a core module, not a component: build it for wasm32-wasip2.")]
    CoreModule,
    /// One function is so large that compiling it would take very long.
    #[error("The component has a function of more than {FUNCTION_BYTES_MAX} bytes.")]
    FunctionTooLarge,
    /// More bytes than a component may have.
    #[error("The component must have at most {COMPONENT_BYTES_MAX} bytes.")]
    TooLarge,
    /// It makes the compiler take more than it may.
    #[error("Compiling the component takes too much memory or time: make its functions smaller.")]
    TooCostly,
    /// It took the compiler more time on the clock than it may have, which may be the machine's doing.
    #[error(
        "Compiling the component takes too much time here: make its functions smaller, or try again later."
    )]
    TooSlow,
    /// It is compiled, to more code than is kept for one owner.
    #[error(
        "The component's machine code takes more memory than the server keeps: make it smaller."
    )]
    CodeTooLarge,
    /// What describes its parts is so long that it would take a multiple of all else.
    #[error("The component has too many types, imports, exports or instances: make it smaller.")]
    TooManyNames,
    /// It does not validate or compile.
    #[error("The component does not compile: {0}.")]
    Invalid(String),
    /// It imports what the host does not offer: the names.
    #[error("The component imports {0}, which the host does not provide.")]
    Import(String),
    /// It does not export what a formula exports.
    #[error("The component does not export tokamak:formula/reactor of version 1.")]
    MissingExport,
    /// An import or export has another shape than the world's.
    #[error("The component is of another world than tokamak:formula/formula of version 1: {0}.")]
    WrongWorld(String),
    /// It does not link either, and was built for a later version than the one that is served.
    #[error(
        "The component was built for {built}, and this server has {}: {cause}.",
        entry::INTERFACE
    )]
    LaterWorld {
        /// What it imports or exports, with its version.
        built: String,
        /// What does not fit.
        cause: String,
    },
    /// It is a script, and no JavaScript or nothing that can be looked through.
    #[error("The script does not parse: {0}.")]
    Script(String),
    /// It is a script that leaves nothing to call.
    #[error("The script must assign a function to module.exports.")]
    NoFunction,
    /// It is made of more parts than a slot has room for.
    #[error(
        "The component needs more than the host provides: {CORE_INSTANCES_EACH} instances of core modules, {MEMORIES_EACH} \
         memories of {FORMULA_MEMORY_MB_MAX} MiB each, {TABLES_EACH} tables of \
         {TABLE_ELEMENTS_MAX} elements each, and a MiB for what an instance has of functions and globals."
    )]
    TooManyParts,
}

/// Why there is no program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileError {
    /// The component is no formula that runs.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The system gave no memory for it or for compiling it, which says nothing of the code; the cause is for the operator.
    #[error("there is no memory for the code: {0}")]
    NoMemory(String),
    /// A fault of ours; the cause is for the operator.
    #[error("components cannot be compiled: {0}")]
    Host(String),
}
