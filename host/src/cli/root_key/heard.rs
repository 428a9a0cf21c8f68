//! What a command writes to its standard output and error, as far as it is kept.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::limits::ROOT_KEY_TEXT_BYTES_MAX;

/// How long the end of a pipe is waited for once its command has ended: whatever that left running may hold the other end.
const LEFT_OPEN: Duration = Duration::from_secs(2);

/// Which part of a text is kept that is longer than may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Of a key: so much that one which is too long is told apart.
    First,
    /// Of a complaint: what it came to.
    Last,
}

/// A pipe that is listened to.
pub struct Heard {
    text: Arc<Mutex<Text>>,
    ended: Receiver<()>,
}

/// What was heard, in memory that never moves.
pub struct Text {
    keeps: Keeps,
    bytes: Zeroizing<Vec<u8>>,
    length: usize,
    /// Whether there was more.
    pub is_cut: bool,
}

impl Heard {
    /// Listens on a thread of its own, so that a full pipe holds nobody up.
    pub fn listen(pipe: Option<impl Read + Send + 'static>, keeps: Keeps) -> Self {
        let (end, ended) = channel();
        let text = Arc::new(Mutex::new(Text::new(keeps)));
        let heard = Arc::clone(&text);
        std::thread::spawn(move || {
            let mut piece = Zeroizing::new([0; ROOT_KEY_TEXT_BYTES_MAX]);
            let mut pipe = pipe;
            // What is too long to be kept is taken all the same, or its writer would wait for ever.
            while let Some(pipe) = &mut pipe {
                match pipe.read(piece.as_mut_slice()) {
                    Ok(0) => break,
                    Ok(read) => heard.lock().add(&piece[..read]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let _ = end.send(());
        });
        Self { text, ended }
    }

    /// What was heard of a command that has ended.
    pub fn text(self) -> Text {
        let _ = self.ended.recv_timeout(LEFT_OPEN);
        let mut text = self.text.lock();
        let keeps = text.keeps;
        let mut heard = std::mem::replace(&mut *text, Text::new(keeps));
        heard.end();
        heard
    }
}

impl Text {
    fn new(keeps: Keeps) -> Self {
        let bytes = Zeroizing::new(vec![0; 2 * ROOT_KEY_TEXT_BYTES_MAX]);
        Self { keeps, bytes, length: 0, is_cut: false }
    }

    /// The bytes that were kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn add(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let room = self.bytes.len() - self.length;
            if room == 0 {
                self.is_cut = true;
                match self.keeps {
                    Keeps::First => return,
                    Keeps::Last => self.forget_all_but(ROOT_KEY_TEXT_BYTES_MAX),
                }
                continue;
            }
            let (now, later) = piece.split_at(room.min(piece.len()));
            self.bytes[self.length..][..now.len()].copy_from_slice(now);
            self.length += now.len();
            piece = later;
        }
    }

    fn forget_all_but(&mut self, last: usize) {
        self.bytes.copy_within(self.length - last..self.length, 0);
        self.length = last;
    }

    /// Leaves as much as is kept, and of what was cut no half of a word: it would not be known for what it is.
    fn end(&mut self) {
        if self.keeps == Keeps::Last && self.length > ROOT_KEY_TEXT_BYTES_MAX {
            self.is_cut = true;
            self.forget_all_but(ROOT_KEY_TEXT_BYTES_MAX);
        }
        if self.keeps == Keeps::Last && self.is_cut {
            let whole = self.bytes().iter().position(u8::is_ascii_whitespace);
            self.forget_all_but(whole.map_or(0, |at| self.length - at));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::{Heard, Keeps, ROOT_KEY_TEXT_BYTES_MAX, Text};

    fn heard(text: Vec<u8>, keeps: Keeps) -> Text {
        Heard::listen(Some(Cursor::new(text)), keeps).text()
    }

    #[test]
    fn the_beginning_or_the_end_of_what_is_too_long_is_kept() {
        for keeps in [Keeps::First, Keeps::Last] {
            assert!(Heard::listen(None::<Cursor<Vec<u8>>>, keeps).text().bytes().is_empty());
            let short = heard(b"short".to_vec(), keeps);
            assert!(short.bytes() == b"short" && !short.is_cut);
        }
        let words: Vec<u8> =
            (10_000..20_000).flat_map(|n: u32| format!("{n} ").into_bytes()).collect();
        let first = heard(words.clone(), Keeps::First);
        assert!(first.is_cut && words.starts_with(first.bytes()));
        assert!(first.bytes().len() > ROOT_KEY_TEXT_BYTES_MAX);
        for cut in 0..6 {
            let words = &words[..words.len() - cut];
            let last = heard(words.to_vec(), Keeps::Last);
            assert!(last.is_cut && words.ends_with(last.bytes()));
            assert!(last.bytes().starts_with(b" 1"));
            let length = ROOT_KEY_TEXT_BYTES_MAX - last.bytes().len();
            assert!(length < 6, "{length}");
        }
        // One word, of which a part would be left.
        assert!(heard(vec![b'a'; 100_000], Keeps::Last).bytes().is_empty());
    }
}
