//! What a server uses, by its own figures.

use serde::{Deserialize, Serialize};

/// What a server takes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Footprint {
    /// Its memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resident_bytes: Option<u64>,
    /// Its files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk_bytes: Option<u64>,
}

/// What a server has used, by its own figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Processor time, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory.
    pub resident_bytes: Option<u64>,
    /// How often its log was synced.
    pub syncs: Option<f64>,
}

/// What a server has used in a while.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Processor time, in seconds.
    pub cpu_seconds: Option<f64>,
    /// How often its log was synced.
    pub syncs: Option<f64>,
}

impl Usage {
    /// Reads the text of `/metrics`.
    pub fn read(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<f64>().ok())
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of bytes, written as a decimal"
        )]
        let resident_bytes = value("process_resident_memory_bytes").map(|bytes| bytes as u64);
        let cpu_seconds = value("process_cpu_seconds_total");
        Self { cpu_seconds, resident_bytes, syncs: value("tokamak_store_syncs_total") }
    }

    /// What was used since then.
    pub fn since(&self, earlier: &Self) -> Spent {
        let less = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Spent {
            cpu_seconds: less(self.cpu_seconds, earlier.cpu_seconds),
            syncs: less(self.syncs, earlier.syncs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Spent, Usage};

    #[test]
    fn figures_are_read_from_their_lines() {
        let text = "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total 1.25\n\
            process_resident_memory_bytes 1048576\nprocess_resident_memory_bytes_other 3\n\
            tokamak_store_syncs_total 7\n# EOF\n";
        let usage = Usage::read(text);
        let resident_bytes = Some(1 << 20);
        assert_eq!(usage, Usage { cpu_seconds: Some(1.25), resident_bytes, syncs: Some(7.0) });
        let later = Usage { cpu_seconds: Some(3.5), resident_bytes: None, syncs: Some(9.0) };
        let spent = Spent { cpu_seconds: Some(2.25), syncs: Some(2.0) };
        assert_eq!(later.since(&usage), spent);
        assert_eq!(Usage::read("").since(&usage), Spent::default());
    }
}
