//! Black-box tests: a server, HTTP in, JSON out. One file per feature.
//!
//! To add a feature: a file, and its line below; a test in `tidy` fails for a file without one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    reason = "a test fails by panicking, looks at the world as it is, and is read once from top to bottom"
)]

mod support;

mod access;
mod address_space;
mod alerts;
mod applications;
mod audit;
mod audit_verify;
mod backup;
mod backup_resumed;
mod benchmark;
mod bodies;
mod bounds;
mod canary;
mod checkout;
mod cli;
mod cli_refusals;
mod clock_set;
mod closed;
mod compatibility;
mod compiled;
mod compiling;
mod confined;
mod connections;
mod console;
mod console_access;
mod console_browser;
mod console_edit;
mod console_forms;
mod console_given;
mod console_keys;
mod console_leaving;
mod console_lost;
mod console_manage;
mod console_mended;
mod console_modules;
mod console_overtaken;
mod console_refresh;
mod console_saving;
mod console_sending;
mod console_shown;
mod console_told;
mod containers;
mod control;
mod corpus;
mod cors;
mod crash;
mod decisions;
mod dedupe;
mod dedupe_shown;
mod deletion;
mod described;
mod dev;
mod disk;
mod disk_told;
mod ended_keys;
mod erase;
mod exact;
mod examples;
mod failures;
mod faults_at_once;
mod faulty;
mod first_lines;
mod formula_examples;
mod formulas;
mod hang_ups;
mod held_memory;
mod hostile;
mod idempotency;
mod image;
mod job_compiling;
mod job_crash;
mod job_failures;
mod job_places;
mod job_time;
mod job_traces;
mod jobs;
mod kept_tokens;
mod key_rotation;
mod key_steps;
mod keys;
mod large_crash;
mod limits;
mod list;
mod log_levels;
mod log_reader;
mod logs;
mod long_runs;
mod lost_races;
mod memory;
mod moved_tokens;
mod no_place;
mod no_room;
mod official;
mod official_http;
mod openapi;
mod opened;
mod operation;
mod order;
mod outbound;
mod outbound_beside;
mod output;
mod owners;
mod problems;
mod protected;
mod proxies;
mod races;
mod react;
mod react_arguments;
mod react_errors;
mod reactors;
mod readme;
mod repeats;
mod repeats_clock;
mod repeats_crash;
mod replaced_scripts;
mod restart;
mod routes;
mod rules;
mod rules_react;
mod run_rights;
mod runs_on_full_disk;
mod script_answers;
mod script_checks;
mod script_errors;
mod script_examples;
mod script_features;
mod script_images;
mod script_language;
mod script_limits;
mod script_places;
mod script_requests;
mod script_runner;
mod scripts;
mod search;
mod search_model;
mod service_unit;
mod session_scope;
mod sessions;
mod stale_pages;
mod stopping;
mod storm;
mod svc;
mod sweeps;
mod tenants;
mod threats;
mod tidy;
mod tls;
mod tokenize;
mod tokens;
mod traces;
mod update;
mod verify_ended;
mod webhooks;
mod wellformed;
mod workshop;
mod workshop_cases;
mod workshop_hosts;
mod workshop_languages;
mod workshop_push;
mod workshop_sdk;
