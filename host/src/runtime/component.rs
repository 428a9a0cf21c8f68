//! What makes a component a formula: checks of its bytes before it is compiled, and of its world when it is loaded.

mod error;

use std::sync::Arc;

use wasmparser::{ComponentTypeRef, Payload};
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

pub use error::{CompileError, ComponentError};

use super::Runtime;
use super::engine::{MEMORIES_EACH, TABLES_EACH};
use super::entry::{self, Entry};
use super::memory::is_of_the_system;
use super::script::{self, Script};
use crate::limits::COMPONENT_BYTES_MAX;

/// The package of the world that formulas are of, and the major version that is served.
const PACKAGE: &str = "tokamak:formula/";
const VERSION: &str = "@1.";
const EXPORT: &str = "tokamak:formula/reactor";

/// Interfaces of the world that a formula may import.
const WORLD: &[&str] = &["types", "vault", "logging", "http"];

/// WASI interfaces that the host provides. No files, no sockets, nothing of the machine's environment.
const WASI: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:clocks/wall-clock",
    "wasi:clocks/monotonic-clock",
    "wasi:random/random",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
];

/// Bytes of one function: what compiling costs grows faster than a function does.
const FUNCTION_BYTES_MAX: usize = 1 << 20;
/// Imports that are named of those that are not offered.
const IMPORTS_NAMED_MAX: usize = 10;
/// Characters of what the compiler says, in an answer.
const CAUSE_CHARS_MAX: usize = 400;

/// A formula, compiled. Cloning shares it.
#[derive(Clone)]
pub struct Program {
    pub(super) entry: Arc<Entry>,
    memory_bytes: u64,
    /// What it is to run, when it is the runner of scripts.
    pub(super) script: Option<Script>,
}

impl Program {
    /// About how many bytes of memory its code takes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The program that runs this script; `self` is that of [`super::SCRIPT_RUNNER`].
    #[must_use]
    pub fn of_script(&self, script: Script) -> Self {
        Self { script: Some(script), ..self.clone() }
    }

    /// The script it is to run, if any.
    pub fn script(&self) -> Option<&Script> {
        self.script.as_ref()
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Program(..)")
    }
}

impl Runtime {
    /// Checks what a component imports and exports, and links it.
    pub(super) fn link(
        &self,
        component: &Component,
        memory_bytes: u64,
    ) -> Result<Program, CompileError> {
        self.check_world(component)?;
        let wrong =
            |error: wasmtime::Error| blamed(&error, |cause| self.does_not_link(component, cause));
        let linked = self.0.linker.instantiate_pre(component).map_err(wrong)?;
        // The image of its memory is made now, not by the first invocation.
        component.initialize_copy_on_write_image().map_err(|error| fault(&error))?;
        let entry = Entry::new(linked).map(Arc::new).map_err(wrong)?;
        Ok(Program { entry, memory_bytes, script: None })
    }

    fn does_not_link(&self, component: &Component, cause: String) -> ComponentError {
        let shape = component.component_type();
        let imports = shape.imports(&self.0.engine).map(|(name, _)| name);
        let exports = shape.exports(&self.0.engine).map(|(name, _)| name);
        match imports.chain(exports).find(|name| minor(name) > minor(entry::INTERFACE)) {
            Some(later) => ComponentError::LaterWorld { built: line(later), cause },
            None => ComponentError::WrongWorld(cause),
        }
    }

    fn check_world(&self, component: &Component) -> Result<(), ComponentError> {
        let engine = &self.0.engine;
        let shape = component.component_type();
        let mut refused = Refused::default();
        for (name, item) in shape.imports(engine) {
            // Types that a world passes on are imports without anything to provide.
            let provided = matches!(item.ty, ComponentItem::Type(_)) || provided(name);
            // Only the runner comes so far with it: see `check`.
            let provided = provided || name == script::SOURCE;
            if !provided {
                refused.add(name);
            }
        }
        refused.into_result()?;
        if !shape.exports(engine).any(|(name, _)| of_the_world(name)) {
            return Err(ComponentError::MissingExport);
        }
        match component.resources_required() {
            Some(needs) if needs.num_memories > MEMORIES_EACH || needs.num_tables > TABLES_EACH => {
                Err(ComponentError::TooManyParts)
            }
            _ => Ok(()),
        }
    }
}

/// Checks what can be told of a component without compiling it; only the runner of scripts may ask for one. How long that
/// takes, and how much memory, is as much its author's choice as with compiling.
pub fn check(component: &[u8], is_script_runner: bool) -> Result<(), ComponentError> {
    check_bytes(component)?;
    let offered = |import: &str| provided(import) || (is_script_runner && import == script::SOURCE);
    check_names(component, offered)
}

/// Validates the bytes, and looks at the names of what the component itself imports and exports.
fn check_names(component: &[u8], offered: impl Fn(&str) -> bool) -> Result<(), ComponentError> {
    let unreadable =
        |error: wasmparser::BinaryReaderError| ComponentError::Invalid(line(error.message()));
    let mut validator = wasmparser::Validator::new();
    let mut depth = 0_usize;
    let mut exports = false;
    let mut refused = Refused::default();
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        let payload = payload.map_err(unreadable)?;
        validator.payload(&payload).map_err(unreadable)?;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionEntry(body) if body.range().len() > FUNCTION_BYTES_MAX => {
                return Err(ComponentError::FunctionTooLarge);
            }
            Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    let import = import.map_err(unreadable)?;
                    let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
                    if !is_type && !offered(import.name.name) {
                        refused.add(import.name.name);
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports |= of_the_world(export.map_err(unreadable)?.name.name);
                }
            }
            _ => {}
        }
    }
    refused.into_result()?;
    if exports { Ok(()) } else { Err(ComponentError::MissingExport) }
}

