//! `tokamak restore`: a vault from a backup, into a folder that has nothing.
//!
//! The store is made under another name, looked through as `verify` does, and gets its name last. Exit codes: 0 when it is
//! restored and sound, 1 when it is restored and something was damaged already when the backup was made, 2 when it is not
//! restored. Runs that the backup holds and that had not ended are ended: they may have run since.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::backup::{MANIFEST, chunk_name, chunk_number, read_bounded};
use super::ends::{self, Ends};
use super::folder::{self, COMPILED, RESTORING};
use super::open::{self, make_folder};
use super::verify::{DAMAGED, NOT_LOOKED_AT, is_full, summary, walking};
use super::{Failure, counted, logging, root_key, say, say_error, serve};
use crate::config::{Options, Settings};
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::keys::RootKey;
use crate::http::control::SOCKET;
use crate::runtime::close_to_others;
use crate::store::StoreError;
use crate::store::sled::{Fresh, Inspection};
use crate::vault::{
    BackupError, CHUNK_FILE_BYTES_MAX, Damaged, MANIFEST_BYTES_MAX, Manifest, Reader, Verified,
    verify,
};

/// The store's name in the data folder.
const STORE: &str = "store";
/// What is said by a process that was told to end.
const TOLD: &str = "restore was told to end before the vault was there: nothing is restored";

/// Options of `restore`.
#[derive(Debug, Args)]
pub struct RestoreOptions {
    /// The folder with the backup.
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(options: RestoreOptions) -> ExitCode {
    let json = options.json;
    match walking(json, "the store could not be made", |tell| restore(options, tell)) {
        (Err(error), _) => {
            say_error(&error);
            if json {
                say(json!({"restored": null, "error": error.to_string()}));
            }
            ExitCode::from(NOT_LOOKED_AT)
        }
        (Ok(Restored { manifest, verified, runs }), listed) => {
            let sound = verified.damaged == 0;
            if json {
                let told = json!({
                    "restored": manifest, "sound": sound, "looked_at": verified, "damaged": listed,
                    "runs_interrupted": runs,
                });
                say(told);
            } else {
                let Manifest { created_at, rows, .. } = manifest;
                let rows = counted(rows, "row", "rows");
                say(format_args!("The vault as it was at {created_at} is restored: {rows}."));
                say(summary(&verified));
                say(about_runs(runs));
            }
            if sound { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) }
        }
    }
}

/// What was restored.
struct Restored {
    manifest: Manifest,
    verified: Verified,
    /// Runs that were ended; `None` when the vault is so damaged that it cannot be told.
    runs: Option<usize>,
}

fn restore(options: RestoreOptions, tell: &mut dyn FnMut(Damaged)) -> Result<Restored, Failure> {
    let RestoreOptions { from, options, .. } = options;
    let settings = options.settle()?;
    logging::start("error", settings.log_format)?;
    close_to_others()?;
    let root_key = root_key::read(&settings.root_key_source()?)?;
    // A folder that is not there holds no backup that could be incomplete.
    drop(fs::read_dir(&from).map_err(|error| format!("{}: {error}", from.display()))?);
    let manifest = read_bounded(&from.join(MANIFEST), MANIFEST_BYTES_MAX)?;
    let manifest = manifest.ok_or_else(|| told(&from, &BackupError::Absent))?;
    let reader = Reader::open(&manifest, &root_key).map_err(|error| told(&from, &error))?;
    none_too_many(&from, reader.manifest().chunks)?;
    let is_same =
        fs::canonicalize(&from)? == fs::canonicalize(&settings.data_dir).unwrap_or_default();
    if is_same {
        let folder = settings.data_dir.display();
        return Err(format!("{folder} is the backup: name another folder for the vault").into());
    }
    folder::refuse_to_root(&settings.data_dir)?;
    folder::keep_to_ourselves();
    let ends = Ends::begin()?;
    let building = Building::begin(&settings.data_dir)?;
    ends.remove(building.0.clone(), building.1.clone(), TOLD)?;
    // As long as what was made is there.
    let made = build(&from, reader, (&building, root_key), &settings, tell);
    let restored = made.map_err(|error| about_space(error, &settings.data_dir))?;
    building.finish(&settings.data_dir)?;
    Ok(restored)
}

