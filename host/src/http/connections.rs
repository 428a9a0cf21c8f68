//! Connections: how many there may be, how long each may take over what, and how they end.
//!
//! Each connection is a task of its own, the TLS handshake included, so that a slow one delays nobody. When all places
//! are taken, the connection that has been there longest is asked to end after its present request, which is one whose
//! head has come: the rest of a head is waited for only shortly. Who finds no place all the same is told so with a 503.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use http::{StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt as _;
use tower_http::normalize_path::NormalizePath;

use super::heads::{EndingReads, Heads, UnderWay};
use super::pace::{PacedBody, PacedWrites};
use super::problem::Problem;
use super::shield;
use super::tls::Tls;
use super::trace::TRACE_ID;
use crate::limits::{
    BODIES_BYTES_MAX, BODY_BYTES_PER_SECOND_MIN, BODY_GRACE_MS, CONNECTION_BUFFER_BYTES_MAX,
    CONNECTIONS_DEFAULT, HANDSHAKE_MS_MAX, HEAD_MS_MAX, LEAVE_MS_MAX, ROOM_MS_MAX,
    WRITE_BYTES_PER_SECOND_MIN, WRITE_STALL_MS_MAX,
};
use crate::vault::Vault;

/// How long a refused client is listened to, so that it reads the refusal and not a broken connection.
const REFUSED_MS: u64 = 1_000;
/// One of so many places is spare: when fewer are free, the oldest connections are asked to leave.
const SPARE_PART: usize = 16;
/// How long no connection is accepted after the system refused to hand one over, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;

/// Bounds of connections.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at the same time.
    pub connections_max: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a request's head may take to arrive, the wait for its first byte included.
    pub head: Duration,
    /// How long a body may be slower than it must be.
    pub body_grace: Duration,
    /// How much of a body must arrive in a second, in the long run.
    pub body_bytes_per_second: u64,
    /// How much of all bodies may be in memory; of one tenant's at most half.
    pub bodies_bytes_max: usize,
    /// How long a client may take nothing of an answer, and how long it may be slower than it must be.
    pub write_stall: Duration,
    /// How much of an answer a client must take in a second, in the long run.
    pub write_bytes_per_second: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_DEFAULT,
            handshake: Duration::from_millis(HANDSHAKE_MS_MAX),
            head: Duration::from_millis(HEAD_MS_MAX),
            body_grace: Duration::from_millis(BODY_GRACE_MS),
            body_bytes_per_second: BODY_BYTES_PER_SECOND_MIN,
            bodies_bytes_max: BODIES_BYTES_MAX,
            write_stall: Duration::from_millis(WRITE_STALL_MS_MAX),
            write_bytes_per_second: WRITE_BYTES_PER_SECOND_MIN,
        }
    }
}

/// All connections of a server.
pub(super) struct Connections {
    bounds: Bounds,
    tls: Option<Tls>,
    router: NormalizePath<Router>,
    places: Arc<Semaphore>,
    /// Wakes the connection that has been there longest.
    room: Notify,
    /// Connections that were not asked to leave yet.
    staying: AtomicUsize,
    /// Wakes the handshake that has gone on longest, when there is nobody else to ask.
    last_room: Notify,
    /// Handshakes that go on.
    shaking: AtomicUsize,
    stopping: watch::Receiver<bool>,
    /// Names what is refused.
    vault: Vault,
}

