//! Feeds `checks/cursor.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::{cursor, let_panics_be_caught};

fuzz_target!(init: let_panics_be_caught(), |input: &[u8]| cursor::check(input));
