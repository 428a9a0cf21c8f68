//! Bodies that nobody read are read to their end, unseen.
//!
//! A refusal often comes before the body: no key, no permission, too large. A client that is still writing would find
//! the connection closed under it and report a broken pipe instead of the answer. So the rest of a body is taken off
//! the wire and thrown away, within bounds, while the answer is already on its way.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use http::{HeaderMap, Version, header};
use http_body_util::BodyExt as _;

use crate::limits::{LINGER_BYTES_MAX, LINGER_MS_MAX};

/// Gives the request a body that is read to its end even when it is dropped before, unless the client waits to be told to
/// send it.
pub fn lasting(request: Request) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    let waits = waits_to_send(request.version(), request.headers());
    request.map(|body| Body::new(Lingering { body: Some(body), waits }))
}

/// Whether the client sends the body once it is told to (RFC 9110, section 10.1.1): to read any of it tells it so.
pub fn waits_to_send(version: Version, headers: &HeaderMap) -> bool {
    let expected = headers.get(header::EXPECT);
    let waits =
        expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    waits && version >= Version::HTTP_11
}

struct Lingering {
    body: Option<Body>,
    waits: bool,
}

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        self.waits = false;
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if self.waits {
            return;
        }
        // Outside a runtime there is no connection left to read from either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let bound = Duration::from_millis(LINGER_MS_MAX);
            runtime.spawn(async move { tokio::time::timeout(bound, discard(body)).await });
        }
    }
}

async fn discard(mut body: Body) {
    let mut left = LINGER_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
