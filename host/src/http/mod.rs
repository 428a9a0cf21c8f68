//! The REST interface: axum, status codes, JSON envelopes.
//!
//! A handler is a few lines: extractors, one call of the vault, one reply. Everything the specification says about a
//! request as such (keys, bodies, queries, problems, trace ids) is an extractor or a layer here; everything it says
//! about tokens and reactors is in the vault.
//!
//! To add an operation: a handler with its `#[utoipa::path]` in the file of its entity, and a line in
//! [`routes`]. The description, the walk over all routes in the tests and the authentication follow from that. What else
//! is said of each route stands in tables, whose tests name a route that is missing: who is asked for ([`asked`]), what
//! class of requests it counts in ([`rates`]), and which pages may send it ([`cors`]).

mod answers;
mod applications;
mod asked;
mod bodies;
mod body;
mod connections;
mod console;
pub mod control;
mod cors;
mod declared;
mod docs;
mod envelope;
mod examples;
mod extract;
mod formulas;
mod heads;
mod health;
mod idempotency;
mod linger;
mod lockout;
mod logs;
mod metrics;
mod no_place;
mod openapi;
mod pace;
mod places;
mod problem;
mod query;
mod rates;
mod reactors;
mod routes;
mod server;
mod sessions;
mod shield;
mod tenants;
mod tls;
mod tokens;
mod trace;
mod webhooks;
mod wellformed;
mod wording;
mod yardstick;

pub use connections::Bounds;
pub use metrics::Scrapers;
pub use rates::Rates;
pub use routes::{Routes, description, router};
pub use server::{Serving, serve, serve_with};
pub use tls::{Tls, TlsError, TlsFiles, Validity};
pub use yardstick::{receiver, serve_plain, yardstick};

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::task::TaskTracker;

use crate::vault::Vault;

use bodies::Bodies;

/// What handlers work on. Every request copies it several times, on every core: so it is one count that goes up and down.
#[derive(Clone)]
pub struct State(Arc<Inner>);

struct Inner {
    parts: Parts,
    /// What requests' bodies take of the memory.
    bodies: Bodies,
    /// What goes on whether anybody waits for its answer or not.
    under_way: TaskTracker,
}

/// What [`State`] is made of.
#[derive(Clone)]
pub struct Parts {
    /// The vault.
    pub vault: Vault,
    /// Whether the server has begun to stop.
    pub stopping: Stopping,
    /// How often who may send what.
    pub rates: Rates,
    /// Who may see figures.
    pub scrapers: Scrapers,
}

impl From<Parts> for State {
    fn from(parts: Parts) -> Self {
        Self(Arc::new(Inner { parts, bodies: Bodies::default(), under_way: TaskTracker::new() }))
    }
}

impl State {
    /// The same, with room for so many bytes of requests' bodies.
    fn with_bodies(&self, bytes_max: usize) -> Self {
        let (parts, bodies) = (self.0.parts.clone(), Bodies::new(bytes_max));
        Self(Arc::new(Inner { parts, bodies, under_way: self.0.under_way.clone() }))
    }

    fn bodies(&self) -> &Bodies {
        &self.0.bodies
    }

    fn under_way(&self) -> &TaskTracker {
        &self.0.under_way
    }
}

impl Deref for State {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}

/// A flag raised once, when the server begins to stop.
#[derive(Debug, Clone, Default)]
pub struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// Raises it.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is raised.
    pub fn begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
