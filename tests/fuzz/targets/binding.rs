//! Feeds `checks/binding.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::binding;

fuzz_target!(|input: &str| binding::check(input));
