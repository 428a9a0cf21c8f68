//! A data folder, before anything is done in it: whose it is, and who may put something into it.
//!
//! Whoever may write to the folder may take the place of the store and of the socket by which commands reach a server, and
//! what root makes in a folder of somebody else its owner cannot open.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

use super::Failure;
use crate::http::control::{ROOT, short};
use crate::store::sled::remedy;

/// The folder of the store.
const STORE: &str = "store";
/// What is in it.
const STORE_FILES: [&str; 3] = ["conf", "db", "journal"];
/// Its name while a restore makes it.
pub const RESTORING: &str = "store.restoring";
/// The folder of what was compiled.
pub const COMPILED: &str = "compiled";
/// The right of everybody to write.
const EVERYBODY_WRITES: u32 = 0o002;
/// That of the group.
const GROUP_WRITES: u32 = 0o020;
/// Lets only the owner of an entry take it away, whoever may write to the folder.
const STICKY: u32 = 0o1000;
/// Rights of everybody to read.
const EVERYBODY_READS: u32 = 0o005;
/// Users that systemd draws for units with `DynamicUser=`. Nobody but root and the unit reaches their folders.
const DYNAMIC: RangeInclusive<u32> = 61_184..=65_519;

/// Lets nobody but its user read what this process makes from now on.
pub fn keep_to_ourselves() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Whether a folder holds a store, whatever else is in it: what is in one whose disk is not mounted, or which was never
/// come to, is none.
pub fn holds_store(folder: &Path) -> io::Result<bool> {
    let mut holds = false;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        holds |= STORE_FILES.iter().any(|file| name == *file);
    }
    Ok(holds)
}

/// Refuses to begin a vault in the store of another one, whose folder somebody named in place of the one around it.
pub fn refuse_store(data: &Path) -> Result<(), Failure> {
    if STORE_FILES.iter().any(|file| !data.join(file).exists()) {
        return Ok(());
    }
    Err(format!("{} is the store of a vault: name the folder that it is in", data.display()).into())
}

/// Refuses to begin a vault where another one was whose store is gone, such as one that is not mounted, or in a backup: who
/// starts a server there means the vault that was.
pub fn refuse_left(data: &Path) -> Result<(), Failure> {
    let folder = data.display();
    if ["manifest.json", "chunk-000001"].iter().all(|file| data.join(file).exists()) {
        return Err(format!("{folder} is a backup: restore it, or name another folder").into());
    }
    let compiled = data.join(COMPILED);
    let is_left = fs::read_dir(&compiled).is_ok_and(|mut files| files.next().is_some());
    if !is_left {
        return Ok(());
    }
    Err(format!(
        "there is no store in {folder}, but {} is left of one: mount the store or restore a backup; to begin a new vault, \
        remove what is left",
        compiled.display()
    )
    .into())
}

/// Refuses to begin a vault in a folder that everybody may write to. One that is there already is served, with a warning:
/// some volumes have no other modes, and who upgrades is to find the vault as it was.
pub fn refuse_open(data: &Path) -> Result<(), Failure> {
    let parts = parts(data)?;
    let is_there = parts.iter().any(|(path, _)| path.ends_with(STORE));
    match parts.into_iter().find(|(_, metadata)| metadata.mode() & EVERYBODY_WRITES != 0) {
        Some((path, metadata)) if !is_there => Err(format!(
            "{}: chmod o-w, mount it with other modes, or name a folder where only you may write",
            open_to_all(&path, &metadata)
        )
        .into()),
        _ => Ok(()),
    }
}

