//! The way of log lines to standard error.
//!
//! Whoever reads that may be slow, or stop, and then a write to it does not come back. So a server's lines wait in memory,
//! and a thread of their own waits for the reader: requests are answered, and signals heeded, whatever becomes of the lines.
//! Those for which there is no room are lost, are counted, and are told of once there is room again.

use std::io::{self, Write};
use std::mem;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

use crate::figures::figures;

/// Bytes of lines that wait, at most.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How long a process that ends waits for the reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines wait, once they do.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Has lines wait from here on. The thread is made as confined as the one that calls this.
pub fn wait_apart() -> io::Result<()> {
    let queue = QUEUE.get_or_init(Queue::default);
    let write = || queue.write_to(|| io::stderr().lock());
    thread::Builder::new().name("log".to_owned()).spawn(write).map(drop)
}

/// Waits until what was logged is written; whether it is. A reader that takes nothing is not waited for for long.
pub fn settle() -> bool {
    QUEUE.get().is_none_or(|queue| queue.settle(PATIENCE))
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
    /// Nothing waits, and nothing is being written.
    emptied: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Lines for which there was no room behind these.
    lost: u64,
    is_writing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        // Once one is lost none that is shorter takes its place: what is told of them would stand at the wrong one.
        if waiting.lost > 0 || waiting.lines.len() + line.len() > WAITING_BYTES_MAX {
            waiting.lost += 1;
            figures().log_line_lost();
        } else {
            waiting.lines.extend_from_slice(line);
        }
        self.filled.notify_one();
    }

    /// Writes what waits, for ever.
    fn write_to<W: Write>(&self, open: impl Fn() -> W) {
        let mut lines = Vec::new();
        loop {
            let lost = self.take(&mut lines);
            if lost > 0 {
                // The first of those that wait now. Told as an error, so that it is told whatever is left out.
                tracing::error!(
                    lines = lost,
                    "log lines are lost: whoever reads standard error did not keep up"
                );
            }
            // Where that takes nothing, nobody can be told.
            let mut writer = open();
            let _ = writer.write_all(&lines).and_then(|()| writer.flush());
            drop(writer);
            self.written();
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

    fn written(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_writing = false;
        if waiting.is_empty() {
            self.emptied.notify_all();
        }
    }

    fn settle(&self, patience: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        let is_under_way = |waiting: &mut Waiting| waiting.is_writing || !waiting.is_empty();
        !self.emptied.wait_while_for(&mut waiting, is_under_way, patience).timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Queue, WAITING_BYTES_MAX};

    #[test]
    fn what_has_no_room_is_counted_and_what_comes_behind_it_is_too() {
        let queue = Queue::default();
        let line = [b'a'; 1_000];
        let fit = WAITING_BYTES_MAX / line.len();
        for _ in 0..fit + 3 {
            queue.push(&line);
        }
        queue.push(b"short");
        let mut lines = Vec::new();
        assert_eq!(queue.take(&mut lines), 4);
        assert_eq!(lines.len(), fit * line.len());
        queue.written();
        queue.push(b"short");
        assert_eq!(queue.take(&mut lines), 0);
        assert_eq!(lines, b"short");
    }

    #[test]
    fn nothing_is_settled_before_it_is_written() {
        let (queue, soon, mut lines) = (Queue::default(), Duration::from_millis(1), Vec::new());
        assert!(queue.settle(soon));
        queue.push(b"a");
        assert!(!queue.settle(soon));
        queue.take(&mut lines);
        assert!(!queue.settle(soon));
        queue.written();
        assert!(queue.settle(soon));
    }
}
