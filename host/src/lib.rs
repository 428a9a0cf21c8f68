//! Tokamak: a token vault with programmable reactors.

pub mod binding;
pub mod clock;
pub mod limits;
pub mod model;
pub mod token_type;
