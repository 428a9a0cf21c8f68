//! Problem details (RFC 9457, decisions §1): the one form of every error.
//!
//! A handler's error becomes a response that carries its [`Problem`] beside an empty body; the layer in
//! [`super::trace`], which knows the request's trace id and what its client accepts, writes it out.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::trace::ByFormula;
use crate::vault::{Described, Error, RunError};

const PROBLEM_JSON: &str = "application/problem+json";
/// When a client may try again that was told that the storage is unavailable.
const STORAGE_WAIT_SECONDS: u64 = 10;
/// What a request without a valid key is to bring (RFC 9110 §11.6.1): the header of that name. No browser asks its user
/// for a password because of a scheme that it does not know.
const CHALLENGE: &str = "SVC-API-KEY realm=\"tokamak\"";

/// An error, as the client reads it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// The same for all errors of a kind.
    #[schema(example = "Bad Request")]
    pub title: String,
    /// The status code.
    #[schema(example = 400)]
    pub status: u16,
    /// What is wrong here.
    pub detail: String,
    /// Every faulty member, by its path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, Vec<String>>,
    /// The request's trace id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    pub trace_id: Option<String>,
}

/// What a status is called (RFC 9110 §15), where the library still has older names too.
fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Content Too Large",
        StatusCode::UNPROCESSABLE_ENTITY => "Unprocessable Content",
        status => status.canonical_reason().unwrap_or("Error"),
    }
}

impl Problem {
    /// A problem with a fixed sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            title: title(status).to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            errors: BTreeMap::new(),
            trace_id: None,
        }
    }

    /// Writes the problem out, for a client that asked for this content type by its name or not.
    pub fn write(mut self, trace_id: &str, is_named: bool) -> Response {
        self.trace_id = Some(trace_id.to_owned());
        // Many generated clients decode `application/json` alone: they get that unless they ask.
        let content_type = if is_named { PROBLEM_JSON } else { "application/json" };
        let status = status_code(self.status);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, content_type)], body).into_response()
    }
}

/// Whether `Accept` names the type of problems, and not as one that is not wanted (RFC 9110 §12.5.1).
pub fn names_problem(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(PROBLEM_JSON));
        let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        is_named && quality.and_then(|q| q.parse::<f32>().ok()).is_none_or(|q| q > 0.0)
    })
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let Described { status, title, detail, errors } = error.describe();
        Self { title: title.to_owned(), status, detail, errors, trace_id: None }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = status_code(self.status).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// A handler's error: a problem, or what a formula shaped itself.
#[derive(Debug)]
pub struct Rejection(Box<Response>);

impl Rejection {
    /// 429: too often. What was exceeded stands in `detail`; `wait` is told in seconds, rounded up.
    pub fn too_many(detail: String, wait: Duration) -> Self {
        Self::for_now(StatusCode::TOO_MANY_REQUESTS, detail, wait)
    }

    /// 503: the server has no room for it. As [`Self::too_many`] else.
    pub fn unavailable(detail: String, wait: Duration) -> Self {
        Self::for_now(StatusCode::SERVICE_UNAVAILABLE, detail, wait)
    }

    /// 415: the body is encoded, and which encodings are taken (RFC 9110 §15.5.16).
    pub fn encoded() -> Self {
        let detail = "The body must have no Content-Encoding other than identity.";
        let mut response = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into_response();
        let taken = HeaderValue::from_static("identity");
        response.headers_mut().insert(header::ACCEPT_ENCODING, taken);
        Self(Box::new(response))
    }

    /// The same, behind which the connection ends.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.0.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        self
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    fn for_now(status: StatusCode, detail: String, wait: Duration) -> Self {
        let mut response = Problem::new(status, detail).into_response();
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        Self(Box::new(response))
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem.into_response()))
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        let custom = match &error {
            Error::Run(run) => match run.as_ref() {
                RunError::Custom { status, headers, body } => {
                    Some(custom_response(*status, headers, body))
                }
                _ => None,
            },
            _ => None,
        };
        // A formula's own 401 is not about the caller's key.
        let unauthenticated = error.is_unauthenticated() || matches!(error, Error::AskerEnded);
        let wait = match &error {
            Error::Unavailable(_) => Some(STORAGE_WAIT_SECONDS),
            Error::Run(run) => run.wait_seconds(),
            _ => None,
        };
        let mut response = custom.unwrap_or_else(|| Problem::from(error).into_response());
        if unauthenticated {
            let challenge = HeaderValue::from_static(CHALLENGE);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            // Whoever refuses for being busy, the server or a formula; a formula may know better how long.
            let wait = response.headers_mut().entry(header::RETRY_AFTER);
            wait.or_insert(HeaderValue::from_static("1"));
        }
        Self(Box::new(response))
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// The answer that a formula shaped; its headers were checked where the formula's answer was read.
fn custom_response(status: u16, headers: &[(String, String)], body: &Value) -> Response {
    let mut map = HeaderMap::with_capacity(headers.len() + 2);
    map.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // As every answer of the interface: it may hold what nobody is to keep.
    map.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        if let (Ok(name), Ok(value)) = parsed {
            map.insert(name, value);
        }
    }
    let body = serde_json::to_vec(body).unwrap_or_default();
    (status_code(status), Extension(ByFormula), map, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::{Problem, Rejection, names_problem};
    use axum::response::IntoResponse as _;
    use http::StatusCode;
    use std::time::Duration;

    #[test]
    fn a_wait_is_told_in_whole_seconds_rounded_up() {
        for (wait_ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (59_999, "60")] {
            let wait = Duration::from_millis(wait_ms);
            let response = Rejection::too_many("Too often.".to_owned(), wait).into_response();
            assert_eq!(response.status(), 429);
            assert_eq!(response.headers()["retry-after"], seconds, "{wait:?}");
            assert_eq!(response.extensions().get::<Problem>().unwrap().detail, "Too often.");
        }
    }

    #[test]
    fn the_content_type_follows_accept() {
        for (accept, expected) in [
            (None, "application/json"),
            (Some("*/*"), "application/json"),
            (Some("application/json"), "application/json"),
            (Some("application/problem+json, application/json"), "application/problem+json"),
        ] {
            let problem = Problem::new(StatusCode::NOT_FOUND, "There is no such token.");
            let response = problem.write("trace", accept.is_some_and(names_problem));
            assert_eq!(response.status(), 404);
            assert_eq!(response.headers()["content-type"], expected);
        }
    }
}
