//! The copy of a store that is looked at, in a folder of its own that goes with the process: at its end, when it is told to
//! end, and, where it was killed, with the next one.
//!
//! Whose folder still lives is told by a lock that its process holds on it. The numbers of processes tell nothing: in another
//! container they are others.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::NOT_LOOKED_AT;
use crate::cli::serve::refuse_without_store;
use crate::cli::{Failure, output};
use crate::config::Settings;
use crate::store::StoreError;

/// How the folders of all these processes begin. Those of earlier versions, which hold no lock, begin otherwise.
const PREFIX: &str = "tokamak-verify-copy-";
/// How often it is tried to remove a folder into which somebody may be writing yet.
const REMOVALS_MAX: usize = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// Whether the process was told to end, and removes what it looks at.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

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
        let there_is_none = |error| format!("there is no store in {}: {error}", store.display());
        let lock = File::open(store.join("lock")).map_err(there_is_none)?;
        if lock.try_lock_shared().is_err() {
            let message = format!(
                "another process uses {}: stop the server first, or look at a snapshot of the file system",
                store.display()
            );
            return Err(message.into());
        }
        remove_left(scratch);
        let ends = Ends::begin()?;
        let copy = Self::begin(scratch)?;
        ends.remove(copy.folder.clone())?;
        copy_files(&store, &copy.folder).map_err(|error| {
            format!("the store cannot be copied to {}: {error}", scratch.display())
        })?;
        Ok(copy)
    }

    /// Makes a new folder that is nobody else's.
    fn begin(scratch: &Path) -> Result<Self, Failure> {
        let mut number = 0_u32;
        loop {
            let folder = scratch.join(format!("{PREFIX}{number}"));
            let made = DirBuilder::new().mode(0o700).create(&folder);
            match made.and_then(|()| File::open(&folder)) {
                Ok(lock) if is_ours(&lock, &folder) => return Ok(Self { folder, _lock: lock }),
                // Somebody took it for one that was left, in the moment before it was locked.
                Ok(_) => {}
                Err(error)
                    if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind())
                        && scratch.is_dir() => {}
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

/// The signals that tell the process to end, noted from here on.
struct Ends {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn begin() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(entered);
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Has the process remove a folder before it ends.
    fn remove(self, folder: PathBuf) -> io::Result<()> {
        let Self { runtime, mut terminate, mut interrupt } = self;
        let wait = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let end = move || {
            runtime.block_on(wait);
            end_without(&folder);
        };
        thread::Builder::new().name("end".to_owned()).spawn(end).map(drop)
    }
}

/// Ends the process, without a folder that it may be writing into until then.
fn end_without(folder: &Path) {
    IS_ENDING.store(true, Ordering::SeqCst);
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            _ => thread::sleep(REMOVAL_PAUSE),
        }
    }
    output::warn("verify was told to end before it had looked at everything");
    exit(NOT_LOOKED_AT.into());
}

/// Waits for the end of a process that was told to end: what it finds from then on is for want of what it looks at.
pub fn hold_back() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
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
