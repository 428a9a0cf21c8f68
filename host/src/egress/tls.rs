//! Whom secure connections are made to: read once, and shared by all clients.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::SetupError;
use crate::limits::HTTP_IDLE_MAX;

/// Trusts the certificates of this machine, those in `SSL_CERT_FILE` if that is set, and further ones.
pub fn trusting(further: &[CertificateDer<'static>]) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore::empty();
    let own = rustls_native_certs::load_native_certs();
    for error in own.errors {
        tracing::warn!(%error, "a certificate of this machine cannot be read");
    }
    roots.add_parsable_certificates(own.certs);
    roots.add_parsable_certificates(further.iter().cloned());
    if roots.is_empty() {
        // A machine without certificates of its own, such as a small container, trusts those that browsers do.
        tracing::warn!("no certificates of this machine; the usual ones are trusted");
        roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError(error.to_string()))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The same for one client, with sessions of its own to resume.
pub fn for_one_client(config: &ClientConfig) -> ClientConfig {
    let mut own = config.clone();
    own.resumption = Resumption::in_memory_sessions(HTTP_IDLE_MAX);
    own
}
