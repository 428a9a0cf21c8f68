//! Requests to other servers: those that the formula's `allowed_hosts` name.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tokamak_sdk::{Error, Request, Response, formula, http};
//!
//! #[derive(Deserialize, Serialize)]
//! struct Order {
//!     card: String,
//!     amount: u64,
//! }
//!
//! #[derive(Deserialize)]
//! struct Receipt {
//!     id: String,
//! }
//!
//! #[formula]
//! fn react(request: Request<Order>) -> Result<Response, Error> {
//!     let answer = http::post("https://api.example.com/orders")
//!         .bearer("key")
//!         .json(&request.args)
//!         .timeout_ms(5_000)
//!         .send()?;
//!     if !answer.is_success() {
//!         return Err(Error::runtime(format!("the shop answered {}", answer.status)));
//!     }
//!     let receipt: Receipt = answer.json()?;
//!     Ok(Response::raw(receipt.id))
//! }
//!
//! // In a test, a fake answers.
//! use tokamak_sdk::{json, testing::{Call, FakeHttp}};
//!
//! let shop = FakeHttp::new().json(201, json!({ "id": "o-1" }));
//! let order = json!({ "card": "4242", "amount": 100 });
//! assert_eq!(Call::new(&order).http(&shop).run(react).raw(), json!("o-1"));
//! assert_eq!(shop.requests()[0].json(), order);
//! ```
//!
//! A request and its answer are whole: there are no streams. Any status is an answer; an [`Error`] means that there
//! is none. Redirects are not followed unless the request says so, since what was sent would go on to another place.
//! [`send_all`] and [`Request::begin`] have several under way beside each other.
//!
//! This module knows neither the bindings nor the fakes: both take a [`Sent`] and give a [`Response`].

mod encode;
mod exact;
mod exchange;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::encode::{form, percent_encode};
use self::exact::Kept;
pub use self::exchange::{Exchange, send_all};

/// A `GET` of this address.
pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

/// A `POST` to this address.
pub fn post(url: impl Into<String>) -> Request {
    request("POST", url)
}

/// A `PUT` to this address.
pub fn put(url: impl Into<String>) -> Request {
    request("PUT", url)
}

/// A `PATCH` of this address.
pub fn patch(url: impl Into<String>) -> Request {
    request("PATCH", url)
}

/// A `DELETE` of this address.
pub fn delete(url: impl Into<String>) -> Request {
    request("DELETE", url)
}

/// A request with a method that is chosen at run time.
pub fn request(method: impl Into<String>, url: impl Into<String>) -> Request {
    Request {
        sent: Sent {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout_ms: None,
            redirects: 0,
        },
        unwritable: false,
    }
}

/// A request, being put together; [`send`](Request::send) sends it.
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    sent: Sent,
    /// A body could not be written as JSON; told when the request is sent.
    unwritable: bool,
}

impl Request {
    /// Adds a header. A name may come more than once.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.sent.headers.push((name.into(), value.into()));
        self
    }

    /// Adds `Authorization: Bearer …`.
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    /// Sets the body, and with it no content type.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.sent.body = Some(body.into());
        self
    }

    /// Sets the body to `value` as JSON, with its content type unless one is set already.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => self.sent.body = Some(body),
            Err(_) => self.unwritable = true,
        }
        self.content_type("application/json")
    }

    /// Sets the body to these fields as a form, with its content type unless one is set already.
    ///
    /// ```
    /// # use tokamak_sdk::http;
    /// http::post("https://api.example.com/charges").form(&[("amount", "100"), ("currency", "eur")]);
    /// ```
    pub fn form<N: AsRef<str>, V: AsRef<str>>(self, fields: &[(N, V)]) -> Self {
        self.body(form(fields)).content_type("application/x-www-form-urlencoded")
    }

    /// Sets how long the whole exchange may take; never more than what is left of the invocation's time.
    pub fn timeout_ms(mut self, timeout_ms: u32) -> Self {
        self.sent.timeout_ms = Some(timeout_ms);
        self
    }

    /// Follows this many redirects, each checked by the host as the first address was; none unless set.
    pub fn redirects(mut self, redirects: u8) -> Self {
        self.sent.redirects = redirects;
        self
    }

    /// Sends the request and waits for the whole answer, whatever its status.
    pub fn send(self) -> Result<Response, Error> {
        let sent = self.sent()?;
        #[cfg(target_arch = "wasm32")]
        return crate::bridge::send(sent);
        #[cfg(not(target_arch = "wasm32"))]
        crate::testing::send(sent)
    }

    fn sent(self) -> Result<Sent, Error> {
        if self.unwritable {
            return Err(Error::Invalid("the body cannot be written as JSON".to_owned()));
        }
        Ok(self.sent)
    }

    fn content_type(self, media_type: &str) -> Self {
        if value_of(&self.sent.headers, "content-type").is_some() {
            return self;
        }
        self.header("content-type", media_type)
    }
}

// Addresses, headers and bodies may hold what the vault was asked to keep.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.sent.method).finish_non_exhaustive()
    }
}

/// A request as it is sent.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// `GET`, `POST`, …
    pub method: String,
    /// The whole address.
    pub url: String,
    /// Names as they were given, and values.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
    /// How long the exchange may take.
    pub timeout_ms: Option<u32>,
    /// How many redirects are followed.
    pub redirects: u8,
}

