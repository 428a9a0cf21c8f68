//! Feeds `checks/time.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::time;

fuzz_target!(|input: &str| time::check(input));
