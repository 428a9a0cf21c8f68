//! What goes wrong below the store, in its own words, and the note of it that the next opening reads.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::process::geteuid;

use crate::store::StoreError;

/// The name of the note that a write failed, which the next opening reads.
pub const FAILED: &str = "failed";

/// A cause of sled or the file system, for the operator.
pub fn unavailable(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(cause.to_string())
}

/// What the file system refused at a path, for the operator: where, why, and what to do.
pub fn refused(path: &Path, cause: &io::Error) -> StoreError {
    let is_missing = |folder: &Path| {
        folder.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    // A confined process may not make it anew either, and is told so before that it is not there.
    let is_gone =
        cause.kind() == ErrorKind::PermissionDenied && path.parent().is_some_and(is_missing);
    let remedy = if is_gone {
        "; its folder is not there any more: was it moved or removed while it was open?".to_owned()
    } else {
        remedy(cause.kind())
    };
    unavailable(format_args!("{}: {cause}{remedy}", path.display()))
}

/// The same, for whatever is refused at this path.
pub fn refused_at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |cause| refused(path, &cause)
}

/// What the operator can do about a cause, to be put behind it; of most there is nothing to say.
pub fn remedy(kind: ErrorKind) -> String {
    match kind {
        ErrorKind::PermissionDenied => format!(
            "; user {}, as whom this runs, must own the data folder with all in it, and be let read \
            and write that (chown -R, chmod -R u+rwX)",
            geteuid().as_raw()
        ),
        ErrorKind::ReadOnlyFilesystem => {
            "; its file system is mounted read-only: mount it so that it takes writes".to_owned()
        }
        _ => String::new(),
    }
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
    use std::io::ErrorKind;

    use super::{StoreError, refused_at, unreadable};

    #[test]
    fn what_is_refused_is_named_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let (there, gone) = (folder.path().join("db"), folder.path().join("gone/db"));
        for (path, kind, expected) in [
            (&there, ErrorKind::PermissionDenied, "chown -R"),
            (&gone, ErrorKind::PermissionDenied, "moved or removed"),
            (&there, ErrorKind::ReadOnlyFilesystem, "mounted read-only"),
            (&gone, ErrorKind::NotFound, "not found"),
        ] {
            let said = refused_at(path)(kind.into()).to_string();
            let begins = format!("the storage is unavailable: {}: ", path.display());
            assert!(said.starts_with(&begins), "{said}");
            assert!(said.contains(expected), "{said}");
        }
    }

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
