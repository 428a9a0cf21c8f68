//! The load generator: so many connections, one request under way on each, for some time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

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
    /// Requests refused or not answered, by the first few reasons.
    pub failed: u64,
    /// One of the reasons.
    pub reason: Option<String>,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Times from request to answer, in microseconds.
    pub times: Histogram<u64>,
}

/// Sends the requests that `next` makes of ascending numbers, until the time is over or there are no more.
pub async fn drive<F>(to: SocketAddr, load: Load, next: F) -> Result<Driven, Failure>
where
    F: Fn(u64) -> Option<Request<Full<Bytes>>> + Sync,
{
    let number = Arc::new(AtomicU64::new(0));
    let mut connections = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        connections.push(connect(to).await?);
    }
    let began = Instant::now();
    let parts = connections.into_iter().map(|connection| {
        let number = Arc::clone(&number);
        part(to, connection, began + load.time, number, &next)
    });
    let parts = futures::future::try_join_all(parts).await?;
    let elapsed = began.elapsed();
    let mut all = Driven {
        done: 0,
        failed: 0,
        reason: None,
        elapsed,
        times: Histogram::new_with_max(SLOWEST_US, 3)?,
    };
    for part in parts {
        all.done += part.done;
        all.failed += part.failed;
        all.reason = all.reason.or(part.reason);
        all.times.add(&part.times)?;
    }
    Ok(all)
}

async fn connect(to: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with the sender; what goes wrong is told there.
    tokio::spawn(connection);
    Ok(sender)
}

async fn part<F>(
    to: SocketAddr,
    mut connection: SendRequest<Full<Bytes>>,
    until: Instant,
    number: Arc<AtomicU64>,
    next: &F,
) -> Result<Driven, Failure>
where
    F: Fn(u64) -> Option<Request<Full<Bytes>>> + Sync,
{
    let times = Histogram::new_with_max(SLOWEST_US, 3)?;
    let mut part = Driven { done: 0, failed: 0, reason: None, elapsed: Duration::ZERO, times };
    let mut sent = 0;
    while Instant::now() < until {
        let Some(request) = next(number.fetch_add(1, Ordering::Relaxed)) else { break };
        let began = Instant::now();
        let answer = send(&mut connection, request).await;
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
                connection = connect(to).await?;
            }
        }
    }
    Ok(part)
}

async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, hyper::Error> {
    connection.ready().await?;
    let answer = connection.send_request(request).await?;
    let status = answer.status();
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(status)
}
