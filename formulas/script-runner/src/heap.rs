//! Where the heap lies.
//!
//! An instance is reset by copying back the low 1.4 MiB of its memory and giving back the pages above, each of which then
//! costs a fault when it is touched again. So what a run changes is to lie low and what it only reads high: first the
//! stack, then the heap, of which the set-up takes a MiB, and the constants from 2 MiB on (`.cargo/config.toml` says so to
//! the linker). What does not fit there is above the constants, in memory that is grown.

use core::alloc::Layout;
use core::arch::wasm32::memory_grow;
use core::ptr::NonNull;

use talc::base::Talc;
use talc::base::binning::Binning;
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::wasm::WasmBinning;

/// Bytes of a page.
const PAGE_BYTES: usize = 64 << 10;
/// Pages that memory grows by at least: growing costs more than having.
const GROWTH_PAGES_MIN: usize = 16;
/// What the allocator needs beside what is asked for.
const MARGIN_BYTES: usize = 256;

#[global_allocator]
static HEAP: TalcSyncCell<LowFirst, WasmBinning> =
    TalcSyncCell::new_wasm(LowFirst { low_is_taken: false, grown_to: None });

#[expect(unsafe_code, reason = "the linker's names: only their addresses are taken")]
unsafe extern "C" {
    /// Where the stack begins, growing down.
    static __stack_high: u8;
    /// Where constants begin.
    static __global_base: u8;
}

/// Gives the room between stack and constants first, and then grows the memory.
#[derive(Debug)]
struct LowFirst {
    low_is_taken: bool,
    /// The end of what was grown last.
    grown_to: Option<NonNull<u8>>,
}

#[expect(unsafe_code, reason = "allocators work on memory that nobody else has")]
// SAFETY: it allocates nothing itself.
unsafe impl Source for LowFirst {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !talc.source.low_is_taken {
            talc.source.low_is_taken = true;
            let (start, end) = (&raw const __stack_high, &raw const __global_base);
            // SAFETY: the linker leaves this room to nobody; it is given away once.
            unsafe { talc.claim(start.cast_mut(), end as usize - start as usize) };
            return Ok(());
        }
        let needed = layout.size().checked_add(layout.align() + MARGIN_BYTES).ok_or(())?;
        let needed = needed.div_ceil(PAGE_BYTES);
        let (pages, before) = [needed.max(GROWTH_PAGES_MIN), needed]
            .into_iter()
            .map(|pages| (pages, memory_grow::<0>(pages)))
            .find(|(_, before)| *before != usize::MAX)
            .ok_or(())?;
        let start = (before * PAGE_BYTES) as *mut u8;
        let end = start.wrapping_add(pages * PAGE_BYTES);
        talc.source.grown_to = match talc.source.grown_to.take() {
            // SAFETY: the new pages are nobody's, and follow on what is the allocator's already.
            Some(grown) if grown.as_ptr() == start => Some(unsafe { talc.extend(grown, end) }),
            // SAFETY: the new pages are nobody's.
            _ => unsafe { talc.claim(start, pages * PAGE_BYTES) },
        };
        Ok(())
    }
}
