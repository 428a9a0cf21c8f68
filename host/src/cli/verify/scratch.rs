//! The copy of a store that is looked at, in a folder of its own that goes with the process: at its end, when it is told to
//! end, and, where it was killed, with the next one.
//!
//! Whose folder still lives is told by a lock that its process holds on it. The numbers of processes tell nothing: in another
//! container they are others.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::cli::Failure;
use crate::cli::ends::Ends;
use crate::cli::open::refuse_without_store;
use crate::config::Settings;
use crate::store::StoreError;
use crate::store::sled::patiently;

/// How the folders of all these processes begin. Those of earlier versions, which hold no lock, begin otherwise.
const PREFIX: &str = "tokamak-verify-copy-";
/// What is said by a process that was told to end.
const TOLD: &str = "verify was told to end before it had looked at everything";

/// How often a folder may be gone in the moment after it was made.
const GONE_MAX: u32 = 100;

/// A copy of a store, removed when dropped, or when the process is told to end.
pub struct Copy {
    folder: PathBuf,
    _lock: File,
}

impl Copy {
    /// Copies the store while nobody else can open it.
    pub fn of(settings: &Settings, scratch: &Path) -> Result<Self, Failure> {
        refuse_without_store(&settings.data_dir)?;
        let store = settings.data_dir.join("store");
        let path = store.join("lock");
        let lock = match File::open(&path) {
            // A copy may be without it; whoever opens the store makes it first.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            lock => Some(lock.map_err(|error| format!("{}: {error}", path.display()))?),
        };
        if lock.as_ref().is_some_and(|lock| patiently(|| lock.try_lock_shared()).is_err()) {
            let message = format!(
                "another process uses {}: stop the server first, or look at a snapshot of the file system",
                store.display()
            );
            return Err(message.into());
        }
        remove_left(scratch);
        let ends = Ends::begin()?;
        let copy = Self::begin(scratch)?;
        ends.remove(copy.folder.clone(), Vec::new(), TOLD)?;
        copy_files(&store, &copy.folder).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    ": name a folder with room for it with --scratch"
                }
                _ => "",
            };
            format!("the store cannot be copied to {}: {error}{remedy}", scratch.display())
        })?;
        Ok(copy)
    }

    /// Makes a new folder that is nobody else's.
    fn begin(scratch: &Path) -> Result<Self, Failure> {
        let (mut number, mut gone) = (0_u32, 0);
        loop {
            let folder = scratch.join(format!("{PREFIX}{number}"));
            let made = DirBuilder::new().mode(0o700).create(&folder);
            match made.and_then(|()| File::open(&folder)) {
                Ok(lock) if is_ours(&lock, &folder) => return Ok(Self { folder, _lock: lock }),
                // Somebody took it for one that was left, in the moment before it was locked.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // The same, before it could be opened. But there are folders in which none can be made.
                Err(error) if error.kind() == ErrorKind::NotFound && gone < GONE_MAX => gone += 1,
                Err(error) => {
                    return Err(format!("{} cannot be made: {error}", folder.display()).into());
                }
            }
            number += 1;
        }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// An error that names the store and not the copy, which nobody knows and which is gone by then.
    pub fn unnamed(&self, error: StoreError, data: &Path) -> StoreError {
        let (copy, store) =
            (self.folder.display().to_string(), data.join("store").display().to_string());
        match error {
            StoreError::Damaged(what) => StoreError::Damaged(what.replace(&copy, &store)),
            StoreError::Unavailable(what) => StoreError::Unavailable(what.replace(&copy, &store)),
            other => other,
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What is left behind is sealed as the store is.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Locks a folder that was just made; false if it is another one's. Where nothing can be locked, nobody removes it either.
fn is_ours(lock: &File, folder: &Path) -> bool {
    if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
        return false;
    }
    let same = |made: fs::Metadata| {
        let found = fs::symlink_metadata(folder)?;
        Ok::<_, io::Error>((found.dev(), found.ino()) == (made.dev(), made.ino()))
    };
    lock.metadata().and_then(same).unwrap_or(false)
}

/// Removes what processes of this user left that were killed.
fn remove_left(scratch: &Path) {
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_own = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
        if !is_one || !entry.metadata().is_ok_and(is_own) {
            continue;
        }
        let Ok(lock) = File::open(entry.path()) else { continue };
        if lock.try_lock().is_ok() {
            // What cannot be removed is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            DirBuilder::new().mode(0o700).create(&to)?;
            copy_files(&entry.path(), &to)?;
        } else if entry.file_name() != "lock" {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Copy, PREFIX, remove_left};

    #[test]
    fn a_folder_is_nobody_elses_and_goes_with_who_made_it() {
        let scratch = tempfile::tempdir().unwrap();
        let one = Copy::begin(scratch.path()).unwrap();
        let other = Copy::begin(scratch.path()).unwrap();
        assert_ne!(one.folder(), other.folder());
        let mode = other.folder().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // Both are in use.
        remove_left(scratch.path());
        assert!(one.folder().is_dir() && other.folder().is_dir());
        drop((one, other));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        let nowhere = Copy::begin(&scratch.path().join("none")).err().unwrap();
        assert!(nowhere.to_string().contains("none"), "{nowhere}");
        // A folder that is there, and takes none.
        let nowhere = Copy::begin("/proc".as_ref()).err().unwrap();
        assert!(nowhere.to_string().contains("/proc/"), "{nowhere}");
    }

    #[test]
    fn what_a_process_left_that_was_killed_is_removed_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let left = scratch.path().join(format!("{PREFIX}3"));
        fs::create_dir_all(left.join("gen-1")).unwrap();
        fs::write(left.join("gen-1/db"), "rows").unwrap();
        let others = ["tokamak-verify-1-0", "else"].map(|name| scratch.path().join(name));
        for other in &others {
            fs::create_dir(other).unwrap();
        }
        let link = scratch.path().join(format!("{PREFIX}4"));
        std::os::unix::fs::symlink(&others[1], &link).unwrap();
        remove_left(scratch.path());
        assert!(!left.exists());
        assert!(link.exists() && others.iter().all(|other| other.is_dir()));
    }
}
