//! Black-box tests: a server, HTTP in, JSON out. One file per feature.
//!
//! To add a feature: a file, and its line below; a test in `tidy` fails for a file without one.

mod support;

mod access;
mod applications;
mod canary;
mod cli;
mod crash;
mod dev;
mod logs;
mod openapi;
mod problems;
mod readme;
mod routes;
mod tidy;
mod tokenize;
mod tokens;
