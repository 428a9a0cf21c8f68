//! Serving: connections in, drained at the end.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::State;
use super::connections::{Bounds, Connections};
use super::routes::router_with;
use super::tls::Tls;
use crate::limits::{DENIALS_WINDOW_MS, DRAIN_MS_MAX, SWEEP_INTERVAL_MS};
use crate::vault::{Error, Swept, Vault};

/// How long the last entries of the log may take.
const LAST_ENTRIES_MAX: Duration = Duration::from_secs(10);

/// How connections are served.
#[derive(Debug, Clone, Default)]
pub struct Serving {
    /// Their bounds.
    pub bounds: Bounds,
    /// With TLS; without, in clear.
    pub tls: Option<Tls>,
    /// Without the console at `/console`.
    pub no_console: bool,
    /// How often what has ended is removed, if not as usual.
    pub sweep_every: Option<Duration>,
}

/// Serves as usual, in clear: see [`serve_with`].
pub async fn serve(
    listener: TcpListener,
    state: State,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_with(listener, state, Serving::default(), stop).await
}

/// Serves until `stop` resolves; then takes no more connections, lets requests finish within a bound, and closes the
/// vault.
pub async fn serve_with(
    listener: TcpListener,
    state: State,
    serving: Serving,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let vault = state.vault.clone();
    let stopping = state.stopping.clone();
    let sweep_every = serving.sweep_every.unwrap_or(Duration::from_millis(SWEEP_INTERVAL_MS));
    let sweeping = tokio::spawn(sweep_forever(vault.clone(), sweep_every));
    let erasing = tokio::spawn(erase_forever(vault.clone(), sweep_every));
    let resealing = tokio::spawn(reseal_forever(vault.clone()));
    let forgetting = tokio::spawn(forget_old_keys_forever(vault.clone()));
    let summing_up = tokio::spawn(sum_up_denials(vault.clone()));
    let workers = vault.start_workers();
    let stopped = vault.clone();
    let (announce, mut announced) = oneshot::channel();
    let (end, ending) = watch::channel(false);
    let since = Arc::new(OnceLock::new());
    let noted = Arc::clone(&since);
    let stop = async move {
        stop.await;
        let _ = noted.set(Instant::now());
        stopping.begin();
        stopped.begin_no_more();
        let _ = announce.send(());
    };
    let state = state.with_bodies(serving.bounds.bodies_bytes_max);
    let under_way = state.under_way().clone();
    let router = router_with(state, !serving.no_console);
    let Serving { bounds, tls, .. } = serving;
    let connections = Connections::new(router, bounds, tls, ending, vault.clone());
    let stopping = tokio::spawn(stop);
    tokio::select! {
        never = connections.accept(&listener) => match never {},
        // A sender that is gone means that nobody is left who could tell.
        _ = &mut announced => {}
    }
    drop(listener);
    let _ = end.send(true);
    let bound = Duration::from_millis(DRAIN_MS_MAX);
    let drained = async {
        connections.ended().await;
        // Of callers that have hung up.
        under_way.close();
        under_way.wait().await;
    };
    if tokio::time::timeout(bound, drained).await.is_err() {
        tracing::warn!("requests still running were cut off");
    }
    stopping.abort();
    sweeping.abort();
    erasing.abort();
    resealing.abort();
    forgetting.abort();
    summing_up.abort();
    // Requests and runs have one time to finish in, not one after the other.
    let gone = since.get().map(Instant::elapsed).unwrap_or_default();
    workers.stop(Duration::from_millis(DRAIN_MS_MAX).saturating_sub(gone)).await;
    let lost = "denied attempts that were counted are not in the log";
    match tokio::time::timeout(LAST_ENTRIES_MAX, vault.log_counted_denials(true)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "{lost}"),
        Err(_) => tracing::warn!("{lost}: the store does not get on"),
    }
    vault.close();
    Ok(())
}

/// Seals anew what an earlier process had begun to, and whatever is wanted from then on.
async fn reseal_forever(vault: Vault) {
    let failed = "records were not sealed anew";
    whenever_wanted(|| vault.reseal(), || vault.resealing_wanted(), failed).await;
}

/// Has what old keys were in leave the store's files, also what an earlier process left there.
async fn forget_old_keys_forever(vault: Vault) {
    let failed = "old keys stay in the store's files, and are removed later";
    whenever_wanted(|| vault.sweep_old_keys(), || vault.old_keys_left(), failed).await;
}

/// Does something at once, then whenever it is wanted, and every few minutes; says so when it failed.
async fn whenever_wanted<D, W>(act: impl Fn() -> D, wanted: impl Fn() -> W, failed: &str) -> !
where
    D: Future<Output = Result<(), Error>>,
    W: Future<Output = ()>,
{
    loop {
        if let Err(error) = act().await {
            tracing::warn!(%error, "{failed}");
        }
        let again = tokio::time::sleep(Duration::from_millis(SWEEP_INTERVAL_MS));
        tokio::select! {
            () = wanted() => {}
            () = again => {}
        }
    }
}

/// Tells the log of denied attempts that were only counted.
async fn sum_up_denials(vault: Vault) {
    let mut ticks = tokio::time::interval(Duration::from_millis(DENIALS_WINDOW_MS));
    loop {
        ticks.tick().await;
        if let Err(error) = vault.log_counted_denials(false).await {
            tracing::warn!(%error, "denied attempts that were counted are not in the log yet");
        }
    }
}

/// Removes what has ended, in time: it waits for nothing that somebody else does.
async fn sweep_forever(vault: Vault, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        swept(vault.sweep_ended().await);
    }
}

/// Removes what erased tenants left. That may wait as long as a backup is taken.
async fn erase_forever(vault: Vault, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    // After a backup it begins to count anew.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        swept(vault.sweep_erased().await.map(Swept));
    }
}

fn swept(outcome: Result<Swept, Error>) {
    match outcome {
        Ok(Swept(0)) => {}
        Ok(Swept(removed)) => tracing::info!(removed, "swept"),
        // The next tick tries again; the cause stands in the log already.
        Err(error) => tracing::warn!(%error, "the sweep failed"),
    }
}
