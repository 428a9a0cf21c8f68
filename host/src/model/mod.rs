//! The nouns of the specification.
//!
//! Newtypes for every id and for every string with a rule: a value of such a type is valid, because parsing is
//! the only way to get one. No input or output, no clock, no randomness.

pub mod application;
pub mod audit;
pub mod case;
pub mod container;
pub mod depth;
pub mod exact;
pub mod faults;
pub mod formula;
pub mod id;
pub mod log;
pub mod member;
pub mod name;
pub mod parameter;
pub mod path;
pub mod permission;
pub mod plaintext;
pub mod rule;
pub mod time;
pub mod weight;
