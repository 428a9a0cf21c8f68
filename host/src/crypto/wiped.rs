//! Text that must not be left in memory.
//!
//! [`Wiped`] overwrites all the room that it has when it is dropped. A vector that grows leaves what it held where it lay;
//! a [`WipedBuffer`] wipes each place it leaves too.

use std::fmt;
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::str::Utf8Error;

use zeroize::{Zeroizing, optimization_barrier};

/// Bytes there is room for at first, unless that is said.
const FIRST_BYTES: usize = 1 << 10;

/// Bytes that are overwritten when they are dropped, and the room behind them too.
///
/// All at once: `Zeroizing` writes byte by byte, which for texts that every request has several of took a fiftieth of
/// its time.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Wiped(Vec<u8>);

impl Wiped {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Forgets what is behind so many bytes; it is wiped in the end.
    pub fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }
}

impl From<Vec<u8>> for Wiped {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Wiped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Wiped {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for Wiped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wiped(..)")
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        overwrite(&mut self.0);
    }
}

/// Overwrites a vector and the room behind it.
fn overwrite(bytes: &mut Vec<u8>) {
    let room = bytes.capacity();
    bytes.clear();
    bytes.resize(room, 0);
    // What is about to be freed need not be written to, unless somebody may look at it.
    optimization_barrier(bytes.as_slice());
}

/// What is written to it, and nowhere else.
#[derive(Default)]
pub struct WipedBuffer(Wiped);

impl WipedBuffer {
    /// An empty one with room for so many bytes: all of it is wiped in the end, written or not.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Wiped(Vec::with_capacity(bytes)))
    }

    /// Writes some bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.0.capacity() {
            self.grow(needed);
        }
        self.0.0.extend_from_slice(bytes);
    }

    /// How many bytes were written.
    pub fn written(&self) -> usize {
        self.0.len()
    }

    /// What was written.
    pub fn into_bytes(self) -> Wiped {
        self.0
    }

    /// What was written, as text.
    pub fn into_text(mut self) -> Result<Zeroizing<String>, Utf8Error> {
        std::str::from_utf8(&self.0)?;
        let bytes = std::mem::take(&mut self.0.0);
        Ok(String::from_utf8(bytes).unwrap_or_default().into())
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let room = needed.max(self.0.0.capacity() * 2).max(FIRST_BYTES);
        let mut larger = Vec::with_capacity(room);
        larger.extend_from_slice(&self.0);
        self.0 = Wiped(larger);
    }
}

impl Write for WipedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Wiped, WipedBuffer, overwrite};

    #[test]
    fn it_holds_what_was_written_and_never_moves_within_its_room() {
        let mut buffer = WipedBuffer::default();
        let mut expected = Vec::new();
        for step in 0..200_usize {
            let bytes = vec![u8::try_from(step).unwrap(); step * 3];
            let (place, room) = (buffer.0.as_ptr(), buffer.0.0.capacity());
            buffer.extend(&bytes);
            expected.extend_from_slice(&bytes);
            assert!(expected.len() > room || buffer.0.as_ptr() == place, "step {step}");
        }
        assert_eq!(*buffer.into_bytes(), expected);
    }

    #[test]
    fn it_is_text_where_it_lay_or_none() {
        let mut buffer = WipedBuffer::with_capacity(100);
        buffer.extend("4242 é".as_bytes());
        let place = buffer.0.as_ptr();
        let text = buffer.into_text().unwrap();
        assert_eq!((text.as_str(), text.as_ptr()), ("4242 é", place));
        let mut none = WipedBuffer::default();
        none.extend(&[0xff]);
        assert!(none.into_text().is_err());
    }

    #[test]
    fn what_it_had_is_overwritten_and_what_was_cut_off_it_too() {
        let mut bytes = Vec::with_capacity(100);
        bytes.extend_from_slice(b"4242424242424242 and more");
        let mut wiped = Wiped::from(bytes);
        wiped.truncate(4);
        assert_eq!((&*wiped, format!("{wiped:?}").as_str()), (b"4242".as_slice(), "Wiped(..)"));
        let place = wiped.as_ptr();
        let mut bytes = std::mem::take(&mut wiped.0);
        overwrite(&mut bytes);
        // Nothing moved: what is zeros now is where the text was.
        assert_eq!((bytes.as_ptr(), bytes), (place, vec![0; 100]));
    }

    /// Nobody may read what was freed; but that it is dropped in a way of its own is seen by the compiler.
    #[test]
    fn it_is_wiped_however_it_goes() {
        #[expect(drop_bounds, reason = "that is what is asked")]
        fn is_wiped<T: Drop>(_: &T) {}
        is_wiped(&Wiped::default());
    }
}
