//! Replies: JSON bodies, created entities with their place, pages.
//!
//! Values and keys are in these bodies: once one is sent, nothing of it is left in the memory it was written to.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::problem::Problem;

use crate::crypto::wiped::{Wiped, WipedBuffer};
pub use crate::vault::Paginated;
use crate::vault::TokenPage;

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

/// A page that is written already.
impl IntoResponse for TokenPage {
    fn into_response(self) -> Response {
        written(StatusCode::OK, Bytes::from_owner(self))
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
    match wiped(body) {
        Ok(body) => written(status, Bytes::from_owner(body)),
        Err(error) => unwritten(&error),
    }
}

fn written(status: StatusCode, body: Bytes) -> Response {
    // Nothing on the way may keep them either.
    let headers = [(header::CACHE_CONTROL, "no-store"), (header::CONTENT_TYPE, "application/json")];
    let mut response = body.into_response();
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn unwritten(error: &serde_json::Error) -> Response {
    tracing::error!(%error, "a response does not serialise");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The server failed to answer.").into_response()
}

/// JSON in memory that is wiped when it is given back, and wherever it was while it was written.
fn wiped(body: &impl Serialize) -> serde_json::Result<Wiped> {
    let mut text = WipedBuffer::default();
    serde_json::to_writer(&mut text, body)?;
    Ok(text.into_bytes())
}

/// A path segment in which every character that is not plain is escaped.
pub fn segment(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::response::IntoResponse as _;
    use http_body_util::BodyExt as _;
    use serde::{Serialize, Serializer};

    use super::{Accepted, Created, Reply, wiped};

    /// Tells how often it was written.
    struct Watched(Arc<AtomicUsize>);

    impl Serialize for Watched {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            ["a key", "and \"more\""].serialize(serializer)
        }
    }

    #[tokio::test]
    async fn every_reply_lies_in_memory_that_wipes_itself() {
        let (location, body) = ("/somewhere".to_owned(), "a key");
        for response in [
            Reply(body).into_response(),
            Created { location: location.clone(), body }.into_response(),
            Accepted { location, body }.into_response(),
        ] {
            let status = response.status();
            assert_eq!(response.headers()["content-type"], "application/json");
            assert_eq!(response.headers()["cache-control"], "no-store");
            let frame = response.into_body().frame().await.unwrap().unwrap();
            let written = frame.into_data().unwrap();
            assert_eq!(written, "\"a key\"");
            // Nobody may read what was freed. But bytes of which this is the only holder would be unique, if they had
            // no owner that ends in a way of its own.
            assert!(!written.is_unique(), "{status}");
        }
    }

    #[test]
    fn what_is_wiped_is_written_once() {
        let watched = Watched(Arc::default());
        let text = wiped(&watched).unwrap();
        assert_eq!(watched.0.load(Ordering::Relaxed), 1);
        assert_eq!(text.as_slice(), br#"["a key","and \"more\""]"#);
    }
}
