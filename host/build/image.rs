//! Takes the image of a component that is set up: what its memory holds then is what every instance begins with.
//!
//! The component's core module exports `initialize`. It runs here, by an interpreter and with a host that answers
//! nothing: what needs the time, randomness or anything else of a host is not part of a set-up, and no image differs
//! from another. Then the module's data is replaced by what the memory holds, and nothing else of it changes: neither
//! its code, so that what is compiled of it is what was built, nor its tables, nor its globals, of which only the
//! stack's pointer ever changes and is back where it was.

use wasmi::{CompilationMode, Config, Engine, Error, ExternType, Func, Linker, Module, Store, Val};

/// The one thing that may be asked of the host: what hash tables are seeded with. Any will do, and it is the same for all:
/// whoever fills a table so that it is slow is the script itself, and burns its own fuel.
const INSECURE_SEED: &str = "wasi:random/insecure-seed@";

/// Bytes before the sections of a component or module: magic and version.
const HEADER_BYTES: usize = 8;
/// The section of a component that is a core module.
const CORE_MODULE: u8 = 1;
/// Sections of a core module: the size of its memory, its globals, its data segments and how many these are.
const MEMORY: u8 = 5;
const GLOBALS: u8 = 6;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;
/// Bytes of a page of the machine, for what is worth a segment of its own.
const PIECE_BYTES: usize = 4096;
/// Bytes of a page of WebAssembly.
const PAGE_BYTES: usize = 64 << 10;

/// The component with the image of its memory after `initialize`.
pub(crate) fn taken(component: &[u8]) -> Result<Vec<u8>, String> {
    let parts = sections(component)?;
    let modules = parts.iter().filter(|(id, _)| *id == CORE_MODULE);
    let (_, module) =
        modules.max_by_key(|(_, bytes)| bytes.len()).ok_or("it has no core module")?;
    let memory = initialized(module).map_err(|error| format!("its set-up failed: {error}"))?;
    let changed = with_memory(module, &memory)?;
    let mut made = component[..HEADER_BYTES].to_vec();
    for (id, bytes) in &parts {
        let is_the_module = std::ptr::eq(*bytes, *module);
        push_section(&mut made, *id, if is_the_module { &changed } else { bytes });
    }
    Ok(made)
}

/// Runs the set-up; gives what the memory holds.
fn initialized(module: &[u8]) -> Result<Vec<u8>, Error> {
    let mut config = Config::default();
    config.compilation_mode(CompilationMode::Lazy);
    let engine = Engine::new(&config);
    let module = Module::new(&engine, module)?;
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::<()>::new(&engine);
    for import in module.imports() {
        let ExternType::Func(shape) = import.ty() else { continue };
        let seeds_tables = import.module().starts_with(INSECURE_SEED);
        let asked = format!("it asks the host for {}.{}", import.module(), import.name());
        let refuse = move |_: wasmi::Caller<'_, ()>, _: &[Val], _: &mut [Val]| {
            if seeds_tables { Ok(()) } else { Err(Error::new(asked.clone())) }
        };
        let function = Func::new(&mut store, shape.clone(), refuse);
        linker.define(import.module(), import.name(), function)?;
    }
    let instance = linker.instantiate_and_start(&mut store, &module)?;
    instance.get_typed_func::<(), ()>(&store, "initialize")?.call(&mut store, ())?;
    let memory = instance.get_memory(&store, "memory");
    let memory = memory.ok_or_else(|| Error::new("it exports no memory"))?;
    Ok(memory.data(&store).to_vec())
}

/// The module with this memory in place of its data.
fn with_memory(module: &[u8], memory: &[u8]) -> Result<Vec<u8>, String> {
    let parts = sections(module)?;
    if !parts.iter().any(|(id, _)| *id == DATA) {
        return Err("its module has no data".to_owned());
    }
    // The stack comes first in memory, and nothing is left on it that anybody reads.
    let globals = parts.iter().find(|(id, _)| *id == GLOBALS);
    let stack_bytes = globals.and_then(|(_, bytes)| first_global(bytes)).unwrap_or(0);
    let segments = pieces(memory, stack_bytes);
    let mut made = module[..HEADER_BYTES].to_vec();
    for (id, bytes) in &parts {
        match *id {
            MEMORY => push_section(&mut made, MEMORY, &sized(bytes, memory.len() / PAGE_BYTES)?),
            DATA => push_section(&mut made, DATA, &data_section(memory, &segments)),
            DATA_COUNT => {
                let mut count = Vec::new();
                push_number(&mut count, segments.len());
                push_section(&mut made, DATA_COUNT, &count);
            }
            id => push_section(&mut made, id, bytes),
        }
    }
    Ok(made)
}

/// Where the memory holds anything, in pieces as large as can be.
fn pieces(memory: &[u8], from: usize) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut start = from;
    while start < memory.len() {
        let end = (start / PIECE_BYTES + 1) * PIECE_BYTES;
        let end = end.min(memory.len());
        if memory[start..end].iter().any(|byte| *byte != 0) {
            match found.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => found.push((start, end)),
            }
        }
        start = end;
    }
    found
}

fn data_section(memory: &[u8], segments: &[(usize, usize)]) -> Vec<u8> {
    let mut made = Vec::new();
    push_number(&mut made, segments.len());
    for (start, end) in segments {
        // Of memory 0, at `i32.const start`.
        made.extend([0, 0x41]);
        push_offset(&mut made, *start);
        made.push(0x0b);
        push_number(&mut made, end - start);
        made.extend_from_slice(&memory[*start..*end]);
    }
    made
}

/// The section of the one memory, with so many pages to begin with.
fn sized(section: &[u8], pages: usize) -> Result<Vec<u8>, String> {
    let unexpected = "its memory is not as was expected";
    let [1, flags @ (0 | 1), rest @ ..] = section else { return Err(unexpected.to_owned()) };
    let (_, used) = number(rest).ok_or(unexpected)?;
    let mut made = vec![1, *flags];
    push_number(&mut made, pages);
    made.extend_from_slice(&rest[used..]);
    Ok(made)
}

/// What the first global is at the beginning: the stack's pointer, where linkers make one.
fn first_global(section: &[u8]) -> Option<usize> {
    let (_, used) = number(section)?;
    // A number of 32 bits that changes, from `i32.const`.
    let [0x7f, 1, 0x41, rest @ ..] = section.get(used..)? else { return None };
    // Addresses are positive: as signed numbers they read the same.
    number(rest).map(|(offset, _)| offset)
}

/// The sections of a component or module: their ids and what they hold.
fn sections(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, String> {
    let cut = || "it is cut short".to_owned();
    let mut found = Vec::new();
    let mut rest = bytes.get(HEADER_BYTES..).ok_or_else(cut)?;
    while let Some((id, after)) = rest.split_first() {
        let (length, used) = number(after).ok_or_else(cut)?;
        let section = after.get(used..used + length).ok_or_else(cut)?;
        found.push((*id, section));
        rest = &after[used + length..];
    }
    Ok(found)
}

/// A number in LEB128 at the beginning, and how many bytes it takes.
fn number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn push_section(made: &mut Vec<u8>, id: u8, bytes: &[u8]) {
    made.push(id);
    push_number(made, bytes.len());
    made.extend_from_slice(bytes);
}

fn push_number(made: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        made.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    made.push(value.to_le_bytes()[0]);
}

/// A positive number as a signed one: its last group has room for the sign.
fn push_offset(made: &mut Vec<u8>, mut value: usize) {
    while value >= 0x40 {
        made.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    made.push(value.to_le_bytes()[0]);
}
