//! A buffer for text that must not be left in memory.
//!
//! A vector that grows leaves what it held where it lay. This one wipes each place it leaves, and the last one when it is
//! dropped.

use std::io::{self, Write};

use zeroize::Zeroizing;

/// Bytes there is room for at first.
const FIRST_BYTES: usize = 1 << 10;

/// What is written to it, and nowhere else.
#[derive(Default)]
pub struct WipedBuffer(Zeroizing<Vec<u8>>);

impl WipedBuffer {
    /// What was written.
    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

impl Write for WipedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            let room = needed.max(self.0.capacity() * 2).max(FIRST_BYTES);
            let mut larger = Zeroizing::new(Vec::with_capacity(room));
            larger.extend_from_slice(&self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::WipedBuffer;

    #[test]
    fn it_holds_what_was_written_and_never_moves_within_its_room() {
        let mut buffer = WipedBuffer::default();
        let mut expected = Vec::new();
        for step in 0..200_usize {
            let bytes = vec![u8::try_from(step).unwrap(); step * 3];
            let (place, room) = (buffer.0.as_ptr(), buffer.0.capacity());
            buffer.write_all(&bytes).unwrap();
            expected.extend_from_slice(&bytes);
            assert!(expected.len() > room || buffer.0.as_ptr() == place, "step {step}");
        }
        assert_eq!(*buffer.into_bytes(), expected);
    }
}
