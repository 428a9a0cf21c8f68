//! `tokamak serve`, and what `dev` and the other commands share with it: opening a vault on its folder.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use super::stop::Stop;
use super::{
    Failure, announce, certificate, confine, descriptors, disk, folder, logging, root_key,
};
use crate::clock::{Clock, SystemClock};
use crate::config::{LogFormat, Options, Settings, bootstrap_key};
use crate::crypto::api_key::ApiKey;
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::keys::RootKey;
use crate::egress::{Egress, EgressConfig, collector_client};
use crate::http::control::{Control, SOCKET, compact_forever};
use crate::http::{Bounds, Parts, Rates, Scrapers, Serving, State, Stopping, Tls};
use crate::limits::{OPENED_BYTES_MAX, REACT_TIMEOUT_MS};
use crate::model::permission::ApplicationType;
use crate::runtime::{
    CacheConfig, CompileBounds, Compiler, Runtime, RuntimeConfig, close_to_others,
};
use crate::store::sled::{SledStore, remedy};
use crate::traces::Traces;
use crate::vault::{Foundation, NewTenant, READ_LATER, Vault};

/// Connections that the kernel keeps until they are taken.
const BACKLOG: u32 = 1_024;

/// How long a process that ends leaves its threads to finish what they are at.
const LEFT_TO_THREADS: Duration = Duration::from_secs(1);
/// Random characters of a key that an operator chooses, fewest: 22 of 62 hold 128 bits (decisions §2).
const RANDOM_CHARS_MIN: usize = 22;
/// And most: a key of more than 128 characters in all opens nothing.
const RANDOM_CHARS_MAX: usize = 120;

/// Runs the server until it is told to stop.
pub fn run(options: Options) -> Result<(), Failure> {
    logging::expect(options.log_format);
    let settings = options.settle()?;
    let traces = logging::start_with_traces(&settings)?;
    close_to_others()?;
    let (stop, keys) = Stop::before(|| {
        let root_key = root_key::read(&settings.root_key_source()?)?;
        let keys = (root_key, first_key()?, certificate::load(&settings)?);
        make_folder(&settings.data_dir)?;
        folder::refuse_to_root(&settings.data_dir)?;
        folder::warn_of_others(&settings.data_dir)?;
        Ok(keys)
    })?;
    // From here on every thread begins confined.
    confine::confine(&settings)?;
    logging::write_apart()?;
    traced(&settings, traces, || serve_a_vault(&settings, keys, stop))
}

fn serve_a_vault(
    settings: &Settings,
    (root_key, key, tls): (RootKey, Option<ApiKey>, Option<Tls>),
    stop: Stop,
) -> Result<(), Failure> {
    let (format, scheme) = (settings.log_format, if tls.is_some() { "https" } else { "http" });
    let served = block_on(async {
        let address = bind(settings.listen)?;
        let (stop, vault) = stop.during(Box::pin(open(settings, root_key))).await?;
        bootstrap(&vault, key, format).await?;
        // Not before it can answer: whoever only looks whether it listens would take it for ready.
        let listener = address.listen(BACKLOG);
        let listener = listener.map_err(|error| not_to_be_had(settings.listen, &error))?;
        let listening = |address| announce::listening(format, scheme, address);
        serve(settings, (listener, stop), vault, tls, listening).await
    });
    served.map_err(|error| disk::about(error, &settings.data_dir))
}

/// Takes the address, before anything else: who finds it taken begins no vault and spends no key.
fn bind(address: SocketAddr) -> Result<TcpSocket, Failure> {
    let taken = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // What an earlier process has left of its connections does not keep the address from this one.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    taken().map_err(|error| not_to_be_had(address, &error))
}

/// Makes the first tenant, if there is none. Nothing ends the process meanwhile: a key that is made is told.
async fn bootstrap(vault: &Vault, key: Option<ApiKey>, format: LogFormat) -> Result<(), Failure> {
    let given = key.is_some();
    if let Some(NewTenant { tenant, management_key }) = vault.bootstrap(key).await? {
        announce::first_tenant(format, &tenant, (!given).then_some(&management_key));
    } else if vault.tenants().await?.is_empty() {
        tracing::warn!(
            "there is no tenant any more: the last one was erased; `tokamak tenant create` makes another"
        );
    } else if given {
        tracing::info!(
            "TOKAMAK_BOOTSTRAP_KEY is ignored: it is for the first tenant, which there is already"
        );
    }
    Ok(())
}

/// Serves while traces are sent, and sends what is left of them in the end.
pub fn traced(
    settings: &Settings,
    traces: Option<Traces>,
    serves: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (Some(traces), Some(export)) = (traces, &settings.traces) else { return serves() };
    traces.export_to(&export.endpoint, collector_client()?)?;
    let outcome = serves();
    traces.finish();
    outcome
}

/// The key that the first management application is to have, if the operator chose one. One that opens nothing, or that
/// could be guessed, is refused before anything is made with it.
fn first_key() -> Result<Option<ApiKey>, Failure> {
    let Some(text) = bootstrap_key()? else { return Ok(None) };
    if !is_management_key(&text) {
        let tag = ApplicationType::Management.key_tag();
        let message = format!(
            "TOKAMAK_BOOTSTRAP_KEY must be key_{tag}_ and \
            {RANDOM_CHARS_MIN} to {RANDOM_CHARS_MAX} random letters and digits"
        );
        return Err(message.into());
    }
    Ok(Some(ApiKey::given(text.to_string())))
}

