//! `tokamak backup`: everything in the vault to a folder. A running server gives it over its socket; without one, this
//! process reads the store itself.
//!
//! The manifest is written last. A folder without one holds a backup that did not come to its end: another one to the
//! same folder begins anew, since what the server read from is gone with the connection.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::control::Server;
use super::tenant::with_vault;
use super::{Failure, say};
use crate::config::Options;
use crate::http::control::read_frame;
use crate::vault::{Manifest, Piece};

/// The name of the file that makes a backup whole.
pub const MANIFEST: &str = "manifest.json";
/// Its name while it is written.
const BESIDE: &str = "manifest.new";
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
    if server.is_none() && !data.join("store").exists() {
        return Err(format!("there is no store in {}", data.display()).into());
    }
    let target = Target::prepare(&to, json)?;
    let manifest = if let Some(server) = server {
        let mut frames = server.stream("POST", "/backup")?;
        target.fill(|| Ok(read_frame(&mut frames)?))?
    } else {
        let mut written = None;
        with_vault(options, async |vault| {
            let mut backup = vault.backup().await?;
            written = Some(target.fill(|| Ok(backup.next_piece()?))?);
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
    /// Takes a folder that has nothing, or nothing but an unfinished backup.
    fn prepare(folder: &Path, quiet: bool) -> Result<Self, Failure> {
        let named = |error: io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named)?;
        let mut left = Vec::new();
        for entry in fs::read_dir(folder).map_err(named)? {
            let entry = entry.map_err(named)?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            if name == MANIFEST {
                return Err(format!("{} holds a backup already", folder.display()).into());
            }
            if name != BESIDE && chunk_number(name).is_none() {
                return Err(format!("{} is not empty", folder.display()).into());
            }
            left.push(entry.path());
        }
        if !left.is_empty() && !quiet {
            let folder = folder.display();
            say(format_args!("{folder} holds a backup that is incomplete: it is begun anew."));
        }
        for path in left {
            fs::remove_file(path).map_err(named)?;
        }
        Ok(Self(folder.to_owned()))
    }

    /// Writes pieces until the last. Everything is on the disk once that has its name.
    fn fill(
        &self,
        mut next: impl FnMut() -> Result<Option<Piece>, Failure>,
    ) -> Result<Manifest, Failure> {
        let mut number = 0_u32;
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
                    self.write(BESIDE, &text)?;
                    // The names of all chunks before the name that makes them a backup.
                    self.sync()?;
                    fs::rename(self.0.join(BESIDE), self.0.join(MANIFEST))?;
                    self.sync()?;
                    return Ok(manifest);
                }
            }
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.0.join(name);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
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

    use super::{Target, chunk_name, chunk_number};
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
        let target = Target::prepare(&to, true).unwrap();
        let mut pieces = vec![Piece::Chunk(vec![2]), Piece::Chunk(vec![1])];
        let error = target.fill(|| Ok(pieces.pop())).unwrap_err();
        assert!(error.to_string().contains("before it was whole"), "{error}");
        assert_eq!(fs::read(to.join("chunk-000002")).unwrap(), [2]);
        Target::prepare(&to, true).unwrap();
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
        fs::write(to.join("chunk-000001"), "").unwrap();
        fs::write(to.join("notes"), "").unwrap();
        assert!(Target::prepare(&to, true).is_err());
        fs::rename(to.join("notes"), to.join("manifest.json")).unwrap();
        assert!(Target::prepare(&to, true).is_err());
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
    }
}
