//! Feeds `checks/json.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::json;

fuzz_target!(|input: &[u8]| json::check(input));
