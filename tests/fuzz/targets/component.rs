//! Feeds `checks/component.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::component;

fuzz_target!(|input: &[u8]| component::check(input));
