//! `tokamak backup`: everything in the vault to a folder. A running server gives it over its socket; without one, this
//! process reads the store itself.
//!
//! The manifest is written last. A folder without one holds a backup that did not come to its end. A note there says which
//! one that is: the server that gave it goes on with it as long as it keeps what it reads from. Otherwise another one to the
//! same folder begins anew, since it is of another moment; so does every one that this process read itself.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::control::Server;
use super::serve::refuse_without_store;
use super::tenant::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::http::control::{Begun, read_begun, read_frame};
use crate::vault::{Manifest, Piece};

/// The name of the file that makes a backup whole.
pub const MANIFEST: &str = "manifest.json";
/// The name of the note that says which backup it is, until it is whole.
const NOTE: &str = "unfinished.json";
/// The name of each file while it is written.
const BESIDE: &str = "file.new";
/// That name in earlier versions.
const BESIDE_BEFORE: &str = "manifest.new";
const CHUNK_PREFIX: &str = "chunk-";

/// Options of `backup`.
#[derive(Debug, Args)]
pub struct BackupOptions {
    /// The folder to write to: a new or an empty one, or one with a backup that did not come to its end.
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
    let BackupOptions { to, json, options } = command;
    let data = options.clone().settle()?.data_dir;
    let server = Server::find(&data)?;
    // Before the other folder is made.
    if server.is_none() {
        refuse_without_store(&data)?;
    }
    let (target, begun) = Target::find(&to)?;
    let tell = |what: &str| {
        if !json {
            say(format_args!("{} holds a backup that is incomplete: {what}.", to.display()));
        }
    };
    let manifest = if let Some(server) = server {
        let mut frames = server.stream("POST", "/backup", &begun.filter(|it| it.chunks > 0))?;
        let now = read_begun(&mut frames)?;
        if now.chunks > 0 && Some(now) == begun {
            tell(&format!("it is gone on with behind chunk {}", now.chunks));
        } else {
            target.clear(|| tell("it is begun anew"))?;
            target.note(now)?;
        }
        target.fill(now.chunks, || Ok(read_frame(&mut frames)?))?
    } else {
        target.clear(|| tell("it is begun anew"))?;
        let mut written = None;
        with_vault(options, async |vault| {
            let mut backup = vault.backup().await?;
            written = Some(target.fill(0, || Ok(backup.next_piece()?))?);
            Ok(())
        })?;
        written.ok_or(CUT_SHORT)?
    };
    if json {
        say(serde_json::to_string(&manifest)?);
    } else {
        let Manifest { chunks, rows, created_at, root_key_id, .. } = manifest;
        say(format_args!(
            "The vault as it was at {created_at} is in {}: {rows} rows in {chunks} chunks. To \
            restore it takes the root key that counts now, {root_key_id}.",
            to.display()
        ));
    }
    Ok(())
}

const CUT_SHORT: &str = "the backup ended before it was whole; see the server's log";

/// The file of a chunk.
pub fn chunk_name(number: u32) -> String {
    format!("{CHUNK_PREFIX}{number:06}")
}

/// The number of a chunk's file.
pub fn chunk_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(CHUNK_PREFIX)?.parse().ok()?;
    (chunk_name(number) == name).then_some(number)
}

/// A folder that a backup is written to.
struct Target(PathBuf);

