//! Faults on purpose: servers that are killed, disks that lose what was not synced. Prints a table of what was tried and
//! what was lost, and fails if anything was.
//!
//! `cargo test --test faults` does a short round; `cargo test --test faults -- --long` the long one (an hour or so in a
//! release build). `--only kills,cuts`, `--kills N`, `--cuts N` and `--seed N` say otherwise.
//!
//! A store is checked by all that was acknowledged before: every token is there with its last acknowledged contents or
//! newer ones that were under way, what was deleted is not there, every create, update and delete has a log entry of its
//! own, every accepted run has its result and is told, and `tokamak verify` finds nothing damaged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::similar_names,
    clippy::cast_possible_truncation,
    dead_code,
    missing_docs,
    reason = "it fails by panicking, prints what it counts, and uses a part of what the tests share"
)]

#[path = "../it/support/binary.rs"]
mod binary;
#[path = "../it/support/client.rs"]
mod client;
mod cuts;
mod disk;
mod fates;
mod kills;
mod load;
mod options;
mod receiver;
mod site;
mod trace;

use client::Client;

use std::process::ExitCode;

use crate::options::Options;

/// What came of one kind of fault.
#[derive(Default)]
pub struct Row {
    /// The fault.
    pub fault: &'static str,
    /// How often it happened.
    pub times: usize,
    /// What was acknowledged before, in all that was checked.
    pub acknowledged: usize,
    /// Of that, what was not there afterwards, each with its reason.
    pub lost: Vec<String>,
    /// Stores that did not open.
    pub unopened: Vec<String>,
    /// Stores that `verify` found damaged.
    pub damaged: Vec<String>,
}

impl Row {
    pub fn new(fault: &'static str) -> Self {
        Self { fault, ..Self::default() }
    }

    fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.unopened.is_empty() && self.damaged.is_empty()
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        println!("the fault suite is not run when single tests are asked for");
        return ExitCode::SUCCESS;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut rows = Vec::new();
    if options.does("kills") {
        rows.push(runtime.block_on(kills::run(options.kills, options.seed)));
    }
    if options.does("cuts") {
        rows.extend(runtime.block_on(cuts::run(options.cuts, options.seed)));
    }
    print(&rows, options.seed);
    if rows.iter().all(Row::is_clean) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(rows: &[Row], seed: u64) {
    println!("\nfaults, seed {seed}");
    println!("| fault | times | acknowledged before | lost | not opened | found damaged |");
    println!("|---|---|---|---|---|---|");
    for row in rows {
        let Row { fault, times, acknowledged, lost, unopened, damaged } = row;
        let (lost, unopened, damaged) = (lost.len(), unopened.len(), damaged.len());
        println!("| {fault} | {times} | {acknowledged} | {lost} | {unopened} | {damaged} |");
    }
    for row in rows {
        for reason in row.lost.iter().chain(&row.unopened).chain(&row.damaged).take(20) {
            println!("{}: {reason}", row.fault);
        }
    }
}
