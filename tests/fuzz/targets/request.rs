//! Feeds `checks/request.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::{let_panics_be_caught, request};

fuzz_target!(init: let_panics_be_caught(), |input: &[u8]| request::check(input));
