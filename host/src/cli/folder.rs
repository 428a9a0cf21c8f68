//! A data folder, before anything is done in it: whose it is, and who may put something into it.
//!
//! Whoever may write to the folder may take the place of the store and of the socket by which commands reach a server, and
//! what root makes in a folder of somebody else its owner cannot open.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

use super::Failure;
use crate::store::sled::remedy;

/// The right of everybody to write.
const EVERYBODY_WRITES: u32 = 0o002;
/// That of the group.
const GROUP_WRITES: u32 = 0o020;
/// Rights of everybody to read.
const EVERYBODY_READS: u32 = 0o005;

/// Lets nobody but its user read what this process makes from now on.
pub fn keep_to_ourselves() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Refuses a folder, or a store in it, that everybody may write to.
pub fn refuse_open(data: &Path) -> Result<(), Failure> {
    for (path, metadata) in parts(data)? {
        let mode = metadata.mode();
        if mode & EVERYBODY_WRITES != 0 {
            return Err(format!(
                "{} may be written to by everybody (mode {:03o}), who could put another store or socket there: chmod \
                o-w, or name a folder in it that is made for its owner alone",
                path.display(),
                mode & 0o777
            )
            .into());
        }
    }
    Ok(())
}

/// Refuses root a folder whose store, or which itself as long as there is none, belongs to another user.
pub fn refuse_to_root(data: &Path) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    match parts(data)?.pop() {
        Some((path, metadata)) if metadata.uid() != geteuid().as_raw() => {
            let (user, group) = (metadata.uid(), metadata.gid());
            Err(format!(
                "{} belongs to user {user}, who could not open what root makes there: run this as that user, such as \
                by setpriv --reuid {user} --regid {group} --clear-groups",
                path.display()
            )
            .into())
        }
        _ => Ok(()),
    }
}

/// Tells the operator of others that may look into a folder, or whose group may write to it.
pub fn warn_of_others(data: &Path) -> Result<(), Failure> {
    let Some((_, metadata)) = parts(data)?.into_iter().next() else { return Ok(()) };
    let (mode, folder) = (metadata.mode(), data.display());
    let shown = format!("{:03o}", mode & 0o777);
    if mode & GROUP_WRITES != 0 {
        tracing::warn!(
            %folder,
            mode = shown,
            "the group of the data folder may put another store or socket there: chmod g-w, unless all in it may"
        );
    } else if mode & EVERYBODY_READS != 0 {
        tracing::warn!(
            %folder,
            mode = shown,
            "everybody may look into the data folder; what is in it is sealed, but for ids: chmod o-rx"
        );
    }
    Ok(())
}

/// The folder and the store in it, as far as they are there.
fn parts(data: &Path) -> Result<Vec<(PathBuf, Metadata)>, Failure> {
    let mut parts = Vec::new();
    for path in [data.to_owned(), data.join("store")] {
        match fs::metadata(&path) {
            Ok(metadata) => parts.push((path, metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let remedy = remedy(error.kind());
                return Err(format!("{}: {error}{remedy}", path.display()).into());
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::{refuse_open, refuse_to_root};

    #[test]
    fn a_folder_that_everybody_may_write_to_is_refused_by_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (data, store) = (folder.path().join("data"), folder.path().join("data/store"));
        assert!(refuse_open(&data).is_ok(), "there is none yet");
        fs::create_dir_all(&store).unwrap();
        for path in [&data, &store] {
            for mode in [0o700, 0o755, 0o775] {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
                assert!(refuse_open(&data).is_ok(), "{mode:03o}");
            }
            for mode in [0o777, 0o1777, 0o702] {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
                let said = refuse_open(&data).unwrap_err().to_string();
                let named = format!("{} may be written to by everybody", path.display());
                assert!(said.starts_with(&named), "{said}");
                assert!(said.contains(&format!("(mode {:03o})", mode & 0o777)), "{said}");
            }
            fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        }
    }

    #[test]
    fn whoever_owns_the_folder_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refuse_to_root(folder.path()).is_ok());
        assert!(refuse_to_root(&folder.path().join("none")).is_ok());
    }
}
