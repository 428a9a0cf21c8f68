//! Lines kept with the invocation, shown to holders of `reactor:read`.
//!
//! A line is anything that displays: `log::info("done")`, `log::warn(format_args!("{count} left"))`.
//! The host keeps the first 64 KiB of an invocation, and a longer line is cut there. Log no sensitive data.

use std::fmt::Display;

/// Bytes of one line that are handed to the host, which keeps no more of a whole invocation.
const LINE_BYTES_MAX: usize = 64 << 10;

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
    let mut message = message.to_string();
    // A call of more bytes than the host takes would end the run.
    message.truncate(message.floor_char_boundary(LINE_BYTES_MAX));
    #[cfg(target_arch = "wasm32")]
    crate::bridge::write_line(level, &message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::write_line(level, message);
}