/// Whether a text has the form of a management application's key.
fn is_management_key(text: &str) -> bool {
    let random = text
        .strip_prefix("key_")
        .and_then(|rest| rest.strip_prefix(ApplicationType::Management.key_tag()))
        .and_then(|rest| rest.strip_prefix('_'));
    random.is_some_and(|random| {
        (RANDOM_CHARS_MIN..=RANDOM_CHARS_MAX).contains(&random.len())
            && random.bytes().all(|c| c.is_ascii_alphanumeric())
    })
}

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

/// Runs a command on the threads that everything runs on. Once it has ended nobody waits for what a thread is still
/// busy with, such as compiling.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(LEFT_TO_THREADS);
    outcome
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
            let (store, target) = (store.display(), target.display());
            return Err(format!("{store} is a link to {target}, which is not there").into());
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
    open_for(store_folder, settings, root_key, true).await
}

/// The same for one author, whose machine is at work on other things too: long runs take their share of it.
pub async fn open_for_author(
    store_folder: &Path,
    settings: &Settings,
    root_key: RootKey,
) -> Result<Vault, Failure> {
    open_for(store_folder, settings, root_key, false).await
}

async fn open_for(
    store_folder: &Path,
    settings: &Settings,
    root_key: RootKey,
    long_runs_stand_back: bool,
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
        long_runs_stand_back,
    };
    let foundation = Foundation {
        store: Arc::new(store),
        runtime: Runtime::new(sandbox)?,
        egress: Egress::new(EgressConfig {
            allow_private_networks: settings.allow_private_networks,
            allow_networks: settings.allow_networks.clone(),
        })?,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::new()?),
        root_key,
        fuel_per_ms: settings.reactor_fuel_per_ms,
        react_timeout_ms: REACT_TIMEOUT_MS,
        allow_http_callbacks: settings.allow_http_callbacks,
        jobs: settings.jobs,
        programs_bytes_max: settings.memory.programs_mb << 20,
        opened_bytes_max: OPENED_BYTES_MAX,
    };
    let vault = Vault::open(foundation).await?;
    vault.keep_log_for_days(settings.log_retention_days);
    Ok(vault)
}

/// Why an address cannot be listened on, and what to do.
pub fn not_to_be_had(address: SocketAddr, error: &std::io::Error) -> Failure {
    format!("cannot listen on {address}: {error}; --listen ADDRESS names another one").into()
}

/// Serves until SIGTERM or SIGINT; `listening` is told the address.
pub async fn serve(
    settings: &Settings,
    (listener, mut stop): (TcpListener, Stop),
    vault: Vault,
    tls: Option<Tls>,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let files_max = descriptors::raise_limit();
    let stop = async move {
        stop.told().await;
        tracing::info!("stopping");
    };
    // The first run of a formula that ships with the product is not to wait for its compilation.
    let ready = vault.clone();
    tokio::spawn(async move { ready.compile_official().await });
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let rates = Rates::new(&settings.rates, &clock);
    let control = Control::bind(&settings.data_dir).map_err(|error| {
        let (path, remedy) = (settings.data_dir.join(SOCKET), remedy(error.kind()));
        format!("{} cannot be made: {error}{remedy}", path.display())
    })?;
    let control = tokio::spawn(control.serve(vault.clone()));
    let compacting = tokio::spawn(compact_forever(vault.clone(), settings.compact_seconds));
    // Whoever is told that it listens may send it any signal that it takes.
    certificate::keep_fresh(tls.clone())?;
    listening(listener.local_addr()?);
    let scrapers = Scrapers::new(&settings.metrics_networks);
    let stopping = Stopping::default();
    let state = State::from(Parts { vault, stopping, rates, scrapers });
    let bounds = bounds(settings, files_max);
    let serving = Serving { bounds, tls, no_console: settings.no_console, sweep_every: None };
    let served = crate::http::serve_with(listener, state, serving, stop).await;
    control.abort();
    compacting.abort();
    Ok(served?)
}

/// The bounds of connections, which leave half of the files that may be open to everything else.
fn bounds(settings: &Settings, files_max: Option<u64>) -> Bounds {
    let half =
        files_max.map_or(usize::MAX, |files| usize::try_from(files / 2).unwrap_or(usize::MAX));
    Bounds { connections_max: settings.safety.connections_max.min(half), ..Bounds::default() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{is_management_key, make_folder, refuse_without_store};

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

    #[test]
    fn keys_that_open_nothing_or_could_be_guessed_are_told_apart() {
        let random = "0123456789abcdefghijABCDEFGHIJ01";
        for length in [22, 32, 120] {
            let key = format!("key_mgt_{}", "x".repeat(length));
            assert!(is_management_key(&key), "{key}");
        }
        let wrong = [
            String::new(),
            "a".to_owned(),
            random.to_owned(),
            "key_mgt_".to_owned(),
            format!("key_mgt_{}", "x".repeat(21)),
            format!("key_mgt_{}", "x".repeat(121)),
            format!("key_ses_{random}"),
            format!("key_prv_{random}"),
            format!("key_mgt_x_{random}"),
            format!("key_mgt_{random} "),
            format!("key_mgt_{random}\n"),
            format!(" key_mgt_{random}"),
            format!("key_mgt_{random}é"),
        ];
        for key in wrong {
            assert!(!is_management_key(&key), "{key:?}");
        }
    }
}
