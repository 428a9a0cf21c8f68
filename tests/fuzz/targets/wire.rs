//! Feeds `checks/wire.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::{let_panics_be_caught, wire};

fuzz_target!(init: let_panics_be_caught(), |input: &[u8]| wire::check(input));
