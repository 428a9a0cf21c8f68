//! How often who may send what (decisions §1, status 429).
//!
//! Each request of a key is counted in its class, for the application or session behind the key; the limits are the
//! operator's. Formulas that use the vault are not counted here: each run has a bound of its own on its calls.
//!
//! To add a route: its row in [`Class::of`]; a test fails for a route without one.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock as GovernorClock, Reference as _};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::Method;
use uuid::Uuid;

use super::lockout::{LockOut, network};
use super::problem::Rejection;
use crate::clock::Clock;
use crate::config::{Rate, RateLimits};
use crate::crypto::api_key::ApiKey;
use crate::vault::Authenticated;

/// Requests after which keys that have rested long enough are forgotten.
const CLEAN_EVERY: usize = 4_096;

/// What requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Single tokens read, detokenized, results of runs, and what a key may learn of itself.
    Read,
    /// Tokens listed and searched.
    Search,
    /// Tokens and sessions made, changed and deleted.
    Write,
    /// Reactors run.
    Invoke,
    /// Applications, formulas, reactors, the tenant and its log.
    Manage,
}

impl Class {
    /// The class of an operation, by its method and the pattern of its path; `None` for what needs no key.
    pub fn of(method: &Method, route: &str) -> Option<Self> {
        // HEAD is a GET whose body nobody sees.
        let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
        Some(match (method, route) {
            (
                "GET",
                "/tokens/{id}"
                | "/applications/key"
                | "/permissions"
                | "/reactors/{id}/results/{invocation_id}",
            )
            | ("POST", "/detokenize") => Self::Read,
            ("GET", "/tokens") | ("POST", "/tokens/search") => Self::Search,
            ("POST", "/tokens" | "/tokenize" | "/sessions" | "/sessions/authorize")
            | ("PATCH" | "DELETE", "/tokens/{id}") => Self::Write,
            (
                "POST",
                "/reactors/{id}/react" | "/reactors/{id}/results/{invocation_id}/redeliver",
            ) => Self::Invoke,
            (
                _,
                "/applications"
                | "/applications/{id}"
                | "/applications/{id}/regenerate"
                | "/tenants/self"
                | "/reactor-formulas"
                | "/reactor-formulas/{id}"
                | "/reactor-formulas/{id}/component"
                | "/reactors"
                | "/reactors/{id}"
                | "/reactors/{id}/invocations"
                | "/logs"
                | "/logs/entity-types"
                | "/webhooks/signing-secrets"
                | "/webhooks/signing-secrets/rotate",
            ) => Self::Manage,
            _ => return None,
        })
    }

    /// Its name, as options and problems write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Write => "write",
            Self::Invoke => "invoke",
            Self::Manage => "manage",
        }
    }
}

/// What was let through lately. Cloning shares it; the default limits nothing.
#[derive(Clone, Default)]
pub struct Rates(Arc<Inner>);

#[derive(Default)]
struct Inner {
    read: Option<Limiter<Uuid>>,
    search: Option<Limiter<Uuid>>,
    write: Option<Limiter<Uuid>>,
    invoke: Option<Limiter<Uuid>>,
    manage: Option<Limiter<Uuid>>,
    tenant: Option<Limiter<Uuid>>,
    /// By what addresses hash to: strangers have many addresses, and what is remembered of them is bounded.
    unauthenticated: Option<Limiter<u16>>,
    addresses: RandomState,
    lock_out: Option<LockOut>,
}

