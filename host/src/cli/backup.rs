//! `tokamak backup`: everything in the vault to a folder. A running server gives it over its socket; without one, this
//! process reads the store itself.
//!
//! The manifest is written last. A folder without one holds a backup that did not come to its end. A note there says which
//! one that is: the server that gave it goes on with it as long as it keeps what it reads from, behind the last chunk up to
//! which all are as they were written. Otherwise another one to the same folder begins anew, since it is of another moment;
//! so does every one that this process read itself.

mod target;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use clap::Args;

use self::target::{Checked, Target};
use super::control::Server;
use super::folder::missing;
use super::open::refuse_without_store;
use super::output::telling;
use super::stopped::with_vault;
use super::{Failure, counted, say};
use crate::config::Options;
use crate::http::control::{Asked, Begun, Taken, read_begun, read_frame};
use crate::vault::Manifest;

/// The name of the file that makes a backup whole.
pub const MANIFEST: &str = "manifest.json";
const CHUNK_PREFIX: &str = "chunk-";
const CUT_SHORT: &str = "the backup ended before it was whole; see the server's log, and give the same command again to go on";
const GONE: &str = "the server has stopped meanwhile";

/// Options of `backup`.
#[derive(Debug, Args)]
pub struct BackupOptions {
    /// The folder to write to, outside of the data folder: a new or an empty one, or one with a backup that did not come to
    /// its end.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(command: BackupOptions) -> Result<(), Failure> {
    telling(command.json, back_up(command))
}

fn back_up(command: BackupOptions) -> Result<(), Failure> {
    let BackupOptions { to, json, options } = command;
    let data = options.clone().settle()?.data_dir;
    let server = Server::find(&data)?;
    // Before the other folder is made.
    if server.is_none() {
        refuse_without_store(&data)?;
    }
    refuse_within(&to, &data)?;
    let made = missing(&to);
    let undo = |_: &Failure| {
        // Folders in which there is something stay.
        let _ = made.iter().try_for_each(fs::remove_dir);
    };
    let (target, _) = Target::find(&to).inspect_err(undo)?;
    // Another backup may have found that they are missing as well, and be at work in them: then they are not removed.
    let _ours = target.hold()?;
    let manifest = write(options, (server, data.as_path()), &to, json).inspect_err(undo)?;
    if json {
        say(serde_json::to_string(&manifest)?);
    } else {
        let Manifest { chunks, rows, created_at, root_key_id, .. } = manifest;
        say(format_args!(
            "The vault as it was at {created_at} is in {}: {} in {}. To restore it takes the \
            root key that counted then, {root_key_id}.",
            to.display(),
            counted(rows, "row", "rows"),
            counted(chunks, "chunk", "chunks")
        ));
    }
    Ok(())
}

/// Refuses the data folder and what lies below it: a backup there would be lost with what it is a backup of.
fn refuse_within(to: &Path, data: &Path) -> Result<(), Failure> {
    let named = |folder: &Path, error: io::Error| format!("{}: {error}", folder.display());
    let vault = data.canonicalize().map_err(|error| named(data, error))?;
    if !place(to).map_err(|error| named(to, error))?.starts_with(vault) {
        return Ok(());
    }
    let (to, data) = (to.display(), data.display());
    Err(format!(
        "{to} lies in the data folder, {data}, with which it would be lost: name a folder elsewhere, best on another disk"
    )
    .into())
}

/// Where a folder lies, or will lie once it is made: what is there of its path may be links.
fn place(folder: &Path) -> io::Result<PathBuf> {
    let mut place = Path::new(".").canonicalize()?;
    for part in folder.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                place.pop();
            }
            part => place.push(part),
        }
        place = place.canonicalize().unwrap_or(place);
    }
    Ok(place)
}

/// Writes all of it to a folder that is held.
fn write(
    options: Options,
    (server, data): (Option<Server>, &Path),
    to: &Path,
    json: bool,
) -> Result<Manifest, Failure> {
    // Whoever held it before may have written to it since.
    let (target, begun) = Target::find(to)?;
    let tell = |what: &str| {
        if !json {
            say(format_args!("{} holds a backup that is incomplete: {what}.", to.display()));
        }
    };
    if let Some(server) = server {
        return from_server(server, data, (&target, begun), &tell);
    }
    target.clear(|| tell("it is begun anew"))?;
    let mut written = None;
    with_vault(options, async |vault| {
        let mut backup = vault.backup().await?;
        written = Some(target.fill(0, || Ok(backup.next_piece()?))?);
        Ok(())
    })?;
    Ok(written.ok_or(CUT_SHORT)?)
}

