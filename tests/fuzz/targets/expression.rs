//! Feeds `checks/expression.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_fuzz::{expression, let_panics_be_caught};

fuzz_target!(init: let_panics_be_caught(), |input: &str| expression::check(input));
