//! Where log lines go: standard error, as text or JSON.

use tracing_subscriber::EnvFilter;

use super::Failure;
use crate::config::LogFormat;

/// Starts logging for the whole process.
pub fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
}
