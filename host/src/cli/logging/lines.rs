//! The way of log lines to standard error.
//!
//! Whoever reads that may be slow, or stop, and then a write to it does not come back. So a server's lines wait in memory,
//! and a thread of their own waits for the reader: requests are answered, and signals heeded, whatever becomes of the lines.
//! Those for which there is no room, and those that standard error refuses, as a file on a full disk does, are lost, are
//! counted, and are told of once it takes some again.

use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

use crate::figures::figures;

/// Bytes of lines that wait, at most.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Bytes that are written at a time: by these it is seen whether anybody reads.
const PIECE_BYTES: usize = 4 << 10;
/// How long a process that ends waits for a reader that takes nothing, and for one that does.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// When to try again where a write would have to wait, and may not.
const TRIED_AFTER: Duration = Duration::from_millis(10);

/// Where lines wait, once they do.
static QUEUE: OnceLock<Queue> = OnceLock::new();
/// Set once somebody writes them.
static WRITING: Mutex<bool> = Mutex::new(false);

/// Has lines wait from here on, until somebody writes them.
pub fn wait() {
    QUEUE.get_or_init(Queue::default);
}

/// Writes them on a thread from here on, which is made as confined as the one that calls this.
pub fn write_apart() -> io::Result<()> {
    let Some(queue) = QUEUE.get() else { return Ok(()) };
    let mut writing = WRITING.lock();
    if !*writing {
        let write = || queue.write_to(io::stderr());
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        *writing = true;
    }
    Ok(())
}

/// Waits until what was logged is written; whether it is. A reader that takes nothing is not waited for for long.
pub fn settle() -> bool {
    let Some(queue) = QUEUE.get() else { return true };
    write_apart().is_ok() && queue.settle(PATIENCE, PATIENCE_MAX)
}

/// Takes lines, each by one call.
pub struct Lines;

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => {
                queue.push(line);
                Ok(line.len())
            }
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Something waits.
    filled: Condvar,
    /// Something was written.
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Lines for which there was no room behind these.
    lost: u64,
    is_writing: bool,
    /// Pieces that were written.
    pieces: u64,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }
}

/// What was written so far, for the one who writes.
#[derive(Default)]
struct Written {
    /// Lines that are lost and not told of.
    untold: u64,
    /// Those that a line tells of which waits.
    telling: u64,
    /// Whether the last of them were refused.
    is_refused: bool,
    /// Whether the last line was not written to its end.
    is_amid_line: bool,
}

impl Written {
    /// Tells how many lines are lost, unless that would be one more. As an error, so that it is told whatever is left out.
    fn tell(&mut self) {
        if self.untold == 0 || self.is_refused {
            return;
        }
        let lines = mem::take(&mut self.untold);
        self.telling += lines;
        tracing::error!(
            lines,
            "log lines are lost: standard error refused them, or did not take them in time"
        );
    }
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        // Once one is lost none that is shorter takes its place: what is told of them would stand at the wrong one.
        if waiting.lost > 0 || waiting.lines.len() + line.len() > WAITING_BYTES_MAX {
            waiting.lost += 1;
            figures().log_lines_lost(1);
        } else {
            waiting.lines.extend_from_slice(line);
        }
        self.filled.notify_one();
    }

    /// Writes what waits, for ever.
    fn write_to(&self, mut to: impl Write) {
        let (mut lines, mut written) = (Vec::new(), Written::default());
        loop {
            written.untold += self.take(&mut lines);
            // The first of those that wait now.
            written.tell();
            self.write(&lines, &mut to, &mut written);
            if self.waiting.lock().is_empty() {
                written.tell();
            }
            self.end();
        }
    }

    /// Writes these lines. From the first on that is refused they are lost.
    fn write(&self, lines: &[u8], to: &mut impl Write, written: &mut Written) {
        if written.is_amid_line && to.write_all(b"\n").is_ok() {
            written.is_amid_line = false;
        }
        let mut left = lines;
        while !left.is_empty() {
            match to.write(&left[..left.len().min(PIECE_BYTES)]) {
                Ok(count @ 1..) => {
                    written.is_amid_line = left[count - 1] != b'\n';
                    left = &left[count..];
                    self.waiting.lock().pieces += 1;
                    self.written.notify_all();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TRIED_AFTER),
                Ok(0) | Err(_) => break,
            }
        }
        written.is_refused = !left.is_empty();
        // What told of others may be among them.
        let telling = mem::take(&mut written.telling);
        if written.is_refused {
            let lost = left.split_inclusive(|byte| *byte == b'\n').count() as u64;
            figures().log_lines_lost(lost);
            written.untold += lost + telling;
        }
    }

    /// Takes what waits, once something does; gives how many lines are lost behind it.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        lines.clear();
        let mut waiting = self.waiting.lock();
        self.filled.wait_while(&mut waiting, |waiting| waiting.is_empty());
        mem::swap(&mut waiting.lines, lines);
        waiting.is_writing = true;
        mem::take(&mut waiting.lost)
    }

    /// What was taken is written, or lost.
    fn end(&self) {
        self.waiting.lock().is_writing = false;
        self.written.notify_all();
    }

    fn settle(&self, patience: Duration, most: Duration) -> bool {
        let end = Instant::now() + most;
        let mut waiting = self.waiting.lock();
        let mut seen = (waiting.pieces, Instant::now());
        while waiting.is_writing || !waiting.is_empty() {
            if waiting.pieces != seen.0 {
                seen = (waiting.pieces, Instant::now());
            }
            if self.written.wait_until(&mut waiting, end.min(seen.1 + patience)).timed_out()
                && waiting.pieces == seen.0
            {
                return false;
            }
            if Instant::now() >= end {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
