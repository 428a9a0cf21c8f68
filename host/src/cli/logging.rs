//! Where log lines go: standard error, as text or JSON; and traces, to whoever collects them.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use super::Failure;
use crate::config::{LogFormat, Settings};
use crate::traces::{self, Traces};

/// Starts logging for the whole process.
pub fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    tell_of_panics();
    let filter = read_filter(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
}

/// Starts logging and, if they are to go anywhere, the taking in of traces, which are not sent yet.
pub fn start_with_traces(settings: &Settings) -> Result<Option<Traces>, Failure> {
    let Some(export) = &settings.traces else {
        start(&settings.log, settings.log_format)?;
        return Ok(None);
    };
    tell_of_panics();
    let (layer, traces) = traces::layer(export.part, export.joins);
    // Traces are as whole as they are whatever is logged.
    let taken = Targets::new().with_target("tokamak", LevelFilter::INFO);
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let filter = read_filter(&settings.log)?;
    let both = registry().with(layer.with_filter(taken));
    match settings.log_format {
        LogFormat::Text => both.with(lines.with_filter(filter)).try_init()?,
        LogFormat::Json => {
            both.with(lines.json().flatten_event(true).with_filter(filter)).try_init()?;
        }
    }
    Ok(Some(traces))
}

fn read_filter(filter: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(filter).map_err(|error| format!("--log {filter}: {error}").into())
}

/// Tells where a thread panicked, and nothing of why: what a panic says may hold what it was about, such as a token.
fn tell_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a thread panicked");
    }));
}
