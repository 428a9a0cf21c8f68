//! Connections: how many there may be, how long each may take over what, and how they end.
//!
//! Each connection is a task of its own, the TLS handshake included, so that a slow one delays nobody. When all places
//! are taken, the connection that has been there longest is asked to end after its present request, which is one whose
//! head has come: the rest of a head is waited for only shortly. Who finds no place all the same is told so with a 503.
//! Nobody is asked for the sake of an address that has more than half as many connections as there are places; what that
//! address has is asked before all others.
//! How many places there are, and for whom, is a matter of [`super::places`].

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use http::{StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::heads::{EndingReads, Heads, UnderWay};
use super::linger;
use super::no_place::{self, Refusals};
use super::pace::{PacedBody, PacedWrites};
use super::places::{Arrival, Asked, Place, Places, Row, Waiting};
use super::routes::Routes;
use super::shield;
use super::tls::Tls;
use super::wellformed::Malformed;
use crate::figures::figures;
use crate::limits::{
    BODIES_BYTES_MAX, BODY_BYTES_PER_SECOND_MIN, BODY_GRACE_MS, CONNECTION_BUFFER_BYTES_MAX,
    CONNECTIONS_DEFAULT, HANDSHAKE_MS_MAX, HEAD_MS_MAX, LEAVE_MS_MAX, ROOM_MS_MAX,
    WRITE_BYTES_PER_SECOND_MIN, WRITE_STALL_MS_MAX,
};
use crate::vault::Vault;

/// How long a refused client is listened to, so that it reads the refusal and not a broken connection.
const REFUSED_MS: u64 = 1_000;
/// While one waits for a place, so many of all may be asked by those who may not wait: one in so many.
const ASKED_PART: usize = 4;
/// How long no connection is accepted after the system refused to hand one over, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;
/// And how often the log is told of it, at most.
const ACCEPT_LOGGED_MS: u64 = 10_000;

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

/// What room is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// For those who come next, while there are still places.
    Spare,
    /// For those who come next: there is no place.
    Next,
    /// For one that waits for it.
    Now,
}

/// All connections of a server.
pub(super) struct Connections {
    bounds: Bounds,
    tls: Option<Tls>,
    router: Routes,
    places: Places,
    /// Connections that are past their handshake.
    served: Row,
    /// Handshakes that go on: they are asked when there is nobody else to ask.
    shaking: Row,
    refusals: Refusals,
    stopping: watch::Receiver<bool>,
    /// Names what is refused.
    vault: Vault,
}

impl Connections {
    /// None yet. They end once `stopping` turns true.
    pub fn new(
        router: Routes,
        bounds: Bounds,
        tls: Option<Tls>,
        stopping: watch::Receiver<bool>,
        vault: Vault,
    ) -> Arc<Self> {
        let places = Places::new(bounds.connections_max);
        let refusals = Refusals::new(bounds.connections_max / ASKED_PART + 1);
        Arc::new(Self {
            bounds,
            tls,
            router,
            places,
            served: Row::default(),
            shaking: Row::default(),
            refusals,
            stopping,
            vault,
        })
    }

    /// Accepts connections for as long as it is polled. It waits for nothing else: whoever comes is to learn soon whether
    /// there is a place.
    pub async fn accept(self: &Arc<Self>, listener: &TcpListener) -> Infallible {
        let mut silent_until = Instant::now();
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if is_clients(&error) => continue,
                Err(error) => {
                    // Out of files or memory, most often: not the listener's end, and the operator's to know.
                    let now = Instant::now();
                    if now >= silent_until {
                        silent_until = now + Duration::from_millis(ACCEPT_LOGGED_MS);
                        tracing::warn!(%error, "no connection can be accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                    continue;
                }
            };
            let all = Arc::clone(self);
            match self.places.arrive(address.ip()) {
                Arrival::Placed { place, few_left } => {
                    if few_left {
                        // Before the last is taken: who is asked may take a while, and many may come meanwhile.
                        self.ask_for_room(Want::Spare);
                    }
                    tokio::spawn(async move {
                        all.converse(stream, address, &place).await;
                        drop(place);
                    });
                }
                Arrival::Waiting(waiting) => {
                    tokio::spawn(async move { all.wait(stream, address, waiting).await });
                }
                Arrival::Refused { crowds } => {
                    // For who comes next: those whom the row has asked may all be busy, and others idle.
                    if !crowds && self.refusals.may_ask(Instant::now()) {
                        self.ask_for_room(Want::Next);
                    }
                    if let Some(refusal) = self.refusal(address) {
                        no_place::tell_at_once(stream, &refusal);
                    }
                }
            }
        }
    }

    /// Waits until no connection is left.
    pub async fn ended(&self) {
        self.places.all_free().await;
    }

