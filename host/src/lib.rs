//! Tokamak: a token vault with programmable reactors.
//!
//! A request goes down five floors and back up once; no floor calls sideways or up.
//!
//! | Floor | Modules | What they do |
//! |---|---|---|
//! | 5 | [`http`], [`cli`] | status codes, JSON envelopes, flags |
//! | 4 | [`vault`] | rules, permits, audit, orchestration |
//! | 3 | [`store`], [`runtime`], [`egress`] | records kept; formulas run; requests sent. None knows another |
//! | 2 | [`expression`], [`query`], [`token_type`], [`binding`], [`crypto`] | pure and synchronous |
//! | 1 | [`model`] | nouns, newtypes, parsing |
//! | 0 | [`limits`], [`clock`], [`config`], [`figures`], [`traces`] | numbers, time, options, metrics, traces |
//!
//! Each outside crate lives in one place: axum in [`http`], sled in `store::sled`, wasmtime in [`runtime`], reqwest in
//! [`egress`], liquid in [`expression`]. A test holds the floors and these fences.
//!
//! The story of one request, `POST /reactors/{id}/react`: `http::reactors::react` takes a permit (the key is known and
//! holds `token:use`), the path and the body, and calls `vault.react`. That finds the reactor, reads all referenced
//! tokens at once, decides for each by the caller's rules, fills and casts the arguments, runs the formula in a fresh
//! sandbox, makes tokens of what it wants tokenized, and commits all it left behind together with the log entries. The
//! answer is a view; views alone serialise.

pub mod binding;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crypto;
pub mod egress;
pub mod expression;
pub mod figures;
pub mod http;
pub mod limits;
pub mod model;
pub mod query;
pub mod runtime;
pub mod store;
pub mod token_type;
pub mod traces;
pub mod vault;

/// Requests are many small allocations that one thread makes and another frees; the C library's allocator is slower at it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