impl Target {
    /// Takes a folder that has nothing, or nothing but an unfinished backup. Gives which one that is and how many chunks of
    /// it are there, from the first one on.
    fn find(folder: &Path) -> Result<(Self, Option<Begun>), Failure> {
        let named = |error: io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named)?;
        let (target, mut numbers) = (Self(folder.to_owned()), Vec::new());
        for name in target.names().map_err(named)? {
            if name == MANIFEST {
                return Err(format!("{} holds a backup already", folder.display()).into());
            }
            match chunk_number(&name) {
                Some(number) => numbers.push(number),
                None if [NOTE, BESIDE, BESIDE_BEFORE].contains(&name.as_str()) => {}
                None => return Err(format!("{} is not empty", folder.display()).into()),
            }
        }
        numbers.sort_unstable();
        let there = (1..).zip(&numbers).take_while(|(expected, number)| expected == *number);
        let chunks = there.last().map_or(0, |(number, _)| number);
        let note = fs::read(folder.join(NOTE)).ok();
        let begun = note.and_then(|note| serde_json::from_slice::<Begun>(&note).ok());
        Ok((target, begun.map(|begun| Begun { chunks, ..begun })))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name()));
        names.map(|name| name.map(|name| name.to_string_lossy().into_owned())).collect()
    }

    /// Removes what an unfinished backup left; tells, if it did.
    fn clear(&self, tell: impl FnOnce()) -> io::Result<()> {
        let names = self.names()?;
        if names.iter().any(|name| name == MANIFEST) {
            // Another command finished one there meanwhile.
            return Err(io::Error::other("the folder holds a backup already"));
        }
        if !names.is_empty() {
            tell();
        }
        names.iter().try_for_each(|name| fs::remove_file(self.0.join(name)))
    }

    /// Notes which backup this is.
    fn note(&self, begun: Begun) -> Result<(), Failure> {
        self.write(NOTE, &serde_json::to_vec(&begun)?)
    }

    /// Writes pieces until the last; so many chunks are there. Everything is on the disk once that has its name.
    fn fill(
        &self,
        mut number: u32,
        mut next: impl FnMut() -> Result<Option<Piece>, Failure>,
    ) -> Result<Manifest, Failure> {
        loop {
            match next()?.ok_or(CUT_SHORT)? {
                Piece::Chunk(chunk) => {
                    number = number.checked_add(1).ok_or("there are too many chunks")?;
                    self.write(&chunk_name(number), &chunk)?;
                }
                Piece::Manifest(text) => {
                    let manifest: Manifest = serde_json::from_slice(&text)?;
                    if manifest.chunks != number {
                        return Err("the backup lacks chunks: make another one".into());
                    }
                    // Chunks behind a gap, which a power cut can leave.
                    for name in self.names()? {
                        let behind = chunk_number(&name).is_some_and(|one| one > number);
                        if behind || [NOTE, BESIDE_BEFORE].contains(&name.as_str()) {
                            fs::remove_file(self.0.join(name))?;
                        }
                    }
                    // The names of all chunks before the name that makes them a backup.
                    self.sync()?;
                    self.write(MANIFEST, &text)?;
                    self.sync()?;
                    return Ok(manifest);
                }
            }
        }
    }

    /// Writes a file that has its name once it is whole on the disk.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let (path, beside) = (self.0.join(name), self.0.join(BESIDE));
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let written = file.and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        });
        written.map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()?;
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uuid::Uuid;

    use super::{Begun, Target, chunk_name, chunk_number};
    use crate::vault::Piece;

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

    #[test]
    fn only_an_empty_folder_or_what_an_unfinished_backup_left_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a/b");
        let (target, begun) = Target::find(&to).unwrap();
        assert_eq!(begun, None);
        target.clear(|| panic!("nothing was there")).unwrap();
        let mut pieces = vec![Piece::Chunk(vec![2]), Piece::Chunk(vec![1])];
        let error = target.fill(0, || Ok(pieces.pop())).unwrap_err();
        assert!(error.to_string().contains("before it was whole"), "{error}");
        assert_eq!(fs::read(to.join("chunk-000002")).unwrap(), [2]);
        // Nobody knows which backup that was.
        let (target, begun) = Target::find(&to).unwrap();
        assert_eq!(begun, None);
        let mut told = false;
        target.clear(|| told = true).unwrap();
        assert!(told);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
        fs::write(to.join("chunk-000001"), "").unwrap();
        fs::write(to.join("notes"), "").unwrap();
        assert!(Target::find(&to).is_err());
        fs::rename(to.join("notes"), to.join("manifest.json")).unwrap();
        assert!(Target::find(&to).is_err());
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
    }

    #[test]
    fn what_a_note_tells_of_is_there_up_to_the_first_gap() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a");
        let (target, _) = Target::find(&to).unwrap();
        let id = Uuid::from_u128(5);
        target.note(Begun { id, chunks: 0 }).unwrap();
        let chunks = || Target::find(&to).unwrap().1.map(|begun| (begun.id, begun.chunks));
        assert_eq!(chunks(), Some((id, 0)));
        let mut pieces = (1..6).rev().map(|number| Piece::Chunk(vec![number])).collect::<Vec<_>>();
        target.fill(0, || Ok(pieces.pop())).unwrap_err();
        assert_eq!(chunks(), Some((id, 5)));
        fs::remove_file(to.join("chunk-000004")).unwrap();
        // A file that was being written is no chunk.
        fs::write(to.join("file.new"), "half").unwrap();
        assert_eq!(chunks(), Some((id, 3)));
        let mut pieces = vec![Piece::Chunk(vec![40])];
        target.fill(3, || Ok(pieces.pop())).unwrap_err();
        assert_eq!(fs::read(to.join("chunk-000004")).unwrap(), [40]);
        assert_eq!(chunks(), Some((id, 5)));
        for text in ["", "{}", "{\"id\":7}"] {
            fs::write(to.join("unfinished.json"), text).unwrap();
            assert_eq!(chunks(), None, "{text}");
        }
    }
}
