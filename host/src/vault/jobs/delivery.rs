//! Deliveries: what is still to be told to whom, and when it is tried again (decisions §8).
//!
//! A clock in doubt (`vault::steady`) may have been set by mistake, or be that of a machine that was suspended. So deliveries
//! go on by it, but it gives none up, and what it puts off is tried as soon as it is believed, whatever time it is then.

use std::time::Duration;

use backoff::SystemClock;
use backoff::backoff::Backoff as _;
use backoff::exponential::{ExponentialBackoff, ExponentialBackoffBuilder};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Job;
use crate::crypto::wiped::Wiped;
use crate::egress::{EgressError, Url};
use crate::limits::{
    DELIVERY_INTERVAL_MS_MAX, DELIVERY_INTERVAL_MS_MIN, DELIVERY_PUT_OFF_MS, DELIVERY_WINDOW_MS,
    INVOCATION_KEPT_MS,
};
use crate::model::id::InvocationId;
use crate::model::time::Timestamp;
use crate::store::Kind;
use crate::vault::Error;
use crate::vault::index::{Index, number, term};
use crate::vault::record::{Entity, from_json_text, json_text, kind};

#[cfg(test)]
mod tests;

/// Each wait is so many times the one before, from 5 s up to 6 h: a dozen tries in a day.
const MULTIPLIER: f64 = 3.0;
/// A wait is so much longer or shorter, at random, that those who failed together do not all come again together.
const JITTER: f64 = 0.1;
/// How long a try that the receiver asked for at the very end, or later, may be put off before it is given up.
const LAST_TRY_MS: u64 = 60 * 60 * 1000;
/// Said of a try that the server could not make.
const NOT_SENT: &str = "the server could not send it";
/// In the index this is added to the time at which a delivery is due, if that was reckoned by a clock in doubt: it lies
/// past any time.
pub const BY_DOUBT: u64 = 1 << 62;

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// It is tried, or will be.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was given up.
    Failed,
}

/// A result that is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The invocation whose result it is.
    pub id: InvocationId,
    /// Where it goes.
    pub url: String,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// How often it was tried.
    pub attempts: u32,
    /// How often since it was put into the queue, which it may have been again.
    tries: u32,
    /// How often it was put there again: a try that was begun before is not one of what was asked for since.
    #[serde(default)]
    pub requeued: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    last_error: Option<String>,
    due_at: Timestamp,
    /// Whether the clock by which that was reckoned was, or may have been, in doubt.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    in_doubt: bool,
    /// When it is given up.
    ends_at: Timestamp,
    expires_at: Timestamp,
    created_at: Timestamp,
}

/// A delivery, as a result shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeliveryView {
    /// Where it stands.
    status: DeliveryStatus,
    /// How often it was tried.
    attempts: u32,
    /// The status of the receiver's last answer, which later tries may not have got; absent when it never answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    /// Why the last try got no answer; absent when it got one. It begins with `denied`, `invalid` or `unreachable`, or says that
    /// something took too long, was too large, or could not be sent by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Timestamp>,
}

impl DeliveryView {
    /// The delivery of a run that has not ended.
    pub fn waiting() -> Self {
        let status = DeliveryStatus::Pending;
        Self { status, attempts: 0, last_status: None, last_error: None, next_attempt_at: None }
    }
}

