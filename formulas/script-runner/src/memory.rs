//! The end of the memory.

use core::arch::wasm32::memory_grow;

/// Whether there is none left, be it the run's own or what all runs have together. An engine that has none for its error
/// throws `null`. It asks for a page, so it is only for runs that failed.
pub fn is_full() -> bool {
    memory_grow::<0>(1) == usize::MAX
}

/// Ends the run as an allocation that fails does in formulas in Rust: the server knows that it refused memory, and why.
pub fn end() -> ! {
    std::process::abort()
}
