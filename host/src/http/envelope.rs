//! Replies: JSON bodies, created entities with their place, pages.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::problem::Problem;

use crate::crypto::wiped::{Wiped, WipedBuffer};
pub use crate::vault::Paginated;

/// 200 with a JSON body.
pub struct Reply<T>(pub T);

/// 200 with a JSON body that holds a key: once it is written, nothing of it is left in the memory it was written from.
pub struct WipedReply<T>(pub T);

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

impl<T: Serialize> IntoResponse for WipedReply<T> {
    fn into_response(self) -> Response {
        match wiped(&self.0) {
            Ok(body) => written(StatusCode::OK, Bytes::from_owner(body)),
            Err(error) => unwritten(&error),
        }
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
        Ok(body) => written(status, body),
        Err(error) => unwritten(&error),
    }
}

fn written(status: StatusCode, body: impl IntoResponse) -> Response {
    // Tokens and keys are in these bodies: nothing on the way may keep them.
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

    use super::{Reply, WipedReply, wiped};

    /// Tells how often it was written.
    #[derive(Clone)]
    struct Watched(Arc<AtomicUsize>);

    impl Serialize for Watched {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            ["a key", "and \"more\""].serialize(serializer)
        }
    }

    #[tokio::test]
    async fn a_reply_that_is_wiped_is_one_like_any_other() {
        let watched = Watched(Arc::default());
        let (plain, wiped) =
            (Reply(watched.clone()).into_response(), WipedReply(watched).into_response());
        assert_eq!((plain.status(), plain.headers()), (wiped.status(), wiped.headers()));
        let [plain, wiped] = [plain, wiped].map(|response| response.into_body().collect());
        assert_eq!(plain.await.unwrap().to_bytes(), wiped.await.unwrap().to_bytes());
    }

    #[test]
    fn what_is_wiped_is_written_once() {
        let watched = Watched(Arc::default());
        let text = wiped(&watched).unwrap();
        assert_eq!(watched.0.load(Ordering::Relaxed), 1);
        assert_eq!(text.as_slice(), br#"["a key","and \"more\""]"#);
    }
}