/// What a receiver did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The status of its answer, if it gave one.
    pub status: Option<u16>,
    /// Why it gave none, if it was asked.
    pub error: Option<EgressError>,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Delivery {
    /// The delivery of a job that has just ended, due at once.
    pub fn due(job: &Job, now: Timestamp) -> Self {
        Self {
            id: job.id,
            url: job.callback_url.clone(),
            status: DeliveryStatus::Pending,
            attempts: 0,
            tries: 0,
            requeued: 0,
            last_status: None,
            last_error: None,
            due_at: now,
            // It is due at once by any clock: whether this one is to be believed is not asked.
            in_doubt: true,
            ends_at: Timestamp(now.0 + DELIVERY_WINDOW_MS),
            expires_at: Timestamp(now.0 + INVOCATION_KEPT_MS),
            created_at: now,
        }
    }

    /// Puts it into the queue again, due at once and with all its tries.
    pub fn again(&mut self, now: Timestamp) {
        self.status = DeliveryStatus::Pending;
        self.tries = 0;
        self.requeued = self.requeued.wrapping_add(1);
        self.due_at = now;
        self.in_doubt = true;
        self.ends_at = Timestamp(now.0 + DELIVERY_WINDOW_MS).min(self.expires_at);
    }

    /// Takes note of a try that was begun before this was put into the queue again, where it stays.
    pub fn tried_before(&mut self, answered: Answered) {
        self.attempts = self.attempts.saturating_add(1);
        self.last_status = answered.status.or(self.last_status);
        let why = || answered.error.map_or_else(|| NOT_SENT.to_owned(), |error| error.to_string());
        self.last_error = answered.status.is_none().then(why);
    }

    /// Takes note of a try: it is over, or due again. By a clock that is in doubt none is given up.
    pub fn tried(&mut self, answered: Answered, now: Timestamp, in_doubt: bool) {
        self.tried_before(answered);
        let mut full = Timestamp(now.0.saturating_add(DELIVERY_WINDOW_MS));
        if !in_doubt {
            // A result that has ended is told to nobody.
            full = full.min(self.expires_at);
        }
        // The time while the server was down, or had others to tell, is not the receiver's. Neither is what a clock skips that
        // is set forward, which may be wrong, nor what it takes back when it is set right.
        let late_ms = now.0.saturating_sub(self.due_at.0);
        let skipped = in_doubt && now >= self.ends_at;
        self.ends_at = if self.tries == 0 || skipped {
            full
        } else {
            Timestamp(self.ends_at.0.saturating_add(late_ms)).min(full)
        };
        self.tries = self.tries.saturating_add(1);
        self.in_doubt = in_doubt;
        if answered.status.is_some_and(|status| (200..300).contains(&status)) {
            self.status = DeliveryStatus::Delivered;
            return;
        }
        let after = |wait: Duration| {
            Timestamp(now.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
        };
        // The last try is when the time is over, or when the receiver wants it.
        let longest = Duration::from_millis(DELIVERY_WINDOW_MS);
        let asked = after(answered.retry_after.unwrap_or_default().min(longest));
        self.due_at = after(wait_after(self.tries)).min(self.ends_at).max(asked);
        if answered.status == Some(410) || now >= self.ends_at {
            self.status = DeliveryStatus::Failed;
        }
    }

    /// Has it wait for a while without a try, which it may do as long as for the tries. The time since it was due, while the
    /// server was down or had others to tell, is not the receiver's.
    pub fn put_off(&mut self, now: Timestamp, in_doubt: bool) {
        let late_ms = now.0.saturating_sub(self.due_at.0);
        // But what a clock skips that is set forward is taken back with it.
        let full = Timestamp(now.0.saturating_add(DELIVERY_WINDOW_MS));
        // A try that the receiver asked for past the end is still to be made.
        if self.due_at > self.ends_at {
            self.ends_at = Timestamp(self.due_at.0.saturating_add(LAST_TRY_MS));
        }
        self.ends_at = Timestamp(self.ends_at.0.saturating_add(late_ms)).min(full);
        self.due_at = Timestamp(now.0.saturating_add(DELIVERY_PUT_OFF_MS));
        self.in_doubt = in_doubt;
        if now >= self.ends_at && !in_doubt {
            self.status = DeliveryStatus::Failed;
        }
    }

    /// What the receiver answered last, if it ever did.
    pub fn last_status(&self) -> Option<u16> {
        self.last_status
    }

    /// How a result shows it.
    pub fn view(&self) -> DeliveryView {
        let pending = self.status == DeliveryStatus::Pending;
        DeliveryView {
            status: self.status,
            attempts: self.attempts,
            last_status: self.last_status,
            last_error: self.last_error.clone(),
            next_attempt_at: pending.then_some(self.due_at),
        }
    }

    /// The receiver: deliveries to one are bounded together.
    pub fn receiver(&self) -> String {
        receiver(&self.url)
    }
}

/// The host and port of an address.
pub fn receiver(url: &str) -> String {
    let url = Url::parse(url).ok();
    let of = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        format!("{host}:{}", url.port_or_known_default().unwrap_or_default())
    };
    url.as_ref().map(of).unwrap_or_default()
}

/// How long to wait after so many tries, by the policy of the `backoff` crate. Its state is made anew from the count, so
/// that a restart goes on where the schedule was.
fn wait_after(tries: u32) -> Duration {
    let shortest = Duration::from_millis(DELIVERY_INTERVAL_MS_MIN);
    let longest = Duration::from_millis(DELIVERY_INTERVAL_MS_MAX);
    let mut policy: ExponentialBackoff<SystemClock> = ExponentialBackoffBuilder::new()
        // What is added or taken at random leaves the bounds at no end.
        .with_initial_interval(shortest.div_f64(1.0 - JITTER))
        .with_max_interval(longest.div_f64(1.0 + JITTER))
        .with_multiplier(MULTIPLIER)
        .with_randomization_factor(JITTER)
        .with_max_elapsed_time(None)
        .build();
    // Once the longest interval is reached, more steps change nothing.
    let steps = tries.saturating_sub(1).min(32);
    for _ in 0..steps {
        policy.next_backoff();
    }
    policy.next_backoff().unwrap_or(longest).clamp(shortest, longest)
}

impl Entity for Delivery {
    const KIND: Kind = kind::DELIVERY;
    const NOUN: &'static str = "delivery";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.created_at.0
    }

    fn expires_ms(&self) -> Option<u64> {
        Some(self.expires_at.0)
    }

    fn index(&self, index: &mut Index<'_>) {
        if self.status == DeliveryStatus::Pending {
            let doubt = if self.in_doubt { BY_DOUBT } else { 0 };
            index.number(number::DUE_AT, self.due_at.0.saturating_add(doubt));
            index.term(term::RECEIVER, &[&self.receiver()]);
        }
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}
