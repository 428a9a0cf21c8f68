//! The nouns of the specification.
//!
//! Newtypes for every id and for every string with a rule: a value of such a type is valid, because parsing is
//! the only way to get one. No input or output, no clock, no randomness.

pub mod container;
pub mod faults;
pub mod id;
pub mod plaintext;
