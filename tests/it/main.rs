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
mod expressions;
mod formulas;
mod hostile;
mod logs;
mod official;
mod openapi;
mod problems;
mod react;
mod reactors;
mod readme;
mod routes;
mod svc;
mod tidy;
mod tokenize;
mod tokens;
