//! Where traces go.

use http::Uri;

use super::{ConfigError, Options};

/// Settings of traces.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceExport {
    /// Where a collector takes them, over HTTP.
    pub endpoint: String,
    /// The part of all that is taken, between 0 and 1.
    pub part: f64,
    /// Whether requests go on with the traces that they name.
    pub joins: bool,
}

impl TraceExport {
    /// What flags say, or else a file; none without an endpoint.
    pub(super) fn of(flags: &Options, file: &Options) -> Result<Option<Self>, ConfigError> {
        let part = flags.otlp_sample.or(file.otlp_sample).unwrap_or(1.0);
        if !(0.0..=1.0).contains(&part) {
            return Err(ConfigError::NoPart("otlp-sample"));
        }
        let endpoint = flags.otlp_endpoint.as_ref().or(file.otlp_endpoint.as_ref());
        let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.is_empty()) else {
            return Ok(None);
        };
        if !is_base(endpoint) {
            return Err(ConfigError::NoAddress("otlp-endpoint"));
        }
        let joins = flags.otlp_join.or(file.otlp_join).unwrap_or_default();
        Ok(Some(Self { endpoint: endpoint.clone(), part, joins }))
    }
}

/// Whether something can be sent to an address, and to a path below it.
fn is_base(endpoint: &str) -> bool {
    let Ok(address) = endpoint.parse::<Uri>() else { return false };
    let Some(authority) = address.authority() else { return false };
    let is_http = matches!(address.scheme_str(), Some("http" | "https"));
    let port = authority.as_str().strip_prefix(authority.host());
    // Nothing of it is to be in a log, as a password would be.
    is_http
        && !authority.host().is_empty()
        && port.is_some_and(|port| {
            port.is_empty() || authority.port_u16().is_some_and(|port| port > 0)
        })
        && !endpoint.contains(['#', '?', '@'])
}

#[cfg(test)]
mod tests {
    use super::TraceExport;
    use crate::config::Options;

    fn export(endpoint: Option<&str>, sample: Option<f64>) -> Result<Option<TraceExport>, String> {
        let flags = Options {
            otlp_endpoint: endpoint.map(str::to_owned),
            otlp_sample: sample,
            ..Options::default()
        };
        TraceExport::of(&flags, &Options::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn traces_go_nowhere_unless_it_is_said() {
        assert_eq!(export(None, None), Ok(None));
        assert_eq!(export(Some(""), Some(0.5)), Ok(None));
        let export = export(Some("http://collector:4318"), None).unwrap().unwrap();
        assert_eq!((export.endpoint.as_str(), export.part), ("http://collector:4318", 1.0));
        assert!(!export.joins);
        for endpoint in ["https://collector", "http://[::1]:4318/", "http://a.example/otlp/v1"] {
            assert!(self::export(Some(endpoint), None).unwrap().is_some(), "{endpoint}");
        }
    }

    #[test]
    fn flags_come_before_the_file() {
        let options = |part| Options {
            otlp_endpoint: Some("https://collector".to_owned()),
            otlp_sample: part,
            ..Options::default()
        };
        let export = |flags, file| TraceExport::of(&options(flags), &options(file)).unwrap();
        assert_eq!(export(Some(0.1), Some(0.2)).map(|export| export.part), Some(0.1));
        assert_eq!(export(None, Some(0.2)).map(|export| export.part), Some(0.2));
    }

    #[test]
    fn what_is_no_address_or_no_part_is_refused() {
        for endpoint in [
            "collector:4318",
            "http://",
            "grpc://collector:4317",
            "-",
            "http://collector:99999",
            "http://collector:0",
            "http://collector:x",
            "http://collector#part",
            "http://collector/v1/traces?token=a",
            "http://user:password@collector",
            "http://:4318",
        ] {
            let refusal = export(Some(endpoint), None).unwrap_err();
            assert!(refusal.contains("--otlp-endpoint"), "{endpoint}: {refusal}");
        }
        for part in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let refusal = export(Some("http://collector"), Some(part)).unwrap_err();
            assert!(refusal.contains("--otlp-sample"), "{part}: {refusal}");
        }
    }
}
