//! Connections: how many there are, and how many there was no place for.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Figures, Running, begins, counter, gauge};

/// Both figures.
pub struct Connections {
    open: Gauge,
    refused: Counter,
}

impl Connections {
    /// Adds them to a registry.
    pub fn new(registry: &mut Registry) -> Self {
        let open = gauge(registry, "connections", "Connections that have a place");
        let text = "Connections that were refused, since no place was free";
        Self { open, refused: counter(registry, "connections_refused", text) }
    }
}

impl Figures {
    /// Counts a connection that has a place, until the value is dropped.
    pub fn connection_begins(&self) -> Running {
        begins(&self.connections.open)
    }

    /// Counts one that there was no place for.
    pub fn connection_refused(&self) {
        self.connections.refused.inc();
    }
}
