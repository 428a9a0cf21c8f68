//! What a formula logs and prints: one bounded list per invocation, apart from everybody else's.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::pipe::SinkOutputStream;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::limits::INVOCATION_LOG_BYTES_MAX;

/// Bytes a formula may print with one write.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// What a line costs beside its text, so that empty lines are bounded too.
const LINE_BYTES: usize = 8;
/// What the last errors take that found no room, at most: what went wrong is not to be lost in a log that is full.
const LAST_BYTES: usize = 4 << 10;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Logged as trace.
    Trace,
    /// Logged as debug.
    Debug,
    /// Logged as info.
    Info,
    /// Logged as warn.
    Warn,
    /// Logged as error.
    Error,
    /// Printed to standard output.
    Stdout,
    /// Printed to standard error.
    Stderr,
}

impl LogLevel {
    /// The name, as it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A line of an invocation's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Where it came from.
    pub level: LogLevel,
    /// The text, without its line break.
    pub message: String,
}

/// The log of one invocation.
#[derive(Debug, Default)]
pub struct Log {
    lines: Vec<LogLine>,
    bytes: usize,
    truncated: bool,
    /// Errors that came when it was full, and what they take.
    last: VecDeque<LogLine>,
    last_bytes: usize,
    /// Printed, but without a line break yet: of standard output, of standard error.
    open: [Vec<u8>; 2],
}

impl Log {
    /// Adds a line, or as much of it as there is room for.
    pub fn add(&mut self, level: LogLevel, message: &str) {
        let bytes_max = INVOCATION_LOG_BYTES_MAX - LAST_BYTES;
        let room = bytes_max.saturating_sub(self.bytes + LINE_BYTES);
        let is_error = matches!(level, LogLevel::Error | LogLevel::Stderr);
        if is_error && room < message.len().min(LAST_BYTES) {
            // Nothing that comes later stands before it.
            self.bytes = bytes_max;
            return self.add_last(level, message);
        }
        let kept = &message[..message.floor_char_boundary(room)];
        self.truncated |= kept.len() < message.len() || room == 0;
        if room > 0 {
            self.bytes += kept.len() + LINE_BYTES;
            self.lines.push(LogLine { level, message: kept.to_owned() });
        }
    }

    /// Keeps one of the last errors, and as many before it as there is room for.
    fn add_last(&mut self, level: LogLevel, message: &str) {
        let kept = &message[..message.floor_char_boundary(LAST_BYTES - LINE_BYTES)];
        self.truncated |= kept.len() < message.len();
        self.last_bytes += kept.len() + LINE_BYTES;
        self.last.push_back(LogLine { level, message: kept.to_owned() });
        while self.last_bytes > LAST_BYTES
            && let Some(first) = self.last.pop_front()
        {
            self.last_bytes -= first.message.len() + LINE_BYTES;
            self.truncated = true;
        }
    }

    /// Takes printed bytes; whole lines become lines of the log.
    pub fn print(&mut self, level: LogLevel, bytes: &[u8]) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let open = &mut self.open[usize::from(level == LogLevel::Stderr)];
            let room = INVOCATION_LOG_BYTES_MAX - open.len().min(INVOCATION_LOG_BYTES_MAX);
            self.truncated |= piece.len() > room;
            open.extend_from_slice(&piece[..piece.len().min(room)]);
            if pieces.peek().is_some() {
                let line = std::mem::take(open);
                self.add(level, &String::from_utf8_lossy(&line));
            }
        }
    }

    /// The lines, those without a line break at their end last, and whether some are missing.
    pub fn finish(&mut self) -> (Vec<LogLine>, bool) {
        for (level, open) in
            [LogLevel::Stdout, LogLevel::Stderr].into_iter().zip(std::mem::take(&mut self.open))
        {
            if !open.is_empty() {
                self.add(level, &String::from_utf8_lossy(&open));
            }
        }
        self.lines.extend(std::mem::take(&mut self.last));
        (std::mem::take(&mut self.lines), self.truncated)
    }
}

