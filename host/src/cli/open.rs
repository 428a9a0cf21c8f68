//! Opening a vault on its folder, for whatever command.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Failure, folder};
use crate::clock::SystemClock;
use crate::config::Settings;
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::keys::RootKey;
use crate::egress::{Egress, EgressConfig, StandIn};
use crate::limits::{OPENED_BYTES_MAX, REACT_TIMEOUT_MS};
use crate::runtime::{CacheConfig, CompileBounds, Compiler, Runtime, RuntimeConfig};
use crate::store::sled::{SledStore, remedy};
use crate::vault::{Foundation, READ_LATER, Vault};

/// Makes a data folder that only its owner may enter; one that is there stays as its operator made it, if not everybody
/// may write to it.
pub fn make_folder(data: &Path) -> Result<(), Failure> {
    make_durable_folder(data).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => format!("the data folder, {}, is no folder", data.display()),
        kind => {
            let (data, remedy) = (data.display(), remedy(kind));
            format!("the data folder, {data}, cannot be made: {error}{remedy}")
        }
    })?;
    folder::refuse_open(data)
}

/// Makes a folder with those around it, and brings their names to the disk.
pub fn make_durable_folder(folder: &Path) -> io::Result<()> {
    let made = folder::missing(folder);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    made.iter().try_for_each(|made| {
        let around = made.parent().filter(|around| !around.as_os_str().is_empty());
        File::open(around.unwrap_or(Path::new(".")))?.sync_all()
    })
}

/// Refuses a data folder in which there is no store: opening it would make one.
pub fn refuse_without_store(data: &Path) -> Result<(), Failure> {
    let store = data.join("store");
    match folder::holds_store(&store) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let remedy = remedy(error.kind());
            Err(format!("{}: {error}{remedy}", store.display()).into())
        }
        _ => Err(format!("there is no store in {}", data.display()).into()),
    }
}

/// The program that is running, also after an upgrade has put another one in its place: a process that compiles must be
/// of the engine that loads what it made.
pub fn own_program() -> std::io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}

/// Opens the vault in the settings' folder.
pub async fn open(settings: &Settings, root_key: RootKey) -> Result<Vault, Failure> {
    make_folder(&settings.data_dir)?;
    folder::refuse_unrestored(&settings.data_dir)?;
    let store = settings.data_dir.join("store");
    // One without it may be where the store's disk is to be mounted.
    if !store.exists() || folder::holds_store(&store).is_ok_and(|holds| !holds) {
        if let Ok(target) = store.read_link() {
            let why = if store.exists() {
                "where there is no store: mount the disk that has it, or, to begin a new one, remove the link"
            } else {
                "which is not there"
            };
            let (store, target) = (store.display(), target.display());
            return Err(format!("{store} is a link to {target}, {why}").into());
        }
        folder::refuse_store(&settings.data_dir)?;
        folder::refuse_left(&settings.data_dir)?;
        let folder = settings.data_dir.display();
        tracing::info!(%folder, "there is no vault: a new one is begun");
    }
    open_on(&store, settings, root_key).await
}

/// The same with the store in a folder of its own; what is compiled still goes to the settings' one. What this process
/// makes from then on is for its user alone, and in the folder of another user it makes nothing.
pub async fn open_on(
    store_folder: &Path,
    settings: &Settings,
    root_key: RootKey,
) -> Result<Vault, Failure> {
    folder::refuse_to_root(&settings.data_dir)?;
    folder::keep_to_ourselves();
    open_for(store_folder, settings, root_key, None).await
}

/// What a vault for one author does otherwise.
#[derive(Clone, Default)]
pub struct ForAuthor {
    /// Time of a run that is waited for.
    pub timeout_ms: Option<u64>,
    /// Who answers in place of other hosts.
    pub stand_in: Option<Arc<dyn StandIn>>,
}

/// The same for one author, whose machine is at work on other things too: long runs take their share of it.
pub async fn open_for_author(
    store_folder: &Path,
    settings: &Settings,
    root_key: RootKey,
    author: ForAuthor,
) -> Result<Vault, Failure> {
    open_for(store_folder, settings, root_key, Some(author)).await
}

async fn open_for(
    store_folder: &Path,
    settings: &Settings,
    root_key: RootKey,
    author: Option<ForAuthor>,
) -> Result<Vault, Failure> {
    let cache_bytes = settings.cache_mb << 20;
    let store = SledStore::open_reading_later(store_folder, cache_bytes, READ_LATER)?;
    let cache = CacheConfig {
        folder: settings.data_dir.join(folder::COMPILED),
        key: CacheConfig::key_of(&root_key),
        bytes_max: settings.compiled_cache_mb << 20,
        alone: store_folder == settings.data_dir.join("store"),
    };
    let sandbox = RuntimeConfig {
        slots: settings.reactor_slots,
        slots_per_owner: settings.reactor_slots_per_tenant,
        queue_per_owner: settings.reactor_queue_per_tenant,
        compiler: Compiler::Process { program: own_program()?, bounds: CompileBounds::default() },
        cache: Some(cache),
        memory_bytes: settings.memory.reactors_mb << 20,
        long_runs_stand_back: author.is_none(),
    };
    let ForAuthor { timeout_ms, stand_in } = author.unwrap_or_default();
    let foundation = Foundation {
        store: Arc::new(store),
        runtime: Runtime::new(sandbox)?,
        egress: Egress::new(EgressConfig {
            allow_private_networks: settings.allow_private_networks,
            allow_networks: settings.allow_networks.clone(),
        })?,
        stand_in,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::new()?),
        root_key,
        fuel_per_ms: settings.reactor_fuel_per_ms,
        react_timeout_ms: timeout_ms.unwrap_or(REACT_TIMEOUT_MS),
        allow_http_callbacks: settings.allow_http_callbacks,
        jobs: settings.jobs,
        programs_bytes_max: settings.memory.programs_mb << 20,
        opened_bytes_max: OPENED_BYTES_MAX,
    };
    let vault = Vault::open(foundation).await?;
    vault.keep_log_for_days(settings.log_retention_days);
    Ok(vault)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{make_folder, refuse_without_store};

    #[test]
    fn a_folder_without_a_store_is_told_from_one_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let said = |data: &std::path::Path| refuse_without_store(data).err().map(|e| e.to_string());
        let none = Some(format!("there is no store in {}", data.display()));
        assert_eq!(said(&data), none);
        fs::create_dir_all(data.join("store")).unwrap();
        assert_eq!(said(&data), none);
        fs::write(data.join("store/lock"), "").unwrap();
        assert_eq!(said(&data), none);
        fs::write(data.join("store/journal"), "").unwrap();
        assert_eq!(said(&data), None);
        // What is no folder is named.
        let file = data.join("store/lock");
        assert!(said(&file).unwrap().starts_with(&format!("{}/store: ", file.display())));
        let said = make_folder(&file).unwrap_err().to_string();
        assert_eq!(said, format!("the data folder, {}, is no folder", file.display()));
    }
}
