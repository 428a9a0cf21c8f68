//! Heads of requests that are not there yet when the server stops, or wants room: nobody waits for the rest of one.
//!
//! To hyper a head that has begun is a request to finish, for as long as a head may take. Here the connection reads its end
//! instead, unless a request of it is under way: whose head has come, and whose body is not read to its end, or whose
//! answer is not sent to its end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is known of one connection. Cloning shares it.
#[derive(Clone, Default)]
pub struct Heads(Arc<Known>);

#[derive(Default)]
struct Known {
    under_way: AtomicUsize,
    ended: AtomicBool,
}

impl Heads {
    /// A request whose head has come.
    pub fn begin(&self) -> UnderWay {
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.clone())
    }

    /// Waits for no more of them. The connection finds out when it is polled next.
    pub fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.0.ended.load(Ordering::Acquire) && self.0.under_way.load(Ordering::Acquire) == 0
    }
}

/// A request that is under way, until this is dropped.
pub struct UnderWay(Heads);

impl UnderWay {
    /// Keeps it so as long as there is this body, which comes or is handed over.
    pub fn with(self, body: Body) -> Body {
        Body::new(Watched { _under_way: self, body })
    }

    /// The same request, once more.
    pub fn again(&self) -> Self {
        self.0.begin()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Watched {
    // Dropped first: the end of a body that comes wakes the connection, which then looks.
    _under_way: UnderWay,
    body: Body,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A stream that ends for its reader as [`Heads`] says.
pub struct EndingReads<S> {
    stream: S,
    heads: Heads,
    /// Something was written that may not be sent: hyper is done with a body before, and drops what is left of an answer
    /// when it reads an end.
    unflushed: bool,
}

impl<S> EndingReads<S> {
    /// The stream of a connection.
    pub fn new(stream: S, heads: Heads) -> Self {
        Self { stream, heads, unflushed: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for EndingReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unflushed && self.heads.is_over() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for EndingReads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unflushed = true;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unflushed = true;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.unflushed = false;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