/// Imports that the host does not offer.
#[derive(Default)]
struct Refused {
    names: Vec<String>,
    more: usize,
}

impl Refused {
    fn add(&mut self, name: &str) {
        if self.names.len() < IMPORTS_NAMED_MAX {
            self.names.push(line(name));
        } else {
            self.more += 1;
        }
    }

    fn into_result(self) -> Result<(), ComponentError> {
        let Self { names, more } = self;
        let named = names.join(", ");
        match (names.is_empty(), more) {
            (true, _) => Ok(()),
            (false, 0) => Err(ComponentError::Import(named)),
            (false, more) => Err(ComponentError::Import(format!("{named} and {more} more"))),
        }
    }
}

fn of_the_world(export: &str) -> bool {
    export.strip_prefix(EXPORT).is_some_and(|rest| rest.starts_with(VERSION))
}

/// The minor part of the contract's version that something of it names.
fn minor(name: &str) -> Option<u64> {
    let (_, version) = name.strip_prefix(PACKAGE)?.split_once('@')?;
    version.split('.').nth(1)?.parse().ok()
}

/// Looks at the size and the first bytes, before it costs anything to look further.
pub fn check_bytes(component: &[u8]) -> Result<(), ComponentError> {
    if component.len() > COMPONENT_BYTES_MAX {
        return Err(ComponentError::TooLarge);
    }
    match component.get(..8) {
        Some([0, b'a', b's', b'm', _, _, 1, 0]) => Ok(()),
        Some([0, b'a', b's', b'm', ..]) => Err(ComponentError::CoreModule),
        _ => Err(ComponentError::NotWebAssembly),
    }
}

fn provided(import: &str) -> bool {
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    match name.strip_prefix(PACKAGE) {
        Some(interface) => WORLD.contains(&interface) && version.starts_with("1."),
        None => WASI.contains(&name) && version.starts_with("0.2."),
    }
}

/// A component that does not compile.
pub fn invalid(error: &wasmtime::Error) -> CompileError {
    blamed(error, ComponentError::Invalid)
}

/// What the component is to blame for, unless it was for want of memory.
fn blamed(error: &wasmtime::Error, blame: impl Fn(String) -> ComponentError) -> CompileError {
    match fault(error) {
        CompileError::Host(cause) => blame(cause).into(),
        for_want_of_memory => for_want_of_memory,
    }
}

/// What no component is to blame for.
pub fn fault(error: &wasmtime::Error) -> CompileError {
    let cause = brief(error);
    if is_of_the_system(error) { CompileError::NoMemory(cause) } else { CompileError::Host(cause) }
}

/// All causes from the outermost on, on one line: they speak of the component's structure only.
pub fn brief(error: &wasmtime::Error) -> String {
    let mut causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.dedup();
    line(&causes.join(": "))
}

/// A text on one line, cut short. Names that a component brings may hold anything, and whoever reads this may read it on a
/// terminal: control characters are left out.
pub fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(CAUSE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::{CAUSE_CHARS_MAX, ComponentError, check, line, provided};

    /// What is said of a component that imports functions of these names, none of which there is.
    fn refusal(names: &[String]) -> String {
        let import = |name: &String| format!("(import \"{name}\" (func))");
        let imports: String = names.iter().map(import).collect();
        let error = check(&wat::parse_str(format!("(component {imports})")).unwrap(), false);
        assert!(matches!(error, Err(ComponentError::Import(_))), "{error:?}");
        error.unwrap_err().to_string()
    }

    #[test]
    fn all_imports_that_are_not_provided_are_named_up_to_a_bound() {
        let names: Vec<String> = ('a'..='l').map(|letter| format!("import-{letter}")).collect();
        let told = "The component imports import-a, which the host does not provide.";
        assert_eq!(refusal(&names[..1]), told);
        let told = "imports import-a, import-b, import-c, which";
        assert!(refusal(&names[..3]).contains(told), "{}", refusal(&names[..3]));
        assert!(refusal(&names[..10]).ends_with("import-j, which the host does not provide."));
        let told = "import-j and 2 more, which the host does not provide.";
        assert!(refusal(&names).ends_with(told), "{}", refusal(&names));
    }

    #[test]
    fn a_cause_is_one_short_line_without_control_characters() {
        for (text, expected) in [
            ("", ""),
            (" a\r\n  b\t", "a b"),
            ("a\0b\u{1b}[31mc\u{7f}d\u{9b}e\u{85}", "a b [31mc d e"),
            ("é \u{2028}ü", "é ü"),
        ] {
            assert_eq!(line(text), expected, "{text:?}");
        }
        assert_eq!(line(&"é".repeat(1_000)).chars().count(), CAUSE_CHARS_MAX);
    }

    #[test]
    fn what_is_provided() {
        for import in [
            "tokamak:formula/vault@1.0.0",
            "tokamak:formula/logging@1.3.2",
            "tokamak:formula/http@1.0.0",
            "wasi:io/streams@0.2.6",
            "wasi:clocks/monotonic-clock@0.2.0",
        ] {
            assert!(provided(import), "{import}");
        }
        for import in [
            "tokamak:formula/vault@2.0.0",
            "tokamak:formula/http@2.0.0",
            "tokamak:formula/sockets@1.0.0",
            "wasi:filesystem/types@0.2.0",
            "wasi:sockets/tcp@0.2.0",
            "wasi:http/outgoing-handler@0.2.0",
            "wasi:io/streams@0.3.0",
            "env",
        ] {
            assert!(!provided(import), "{import}");
        }
    }
}
