//! Black-box tests: a server, HTTP in, JSON out. One file per feature.
//!
//! To add a feature: a file, and its line below; a test in `tidy` fails for a file without one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks at the world as it is"
)]

mod support;

mod access;
mod applications;
mod canary;
mod cli;
mod crash;
mod dedupe;
mod dev;
mod idempotency;
mod list;
mod logs;
mod openapi;
mod problems;
mod readme;
mod restart;
mod routes;
mod search;
mod sessions;
mod tenants;
mod tidy;
mod tokenize;
mod tokens;
mod update;
