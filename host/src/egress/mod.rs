//! Egress: everything the server sends to others, on behalf of formulas and of whoever waits for a callback.
//!
//! A request and its answer are whole and bounded: size, headers, redirects, time. Where it may go is decided three
//! times: by the address as it is written, by whoever permits the host, and, once its name is resolved, by what the
//! name stands for. The last check is made on the very addresses that are connected to, so that a name that changes its
//! mind gains nothing; it is made anew for each connection and each redirect.
//!
//! The one place that holds HTTP clients: no proxy, no cookies, no decompression, nothing followed by itself. Those of the
//! command line ([`api`]) and of traces ([`collector`]) are reqwest's. What strangers answer is read by the layer below it,
//! hyper's, where the size of a head and the bytes that are read at once can be bounded: whoever is asked may be hostile to
//! all others here.
//! It knows nothing of formulas, tenants or the vault: an owner is a number, and owners share no connection.

mod api;
mod collector;
mod connect;
mod guard;
mod hosts;
mod lookup;
mod pools;
mod redirect;
mod request;
mod resolve;
mod send;
mod stand_in;
mod tls;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use thiserror::Error;

pub use api::{ApiAnswer, ApiClient};
pub use collector::collector_client;
pub use guard::is_public;
pub use hosts::{AllowedHosts, HostPattern};
pub use stand_in::StandIn;
pub use url::Url;

use connect::Connector;
use guard::Guard;
use lookup::{Lookup, Lookups, SystemLookup};
use pools::Pools;
use request::AddressRules;
use resolve::GuardedResolver;
use url::Position;

use crate::config::Network;
use crate::limits::{HTTP_HEADERS_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_IDLE_MAX, HTTP_IDLE_MS};
use crate::model::plaintext::opaque;

/// Headers of an answer that are read: more than are taken, for whom the status tells everything.
const READ_HEADERS_MAX: usize = 4 * HTTP_HEADERS_MAX;
/// Bytes of a head that are read: what is taken, with what stands around names and values. Nobody's memory counts them.
const READ_HEAD_BYTES_MAX: usize = HTTP_HEADERS_BYTES_MAX + (16 << 10);

/// How requests are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressConfig {
    /// Whether private, loopback, link-local and other addresses that are not public may be reached (decisions §6, §8).
    pub allow_private_networks: bool,
    /// Networks of such addresses that may be reached in any case. Where metadata services are is opened only by a
    /// network that is no wider than that.
    pub allow_networks: Vec<Network>,
}

/// A request, as it is asked for.
#[derive(Clone)]
pub struct Outbound {
    /// In capitals.
    pub method: String,
    /// Absolute, `https` or `http`, without a user name.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Bytes>,
    /// How large the body may be, in bytes.
    pub body_bytes_max: usize,
    /// How long everything may take, from the first look at its name to the last byte of the answer.
    pub timeout: Duration,
    /// How many redirects are followed; the next one is the answer.
    pub redirects: u8,
    /// Whether `http` is refused.
    pub https_only: bool,
    /// On whose behalf, as a number that means nothing here: owners have their own connections and their own share of
    /// what all use.
    pub owner: u128,
    /// What of the answer is read.
    pub wanted: Wanted,
    /// Whether it does no harm twice: it is sent again where its connection breaks before there is an answer, as what only
    /// reads is in any case. Hosts close connections that were kept at the same moment as they are used.
    pub repeatable: bool,
}

opaque!(Outbound);

/// What of an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All of it, or it is none.
    Whole,
    /// Status and headers; what follows them is thrown away, however much it is.
    Head,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names, in lower case, and values; what is no UTF-8 in them is replaced.
    pub headers: Vec<(String, String)>,
    /// The body; empty when it was not wanted.
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
    /// It was not sent: too many names are being looked up.
    #[error("too many hosts' names are being looked up")]
    Crowded,
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
pub struct Egress(Arc<Shared>);

struct Shared {
    guard: Guard,
    lookups: Arc<Lookups>,
    tls: rustls::ClientConfig,
    clients: Mutex<Pools<HttpClient>>,
}

type HttpClient = Client<Connector, Full<Bytes>>;

impl Egress {
    /// Sets up what all clients share, with the machine's resolver and the certificates that the machine trusts.
    pub fn new(config: EgressConfig) -> Result<Self, SetupError> {
        Self::assemble(guard::guard(config), Arc::new(SystemLookup), &[])
    }

    /// As [`Self::new`], with addresses decided and names resolved by somebody else, and further certificates trusted.
    fn assemble(
        guard: Guard,
        lookup: Arc<dyn Lookup>,
        trusted: &[CertificateDer<'static>],
    ) -> Result<Self, SetupError> {
        let (lookups, clients) = (Arc::new(Lookups::new(lookup)), Mutex::default());
        let tls = tls::trusting(trusted)?;
        Ok(Self(Arc::new(Shared { guard, lookups, tls, clients })))
    }

    /// Reads an address that requests are to be sent to later, and checks all of it that does not depend on what its
    /// name resolves to then.
    pub fn check_address(&self, text: &str, https_only: bool) -> Result<Url, EgressError> {
        let url = self.rules(https_only).read(text)?;
        request::as_written(text)?;
        Ok(url)
    }

    fn rules(&self, https_only: bool) -> AddressRules<'_> {
        AddressRules { https_only, guard: &self.0.guard }
    }

    /// An owner's client for a host.
    fn client(&self, owner: u128, url: &Url) -> HttpClient {
        let origin = &url[Position::BeforeScheme..Position::BeforePath];
        let kept = self.0.clients.lock().get(owner, origin);
        if let Some(client) = kept {
            return client;
        }
        let client = self.make_client(owner);
        self.0.clients.lock().keep(owner, origin, client)
    }

    fn make_client(&self, owner: u128) -> HttpClient {
        let (lookups, guard) = (Arc::clone(&self.0.lookups), self.0.guard.clone());
        let resolver = GuardedResolver { lookups, guard, owner };
        // Only what was never sent is sent again: what was may have moved money.
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http1_max_headers(READ_HEADERS_MAX)
            .http1_max_buf_size(READ_HEAD_BYTES_MAX)
            .pool_max_idle_per_host(HTTP_IDLE_MAX)
            .pool_idle_timeout(Duration::from_millis(HTTP_IDLE_MS))
            .build(Connector::new(resolver, tls::for_one_client(&self.0.tls)))
    }
}
