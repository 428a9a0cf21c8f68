//! How long a value is.

use serde_json::Value;

/// Bytes of a value as JSON, counted without writing them anywhere.
pub fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);

    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    // A value always serialises; if it did not, it would be too large.
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}