impl Sent {
    /// The first value of a header, its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        value_of(&self.headers, name)
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The answer to a request.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// An answer with a body, for tests; see [`FakeHttp`](crate::testing::FakeHttp).
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// Whether the status is one of 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first value of a header, its name in any case.
    ///
    /// ```
    /// # use tokamak_sdk::http::Response;
    /// let headers = vec![("Retry-After".to_owned(), "3".to_owned())];
    /// let answer = Response { status: 429, headers, body: Vec::new() };
    /// assert_eq!(answer.header("retry-after"), Some("3"));
    /// ```
    pub fn header(&self, name: &str) -> Option<&str> {
        value_of(&self.headers, name)
    }

    /// The body, read as JSON. What is none, or another, or has arrays and objects in more than 64 levels, is a runtime error
    /// that shows nothing of it.
    ///
    /// Numbers are held as `u64`, `i64` or `f64`: one of more digits comes out rounded, unless
    /// [`exact_json`](Self::exact_json) reads it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, crate::Error> {
        // The stack would end with the run.
        if exact::is_too_deep(self.json_text()) {
            return Err(crate::Error::runtime("the answer is nested in more levels than are read"));
        }
        serde_json::from_slice(self.json_text())
            .map_err(|_| crate::Error::runtime("the answer is not the JSON that was expected"))
    }

    /// The same, but a number that would come out rounded is a runtime error, which shows nothing of the answer either: not
    /// even where it is, since names of members may be data. [`rounded_within`](Self::rounded_within) tells that.
    ///
    /// ```
    /// # use tokamak_sdk::{Value, http::Response};
    /// let answer = Response::new(200, r#"{"id": 12345678901234567890123}"#);
    /// let error = answer.exact_json::<Value>().unwrap_err();
    /// assert_eq!(error.detail(), "the answer has a number with more digits than are kept");
    /// assert_eq!(answer.rounded_within("").as_deref(), Some("/id"));
    /// ```
    pub fn exact_json<T: DeserializeOwned>(&self) -> Result<T, crate::Error> {
        let value = self.json()?;
        match exact::first(self.json_text(), "", Kept::All) {
            Some(_) => {
                Err(crate::Error::runtime("the answer has a number with more digits than are kept"))
            }
            None => Ok(value),
        }
    }

    /// Where the first number is that [`json`](Self::json) rounds, of those in the part at a JSON pointer; as a JSON pointer,
    /// which may hold data: names that the other server chose.
    pub fn rounded_within(&self, part: &str) -> Option<String> {
        let text = self.json_text();
        let at = exact::first(text, part, Kept::All)?;
        Some(exact::pointer(text, at))
    }

    /// Whether no number of `kept` came out rounded, of those in the part at a JSON pointer. `kept` is the answer as
    /// [`json`](Self::json) reads it, or what is left of that.
    ///
    /// ```
    /// # use tokamak_sdk::{Value, http::Response};
    /// let answer = Response::new(200, r#"{"id": 12345678901234567890123, "amount": 100}"#);
    /// let mut kept: Value = answer.json().unwrap();
    /// assert!(!answer.is_exact("", &kept) && answer.is_exact("/amount", &kept));
    /// kept.as_object_mut().unwrap().remove("id");
    /// assert!(answer.is_exact("", &kept));
    /// ```
    pub fn is_exact(&self, part: &str, kept: &Value) -> bool {
        exact::first(self.json_text(), part, Kept::Only(kept)).is_none()
    }

    /// The body without the mark of the order of bytes that some put before it, and that is none of its characters.
    fn json_text(&self) -> &[u8] {
        self.body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.body)
    }

    /// The body as text. What is not UTF-8 is a runtime error.
    pub fn text(&self) -> Result<&str, crate::Error> {
        std::str::from_utf8(&self.body)
            .map_err(|_| crate::Error::runtime("the answer is not text in UTF-8"))
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why there is no answer. The texts are the host's; they hold nothing of the request and may be logged.
///
/// `?` turns it into an [`Error`](crate::Error) with words of its own, since how the network is built is no affair of
/// the caller's; only why a request was [`Denied`](Error::Denied) is told as the host says it. The host's words are
/// [logged](crate::log) then:
///
/// - Nobody there ([`Unreachable`](Error::Unreachable)) or not in time ([`Timeout`](Error::Timeout)) is *service
///   unavailable*: another try may go well. Whether the request arrived is not known.
/// - All else is a *runtime* error: the formula, its `allowed_hosts` or the reactor's configuration has to change, and
///   neither the caller nor another try can help it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The host is not among the formula's `allowed_hosts`, its address is not a public one, or the invocation has sent as
    /// many requests as it may.
    Denied(String),
    /// The request is none: its method, address or a header.
    Invalid(String),
    /// No connection, or it broke.
    Unreachable(String),
    /// There was no answer in time.
    Timeout,
    /// The request or its answer has more bytes than the host takes.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(cause) => write!(f, "the request is not allowed: {cause}"),
            Self::Invalid(cause) => write!(f, "the request is not valid: {cause}"),
            Self::Unreachable(cause) => write!(f, "the server cannot be reached: {cause}"),
            Self::Timeout => f.write_str("the server did not answer in time"),
            Self::TooLarge => f.write_str("the request or its answer is too large"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for crate::Error {
    fn from(error: Error) -> Self {
        crate::log::warn(&error);
        match error {
            // Only the host knows whether the place is refused or one request too many.
            Error::Denied(cause) => {
                Self::runtime(format!("the formula's request is not allowed: {cause}"))
            }
            Error::Invalid(_) => Self::runtime("the formula's request is not valid"),
            Error::Unreachable(_) => {
                Self::service_unavailable("the other server cannot be reached")
            }
            Error::Timeout => Self::service_unavailable("the other server did not answer in time"),
            Error::TooLarge => Self::runtime("the formula's request or its answer is too large"),
        }
    }
}

fn value_of<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, value) = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(value)
}

#[cfg(test)]
mod tests;
