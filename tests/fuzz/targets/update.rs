//! Feeds `checks/update.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::{let_panics_be_caught, update};

fuzz_target!(init: let_panics_be_caught(), |input: &str| update::check(input));
