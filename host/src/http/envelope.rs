//! Replies: JSON bodies, created entities with their place, pages.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;

use super::problem::Problem;
pub use crate::vault::Paginated;

/// 200 with a JSON body.
pub struct Reply<T>(pub T);

/// 201 with a JSON body and the place of what was made.
pub struct Created<T> {
    /// The path of the new entity.
    pub location: String,
    /// The body.
    pub body: T,
}

/// 202 with a JSON body and the place where what was begun can be looked at.
pub struct Accepted<T> {
    /// The path.
    pub location: String,
    /// The body.
    pub body: T,
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        located(json(StatusCode::CREATED, &self.body), &self.location)
    }
}

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        located(json(StatusCode::ACCEPTED, &self.body), &self.location)
    }
}

fn located(mut response: Response, location: &str) -> Response {
    if let Ok(location) = location.parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        // Tokens and keys are in these bodies: nothing on the way may keep them.
        Ok(body) => {
            let headers =
                [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
            (status, headers, body).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a response does not serialise");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The server failed to answer.")
                .into_response()
        }
    }
}

/// A path segment in which every character that is not plain is escaped.
pub fn segment(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}
