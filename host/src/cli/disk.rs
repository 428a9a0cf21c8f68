//! What the operator is told when nothing could be stored: in which folder, and what its disk says. It is told at the
//! command line alone; no answer to a request holds any of it.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use thiserror::Error as ThisError;

use super::Failure;
use crate::limits::DISK_RESERVE_MB;
use crate::store::StoreError;
use crate::vault::{Error, OpenError};

/// A server could not store, or not read, what it was asked for.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// An error; where it is that nothing could be stored, with the data folder and what its disk says.
pub fn about(error: Failure, data: &Path) -> Failure {
    if !is_of_storing(&error) {
        return error;
    }
    let told = error.to_string();
    format!("{}: {}. {}", data.display(), told.trim_end_matches('.'), state(data)).into()
}

fn is_of_storing(error: &Failure) -> bool {
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Store(error)) => {
            // What else it says names what is to blame.
            matches!(error, StoreError::Full | StoreError::ReadOnly | StoreError::Failed)
        }
        Some(OpenError::Unfinished(error)) => matches!(error, Error::Unavailable),
        Some(_) => false,
        None => {
            error.is::<Unavailable>()
                || error
                    .downcast_ref::<Error>()
                    .is_some_and(|error| matches!(error, Error::Unavailable))
        }
    }
}

/// What the disk of a folder says of itself.
fn state(data: &Path) -> String {
    match statvfs(data) {
        Err(error) => format!("Its disk does not say what is free: {error}"),
        Ok(disk) if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            "Its disk is mounted read-only: mount it so that it takes writes".to_owned()
        }
        Ok(disk) => {
            let free_mb = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
            format!(
                "Its disk has {free_mb} MiB free; {DISK_RESERVE_MB} MiB stay free behind what is new, and compacting and \
                backups take the size of the store besides. The log tells more"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Error, Failure, OpenError, StoreError, Unavailable, about};

    #[test]
    fn only_what_could_not_be_stored_is_told_with_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let told = |error: Failure| about(error, folder.path()).to_string();
        let stored: [Failure; 4] = [
            Error::Unavailable.into(),
            OpenError::Store(StoreError::Full).into(),
            OpenError::Unfinished(Error::Unavailable).into(),
            Unavailable("later.".to_owned()).into(),
        ];
        for error in stored {
            let text = error.to_string();
            let begin = format!("{}: {}. ", folder.path().display(), text.trim_end_matches('.'));
            let told = told(error);
            assert!(told.starts_with(&begin) && told.contains(" MiB free; 128 MiB "), "{told}");
        }
        let others: [Failure; 4] = [
            Error::Internal.into(),
            OpenError::WrongRootKey.into(),
            OpenError::Store(StoreError::Unavailable("/data/store: busy".to_owned())).into(),
            "no key".into(),
        ];
        for error in others {
            let text = error.to_string();
            assert_eq!(told(error), text);
        }
    }

    #[test]
    fn a_disk_that_does_not_tell_is_told_of_with_the_systems_reason() {
        let told = about(Error::Unavailable.into(), Path::new("/none/at/all")).to_string();
        assert!(told.contains("No such file or directory"), "{told}");
    }
}
