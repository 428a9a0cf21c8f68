//! `GET /metrics`: figures for Prometheus (decisions §9). No key opens it: it is answered to the networks that the
//! operator names, this machine alone unless told otherwise, and to nobody else.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, State as Shared};
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

use super::State;
use super::health::want_of_readiness;
use super::problem::Problem;
use crate::config::Network;
use crate::figures::figures;

/// The content type of `OpenMetrics`.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Who may see the figures.
#[derive(Debug, Clone)]
pub struct Scrapers(Arc<[Network]>);

impl Scrapers {
    /// Addresses in these networks; this machine's own if none are named.
    pub fn new(networks: &[Network]) -> Self {
        if networks.is_empty() { Self::default() } else { Self(networks.into()) }
    }

    fn include(&self, address: IpAddr) -> bool {
        // An IPv4 client of a socket for both comes in the spelling of IPv6.
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

impl Default for Scrapers {
    fn default() -> Self {
        Self([Network::v4([127, 0, 0, 0], 8), Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128)].into())
    }
}

/// Figures of the process, in the text format of `OpenMetrics` that Prometheus reads.
///
/// Answered to the networks of `--metrics-networks` only. Behind a proxy on the same machine, every client has that
/// machine's address: the proxy must not forward this path. While the storage cannot be read, `tokamak_waiting` is absent;
/// so is what the disk does not tell.
#[utoipa::path(get, path = "/metrics", tag = "operation", security(()),
    responses(
        (status = 200, description = "All figures", body = String, content_type = "application/openmetrics-text"),
        (status = 403, description = "The client's address is in none of the networks that may see them",
            body = Problem),
        (status = 500, description = "The figures cannot be written", body = Problem)))]
pub async fn metrics(
    Shared(state): Shared<State>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
) -> Response {
    if !state.scrapers.include(client.ip()) {
        let detail = "Figures are not shown to this address.";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    // They are looked at most when something is wrong, with the storage too.
    let waiting = state.vault.waiting().await.ok();
    let disk = state.vault.disk();
    let is_ready = want_of_readiness(&state).is_none();
    if let Ok(text) = figures().write(waiting, disk, is_ready) {
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
    } else {
        let detail = "The figures cannot be written.";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::Scrapers;

    #[test]
    fn this_machine_alone_unless_told_otherwise() {
        let usual = Scrapers::new(&[]);
        for address in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(usual.include(address.parse().unwrap()), "{address}");
        }
        for address in ["10.0.0.1", "0.0.0.0", "8.8.8.8", "::2", "::ffff:10.0.0.1", "fe80::1"] {
            assert!(!usual.include(address.parse().unwrap()), "{address}");
        }
        let named = Scrapers::new(&["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        for (address, expected) in
            [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("fd12::1", true), ("10.2.0.1", false)]
        {
            assert_eq!(named.include(address.parse().unwrap()), expected, "{address}");
        }
        // What is named takes the place of the usual.
        assert!(!named.include(Ipv4Addr::LOCALHOST.into()));
        assert!(!named.include(Ipv6Addr::LOCALHOST.into()));
    }
}
