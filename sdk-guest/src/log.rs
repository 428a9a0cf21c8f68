//! Lines kept with the invocation, shown to holders of `reactor:read`.
//!
//! A line is anything that displays: `log::info("done")`, `log::warn(format_args!("{count} left"))`.
//! The host keeps the first 64 KiB of an invocation. Log no sensitive data.

use std::fmt::Display;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// What helps to find a mistake.
    Debug,
    /// What happened.
    Info,
    /// What was unexpected, and went well nonetheless.
    Warn,
    /// What went wrong.
    Error,
}

/// A line of every step.
pub fn trace(message: impl Display) {
    write(Level::Trace, message);
}

/// A line that helps to find a mistake.
pub fn debug(message: impl Display) {
    write(Level::Debug, message);
}

/// A line on what happened.
pub fn info(message: impl Display) {
    write(Level::Info, message);
}

/// A line on what was unexpected.
pub fn warn(message: impl Display) {
    write(Level::Warn, message);
}

/// A line on what went wrong.
pub fn error(message: impl Display) {
    write(Level::Error, message);
}

/// A line at a level.
pub fn write(level: Level, message: impl Display) {
    let message = message.to_string();
    #[cfg(target_arch = "wasm32")]
    crate::bridge::write_line(level, &message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::write_line(level, message);
}
