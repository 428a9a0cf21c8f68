//! Tokamak: a token vault with programmable reactors.

pub mod clock;
pub mod limits;
pub mod model;
