//! Where log lines go: standard error, as text or JSON; and traces, to whoever collects them.

mod lines;

use std::sync::OnceLock;
use std::thread;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

pub use self::lines::{settle, write_apart};
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

/// Starts logging for a server, whose lines wait for [`write_apart`], and, if they are to go anywhere, the taking in of
/// traces, which are not sent yet.
pub fn start_with_traces(settings: &Settings) -> Result<Option<Traces>, Failure> {
    lines::wait();
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
    let lines = fmt::layer().with_writer(lines::Lines).with_ansi(false);
    Ok(match format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    })
}

/// Reads what is let through: errors in any case, unless they are named, since a name that nothing has would else let
/// through nothing at all.
fn read_filter(filter: &str) -> Result<EnvFilter, Failure> {
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    if let Some(wrong) = parts.iter().find(|part| is_no_level(part)) {
        return Err(format!(
            "--log {filter}: \"{wrong}\" is no level; these are error, warn, info, debug, trace and off, of a part of \
            the program as in {OURS}=debug"
        )
        .into());
    }
    let with_errors = format!("error,{}", parts.join(","));
    EnvFilter::try_new(with_errors).map_err(|error| format!("--log {filter}: {error}").into())
}

/// Whether one part of a filter is a word alone, which would be read as all of what has that name.
fn is_no_level(part: &str) -> bool {
    let is_word = !part.contains(['=', '[']);
    let is_level = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    is_word && !is_level && part.split("::").next() != Some(OURS)
}

/// Tells where a thread panicked, and nothing of why: what a panic says may hold what it was about, such as a token.
fn tell_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a thread panicked");
        if thread::current().name() == Some("main") {
            settle();
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::read_filter;

    #[test]
    fn a_filter_lets_errors_through_unless_it_names_them() {
        for (filter, read) in [
            ("info", "info"),
            ("WARN", "warn"),
            ("off", "off"),
            ("3", "info"),
            ("tokamak", "tokamak=trace,error"),
            ("tokamak::http=debug", "tokamak::http=debug,error"),
            ("warn, tokamak=debug", "tokamak=debug,warn"),
            ("tokamac=debug", "tokamac=debug,error"),
            ("tokamak=off", "tokamak=off,error"),
        ] {
            assert_eq!(read_filter(filter).unwrap().to_string(), read, "{filter}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for (filter, wrong) in [
            ("warning", "warning"),
            ("", ""),
            ("info,", ""),
            ("warn,inof", "inof"),
            ("tokamakx", "tokamakx"),
            ("hyper", "hyper"),
            ("6", "6"),
        ] {
            let said = read_filter(filter).unwrap_err().to_string();
            let expected = format!("--log {filter}: \"{wrong}\" is no level;");
            assert!(said.starts_with(&expected), "{said}");
        }
        assert!(
            read_filter("tokamak=loud").unwrap_err().to_string().starts_with("--log tokamak=l")
        );
    }
}