/// Makes the store, checks it, and ends what was under way in it.
fn build(
    from: &Path,
    reader: Reader,
    (building, root_key): (&Building, RootKey),
    settings: &Settings,
    tell: &mut dyn FnMut(Damaged),
) -> Result<Restored, Failure> {
    let manifest = fill(from, reader, &building.0, settings)?;
    let verified = {
        let store = Inspection::open(&building.0, settings.cache_mb << 20)?;
        verify(&store, &root_key, Arc::new(SystemEntropy::new()?), &[], tell)?
    };
    let runs = match end_runs(&building.0, settings, root_key) {
        Ok(runs) => Some(runs),
        // No server opens it as it is.
        Err(_) if verified.damaged > 0 => None,
        Err(error) => return Err(error),
    };
    Fresh::settle(&building.0)?;
    Ok(Restored { manifest, verified, runs })
}

/// Ends the runs that were waiting or under way when the backup was made; gives how many there were.
fn end_runs(store: &Path, settings: &Settings, root_key: RootKey) -> Result<usize, Failure> {
    serve::block_on(async {
        let vault = open::open_on(store, settings, root_key).await?;
        let ended = vault.end_restored_jobs().await;
        vault.close();
        Ok(ended?)
    })
}

fn about_runs(runs: Option<usize>) -> String {
    match runs {
        None => "runs that waited could not be ended: the vault does not open".to_owned(),
        Some(0) => "no run was waiting or under way".to_owned(),
        Some(runs) => format!(
            "{} waiting or under way and ended as interrupted, since what was not over may have run after the backup \
            was made",
            counted(runs, "run was", "runs were")
        ),
    }
}

/// A failure to write for want of space, in plain words.
fn about_space(error: Failure, data: &Path) -> Failure {
    let is_of_writing = error.downcast_ref::<StoreError>().is_some()
        || error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::StorageFull);
    if is_of_writing && is_full(data) {
        return format!("the disk of {} is full: the vault needs more space", data.display())
            .into();
    }
    error
}

fn told(from: &Path, error: &BackupError) -> Failure {
    format!("{}: {error}", from.display()).into()
}

/// Makes the store's rows of all chunks.
fn fill(
    from: &Path,
    mut reader: Reader,
    folder: &Path,
    settings: &Settings,
) -> Result<Manifest, Failure> {
    let mut store = Fresh::begin(folder, settings.cache_mb << 20)?;
    for number in 1..=reader.manifest().chunks {
        let path = from.join(chunk_name(number));
        let chunk = read_bounded(&path, CHUNK_FILE_BYTES_MAX)?;
        let chunk = chunk.ok_or_else(|| format!("{} is missing", path.display()))?;
        store.put(reader.read(&chunk).map_err(|error| told(from, &error))?)?;
    }
    let manifest = reader.finish().map_err(|error| told(from, &error))?;
    store.finish()?;
    Ok(manifest)
}

/// Refuses chunks that the manifest does not tell of.
fn none_too_many(from: &Path, chunks: u32) -> Result<(), Failure> {
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(chunk_number);
        if number.is_some_and(|number| number == 0 || number > chunks) {
            let path = from.join(name);
            return Err(format!("{} is no chunk of this backup", path.display()).into());
        }
    }
    Ok(())
}

/// A store that is being made, removed unless it comes to its end, with the folders that were made for it. Nobody else
/// restores into its folder meanwhile.
struct Building(PathBuf, Vec<PathBuf>, File);

impl Building {
    /// Takes a data folder that has nothing, or nothing but what an earlier restore left, or a server whose store is gone.
    fn begin(data: &Path) -> Result<Self, Failure> {
        let named = |error: std::io::Error| format!("{}: {error}", data.display());
        let made = folder::missing(data);
        make_folder(data)?;
        let ours = File::open(data).map_err(named)?;
        match ours.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("another restore into {} is under way", data.display()).into());
            }
            Err(TryLockError::Error(error)) => return Err(named(error).into()),
        }
        for entry in fs::read_dir(data).map_err(named)? {
            let name = entry.map_err(named)?.file_name();
            if ![RESTORING, COMPILED, SOCKET].iter().any(|left| name == *left) {
                return Err(format!("{} is not empty", data.display()).into());
            }
        }
        let store = data.join(RESTORING);
        match fs::remove_dir_all(&store) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(named(error).into()),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&store).map_err(named)?;
        Ok(Self(store, made, ours))
    }

    /// Gives the store its name.
    fn finish(self, data: &Path) -> Result<(), Failure> {
        ends::keep();
        fs::rename(&self.0, data.join(STORE))?;
        self.2.sync_all()?;
        Ok(())
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // Nothing is there under this name once it is finished, and the folders around it are not empty then.
        let _ = fs::remove_dir_all(&self.0);
        let _ = self.1.iter().try_for_each(fs::remove_dir);
    }
}
