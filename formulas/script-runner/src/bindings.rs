//! The bindings that wit-bindgen generates from `wit/`, the contract with every formula and what the server adds to it.

#![allow(
    clippy::pedantic,
    missing_docs,
    unsafe_code,
    unused_qualifications,
    reason = "generated code"
)]

use crate::Runner;

wit_bindgen::generate!({
    path: ["../../wit", "wit"],
    world: "tokamak:script/runner",
    generate_all,
});

export!(Runner);
