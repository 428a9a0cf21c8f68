//! From when on and until when the certificate is valid, for who watches over it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// Both times, in seconds since the Unix epoch. Nothing is written without them: a zero would be a certificate that ended
/// long ago.
#[derive(Debug, Clone, Default)]
pub struct Certificate(Arc<Mutex<Option<[i64; 2]>>>);

impl Certificate {
    /// Adds its figure to a registry.
    pub fn new(registry: &mut Registry) -> Self {
        let own = Self::default();
        registry.register_collector(Box::new(own.clone()));
        own
    }

    /// Notes the times of the one in use.
    pub fn set(&self, not_before: i64, not_after: i64) {
        *self.0.lock() = Some([not_before, not_after]);
    }
}

impl Collector for Certificate {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some([not_before, not_after]) = *self.0.lock() else { return Ok(()) };
        for (name, text, seconds) in [
            ("tls_certificate_not_before", "When the certificate begins, in Unix time", not_before),
            ("tls_certificate_not_after", "When the certificate ends, in Unix time", not_after),
        ] {
            let unit = Some(&Unit::Seconds);
            let encoder = encoder.encode_descriptor(name, text, unit, MetricType::Gauge)?;
            ConstGauge::new(seconds).encode(encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::figures::{Disk, Figures};

    #[test]
    fn there_are_times_where_there_is_a_certificate() {
        let figures = Figures::new();
        let line = |name: &str| {
            let text = figures.write(None, Disk::default(), true).unwrap();
            let name = format!("tokamak_tls_certificate_{name}_seconds ");
            text.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned))
        };
        assert_eq!(line("not_after"), None);
        figures.certificate_is(1_800_000_000, 1_900_000_000);
        assert_eq!(line("not_before").as_deref(), Some("1800000000"));
        assert_eq!(line("not_after").as_deref(), Some("1900000000"));
    }
}
