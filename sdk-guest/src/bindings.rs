//! The bindings that wit-bindgen generates from the contract, `wit/formula.wit`.
//!
//! Nothing here is written by hand and nothing else in this crate is generated; `bridge` alone uses it.
//! To follow a new version of the contract, change the world's name.

#![expect(clippy::pedantic, reason = "generated code")]

wit_bindgen::generate!({
    path: "../wit",
    world: "formula",
    pub_export_macro: true,
    default_bindings_module: "tokamak_sdk::bindings",
});
