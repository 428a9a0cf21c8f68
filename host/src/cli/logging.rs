//! Where log lines go: standard error, as text or JSON; and traces, to whoever collects them.

use std::sync::OnceLock;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use super::Failure;
use crate::config::{LogFormat, Settings};
use crate::traces::{self, Traces};

/// What all that this program logs itself is told by.
const OURS: &str = "tokamak";

/// What lines look like, once that is known.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// What lines look like; as text, as long as nobody has said.
pub fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or_default()
}

/// Notes what lines are to look like, for whatever goes wrong before logging has begun.
pub fn expect(format: Option<LogFormat>) {
    if let Some(format) = format {
        FORMAT.get_or_init(|| format);
    }
}

/// Starts logging for the whole process.
pub fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    tell_of_panics();
    registry().with(lines(filter, format)?).try_init()?;
    Ok(())
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
    let taken = Targets::new().with_target(OURS, LevelFilter::INFO);
    let lines = lines(&settings.log, settings.log_format)?;
    registry().with(layer.with_filter(taken)).with(lines).try_init()?;
    Ok(Some(traces))
}

/// Lines to standard error, of what the filter lets through.
fn lines<S>(filter: &str, format: LogFormat) -> Result<Box<dyn Layer<S> + Send + Sync>, Failure>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // What others say at lower levels holds values: hosts that formulas reach, random numbers that they draw.
    let most = Targets::new().with_default(LevelFilter::INFO).with_target(OURS, LevelFilter::TRACE);
    let filter = read_filter(filter)?.and(most);
    FORMAT.get_or_init(|| format);
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    Ok(match format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    })
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
