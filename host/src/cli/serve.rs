//! `tokamak serve`, and what `dev` and the other commands share with it: opening a vault on its folder.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, logging, say};
use crate::clock::SystemClock;
use crate::config::{Options, Settings, bootstrap_key};
use crate::crypto::api_key::ApiKey;
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::keys::RootKey;
use crate::http::{State, Stopping};
use crate::limits::REACT_TIMEOUT_MS;
use crate::runtime::{Runtime, RuntimeConfig};
use crate::store::sled::SledStore;
use crate::vault::{Foundation, NewTenant, Vault};

/// Runs the server until it is told to stop.
pub fn run(options: Options) -> Result<(), Failure> {
    let settings = options.settle()?;
    logging::start(&settings.log, settings.log_format)?;
    let root_key = RootKey::parse(&settings.root_key_text()?)?;
    runtime()?.block_on(async {
        let vault = open(&settings, root_key).await?;
        let key = bootstrap_key();
        let given = key.is_some();
        let key = key.map(|key| ApiKey::given(key.to_string()));
        if let Some(NewTenant { tenant, management_key }) = vault.bootstrap(key).await? {
            say(format_args!("tenant: {}", tenant.id));
            if !given {
                say(format_args!("management key, shown once: {}", management_key.expose()));
            }
        }
        serve(&settings, vault, |address| say(format_args!("listening on http://{address}"))).await
    })
}

/// The threads that everything runs on.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Opens the vault in the settings' folder.
pub async fn open(settings: &Settings, root_key: RootKey) -> Result<Vault, Failure> {
    let store_folder = settings.data_dir.join("store");
    let store = SledStore::open(&store_folder, settings.cache_mb << 20)?;
    let foundation = Foundation {
        store: Arc::new(store),
        runtime: Runtime::new(RuntimeConfig { slots: settings.reactor_slots })?,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::new()?),
        root_key,
        fuel_per_ms: settings.reactor_fuel_per_ms,
        react_timeout_ms: REACT_TIMEOUT_MS,
    };
    Ok(Vault::open(foundation).await?)
}

/// Serves until SIGTERM or SIGINT; `listening` is told the address.
pub async fn serve(
    settings: &Settings,
    vault: Vault,
    listening: impl FnOnce(std::net::SocketAddr),
) -> Result<(), Failure> {
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", settings.listen))?;
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    };
    listening(listener.local_addr()?);
    crate::http::serve(listener, State { vault, stopping: Stopping::default() }, stop).await?;
    Ok(())
}
