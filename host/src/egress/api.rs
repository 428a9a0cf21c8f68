//! What the command line sends to a server of this product: requests with a key, and answers in JSON.
//!
//! The address is the operator's own word, so it is not guarded as those of formulas and callbacks are. No redirect is
//! followed and no proxy of the environment is used, since the key would go along.

use std::time::Duration;

use serde_json::Value;

use super::{SetupError, tls};
use crate::limits::{FORMULA_BODY_BYTES_MAX, HTTP_CONNECT_MS};

/// How long an answer may take: a component is compiled before it comes.
const TIMEOUT: Duration = Duration::from_mins(5);

/// A client of one server.
pub struct ApiClient {
    client: reqwest::Client,
    base: String,
    key: String,
}

/// An answer of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiAnswer {
    /// The status.
    pub status: u16,
    /// The body, `null` when it is empty.
    pub body: Value,
}

impl ApiClient {
    /// A client of the server at this address, with this key.
    pub fn new(base: &str, key: String) -> Result<Self, SetupError> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .tls_backend_preconfigured(tls::trusting(&[])?)
            .connect_timeout(Duration::from_millis(HTTP_CONNECT_MS))
            .timeout(TIMEOUT)
            .user_agent("tokamak")
            .build()
            .map_err(|error| SetupError(error.to_string()))?;
        Ok(Self { client, base: base.trim_end_matches('/').to_owned(), key })
    }

    /// Sends a request without a body, or with one of JSON. The error is for whoever gave the address.
    pub async fn send(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ApiAnswer, String> {
        let address = format!("{}{path}", self.base);
        let mut request = self.client.request(method, &address).header("SVC-API-KEY", &self.key);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let failed = |error: reqwest::Error| format!("{}: {}", self.base, explained(&error));
        let mut answer = request.send().await.map_err(failed)?;
        let status = answer.status().as_u16();
        let too_large = || format!("{}: the answer is too large", self.base);
        if answer.content_length().is_some_and(|bytes| bytes > FORMULA_BODY_BYTES_MAX as u64) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        // Not every answer says how long it is.
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if bytes.len() + chunk.len() > FORMULA_BODY_BYTES_MAX {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        let body = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        let body = body.map_err(|_| format!("{}: answered {status} without JSON", self.base))?;
        Ok(ApiAnswer { status, body })
    }
}

/// The innermost cause, which alone tells what to do.
fn explained(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
