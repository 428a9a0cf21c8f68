//! Egress: everything the server sends to others, on behalf of formulas and of whoever waits for a callback.
//!
//! A request and its answer are whole and bounded: size, headers, redirects, time. Where it may go is decided three
//! times: by the address as it is written, by whoever permits the host, and, once its name is resolved, by what the
//! name stands for. The last check is made on the very addresses that are connected to, so that a name that changes its
//! mind gains nothing; it is made anew for each connection and each redirect.
//!
//! The one place that holds an HTTP client: no proxy, no cookies, no decompression, nothing followed by itself.
//! It knows nothing of formulas, tenants or the vault.

mod guard;
mod hosts;
mod redirect;
mod request;
mod resolve;
mod send;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

pub use guard::is_public;
pub use hosts::{AllowedHosts, HostPattern};
pub use url::Url;

use guard::Guard;
use request::AddressRules;
use resolve::{GuardedResolver, Lookup, SystemLookup};

use crate::limits::{HTTP_HEADERS_MAX, HTTP_IDLE_MAX, HTTP_IDLE_MS};

/// How requests are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EgressConfig {
    /// Whether private, loopback, link-local and other addresses that are not public may be reached (decisions §6, §8).
    pub allow_private_networks: bool,
}

/// A request, as it is asked for.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// In capitals.
    pub method: String,
    /// Absolute, `https` or `http`, without a user name.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Bytes>,
    /// How long everything may take, from the first look at its name to the last byte of the answer.
    pub timeout: Duration,
    /// How many redirects are followed; the next one is the answer.
    pub redirects: u8,
    /// Whether `http` is refused.
    pub https_only: bool,
}

/// An answer, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names, in lower case, and values; what is no UTF-8 in them is replaced.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer. The words are fixed: they hold nothing of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EgressError {
    /// It may not be sent there.
    #[error("denied: {0}")]
    Denied(&'static str),
    /// It is no request that can be sent.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// There was no connection, or it broke.
    #[error("unreachable: {0}")]
    Unreachable(&'static str),
    /// It took too long.
    #[error("the request ran past its time")]
    Timeout,
    /// The request, its answer or the answer's headers have too many bytes.
    #[error("the request or its answer is too large")]
    TooLarge,
}

/// Why nothing can be sent at all.
#[derive(Debug, Error)]
#[error("the client for outbound requests cannot be set up: {0}")]
pub struct SetupError(String);

/// Sends requests. Cloning shares its connections.
#[derive(Clone)]
pub struct Egress {
    client: reqwest::Client,
    guard: Guard,
}

impl Egress {
    /// Sets up the client, with the machine's resolver and the certificates that the machine trusts.
    pub fn new(config: EgressConfig) -> Result<Self, SetupError> {
        let guard = if config.allow_private_networks { |_| true } else { is_public };
        Self::assemble(guard, &Arc::new(SystemLookup::default()), &[])
    }

    /// As [`Self::new`], with addresses decided and names resolved by somebody else, and further certificates trusted.
    fn assemble<L: Lookup>(
        guard: Guard,
        lookup: &Arc<L>,
        trusted: &[reqwest::Certificate],
    ) -> Result<Self, SetupError> {
        let builder = || {
            let lookup = Arc::clone(lookup);
            builder(GuardedResolver { lookup, guard })
        };
        let client = builder().tls_certs_merge(trusted.iter().cloned()).build().or_else(|error| {
            // A machine without certificates of its own, such as a small container, trusts those that browsers do.
            tracing::warn!(%error, "no certificates of this machine; the usual ones are trusted");
            let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
            let roots = roots.filter_map(|root| reqwest::Certificate::from_der(root).ok());
            builder().tls_certs_only(roots).build()
        });
        let client = client.map_err(|error| SetupError(error.to_string()))?;
        Ok(Self { client, guard })
    }

    /// Reads an address that requests are to be sent to later, and checks all of it that does not depend on what its
    /// name resolves to then.
    pub fn check_address(&self, text: &str, https_only: bool) -> Result<Url, EgressError> {
        self.rules(https_only).read(text)
    }

    fn rules(&self, https_only: bool) -> AddressRules {
        AddressRules { https_only, guard: self.guard }
    }
}

fn builder(resolver: GuardedResolver<impl Lookup>) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // What was sent may have moved money: whether it is sent again is for whoever asked.
        .retry(reqwest::retry::never())
        .http1_only()
        .http1_max_headers(HTTP_HEADERS_MAX)
        .tls_version_min(reqwest::tls::Version::TLS_1_2)
        .pool_max_idle_per_host(HTTP_IDLE_MAX)
        .pool_idle_timeout(Duration::from_millis(HTTP_IDLE_MS))
        .user_agent("tokamak")
        .dns_resolver(resolver)
}
