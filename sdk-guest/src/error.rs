//! What a formula answers with when it cannot do what was asked.
//!
//! Knows nothing of how an error travels; `bridge` lowers it. Its texts reach the caller of the reactor, so
//! they must never hold sensitive data. A new kind is a variant of [`ErrorKind`], a constructor, and a row in
//! `bridge`.

mod faults;

use std::fmt;

use serde::Serialize;

pub use self::faults::Faults;
use crate::Problem;

/// A failure, answered to the caller of the reactor with a status of its own.
///
/// ```
/// use tokamak_sdk::{Error, json};
///
/// let error = Error::bad_request("the order is incomplete")
///     .at("args.order.total", "must be positive")
///     .at("args.order.currency", "is required");
/// assert_eq!(error.status(), 400);
///
/// let custom = Error::custom(418, json!({ "reason": "short and stout" })).header("x-pot", "tea");
/// assert_eq!(custom.status(), 418);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Report);

/// The kinds of failure that the vault words as a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// 401: whoever is asked does not know the credentials.
    Authentication,
    /// 403: whoever is asked refuses.
    Authorization,
    /// 400: the arguments are wrong.
    BadRequest,
    /// 402: the card or account cannot be charged.
    InvalidPaymentMethod,
    /// 429: too many requests.
    RateLimit,
    /// 500: anything else, such as a mistake in the reactor's configuration.
    Runtime,
    /// 503: whoever is asked is not there at present.
    ServiceUnavailable,
}

impl ErrorKind {
    /// The status that the caller sees.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Authentication => 401,
            Self::InvalidPaymentMethod => 402,
            Self::Authorization => 403,
            Self::RateLimit => 429,
            Self::Runtime => 500,
            Self::ServiceUnavailable => 503,
        }
    }
}

/// What an error carries.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Report {
    Fault { kind: ErrorKind, detail: String, errors: Vec<(String, Vec<String>)> },
    Custom(Custom),
}

/// An answer that the formula shapes itself; `body` is JSON.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Custom {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Error {
    /// A failure of a kind that is chosen at run time.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self(Report::Fault { kind, detail: detail.into(), errors: Vec::new() })
    }

    /// 401: whoever is asked does not know the credentials.
    pub fn authentication(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Authentication, detail)
    }

    /// 403: whoever is asked refuses.
    pub fn authorization(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Authorization, detail)
    }

    /// 400: the arguments are wrong; say where with [`Error::at`].
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, detail)
    }

    /// 402: the card or account cannot be charged.
    pub fn invalid_payment_method(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidPaymentMethod, detail)
    }

    /// 429: too many requests.
    pub fn rate_limit(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::RateLimit, detail)
    }

    /// 500: anything else, such as a mistake in the reactor's configuration.
    pub fn runtime(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Runtime, detail)
    }

    /// 503: whoever is asked is not there at present.
    pub fn service_unavailable(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::ServiceUnavailable, detail)
    }

    /// An answer of the formula's own: a status from 400 to 599 and a JSON body.
    ///
    /// A body that cannot be written as JSON makes it a runtime error.
    pub fn custom(status: u16, body: impl Serialize) -> Self {
        serde_json::to_string(&body).map_or_else(
            |_| Self::runtime("the formula's own response is not valid JSON"),
            |body| Self(Report::Custom(Custom { status, headers: Vec::new(), body })),
        )
    }

    /// Adds a header to a [custom](Error::custom) answer; other errors have none and stay as they are.
    ///
    /// `allow`, `content-language`, `retry-after` and names that begin with `x-` can be set, but for those that proxies
    /// and browsers obey. The content type is `application/json`. Any other header ends the run as failed.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Report::Custom(custom) = &mut self.0 {
            custom.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Adds a message on a member of the request, such as `args.card.number`.
    ///
    /// A [custom](Error::custom) answer says all in its body and stays as it is.
    #[must_use]
    pub fn at(mut self, member: impl Into<String>, message: impl Into<String>) -> Self {
        if let Report::Fault { errors, .. } = &mut self.0 {
            let (member, message) = (member.into(), message.into());
            match errors.iter_mut().find(|(known, _)| *known == member) {
                Some((_, messages)) => messages.push(message),
                None => errors.push((member, vec![message])),
            }
        }
        self
    }

    /// The status that the caller sees.
    pub fn status(&self) -> u16 {
        match &self.0 {
            Report::Fault { kind, .. } => kind.status(),
            Report::Custom(custom) => custom.status,
        }
    }

    /// The kind, or none for a [custom](Error::custom) answer.
    pub fn kind(&self) -> Option<ErrorKind> {
        match &self.0 {
            Report::Fault { kind, .. } => Some(*kind),
            Report::Custom(_) => None,
        }
    }

    /// What went wrong, in words; empty for a [custom](Error::custom) answer.
    pub fn detail(&self) -> &str {
        match &self.0 {
            Report::Fault { detail, .. } => detail,
            Report::Custom(_) => "",
        }
    }

    /// The messages on a member of the request.
    pub fn messages(&self, member: &str) -> &[String] {
        match &self.0 {
            Report::Fault { errors, .. } => errors
                .iter()
                .find(|(known, _)| known == member)
                .map_or(&[], |(_, messages)| messages.as_slice()),
            Report::Custom(_) => &[],
        }
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn into_report(self) -> Report {
        self.0
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn report(&self) -> &Report {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Report::Fault { kind, detail, .. } => write!(f, "{}: {detail}", kind.status()),
            Report::Custom(custom) => {
                write!(f, "{}: a response of the formula's own", custom.status)
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Report::Fault { kind, detail, errors } => f
                .debug_struct("Error")
                .field("kind", kind)
                .field("detail", detail)
                .field("errors", errors)
                .finish(),
            // The body is the formula's own and may hold anything.
            Report::Custom(custom) => {
                f.debug_struct("Error").field("status", &custom.status).finish_non_exhaustive()
            }
        }
    }
}

impl std::error::Error for Error {}

/// A refusal of the vault, passed on by `?`: its status as far as formulas have one, its words unchanged.
///
/// What else is wrong with what the formula sent (404, 409, 413, 422 and so on) is a bad request like 400.
impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let kind = match problem.status {
            401 => ErrorKind::Authentication,
            402 => ErrorKind::InvalidPaymentMethod,
            403 => ErrorKind::Authorization,
            429 => ErrorKind::RateLimit,
            503 => ErrorKind::ServiceUnavailable,
            400..=499 => ErrorKind::BadRequest,
            _ => ErrorKind::Runtime,
        };
        let detail = if problem.detail.is_empty() { problem.title } else { problem.detail };
        Self(Report::Fault { kind, detail, errors: problem.errors })
    }
}

#[cfg(test)]
mod tests;
