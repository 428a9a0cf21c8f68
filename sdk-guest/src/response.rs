//! What a formula answers with when all went well.
//!
//! Values become JSON text at once; what cannot be written is remembered and ends the run as a runtime
//! error, so that building an answer needs no error handling.

use std::fmt;

use serde::Serialize;

use crate::Error;

/// The answer of a formula: values returned as they are, values returned as tokens, or both.
///
/// ```
/// use tokamak_sdk::{Response, json};
///
/// Response::raw(json!({ "approved": true }))
///     .and_tokenize(json!({ "receipt": { "type": "token", "data": "…" } }));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Response {
    raw: Option<Written>,
    tokenize: Option<Written>,
}

/// JSON text, or none when a value could not be written.
type Written = Option<String>;

impl Response {
    /// Returns `value` to the caller as it is.
    pub fn raw(value: impl Serialize) -> Self {
        Self::default().and_raw(value)
    }

    /// Stores `value` as `POST /tokenize` does and returns the tokens: in it, every object with `type` and
    /// `data` becomes a token, and every other primitive one of type `token`.
    pub fn tokenize(value: impl Serialize) -> Self {
        Self::default().and_tokenize(value)
    }

    /// Returns `value` as it is, too. The last call wins.
    #[must_use]
    pub fn and_raw(self, value: impl Serialize) -> Self {
        Self { raw: Some(serde_json::to_string(&value).ok()), ..self }
    }

    /// Stores `value` and returns its tokens, too. The last call wins.
    #[must_use]
    pub fn and_tokenize(self, value: impl Serialize) -> Self {
        Self { tokenize: Some(serde_json::to_string(&value).ok()), ..self }
    }

    fn into_texts(self) -> Result<Outbound, Error> {
        let text = |part: Option<Written>| match part {
            Some(None) => Err(Error::runtime("the formula's response cannot be written as JSON")),
            Some(written) => Ok(written),
            None => Ok(None),
        };
        Ok(Outbound { raw: text(self.raw)?, tokenize: text(self.tokenize)? })
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("raw", &self.raw.is_some())
            .field("tokenize", &self.tokenize.is_some())
            .finish_non_exhaustive()
    }
}

/// An answer as it leaves, with JSON as text.
#[doc(hidden)]
pub struct Outbound {
    pub(crate) raw: Option<String>,
    pub(crate) tokenize: Option<String>,
}

/// What a formula can return: a `Result` of a [`Response`] and anything that becomes an [`Error`].
#[diagnostic::on_unimplemented(
    message = "a formula returns `Result<Response, Error>`, not `{Self}`",
    note = "in place of `Error`, any type that converts into it will do"
)]
#[doc(hidden)]
pub trait Answer {
    /// Writes the answer.
    fn into_outbound(self) -> Result<Outbound, Error>;
}

impl<E: Into<Error>> Answer for Result<Response, E> {
    fn into_outbound(self) -> Result<Outbound, Error> {
        self.map_err(Into::into).and_then(Response::into_texts)
    }
}
