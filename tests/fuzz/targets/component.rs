//! Components as they are uploaded: any bytes are taken or refused in time, with a line that names why.
//!
//! An input is the component.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak::runtime::check_component;
use tokamak_fuzz::timely;

/// Bytes of the longest reason.
const REASON_BYTES_MAX: usize = 4 << 10;

fuzz_target!(|input: &[u8]| {
    if let Err(error) = timely("checking", || check_component(input)) {
        let reason = error.to_string();
        assert!(!reason.is_empty() && reason.len() < REASON_BYTES_MAX, "{reason}");
        assert!(!reason.contains(['\n', '\r', '\0']), "{reason:?}");
    }
});
