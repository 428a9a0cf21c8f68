//! Engines: one that serves, and short-lived ones that compile.

use std::fs;
use std::hash::{Hash as _, Hasher};

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Result,
    WasmBacktraceDetails,
};

use crate::crypto::hash::sha256_hex;
use crate::limits::FORMULA_MEMORY_MB_MAX;

/// The version of wasmtime, as the manifest pins it.
const VERSION: &str = "48.0.8";
/// Bytes of a slot's memory that are wiped in place instead of being given back: it covers what most formulas touch, in
/// Rust with a stack of a MiB and in JavaScript what the engine's set-up left. All of it is written after every run, so
/// that more of it than is touched costs time.
const KEPT_MEMORY_BYTES: usize = 1408 << 10;
/// Bytes of a slot's stack that are wiped in place.
const KEPT_STACK_BYTES: usize = 32 << 10;
/// Bytes of a slot's stack: what a formula may use of it, and as much again as the host's own functions need. A larger one
/// costs more to give back after each invocation, even untouched.
const STACK_BYTES: usize = FORMULA_STACK_BYTES + (256 << 10);
/// Bytes of native stack that a formula may use.
const FORMULA_STACK_BYTES: usize = 1 << 20;
/// Bytes of a memory of which an image is made however few of them have data: most languages have a stack of a MiB before
/// it.
const DENSE_IMAGE_BYTES: u64 = 4 << 20;
/// Elements of a table, at most.
pub const TABLE_ELEMENTS_MAX: usize = 20_000;
/// Core instances of one component, at most: a Rust formula has three, one in Python some twenty. They are only counted,
/// and every slot has its own, so that no run is turned away for what another one takes.
pub const CORE_INSTANCES_EACH: u32 = 64;
/// Memories and tables of one component, at most; their addresses are reserved for every slot.
pub const MEMORIES_EACH: u32 = 2;
/// See [`MEMORIES_EACH`].
pub const TABLES_EACH: u32 = 8;
/// Memory maps that a slot may come to use.
const MAPS_EACH: u32 = 16;

/// The engine that runs formulas, and how many at a time.
pub fn serving(slots: u32) -> Result<(Engine, u32)> {
    let slots = slots.clamp(1, maps_max() / MAPS_EACH);
    let mut config = common();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(slots)));
    match Engine::new(&config) {
        Ok(engine) => Ok((engine, slots)),
        // Small machines have no room to reserve: slower, but it runs.
        Err(error) => {
            tracing::warn!(%error, "no pool of sandboxes; each is made anew");
            Ok((Engine::new(&common())?, slots))
        }
    }
}

/// An engine for one compilation: what the compiler holds is freed with it.
pub fn compiling() -> Result<Engine> {
    Engine::new(&common())
}

/// What compiled code depends on beside its component: the compiler, its settings, what this processor can do. In
/// hexadecimal.
pub fn fingerprint(engine: &Engine) -> String {
    struct Collected(Vec<u8>);
    impl Hasher for Collected {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    // Wasmtime takes code of any patch of its version, but a patch may be there to repair the compiler.
    let mut collected = Collected(VERSION.as_bytes().to_vec());
    engine.precompile_compatibility_hash().hash(&mut collected);
    sha256_hex(&collected.0)
}

/// What both must agree on, or compiled code does not load.
fn common() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        // Synchronous guests: calls into the sandbox are cheaper, and dropping one cancels it.
        .concurrency_support(false)
        // What one formula left on a stack is not the next one's to read.
        .async_stack_zeroing(true)
        .max_wasm_stack(FORMULA_STACK_BYTES)
        .async_stack_size(STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        // Data that lies far apart is laid where it belongs in each run, and makes no image of all that is between.
        .memory_guaranteed_dense_image_size(DENSE_IMAGE_BYTES)
        // The default reads an environment variable.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .native_unwind_info(false);
    config
}

fn pool(slots: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(slots * CORE_INSTANCES_EACH)
        .max_core_instances_per_component(CORE_INSTANCES_EACH)
        .total_memories(slots * MEMORIES_EACH)
        .max_memories_per_module(MEMORIES_EACH)
        .total_tables(slots * TABLES_EACH)
        .max_tables_per_module(TABLES_EACH)
        .total_stacks(slots)
        .max_memory_size((FORMULA_MEMORY_MB_MAX as usize) << 20)
        .table_elements(TABLE_ELEMENTS_MAX)
        .linear_memory_keep_resident(KEPT_MEMORY_BYTES)
        .table_keep_resident(TABLE_ELEMENTS_MAX * size_of::<usize>())
        .async_stack_keep_resident(KEPT_STACK_BYTES);
    pool
}

/// How many memory maps the kernel grants a process.
fn maps_max() -> u32 {
    const USUAL: u32 = 65_530;
    let setting = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    setting.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL)
}

#[cfg(test)]
mod tests {
    use super::{VERSION, common, compiling, fingerprint, serving};
    use wasmtime::{Engine, OptLevel};

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{VERSION}\"\n")));
    }

    #[test]
    fn an_engine_of_other_settings_or_another_processor_has_another_fingerprint() {
        let fingerprint_of = |config: &wasmtime::Config| fingerprint(&Engine::new(config).unwrap());
        let usual = fingerprint(&compiling().unwrap());
        assert_eq!(usual, fingerprint(&compiling().unwrap()));
        assert_eq!(usual, fingerprint(&serving(2).unwrap().0));
        let mut slower = common();
        slower.cranelift_opt_level(OptLevel::None);
        assert_ne!(usual, fingerprint_of(&slower));
        let mut without_fuel = common();
        without_fuel.consume_fuel(false);
        assert_ne!(usual, fingerprint_of(&without_fuel));
        // A named target is one without the extras of the processor at hand.
        let mut plain = common();
        plain.target(&plain_target()).unwrap();
        assert_ne!(usual, fingerprint_of(&plain));
    }

    fn plain_target() -> String {
        format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
    }
}
