//! Where log lines go: standard error, as text or JSON.

use tracing_subscriber::EnvFilter;

use super::Failure;
use crate::config::LogFormat;

/// Starts logging for the whole process.
pub fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    tell_of_panics();
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

/// Tells where a thread panicked, and nothing of why: what a panic says may hold what it was about, such as a token.
fn tell_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a thread panicked");
    }));
}
