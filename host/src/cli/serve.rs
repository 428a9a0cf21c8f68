//! `tokamak serve`, and what `dev` and the other commands share with it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use super::compact::compact_forever;
use super::open::{make_folder, open};
use super::stop::Stop;
use super::{
    Failure, announce, certificate, confine, descriptors, disk, folder, logging, root_key,
};
use crate::clock::{Clock, SystemClock};
use crate::config::{LogFormat, Options, Settings, bootstrap_key};
use crate::crypto::api_key::ApiKey;
use crate::crypto::keys::RootKey;
use crate::egress::collector_client;
use crate::http::control::{Control, SOCKET};
use crate::http::{Bounds, Parts, Rates, Scrapers, Serving, State, Stopping, Tls};
use crate::model::permission::ApplicationType;
use crate::runtime::close_to_others;
use crate::store::sled::remedy;
use crate::traces::Traces;
use crate::vault::{NewTenant, Vault};

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

/// Runs a command on the threads that everything runs on. Once it has ended nobody waits for what a thread is still
/// busy with, such as compiling.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(LEFT_TO_THREADS);
    outcome
}

/// Why an address cannot be listened on, and what to do.
pub fn not_to_be_had(address: SocketAddr, error: &io::Error) -> Failure {
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
        tokio::spawn(stop.heed_again());
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
    let address = listener.local_addr()?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the server has started");
    if tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "requests come over a network in the clear, with their keys, unless a proxy before this ends TLS"
        );
    }
    listening(address);
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
    let wanted = settings.safety.connections_max;
    if wanted > half {
        tracing::warn!(
            wanted,
            connections_max = half,
            "fewer connections are taken, half of the files that may be open (ulimit -n)"
        );
    }
    Bounds { connections_max: wanted.min(half), ..Bounds::default() }
}

#[cfg(test)]
mod tests {
    use super::is_management_key;

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
