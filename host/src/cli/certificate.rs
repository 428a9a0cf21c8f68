//! Keeps the certificate fresh: read anew at SIGHUP, and when its files have changed.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Failure;
use crate::config::Settings;
use crate::http::{Tls, TlsFiles};
use crate::limits::CERTIFICATE_LOOK_MS;

/// Reads the pair that the settings name, if they do.
pub fn load(settings: &Settings) -> Result<Option<Tls>, Failure> {
    let files = settings.safety.tls.clone();
    let files = files.map(|(certificate, key)| TlsFiles { certificate, key });
    Ok(files.map(Tls::load).transpose()?)
}

/// Reads the pair anew whenever there is reason to; ends with the runtime. Without TLS a SIGHUP still ends nothing.
pub fn keep_fresh(tls: Option<Tls>) -> Result<(), Failure> {
    let hang_ups = signal(SignalKind::hangup())?;
    tokio::spawn(watch(tls, hang_ups));
    Ok(())
}

async fn watch(tls: Option<Tls>, mut hang_ups: Signal) {
    let mut looks = tokio::time::interval(Duration::from_millis(CERTIFICATE_LOOK_MS));
    loop {
        let asked = tokio::select! {
            told = hang_ups.recv() => told.is_some(),
            _ = looks.tick() => false,
        };
        let Some(tls) = &tls else { continue };
        let reloaded = if asked { tls.reload().map(|()| true) } else { tls.reload_if_changed() };
        match reloaded {
            Ok(true) => tracing::info!("the certificate was read anew"),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be used; the old one stays");
            }
        }
    }
}