impl Connections {
    /// None yet. They end once `stopping` turns true.
    pub fn new(
        router: NormalizePath<Router>,
        bounds: Bounds,
        tls: Option<Tls>,
        stopping: watch::Receiver<bool>,
        vault: Vault,
    ) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(places(bounds)));
        let (room, staying) = (Notify::new(), AtomicUsize::new(0));
        let (last_room, shaking) = (Notify::new(), AtomicUsize::new(0));
        Arc::new(Self {
            bounds,
            tls,
            router,
            places,
            room,
            staying,
            last_room,
            shaking,
            stopping,
            vault,
        })
    }

    /// Accepts connections for as long as it is polled.
    pub async fn accept(self: &Arc<Self>, listener: &TcpListener) -> Infallible {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of files, or a client that was gone before it was greeted: neither is the listener's end.
                    tracing::debug!(%error, "no connection was accepted");
                    tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                    continue;
                }
            };
            match self.place().await {
                Some(place) => {
                    let all = Arc::clone(self);
                    tokio::spawn(async move {
                        all.converse(stream, address).await;
                        drop(place);
                    });
                }
                None => self.refuse(stream),
            }
        }
    }

    /// Waits until no connection is left.
    pub async fn ended(&self) {
        let all = u32::try_from(places(self.bounds)).unwrap_or(u32::MAX);
        // Nobody closes the semaphore: there is no other outcome.
        let _ = self.places.acquire_many(all).await;
    }

    /// A place for one more, if one is free or becomes so soon.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        // Before the last is taken: who is asked for room may take a while, and many may come meanwhile.
        let few = places(self.bounds) / SPARE_PART;
        let is_full = place.is_none() || self.places.available_permits() < few;
        if is_full && self.staying.load(Ordering::Acquire) > 0 {
            self.room.notify_one();
        } else if place.is_none() && self.shaking.load(Ordering::Acquire) > 0 {
            self.last_room.notify_one();
        }
        if place.is_some() {
            return place;
        }
        let place = Arc::clone(&self.places).acquire_owned();
        let bound = Duration::from_millis(ROOM_MS_MAX);
        tokio::time::timeout(bound, place).await.ok()?.ok()
    }

    fn refuse(&self, mut stream: TcpStream) {
        // No request was read that could have brought one.
        let trace_id = self.vault.draw_trace_id();
        tracing::warn!(%trace_id, "a connection was refused: all places are taken");
        if self.tls.is_some() {
            return;
        }
        let refusal = no_place(&trace_id);
        tokio::spawn(tokio::time::timeout(Duration::from_millis(REFUSED_MS), async move {
            let _ = stream.write_all(refusal.as_bytes()).await;
            let _ = stream.shutdown().await;
            let mut unread = [0; 1_024];
            while stream.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
        }));
    }

    async fn converse(&self, stream: TcpStream, address: SocketAddr) {
        // Answers are small and whole: waiting to fill a packet only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let Some(tls) = &self.tls else { return self.serve(stream, address).await };
        let handshake = tokio::time::timeout(self.bounds.handshake, tls.acceptor().accept(stream));
        let shaken = {
            let mut asked = pin!(self.last_room.notified());
            from_now_on(asked.as_mut(), &self.last_room);
            let _shaking = Staying::count(&self.shaking);
            tokio::select! {
                shaken = handshake => shaken,
                // Nothing was asked yet.
                () = asked => return,
                () = self.stopped() => return,
            }
        };
        match shaken {
            Ok(Ok(stream)) => self.serve(stream, address).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }

    async fn serve<S>(&self, stream: S, address: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let heads = Heads::default();
        let service = service_fn(|request| self.answer(request, address, heads.begin()));
        let Bounds { write_stall, write_bytes_per_second, .. } = self.bounds;
        let stream = PacedWrites::new(stream, write_stall, write_bytes_per_second);
        let stream = EndingReads::new(stream, heads.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.head)
            .max_buf_size(CONNECTION_BUFFER_BYTES_MAX)
            // Who closes its half has hung up: nothing tells it from who is gone, for whom no stop is to wait.
            .half_close(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = {
            let mut asked = pin!(self.room.notified());
            from_now_on(asked.as_mut(), &self.room);
            let staying = Staying::count(&self.staying);
            tokio::select! {
                ended = connection.as_mut() => Some(ended),
                () = asked => { drop(staying); None }
                () = self.stopped() => None,
            }
        };
        let ended = if let Some(ended) = ended {
            ended
        } else {
            connection.as_mut().graceful_shutdown();
            // Who only has to make room may still finish what it has asked for. But to hyper the first byte of a head is
            // a request, and whoever sent no more than that would keep its place for as long as a head may take.
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = self.time_to_leave() => {
                    heads.end();
                    connection.await
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    /// Waits until who was asked to make room has had its time to, or the server stops.
    async fn time_to_leave(&self) {
        let bound = Duration::from_millis(LEAVE_MS_MAX);
        let _ = tokio::time::timeout(bound, self.stopped()).await;
    }

    /// Waits until the server stops.
    async fn stopped(&self) {
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    async fn answer(
        &self,
        request: http::Request<Incoming>,
        address: SocketAddr,
        under_way: UnderWay,
    ) -> Result<axum::response::Response, Infallible> {
        let Bounds { body_grace, body_bytes_per_second, .. } = self.bounds;
        let place = shield::Place::of(request.uri().path());
        let mut request: Request = request.map(|body| {
            let paced = PacedBody::new(body, body_grace, body_bytes_per_second);
            under_way.again().with(Body::new(paced))
        });
        request.extensions_mut().insert(ConnectInfo(address));
        let mut response = self.router.clone().oneshot(request).await?;
        shield::protect(response.headers_mut(), place, self.tls.is_some());
        if response.status() == StatusCode::REQUEST_TIMEOUT {
            // What is left of the body is not waited for.
            let close = http::HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        Ok(response.map(|body| under_way.with(body)))
    }
}

/// Waits in the row from here on. Who was asked and had gone by then leaves the asking behind: it is not for who comes next.
fn from_now_on<'a>(mut asked: Pin<&mut Notified<'a>>, notify: &'a Notify) {
    while asked.as_mut().enable() {
        asked.set(notify.notified());
    }
}

/// What somebody reads who found no place, as it goes over the wire.
fn no_place(trace_id: &str) -> String {
    let detail = "The server has no connection to spare now.";
    let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    problem.trace_id = Some(trace_id.to_owned());
    let body = serde_json::to_string(&problem).unwrap_or_default();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\n\
         content-type: application/json\r\n\
         cache-control: no-store\r\n\
         x-content-type-options: nosniff\r\n\
         retry-after: 1\r\n\
         {TRACE_ID}: {trace_id}\r\n\
         connection: close\r\n\
         content-length: {}\r\n\r\n\
         {body}",
        body.len()
    )
}

/// A semaphore holds more than anybody's machine has ports, and a bound of none would be a server for nobody.
fn places(bounds: Bounds) -> usize {
    bounds.connections_max.clamp(1, 1 << 20)
}

/// One more connection that was not asked to leave, as long as it is held.
struct Staying<'a>(&'a AtomicUsize);

impl<'a> Staying<'a> {
    fn count(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::AcqRel);
        Self(all)
    }
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, no_place, places};

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = no_place("the-trace");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 503);
        assert_eq!(problem["trace_id"], "the-trace");
        assert!(head.contains("\r\nsvc-trace-id: the-trace\r\n"), "{head}");
    }

    #[test]
    fn there_is_a_place_and_not_too_many() {
        for (asked, given) in [(0, 1), (1, 1), (5_000, 5_000), (usize::MAX, 1 << 20)] {
            assert_eq!(places(Bounds { connections_max: asked, ..Bounds::default() }), given);
        }
    }
}