impl Rates {
    /// Limits requests to these rates.
    pub fn new(limits: &RateLimits, clock: &Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner {
            read: Limiter::new(limits.read, clock),
            search: Limiter::new(limits.search, clock),
            write: Limiter::new(limits.write, clock),
            invoke: Limiter::new(limits.invoke, clock),
            manage: Limiter::new(limits.manage, clock),
            tenant: Limiter::new(limits.tenant, clock),
            unauthenticated: Limiter::new(limits.unauthenticated, clock),
            addresses: RandomState::new(),
            lock_out: LockOut::new(limits.unknown_keys, clock),
        }))
    }

    /// Counts a request of a caller; refuses one too many.
    pub fn count(&self, who: &Authenticated, class: Class) -> Result<(), Rejection> {
        let limiter = match class {
            Class::Read => &self.0.read,
            Class::Search => &self.0.search,
            Class::Write => &self.0.write,
            Class::Invoke => &self.0.invoke,
            Class::Manage => &self.0.manage,
        };
        let caller = who.caller();
        if let Some(limiter) = limiter {
            let key = caller.actor().id.unwrap_or(caller.application.id.0);
            limiter.check(&key).map_err(|wait| {
                let (rate, class) = (limiter.rate.per_second, class.as_str());
                let detail = format!(
                    "The key sends more than {rate} requests of the class `{class}` in a second."
                );
                Rejection::too_many(detail, wait)
            })?;
        }
        match &self.0.tenant {
            Some(limiter) if class != Class::Manage => {
                limiter.check(&caller.tenant().0).map_err(|wait| {
                    let rate = limiter.rate.per_second;
                    let detail = format!(
                        "The keys of the tenant send more than {rate} requests in a second."
                    );
                    Rejection::too_many(detail, wait)
                })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a key that is not to be looked at now: its client has tried too many that nobody has.
    pub fn check_key(&self, address: IpAddr, key: &ApiKey) -> Result<(), Rejection> {
        let Some(lock_out) = &self.0.lock_out else { return Ok(()) };
        lock_out.check(address, key).map_err(|wait| {
            let detail = "The client's address has sent too many unknown keys; wait.".to_owned();
            Rejection::too_many(detail, wait)
        })
    }

    /// Remembers what came of a key.
    pub fn note_key(&self, address: IpAddr, key: &ApiKey, known: bool) {
        let Some(lock_out) = &self.0.lock_out else { return };
        if known { lock_out.good(key) } else { lock_out.unknown(address, key) }
    }

    /// Remembers a key that the server has just given to somebody.
    pub fn note_issued(&self, key: &ApiKey) {
        if let Some(lock_out) = &self.0.lock_out {
            lock_out.good(key);
        }
    }

    /// Counts a request without a valid key; tells of one too many.
    pub fn count_unauthenticated(&self, address: IpAddr) -> Result<(), Rejection> {
        let Some(limiter) = &self.0.unauthenticated else { return Ok(()) };
        let hash = self.0.addresses.hash_one(network(address));
        let key = u16::try_from(hash >> 48).unwrap_or_default();
        limiter.check(&key).map_err(|wait| {
            let rate = limiter.rate.per_second;
            let detail = format!(
                "The client's address sends more than {rate} requests without a valid key in a second."
            );
            Rejection::too_many(detail, wait)
        })
    }
}

/// One limit, for each key by itself.
struct Limiter<K: Hash + Eq + Clone> {
    rate: Rate,
    clock: Ticks,
    states: RateLimiter<K, HashMapStateStore<K>, Ticks, NoOpMiddleware<Nanos>>,
    /// Requests counted since the start.
    counted: AtomicUsize,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// `None` when the rate limits nothing.
    fn new(rate: Rate, clock: &Arc<dyn Clock>) -> Option<Self> {
        let quota = Quota::per_second(NonZeroU32::new(rate.per_second)?);
        let quota = quota.allow_burst(NonZeroU32::new(rate.burst)?);
        let clock = Ticks(Arc::clone(clock));
        let states = RateLimiter::hashmap_with_clock(quota, clock.clone());
        Some(Self { rate, clock, states, counted: AtomicUsize::new(0) })
    }

    /// Counts a request; past the limit, how long until the next is let through.
    fn check(&self, key: &K) -> Result<(), Duration> {
        // A key that has rested is as good as one never seen. Only so many new ones come between two cleanings.
        if self.counted.fetch_add(1, Ordering::Relaxed) % CLEAN_EVERY == CLEAN_EVERY - 1 {
            self.states.retain_recent();
        }
        self.states.check_key(key).map_err(|not_until| {
            let now = self.clock.now();
            not_until.earliest_possible().duration_since(now).into()
        })
    }
}

/// Our clock, as the limiter reads it.
#[derive(Clone)]
struct Ticks(Arc<dyn Clock>);

impl GovernorClock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed_ns().into()
    }
}

#[cfg(test)]
mod tests;
