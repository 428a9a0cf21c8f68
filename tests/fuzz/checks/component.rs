//! Components as they are uploaded: any bytes are taken or refused in time, with a line that names why, and what is taken
//! imports and exports what the world of formulas says.
//!
//! An input is the component.

use tokamak::runtime::{check_component, describe};

use super::timely;

/// Bytes of the longest reason.
const REASON_BYTES_MAX: usize = 4 << 10;
/// What a formula may import begins with one of these.
const OFFERED: &[&str] =
    &["tokamak:formula/", "wasi:cli/", "wasi:io/", "wasi:clocks/", "wasi:random/"];

/// Checks one input.
pub fn check(input: &[u8]) {
    // Nobody but the runner of scripts may ask for one; what is checked of it is the same otherwise.
    let for_runner = timely("checking", || check_component(input, true));
    let checked = timely("checking", || check_component(input, false));
    assert!(for_runner.is_ok() || checked.is_err(), "refused to the runner alone");
    // It reads whatever it is given.
    let described = timely("describing", || describe(input));
    match checked {
        Ok(()) => {
            let of_the_world = |name: &String| name.starts_with("tokamak:formula/reactor@1.");
            assert!(described.exports.iter().any(of_the_world), "{described:?}");
            let offered = |name: &String| OFFERED.iter().any(|begins| name.starts_with(begins));
            assert!(described.imports.iter().all(offered), "{described:?}");
        }
        Err(error) => {
            let reason = error.to_string();
            assert!(!reason.is_empty() && reason.len() < REASON_BYTES_MAX, "{reason}");
            assert!(!reason.contains(['\n', '\r', '\0']), "{reason:?}");
        }
    }
}
