//! The end of the memory.

use core::arch::wasm32::memory_grow;

/// Whether there is none left. An engine that has none for its error throws `null`.
pub fn is_full() -> bool {
    memory_grow::<0>(1) == usize::MAX
}

/// Ends the run as an allocation that fails does in formulas in Rust: the server knows that it refused memory, and why.
pub fn end() -> ! {
    std::process::abort()
}