/// The folders that are to be made for this one, the innermost first.
pub fn missing(folder: &Path) -> Vec<PathBuf> {
    let all = folder.ancestors().take_while(|path| !path.as_os_str().is_empty());
    all.take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Refuses to begin a vault where a restore has not come to its end: what is to be there is another one.
pub fn refuse_unrestored(data: &Path) -> Result<(), Failure> {
    let left = data.join(RESTORING);
    if !left.exists() || data.join(STORE).exists() {
        return Ok(());
    }
    Err(format!(
        "a restore into {} has not come to its end: run it again, or remove {} to begin a new vault",
        data.display(),
        left.display()
    )
    .into())
}

fn open_to_all(path: &Path, metadata: &Metadata) -> String {
    format!(
        "{} may be written to by everybody (mode {:03o}), who could put another store or socket there",
        path.display(),
        metadata.mode() & 0o777
    )
}

/// The users whose server may be told keys in this folder, beside root and the own one: the owners of the folder and of
/// the store in it. None where everybody can put another folder or another socket in their place.
pub fn trusted(open: &File, data: &Path) -> io::Result<Vec<u32>> {
    let mut owners = Vec::new();
    for metadata in [open.metadata()?].into_iter().chain(fs::metadata(short(open, STORE))) {
        if metadata.mode() & EVERYBODY_WRITES != 0 {
            return Ok(Vec::new());
        }
        owners.push(metadata.uid());
    }
    let around = data.canonicalize()?.parent().map(fs::metadata).transpose()?;
    let is_swapped = around
        .is_some_and(|around| around.mode() & EVERYBODY_WRITES != 0 && around.mode() & STICKY == 0);
    Ok(if is_swapped { Vec::new() } else { owners })
}

/// Refuses root a folder whose store, or which itself as long as there is none, belongs to another user.
pub fn refuse_to_root(data: &Path) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    match parts(data)?.pop() {
        Some((path, metadata)) if is_closed_by_root(metadata.uid(), || made_by_us(&path)) => {
            let user = metadata.uid();
            Err(format!(
                "{} belongs to user {user}, who could not open what root makes there: run this as that user, {}",
                path.display(),
                how_to_be(user, metadata.gid())
            )
            .into())
        }
        _ => Ok(()),
    }
}

/// Whether the owner of a folder could not open what root makes there, which this user then owns.
fn is_closed_by_root(owner: u32, made_by: impl FnOnce() -> Option<u32>) -> bool {
    owner != ROOT && made_by().is_none_or(|user| user != owner)
}

/// How root runs a command as another user.
fn how_to_be(user: u32, group: u32) -> String {
    let setpriv = format!("such as by setpriv --reuid {user} --regid {group} --clear-groups");
    if !DYNAMIC.contains(&user) {
        return setpriv;
    }
    // There may be no such user now, and `/var/lib/private` is closed to who is.
    format!(
        "{setpriv}; if a systemd unit has it by DynamicUser=, by systemd-run with DynamicUser=, User=, StateDirectory= \
        and StateDirectoryMode= of that unit, or start the unit, which commands of root then ask"
    )
}

/// Who owns what this process makes in a folder: some file systems give everything to one user, whoever makes it.
fn made_by_us(folder: &Path) -> Option<u32> {
    let probe = folder.join(format!("probe-{}", std::process::id()));
    let made = File::create_new(&probe).and_then(|made| made.metadata());
    if made.is_ok() {
        let _ = fs::remove_file(&probe);
    }
    Some(made.ok()?.uid())
}

