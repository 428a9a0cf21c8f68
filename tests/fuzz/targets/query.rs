//! Feeds `checks/query.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::query;

fuzz_target!(|input: &str| query::check(input));