    /// Asks whoever has been there longest to make room, of those who crowd before all others. Handshakes of others are
    /// asked for a place that is wanted now.
    fn ask_for_room(&self, want: Want) {
        match self.places.ask_who_crowds() {
            Asked::One => return,
            // It is they who leave few places: should others make up for it, they would have those places in the end.
            Asked::AllBefore if want == Want::Spare => return,
            Asked::AllBefore | Asked::NoCrowd => {}
        }
        if !self.served.ask() && want == Want::Now {
            self.shaking.ask();
        }
    }

    /// Serves a connection once there is a place for it, if one becomes free soon.
    async fn wait(&self, stream: TcpStream, address: SocketAddr, mut waiting: Waiting) {
        let place = self.place(&mut waiting).await;
        // Also of who is told that there is none: reading that takes as long as it likes, and others are to wait meanwhile.
        drop(waiting);
        if let Some(place) = place {
            self.converse(stream, address, &place).await;
            drop(place);
        } else if let Some(refusal) = self.refusal(address) {
            let Some(_reads) = self.places.tell() else {
                return no_place::tell_at_once(stream, &refusal);
            };
            let told = no_place::tell(stream, &refusal);
            let _ = tokio::time::timeout(Duration::from_millis(REFUSED_MS), told).await;
        }
    }

    /// A place, if one becomes free soon.
    async fn place(&self, waiting: &mut Waiting) -> Option<Place> {
        // Those who have a place are waited for then, and nobody else.
        if *self.stopping.borrow() {
            return None;
        }
        let crowds = waiting.crowds();
        let mut place = pin!(waiting.place());
        // Whoever is asked leaves its place to the row, and not to who comes next: so this is in the row before.
        if let Poll::Ready(place) = futures::poll!(place.as_mut()) {
            return place;
        }
        if !crowds {
            self.ask_for_room(Want::Now);
        }
        let bound = Duration::from_millis(ROOM_MS_MAX);
        tokio::select! {
            place = tokio::time::timeout(bound, place) => place.ok().flatten(),
            () = self.stopped() => None,
        }
    }

    /// What a client reads that gets no place; where it expects a handshake there is nothing to read.
    fn refusal(&self, address: SocketAddr) -> Option<String> {
        figures().connection_refused();
        let refused = self.refusals.count(Instant::now());
        if refused.is_none() && self.tls.is_some() {
            return None;
        }
        // No request was read that could have brought one.
        let trace_id = self.vault.draw_trace_id();
        if let Some(refused) = refused {
            let client = address.ip();
            tracing::warn!(%trace_id, %client, refused, "connections were refused: no place is free");
        }
        self.tls.is_none().then(|| no_place::text(&trace_id))
    }

    async fn converse(&self, stream: TcpStream, address: SocketAddr, place: &Place) {
        let _open = figures().connection_begins();
        // Answers are small and whole: waiting to fill a packet only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let Some(tls) = &self.tls else { return self.serve(stream, address, place).await };
        let handshake = tokio::time::timeout(self.bounds.handshake, tls.acceptor().accept(stream));
        let shaken = tokio::select! {
            // It can be asked before anything is done for it.
            biased;
            // Nothing was requested yet.
            () = place.asked(&self.shaking) => return,
            shaken = handshake => shaken,
            () = self.stopped() => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.serve(stream, address, place).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }

    async fn serve<S>(&self, stream: S, address: SocketAddr, place: &Place)
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
        let ended = tokio::select! {
            // It can be asked before anything is done for it.
            biased;
            () = place.asked(&self.served) => None,
            ended = connection.as_mut() => Some(ended),
            () = self.stopped() => None,
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
        let malformed = Malformed::find(request.version(), request.headers());
        let waits = linger::waits_to_send(request.version(), request.headers());
        let mut asked_for = None;
        let mut request: Request = request.map(|body| {
            let mut paced = PacedBody::new(body, body_grace, body_bytes_per_second);
            asked_for = waits.then(|| paced.asked_for());
            under_way.again().with(Body::new(paced))
        });
        request.extensions_mut().insert(ConnectInfo(address));
        if let Some(malformed) = malformed {
            request.extensions_mut().insert(malformed);
        }
        let mut response = self.router.clone().oneshot(request).await?;
        shield::protect(response.headers_mut(), place, self.tls.is_some());
        // Its client waits to be told to send it, and is not going to be.
        let is_left = asked_for.is_some_and(|asked_for| !asked_for.load(Ordering::Relaxed));
        let is_late = response.status() == StatusCode::REQUEST_TIMEOUT;
        if malformed.is_some() || is_left || is_late {
            // What is left of the body is not waited for. Behind a head that is not well formed, others may see another
            // request begin than is read here.
            let close = http::HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        Ok(response.map(|body| under_way.with(body)))
    }
}

/// Whether it is the end of one connection alone, which was given up before it was accepted.
fn is_clients(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