/// Standard output or standard error of one invocation.
#[derive(Clone)]
pub struct Printed {
    /// Where it goes.
    pub log: Arc<Mutex<Log>>,
    /// Which of the two.
    pub level: LogLevel,
}

impl IsTerminal for Printed {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printed {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // For guests of WASI 0.3, which the engine does not run.
        StdoutStream::async_stream(&SinkOutputStream)
    }
}

impl OutputStream for Printed {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.lock().print(self.level, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[async_trait]
impl Pollable for Printed {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::{LAST_BYTES, LINE_BYTES, Log, LogLevel};
    use crate::limits::INVOCATION_LOG_BYTES_MAX;

    fn texts(log: &mut Log) -> Vec<String> {
        log.finish().0.into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn printed_bytes_become_lines() {
        let mut log = Log::default();
        log.print(LogLevel::Stdout, b"one\ntw");
        log.print(LogLevel::Stderr, b"error\n");
        log.print(LogLevel::Stdout, b"o\n\nthr\xffee");
        assert_eq!(texts(&mut log), ["one", "error", "two", "", "thr\u{fffd}ee"]);
    }

    #[test]
    fn the_log_is_bounded_however_it_is_filled() {
        for text in ["x", "", "long line, long line, long line, é"] {
            let mut log = Log::default();
            for _ in 0..50_000 {
                log.add(LogLevel::Info, text);
                log.print(LogLevel::Stdout, text.as_bytes());
                log.print(LogLevel::Stdout, b"\n");
            }
            let (lines, truncated) = log.finish();
            assert!(truncated);
            let bytes: usize = lines.iter().map(|line| line.message.len()).sum();
            assert!(bytes <= INVOCATION_LOG_BYTES_MAX && lines.len() < 10_000);
        }
        let mut log = Log::default();
        log.print(LogLevel::Stdout, "é".repeat(100_000).as_bytes());
        let (lines, truncated) = log.finish();
        assert!(truncated && lines.len() == 1);
    }

    #[test]
    fn the_last_error_is_in_a_log_that_is_full() {
        for full in ["x".repeat(INVOCATION_LOG_BYTES_MAX), "x".repeat(1_000)] {
            let mut log = Log::default();
            log.add(LogLevel::Error, "early");
            for _ in 0..100 {
                log.add(LogLevel::Info, &full);
            }
            for number in 0..5_000 {
                log.add(LogLevel::Stderr, &format!("error {number}"));
            }
            log.add(LogLevel::Error, "uncaught");
            log.add(LogLevel::Info, "");
            let (lines, truncated) = log.finish();
            let [.., before, last] = lines.as_slice() else { panic!("{}", lines.len()) };
            assert_eq!((last.level, last.message.as_str()), (LogLevel::Error, "uncaught"));
            assert_eq!(before.message, "error 4999");
            assert!(truncated && lines[0].message == "early");
            assert_eq!(lines[1].level, LogLevel::Info);
            let bytes: usize = lines.iter().map(|line| line.message.len() + LINE_BYTES).sum();
            assert!(bytes <= INVOCATION_LOG_BYTES_MAX);
        }
        // A long one takes what there is, wherever it comes.
        let mut log = Log::default();
        log.add(LogLevel::Stderr, &"é".repeat(50_000));
        log.add(LogLevel::Info, "none of this");
        log.add(LogLevel::Error, &"x".repeat(5_000));
        let (lines, truncated) = log.finish();
        assert!(lines[0].message.len() > INVOCATION_LOG_BYTES_MAX - 2 * LAST_BYTES);
        assert!(truncated && lines.len() == 2 && lines[1].message.starts_with('x'));
    }

    #[test]
    fn what_fits_is_whole() {
        let mut log = Log::default();
        log.add(LogLevel::Warn, "all of it");
        assert!(!log.finish().1);
    }
}
