//! Connections as the client gets them: to addresses that were checked, secure where they are to be, and read a little at a
//! time.
//!
//! Whoever sits at the other end may send without end, and what reads it must not keep a thread from everybody else: after
//! so many bytes it lets others go first.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::resolve::GuardedResolver;
use crate::limits::HTTP_CONNECT_MS;

/// Bytes that are read without letting others go first, about: what parsing the worst of them takes is a millisecond.
const READ_AT_ONCE: usize = 64 << 10;

/// What a read counts for at least: whoever sends a byte at a time has what came before it looked at again.
const READ_LEAST: usize = 4 << 10;
/// How often a host that says nothing is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Connects one owner's clients.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector<GuardedResolver>,
    tls: TlsConnector,
}

impl Connector {
    /// Connects to what this resolver lets pass, and makes secure connections like this.
    pub fn new(resolver: GuardedResolver, tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Divided among the addresses of a name: where one is dead the next is tried in time.
        tcp.set_connect_timeout(Some(Duration::from_millis(HTTP_CONNECT_MS) / 3));
        // Who is gone is missed before the request has run past its time.
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(2 * KEEPALIVE));
        Self { tcp, tls: TlsConnector::from(Arc::new(tls)) }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (tcp, tls) = (self.tcp.call(to.clone()), self.tls.clone());
        let connect = async move {
            let stream = Gentle { stream: tcp.await?.into_inner(), read: 0 };
            if to.scheme() != Some(&Scheme::HTTPS) {
                return Ok(Stream::Plain(stream));
            }
            // An address of version 6 stands in brackets.
            let host = to.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let secure = tls.connect(ServerName::try_from(host)?, stream).await?;
            Ok(Stream::Secure(Box::new(secure)))
        };
        let within = tokio::time::timeout(Duration::from_millis(HTTP_CONNECT_MS), connect);
        async { within.await?.map(TokioIo::new) }.boxed()
    }
}

/// A connection.
pub enum Stream {
    /// In clear.
    Plain(Gentle<TcpStream>),
    /// Over TLS.
    Secure(Box<TlsStream<Gentle<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Does the same with either.
macro_rules! either {
    ($stream:expr, $one:ident => $done:expr) => {
        match $stream.get_mut() {
            Stream::Plain($one) => $done,
            Stream::Secure($one) => $done,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

/// Lets others go first when much was read.
pub struct Gentle<S> {
    stream: S,
    /// Bytes since it last did.
    read: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Gentle<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= READ_AT_ONCE {
            self.read = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        match polled {
            Poll::Pending => self.read = 0,
            Poll::Ready(_) => self.read += (buffer.filled().len() - before).max(READ_LEAST),
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gentle<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::{Gentle, READ_AT_ONCE};

    /// What never has to wait lets others run all the same.
    #[tokio::test]
    async fn others_go_first_now_and_then() {
        let bytes = vec![7; 20 * READ_AT_ONCE];
        let mut gentle = Gentle { stream: bytes.as_slice(), read: 0 };
        let turns = std::cell::Cell::new(0);
        let reading = async {
            let (mut read, mut part) = (Vec::new(), [0; 8 << 10]);
            loop {
                match gentle.read(&mut part).await.unwrap() {
                    0 => break read,
                    count => read.extend_from_slice(&part[..count]),
                }
            }
        };
        let others = async {
            loop {
                turns.set(turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let read = tokio::select! {
            biased;
            read = reading => read,
            () = others => unreachable!(),
        };
        assert_eq!(read, bytes);
        assert!(turns.get() >= 20, "{}", turns.get());
    }
}