/// Tells the operator of others that may look into a folder, or may write to it.
pub fn warn_of_others(data: &Path) -> Result<(), Failure> {
    let parts = parts(data)?;
    for (path, metadata) in &parts {
        if metadata.mode() & EVERYBODY_WRITES != 0 {
            tracing::warn!("{}: chmod o-w", open_to_all(path, metadata));
        }
    }
    let Some((_, metadata)) = parts.into_iter().next() else { return Ok(()) };
    let (mode, folder) = (metadata.mode(), data.display());
    let shown = format!("{:03o}", mode & 0o777);
    if mode & GROUP_WRITES != 0 {
        tracing::warn!(
            %folder,
            mode = shown,
            "the group of the data folder may put another store or socket there: chmod g-w, unless all in it may"
        );
    } else if mode & EVERYBODY_READS != 0 && mode & EVERYBODY_WRITES == 0 {
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
    for path in [data.to_owned(), data.join(STORE)] {
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
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::{
        ROOT, holds_store, how_to_be, is_closed_by_root, refuse_left, refuse_open, refuse_to_root,
        refuse_unrestored, trusted,
    };

    #[test]
    fn a_folder_that_everybody_may_write_to_is_refused_by_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (data, store) = (folder.path().join("data"), folder.path().join("data/store"));
        let set = |path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        assert!(refuse_open(&data).is_ok(), "there is none yet");
        fs::create_dir(&data).unwrap();
        for mode in [0o700, 0o755, 0o775] {
            set(&data, mode);
            assert!(refuse_open(&data).is_ok(), "{mode:03o}");
        }
        for mode in [0o777, 0o1777, 0o702] {
            set(&data, mode);
            let said = refuse_open(&data).unwrap_err().to_string();
            let named = format!("{} may be written to by everybody", data.display());
            assert!(said.starts_with(&named), "{said}");
            assert!(said.contains(&format!("(mode {:03o})", mode & 0o777)), "{said}");
        }
        fs::create_dir(&store).unwrap();
        assert!(refuse_open(&data).is_ok(), "a vault is there");
    }

    #[test]
    fn no_vault_is_begun_where_another_is_being_restored() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        assert!(refuse_unrestored(data).is_ok());
        fs::create_dir(data.join("store.restoring")).unwrap();
        let said = refuse_unrestored(data).unwrap_err().to_string();
        assert!(said.contains(&format!("{}/store.restoring", data.display())), "{said}");
        fs::create_dir(data.join("store")).unwrap();
        assert!(refuse_unrestored(data).is_ok(), "a vault is there");
    }

    #[test]
    fn no_vault_is_begun_where_the_store_of_another_is_gone_or_in_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        fs::create_dir(data.join("compiled")).unwrap();
        fs::write(data.join("control.sock"), "").unwrap();
        assert!(refuse_left(data).is_ok());
        fs::write(data.join("compiled/a"), "").unwrap();
        let said = refuse_left(data).unwrap_err().to_string();
        assert!(said.contains(&format!("{}/compiled is left", data.display())), "{said}");
        fs::remove_dir_all(data.join("compiled")).unwrap();
        fs::write(data.join("manifest.json"), "").unwrap();
        assert!(refuse_left(data).is_ok(), "whatever that is");
        fs::write(data.join("chunk-000001"), "").unwrap();
        assert!(refuse_left(data).unwrap_err().to_string().contains("is a backup"));
    }

    #[test]
    fn what_is_no_file_of_a_store_makes_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path();
        for other in ["lost+found", "lock", "blobs"] {
            fs::write(store.join(other), "").unwrap();
            assert!(!holds_store(store).unwrap(), "{other}");
        }
        for file in ["conf", "db", "journal"] {
            fs::write(store.join(file), "").unwrap();
            assert!(holds_store(store).unwrap(), "{file}");
            fs::remove_file(store.join(file)).unwrap();
        }
        assert!(holds_store(&store.join("none")).is_err());
    }

    #[test]
    fn nobody_is_trusted_where_everybody_can_take_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let (data, store) = (folder.path().join("data"), folder.path().join("data/store"));
        fs::create_dir_all(&store).unwrap();
        let set = |path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let own = fs::metadata(&data).unwrap().uid();
        let trusted = || trusted(&File::open(&data).unwrap(), &data).unwrap();
        assert_eq!(trusted(), [own, own]);
        for path in [folder.path(), &data, &store] {
            set(path, 0o777);
            assert_eq!(trusted(), [0; 0], "{}", path.display());
            set(path, 0o770);
            assert_eq!(trusted(), [own, own], "{}", path.display());
        }
        // As of /tmp.
        set(folder.path(), 0o1777);
        assert_eq!(trusted(), [own, own]);
        fs::remove_dir(&store).unwrap();
        assert_eq!(trusted(), [own]);
    }

    #[test]
    fn whoever_owns_the_folder_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refuse_to_root(folder.path()).is_ok());
        assert!(refuse_to_root(&folder.path().join("none")).is_ok());
    }

    #[test]
    fn root_leaves_nothing_where_its_owner_could_not_open_it() {
        let (owner, other) = (1_000, 1_001);
        for (owner, made_by, expected) in [
            (ROOT, Some(ROOT), false),
            (owner, Some(ROOT), true),
            (owner, Some(other), true),
            // Where nothing can be made, nobody can tell whose it would be.
            (owner, None, true),
            // As on file systems that give everything to one user.
            (owner, Some(owner), false),
        ] {
            assert_eq!(is_closed_by_root(owner, || made_by), expected, "{owner} {made_by:?}");
        }
        // Nothing is tried out in a folder of root's own.
        assert!(!is_closed_by_root(ROOT, || panic!("it was tried")));
    }

    #[test]
    fn a_user_that_systemd_drew_is_become_by_systemd() {
        for (user, drawn) in
            [(1_000, false), (61_183, false), (61_184, true), (65_519, true), (65_534, false)]
        {
            let said = how_to_be(user, 7);
            assert!(said.contains(&format!("setpriv --reuid {user} --regid 7 ")), "{said}");
            assert_eq!(said.contains("systemd-run"), drawn, "{said}");
        }
    }
}