/// Takes a backup from a server: the rest of the one that was begun, as far as what is there of it is sound and the server
/// still has the rest, otherwise another one.
fn from_server(
    server: Server,
    data: &Path,
    (target, begun): (&Target, Option<Begun>),
    tell: &dyn Fn(&str),
) -> Result<Manifest, Failure> {
    let (mut server, mut begun, mut wrong) = (server, begun.filter(|it| it.chunks > 0), 0);
    if let Some(noted) = begun {
        // A connection on which nothing is asked for that long is another one's.
        drop(server);
        let checked = target.check(noted.chunks, || is_kept(data, noted))?;
        let Checked { sound: chunks, .. } = checked;
        wrong = checked.wrong;
        begun = Some(Begun { chunks, ..noted }).filter(|it| it.chunks > 0);
        server = Server::find(data)?.ok_or(GONE)?;
    }
    let tell = |what: &str| match wrong {
        0 => tell(what),
        1 => tell(&format!("1 of its chunks is not as it was written, and {what}")),
        many => tell(&format!("{many} of its chunks are not as they were written, and {what}")),
    };
    let asked = begun.map(|begun| Asked { begun, is_kept: false });
    let mut frames = server.stream("POST", "/backup", &asked)?;
    let now = read_begun(&mut frames).map_err(cut_short)?;
    if now.chunks > 0 && Some(now) == begun {
        tell(&format!("it is gone on with behind chunk {}", now.chunks));
    } else {
        target.clear(|| tell("it is begun anew"))?;
        target.note(now)?;
    }
    let manifest = target.fill(now.chunks, || read_frame(&mut frames).map_err(cut_short))?;
    // What a server sent may not have come to a disk. One that has gone, or knows no such question, need not be told.
    if let Ok(Some(server)) = Server::find(data) {
        let taken = Taken { id: now.id, created_at: manifest.created_at.clone() };
        let _ = server.ask::<()>("POST", "/backup/taken", &taken);
    }
    Ok(manifest)
}

/// What is said of a server that ends within a piece of a backup is what is said of one that ends between two.
fn cut_short(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::UnexpectedEof => CUT_SHORT.into(),
        _ => error.into(),
    }
}

/// Asks whether the server has the rest of a backup: it lets go of what nobody asks for, and what is there may be much to
/// check.
fn is_kept(data: &Path, begun: Begun) -> Result<bool, Failure> {
    let server = Server::find(data)?.ok_or(GONE)?;
    let mut frames = server.stream("POST", "/backup", &Asked { begun, is_kept: true })?;
    Ok(read_begun(&mut frames).map_err(cut_short)? == begun)
}

/// The file of a chunk.
pub fn chunk_name(number: u32) -> String {
    format!("{CHUNK_PREFIX}{number:06}")
}

/// The number of a chunk's file.
pub fn chunk_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(CHUNK_PREFIX)?.parse().ok()?;
    (chunk_name(number) == name).then_some(number)
}

/// Reads a file; `None` if there is none.
pub fn read_bounded(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, Failure> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(named)?,
    };
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(named)?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("{} is longer than it can be", path.display()).into());
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{chunk_name, chunk_number, refuse_within};

    #[test]
    fn no_backup_is_made_in_the_folder_that_it_is_of() {
        let folder = tempfile::tempdir().unwrap();
        let (data, beside) = (folder.path().join("data"), folder.path().join("data-backup"));
        fs::create_dir_all(data.join("store")).unwrap();
        symlink(&data, folder.path().join("link")).unwrap();
        symlink("data/store", folder.path().join("deep")).unwrap();
        for within in
            ["data", "data/", "data/x/y", "data/../data/x", "link/x", "deep/../x", "new/../data/x"]
        {
            let to = folder.path().join(within);
            let said = refuse_within(&to, &data).unwrap_err().to_string();
            assert!(said.contains(&format!("{} lies in the data folder", to.display())), "{said}");
            // By whatever name the data folder goes.
            assert!(refuse_within(&to, &folder.path().join("link")).is_err(), "{within}");
        }
        for elsewhere in
            ["", "x", "data-backup", "data/../x", "link/../x", "new/../x", "deep/../../x"]
        {
            let to = folder.path().join(elsewhere);
            assert!(refuse_within(&to, &data).is_ok(), "{elsewhere}");
        }
        assert!(!beside.exists() && !folder.path().join("new").exists(), "nothing is made");
        assert!(refuse_within("x".as_ref(), &data).is_ok());
        assert!(refuse_within("x".as_ref(), ".".as_ref()).is_err());
    }

    #[test]
    fn chunks_have_names_that_sort_and_nothing_else_has() {
        assert_eq!(
            (chunk_name(1), chunk_name(1_234_567)),
            ("chunk-000001".into(), "chunk-1234567".into())
        );
        for number in [0, 1, 999_999, 1_000_000, u32::MAX] {
            assert_eq!(chunk_number(&chunk_name(number)), Some(number));
        }
        for name in ["chunk-1", "chunk-0000001", "chunk-+00001", "chunk-", "chunk-00000x", "x"] {
            assert_eq!(chunk_number(name), None, "{name}");
        }
    }
}
