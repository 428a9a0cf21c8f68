//! The load generator: so many connections, one request under way on each, for some time.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use hdrhistogram::Histogram;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::cli::Failure;

/// Slowest answer that is told apart, in microseconds.
const SLOWEST_US: u64 = 120_000_000;
/// Answers of each connection that are not counted: caches fill, connections open.
const WARM_UP: u64 = 3;

/// How much.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// For how long requests are sent.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Driven {
    /// Requests answered with a success.
    pub done: u64,
    /// How many requests were refused or not answered.
    pub failed: u64,
    /// One of the reasons.
    pub reason: Option<String>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Times from request to answer, in microseconds.
    pub times: Histogram<u64>,
}

/// Makes the requests, in ascending order.
struct Requests<F> {
    next: AtomicU64,
    make: F,
}

/// Sends the requests that `make` makes of ascending numbers, until the time is over or there are no more.
pub async fn drive<F>(to: SocketAddr, load: Load, make: F) -> Result<Driven, Failure>
where
    F: Fn(u64) -> Option<Request<Full<Bytes>>> + Send + Sync + 'static,
{
    let requests = Arc::new(Requests { next: AtomicU64::new(0), make });
    let mut connections = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        connections.push(Connection::open(to).await?);
    }
    let began = Instant::now();
    let until = began + load.time;
    // Where one cannot go on, none does.
    let mut parts: JoinSet<Result<Driven, Failure>> = connections
        .into_iter()
        .map(|connection| part(to, connection, until, Arc::clone(&requests)))
        .collect();
    let mut ended = Vec::with_capacity(parts.len());
    while let Some(part) = parts.join_next().await {
        ended.push(part??);
    }
    let elapsed = began.elapsed();
    let mut all = Driven {
        done: 0,
        failed: 0,
        reason: None,
        elapsed,
        times: Histogram::new_with_max(SLOWEST_US, 3)?,
    };
    for part in ended {
        all.done += part.done;
        all.failed += part.failed;
        all.reason = all.reason.or(part.reason);
        all.times.add(&part.times)?;
    }
    Ok(all)
}

/// A connection that whoever sends on it moves along: with a task of its own for that, each request and each answer would
/// go from one task to another.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Nothing once it has ended.
    moving: Option<Moving>,
}

type Moving = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

impl Connection {
    async fn open(to: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let (sender, moving) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, moving: Some(moving) })
    }

    /// Sends a request, and reads its answer to the end.
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<StatusCode, hyper::Error> {
        let Self { sender, moving } = self;
        let mut answer = pin!(async {
            sender.ready().await?;
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let mut body = answer.into_body();
            while let Some(frame) = body.frame().await {
                frame?;
            }
            Ok(status)
        });
        std::future::poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            // Why it ended is told to whoever waits for the answer.
            if moving.as_mut().is_some_and(|moving| moving.poll_unpin(context).is_ready()) {
                *moving = None;
            }
            answer.as_mut().poll(context)
        })
        .await
    }
}

async fn part<F>(
    to: SocketAddr,
    mut connection: Connection,
    until: Instant,
    requests: Arc<Requests<F>>,
) -> Result<Driven, Failure>
where
    F: Fn(u64) -> Option<Request<Full<Bytes>>>,
{
    let times = Histogram::new_with_max(SLOWEST_US, 3)?;
    let mut part = Driven { done: 0, failed: 0, reason: None, elapsed: Duration::ZERO, times };
    let mut sent = 0;
    while Instant::now() < until {
        let number = requests.next.fetch_add(1, Ordering::Relaxed);
        let Some(request) = (requests.make)(number) else { break };
        let began = Instant::now();
        let answer = connection.send(request).await;
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        sent += 1;
        match answer {
            Ok(status) if status.is_success() => {
                part.done += 1;
                if sent > WARM_UP {
                    part.times.record(took.min(SLOWEST_US))?;
                }
            }
            Ok(status) => {
                part.failed += 1;
                part.reason.get_or_insert_with(|| format!("answered {status}"));
            }
            Err(error) => {
                part.failed += 1;
                part.reason.get_or_insert_with(|| error.to_string());
                connection.moving = None;
            }
        }
        if connection.moving.is_none() {
            connection = Connection::open(to).await?;
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use http::Request;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::{Load, drive};

    /// Answers, or does worse, by the number of the request: whole and kept, whole and closed, cut off, gone.
    async fn serve(listener: TcpListener) {
        let mut number = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = [0; 4_096];
            while stream.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {
                let answer: &[u8] = match number % 5 {
                    0 => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
                    1 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
                    2 => b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
                    3 => b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nok",
                    _ => b"",
                };
                number += 1;
                if stream.write_all(answer).await.is_err() || (number - 1) % 5 > 1 {
                    break;
                }
            }
        }
    }

    #[tokio::test]
    async fn every_request_is_counted_whatever_becomes_of_its_connection() {
        const REQUESTS: u64 = 500;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to: SocketAddr = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener));
        let load = Load { connections: 1, time: Duration::from_mins(10) };
        let driven = drive(to, load, |number| (number < REQUESTS).then(Request::default));
        let driven = driven.await.unwrap();
        server.abort();
        assert_eq!((driven.done, driven.failed), (REQUESTS / 5 * 2, REQUESTS / 5 * 3));
        assert!(driven.reason.is_some());
        // Nobody listens any more.
        assert!(drive(to, load, |_| Some(Request::default())).await.is_err());
    }
}
