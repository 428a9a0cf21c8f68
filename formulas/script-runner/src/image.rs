//! The memory that a script's top level left: handed over once, and laid over an instance's own before each call.
//!
//! What an instance begins with is the same for all of them, so the server keeps of a script's memory only where it
//! differs. The stack is no part of it: this code runs on it. So nothing may be in the heap when an image is taken or
//! laid over but what the set-up and the script left; see `wit/`.

use core::arch::wasm32::{memory_grow, memory_size};
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, Ordering};
use std::alloc::{Layout, alloc, handle_alloc_error, realloc};

use crate::bindings::tokamak::script::source;

/// Bytes of a page.
const PAGE_BYTES: usize = 64 << 10;
/// Where pieces arrive: at the far end of the stack, which nothing reaches while an image is laid over.
const PIECE_AT: usize = 4 << 10;
/// Bytes of a piece, at most; as the server has it.
const PIECE_BYTES: usize = 32 << 10;

/// Whether what the server hands over is a piece.
static TAKES_PIECES: AtomicBool = AtomicBool::new(false);

#[expect(unsafe_code, reason = "the linker's name: only its address is taken")]
unsafe extern "C" {
    /// Where the stack begins, growing down, and the rest of the memory, growing up.
    static __stack_high: u8;
}

/// Hands the memory over as it is.
#[expect(unsafe_code, reason = "the memory as a whole is nobody's type")]
#[inline(never)]
pub fn keep() {
    let start = &raw const __stack_high;
    let at = start.expose_provenance();
    let length = memory_size::<0>() * PAGE_BYTES - at;
    // SAFETY: it is memory, and the server reads it before anything writes to it again.
    let memory = unsafe { core::slice::from_raw_parts(start, length) };
    source::keep(u32::try_from(at).unwrap_or_default(), memory);
}

/// Lays the script's image over the memory. `None` if it is none.
#[inline(never)]
pub fn restore() -> Option<()> {
    let (pages, pieces) = source::image();
    let missing = usize::try_from(pages).ok()?.saturating_sub(memory_size::<0>());
    if missing > 0 && memory_grow::<0>(missing) == usize::MAX {
        // As any allocation that fails: the server knows that it refused memory.
        std::process::abort();
    }
    TAKES_PIECES.store(true, Ordering::Relaxed);
    for index in 0..pieces {
        // It was never allocated.
        let piece = ManuallyDrop::new(source::piece(index));
        lay(&piece)?;
    }
    TAKES_PIECES.store(false, Ordering::Relaxed);
    Some(())
}

/// Writes what a piece holds to where it belongs.
#[expect(unsafe_code, reason = "an image is of memory, not of values")]
fn lay(piece: &[u8]) -> Option<()> {
    let (count, rest) = piece.split_first_chunk()?;
    let words = 12 * usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let (words, mut blocks) = rest.split_at_checked(words)?;
    for word in words.as_chunks::<12>().0 {
        let (at, value) = word.split_first_chunk()?;
        let (value, _) = value.split_first_chunk()?;
        let at = core::ptr::with_exposed_provenance_mut::<u64>(u32::from_le_bytes(*at) as usize);
        // SAFETY: the server knows the memory of the script that it was taken of, which was this one until then.
        unsafe { at.write_unaligned(u64::from_le_bytes(*value)) };
    }
    while let Some((at, rest)) = blocks.split_first_chunk() {
        let (length, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let at = core::ptr::with_exposed_provenance_mut::<u8>(u32::from_le_bytes(*at) as usize);
        // SAFETY: as above; pieces lie below all that an image is of.
        unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        blocks = rest;
    }
    Some(())
}

/// Where the server puts what it hands over: in the heap, but for pieces.
#[expect(unsafe_code, reason = "the name and shape that components have it by")]
#[unsafe(export_name = "cabi_realloc")]
unsafe extern "C" fn place(old: *mut u8, old_bytes: usize, align: usize, bytes: usize) -> *mut u8 {
    if bytes == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    if TAKES_PIECES.load(Ordering::Relaxed) && bytes <= PIECE_BYTES {
        return core::ptr::with_exposed_provenance_mut(PIECE_AT);
    }
    // SAFETY: components give sizes and alignments that make a layout, and take back what they were given.
    unsafe {
        let layout = Layout::from_size_align_unchecked(bytes, align);
        let placed = if old_bytes == 0 {
            alloc(layout)
        } else {
            realloc(old, Layout::from_size_align_unchecked(old_bytes, align), bytes)
        };
        if placed.is_null() {
            handle_alloc_error(layout);
        }
        placed
    }
}
