//! What the operator is told when nothing could be stored: in which folder, and what its disk says, where it can be the
//! disk's fault. It is told at the command line alone; no answer to a request holds any of it.

use std::fs;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use thiserror::Error as ThisError;

use super::Failure;
use crate::limits::{DISK_LAST_MB, DISK_RESERVE_MB};
use crate::store::StoreError;
use crate::vault::{Error, OpenError};

/// A server could not store, or not read, what it was asked for.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// The same, told with its folder.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub struct Unstored(String);

/// An error; where it is that nothing could be stored, with the data folder, and with what its disk says unless that has
/// room enough: then it is something else, such as a server that stops.
pub fn about(error: Failure, data: &Path) -> Failure {
    if !is_of_storing(&error) {
        return error;
    }
    let told = format!("{}: {}", data.display(), error.to_string().trim_end_matches('.'));
    let state = state(data).unwrap_or_else(|| "The log tells more".to_owned());
    Unstored(format!("{told}. {state}")).into()
}

fn is_of_storing(error: &Failure) -> bool {
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Store(error)) => {
            // What else it says names what is to blame.
            matches!(error, StoreError::Full | StoreError::ReadOnly | StoreError::Failed)
        }
        Some(OpenError::Unfinished(error)) => matches!(error, Error::Unavailable(_)),
        Some(_) => false,
        None => {
            error.is::<Unavailable>()
                || error
                    .downcast_ref::<Error>()
                    .is_some_and(|error| matches!(error, Error::Unavailable(_)))
        }
    }
}

/// What the disk of a folder says of itself; nothing where it has room.
fn state(data: &Path) -> Option<String> {
    let free_mb = match statvfs(data) {
        Err(error) => return Some(format!("Its disk does not say what is free: {error}")),
        Ok(disk) if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            let told = "Its disk is mounted read-only: mount it so that it takes writes";
            return Some(told.to_owned());
        }
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) >> 20,
    };
    let stored_mb = bytes(&data.join("store")) >> 20;
    is_short(free_mb, stored_mb).then(|| {
        format!(
            "Its disk has {free_mb} MiB free; {DISK_RESERVE_MB} MiB stay free behind what is new, and backups and, down to \
            {DISK_LAST_MB} MiB, compacting take two to four times as much besides as lives in the store. The log tells more"
        )
    })
}

/// Whether there may be no room for a copy of a store, with what stays free and as much for what is new.
fn is_short(free_mb: u64, stored_mb: u64) -> bool {
    free_mb < stored_mb.saturating_add(2 * DISK_RESERVE_MB)
}

/// Bytes of the files in a folder, as far as they are shown.
fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{
        DISK_RESERVE_MB, Error, Failure, OpenError, StoreError, Unavailable, about, bytes, is_short,
    };
    use crate::vault::Unfit;

    #[test]
    fn only_what_could_not_be_stored_is_told_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let told = |error: Failure| about(error, folder.path()).to_string();
        let stored: [Failure; 4] = [
            Error::Unavailable(Unfit::Full).into(),
            OpenError::Store(StoreError::Full).into(),
            OpenError::Unfinished(Error::Unavailable(Unfit::Full)).into(),
            Unavailable("later.".to_owned()).into(),
        ];
        for error in stored {
            let text = error.to_string();
            let begin = format!("{}: {}", folder.path().display(), text.trim_end_matches('.'));
            let told = told(error);
            assert!(told.starts_with(&begin), "{told}");
            // Only a disk without room has anything to do with it.
            let begun_to_fill = told.contains(" MiB free; 128 MiB ");
            assert!(told == format!("{begin}. The log tells more") || begun_to_fill, "{told}");
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
    fn a_disk_is_short_that_has_no_room_for_a_copy_of_the_store() {
        for (free, stored, expected) in [
            (0, 0, true),
            (255, 0, true),
            (256, 0, false),
            (1_255, 1_000, true),
            (1_256, 1_000, false),
        ] {
            assert_eq!(is_short(free, stored), expected, "{free} {stored}");
        }
        assert!(is_short(DISK_RESERVE_MB, 0) && is_short(u64::MAX - 1, u64::MAX));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("gen-1")).unwrap();
        std::fs::write(folder.path().join("gen-1/db"), [0_u8; 700]).unwrap();
        std::fs::write(folder.path().join("journal"), [0_u8; 30]).unwrap();
        assert_eq!((bytes(folder.path()), bytes(&folder.path().join("none"))), (730, 0));
    }

    #[test]
    fn a_disk_that_does_not_tell_is_told_of_with_the_systems_reason() {
        let told =
            about(Error::Unavailable(Unfit::Full).into(), Path::new("/none/at/all")).to_string();
        assert!(told.contains("No such file or directory"), "{told}");
    }
}
