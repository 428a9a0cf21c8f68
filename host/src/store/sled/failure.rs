//! What goes wrong below the store, in its own words, and the note of it that the next opening reads.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use crate::store::StoreError;

/// The name of the note that a write failed, which the next opening reads.
pub const FAILED: &str = "failed";

/// A cause of sled or the file system, for the operator.
pub fn unavailable(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(cause.to_string())
}

/// A failure of sled's to read, for the operator: files that are not as they were written are damage.
pub fn unreadable(cause: sled::Error) -> StoreError {
    if is_damage(&cause) {
        return StoreError::Damaged("its files cannot be read: restore a backup".to_owned());
    }
    unavailable(cause)
}

/// Whether files are not as they were written: changed, or cut short.
pub fn is_damage(cause: &sled::Error) -> bool {
    match cause {
        sled::Error::Corruption { .. } => true,
        sled::Error::Io(error) => error.kind() == ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Notes in a store's folder that a write failed.
pub fn note_failure(folder: &Path) {
    let note = File::create(folder.join(FAILED)).and_then(|note| note.sync_all());
    if let Err(error) = note {
        tracing::warn!(%error, "that a write failed cannot be noted for the next start");
    }
}

#[cfg(test)]
mod tests {
    use super::{StoreError, unreadable};

    #[test]
    fn only_what_is_not_as_it_was_written_is_damage() {
        for cause in [
            sled::Error::Corruption { at: None, bt: () },
            sled::Error::Io(std::io::ErrorKind::UnexpectedEof.into()),
        ] {
            let damaged = unreadable(cause).to_string();
            assert!(damaged.starts_with("the storage is damaged: "), "{damaged}");
            assert!(damaged.ends_with("restore a backup"), "{damaged}");
        }
        for cause in [
            sled::Error::Io(std::io::ErrorKind::StorageFull.into()),
            sled::Error::Unsupported("later".to_owned()),
        ] {
            assert!(matches!(unreadable(cause), StoreError::Unavailable(_)));
        }
    }
}
