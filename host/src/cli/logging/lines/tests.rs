//! What becomes of lines that are not taken.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use super::{PIECE_BYTES, Queue, WAITING_BYTES_MAX, Written};

const SOON: Duration = Duration::from_millis(1);

/// Takes so many bytes, and then refuses, of which kind it says.
struct Full {
    taken: Vec<u8>,
    room: usize,
    kinds: Vec<ErrorKind>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room - self.taken.len());
        if count == 0 {
            let kind = self.kinds.pop().unwrap_or(ErrorKind::StorageFull);
            if matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock) {
                self.room += 1_000;
            }
            return Err(kind.into());
        }
        self.taken.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

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
    queue.end();
    queue.push(b"short");
    assert_eq!(queue.take(&mut lines), 0);
    assert_eq!(lines, b"short");
}

#[test]
fn what_is_refused_is_counted_with_what_told_of_others() {
    let (queue, mut written) = (Queue::default(), Written { telling: 7, ..Written::default() });
    let mut to = Full { taken: Vec::new(), room: 6, kinds: Vec::new() };
    queue.write(b"one\ntwo\nthree\n", &mut to, &mut written);
    // The one that was cut, too.
    assert_eq!((written.untold, written.is_refused, written.is_amid_line), (9, true, true));
    // As long as it is so nothing is told, since that would be lost as well.
    written.tell();
    assert_eq!((written.untold, written.telling), (9, 0));
    queue.write(b"four\n", &mut to, &mut written);
    assert_eq!(written.untold, 10);
    to.room = 100;
    queue.write(b"five\n", &mut to, &mut written);
    assert_eq!(to.taken, b"one\ntw\nfive\n");
    assert!(!written.is_refused && !written.is_amid_line);
    written.tell();
    assert_eq!((written.untold, written.telling), (0, 10));
    queue.write(b"told\n", &mut to, &mut written);
    assert_eq!((written.untold, written.telling), (0, 0));
}

#[test]
fn what_would_have_to_wait_is_waited_for() {
    let (queue, mut written) = (Queue::default(), Written::default());
    let kinds = vec![ErrorKind::WouldBlock, ErrorKind::Interrupted];
    let mut to = Full { taken: Vec::new(), room: 2, kinds };
    let lines = [b"a".repeat(1_500), b"\n".to_vec()].concat();
    queue.write(&lines, &mut to, &mut written);
    assert_eq!((to.taken, written.untold), (lines, 0));
}

#[test]
fn nothing_is_settled_before_it_is_written() {
    let (queue, mut lines) = (Queue::default(), Vec::new());
    assert!(queue.settle(SOON, SOON));
    queue.push(b"a");
    assert!(!queue.settle(SOON, SOON));
    queue.take(&mut lines);
    assert!(!queue.settle(SOON, SOON));
    queue.end();
    assert!(queue.settle(SOON, SOON));
}

/// Takes each piece after a while.
struct Slow(Duration);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(self.0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_reads_slowly_is_waited_for_and_not_for_ever() {
    let queue: &'static Queue = Box::leak(Box::default());
    queue.push(&vec![b'a'; 4 * PIECE_BYTES]);
    std::thread::spawn(|| queue.write_to(Slow(Duration::from_millis(300))));
    // Longer than it is waited for who takes nothing.
    assert!(queue.settle(Duration::from_secs(1), Duration::from_mins(1)));
    queue.push(&vec![b'a'; 40 * PIECE_BYTES]);
    assert!(!queue.settle(Duration::from_mins(1), Duration::from_millis(500)));
}
