//! When the store was last copied whole, by this process.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Figures, gauge};

/// The times, in seconds since the Unix epoch; zero before the first.
pub struct Copies {
    backed_up: Gauge,
    compacted: Gauge,
}

impl Copies {
    /// Adds them to a registry.
    pub fn new(registry: &mut Registry) -> Self {
        let text = "The moment that the last backup taken whole is of, in Unix time";
        let backed_up = gauge(registry, "store_backed_up_timestamp_seconds", text);
        let text = "When the store was last compacted, in Unix time";
        Self { backed_up, compacted: gauge(registry, "store_compacted_timestamp_seconds", text) }
    }
}

impl Figures {
    /// A backup was taken whole, of this moment.
    pub fn backed_up(&self, now_ms: u64) {
        self.copies.backed_up.set(seconds(now_ms));
    }

    /// The store was compacted at this time.
    pub fn compacted(&self, now_ms: u64) {
        self.copies.compacted.set(seconds(now_ms));
    }
}

fn seconds(ms: u64) -> i64 {
    i64::try_from(ms / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::figures::{Disk, Figures};

    #[test]
    fn copies_and_connections_are_told() {
        let figures = Figures::new();
        let value = |name: &str| {
            let text = figures.write(None, Disk::default(), true).unwrap();
            let found =
                text.lines().find_map(|line| line.strip_prefix(&format!("tokamak_{name} ")));
            found.unwrap().to_owned()
        };
        let names = ["store_backed_up_timestamp_seconds", "store_compacted_timestamp_seconds"];
        assert_eq!(names.map(value), ["0", "0"]);
        figures.backed_up(1_800_000_000_999);
        assert_eq!(names.map(value), ["1800000000", "0"]);
        figures.compacted(1_900_000_000_000);
        assert_eq!(names.map(value), ["1800000000", "1900000000"]);
        let open = [figures.connection_begins(), figures.connection_begins()];
        figures.connection_refused();
        assert_eq!(["connections", "connections_refused_total"].map(value), ["2", "1"]);
        drop(open);
        assert_eq!(value("connections"), "0");
    }
}
