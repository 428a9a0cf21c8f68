//! Sending: one exchange after the other, each checked, all within one time and the bounds of an answer. What does no harm
//! twice is sent once more where its connection breaks.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use tokio::sync::Notify;
use url::Url;

use super::redirect::{follow, target};
use super::request::Hop;
use super::resolve::Unresolved;
use super::{Answer, Egress, EgressError, HttpClient, Outbound, Wanted};
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_HEADERS_BYTES_MAX, HTTP_HEADERS_MAX};
use crate::model::weight::HEADER_BYTES;

/// Heads before the one of the answer, such as `100 Continue`, that are read: a host could send them without end.
const EARLY_HEADS_MAX: usize = 100;
const NOT_HTTP: &str = "the answer is no valid HTTP";
const UNCONNECTED: &str = "no connection to the host could be made";
const BROKEN: &str = "the exchange broke off";
const NO_ROOM: EgressError = EgressError::Unreachable("there is no memory left for the answer");

impl Egress {
    /// Sends a request to hosts that `permits` lets pass, the redirects' too, and reads as much of the answer as is
    /// wanted. What is under way ends when this is dropped.
    pub async fn send(
        &self,
        request: Outbound,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
    ) -> Result<Answer, EgressError> {
        self.send_within(request, permits, &|_| true).await
    }

    /// As [`Self::send`], with an answer for which there is room: it is asked for so many bytes before they are kept.
    pub async fn send_within(
        &self,
        request: Outbound,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
        has_room: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<Answer, EgressError> {
        let exchange = self.exchange(&request, permits, has_room);
        let exchange = tokio::time::timeout(request.timeout, exchange);
        exchange.await.unwrap_or(Err(EgressError::Timeout))
    }

    /// The first exchange: all of a request is checked that is known before anything is looked up or sent.
    pub(super) fn first_hop(
        &self,
        request: &Outbound,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
    ) -> Result<Hop, EgressError> {
        let hop = Hop::first(request, self.rules(request.https_only))?;
        if !permits(&hop.url) {
            return Err(EgressError::Denied("the host is not an allowed one"));
        }
        Ok(hop)
    }

    async fn exchange(
        &self,
        request: &Outbound,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
        has_room: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<Answer, EgressError> {
        let mut hop = self.first_hop(request, permits)?;
        let mut redirects = request.redirects;
        loop {
            let client = self.client(request.owner, &hop.url);
            let response = match once(&client, &hop).await {
                // By a connection of its own: others that are kept may have been closed as this one was.
                Err(EgressError::Unreachable(BROKEN))
                    if request.repeatable || hop.method.is_safe() =>
                {
                    once(&self.make_client(request.owner), &hop).await?
                }
                answer => answer?,
            };
            if request.wanted == Wanted::Whole {
                check_headers(response.headers())?;
            }
            let head = (response.status(), response.headers());
            match self.next_hop(request, &hop, head, &mut redirects, permits)? {
                Some(next) => hop = next,
                None => return read(response, request.wanted, has_room).await,
            }
        }
    }

    /// The exchange that follows an answer, if it redirects and that is to be followed.
    pub(super) fn next_hop(
        &self,
        request: &Outbound,
        hop: &Hop,
        (status, headers): (StatusCode, &HeaderMap),
        redirects: &mut u8,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
    ) -> Result<Option<Hop>, EgressError> {
        let next = if *redirects > 0 { target(status, headers, &hop.url)? } else { None };
        let Some(next) = next else { return Ok(None) };
        *redirects -= 1;
        let next = self.rules(request.https_only).check(next).map_err(of_a_redirect)?;
        if !permits(&next) {
            return Err(EgressError::Denied("a redirect leads to a host that is not allowed"));
        }
        follow(hop.clone(), status, next).map(Some)
    }
}

async fn once(client: &HttpClient, hop: &Hop) -> Result<Response<Incoming>, EgressError> {
    let to = hop.url.as_str().parse::<Uri>();
    let to = to.map_err(|_| EgressError::Invalid("the address cannot be sent to"))?;
    let mut request = Request::new(Full::new(hop.body.clone().unwrap_or_default()));
    *request.method_mut() = hop.method.clone();
    *request.uri_mut() = to;
    *request.headers_mut() = hop.headers.clone();
    // Some do not take that there is no body from there being none (RFC 9110 §8.6).
    let has_body = matches!(hop.method, Method::POST | Method::PUT | Method::PATCH);
    let is_empty = hop.body.as_ref().is_none_or(bytes::Bytes::is_empty);
    let nothing = (has_body && is_empty).then_some((header::CONTENT_LENGTH, "0"));
    let own = [(header::ACCEPT, "*/*"), (header::USER_AGENT, "tokamak")];
    for (name, value) in own.into_iter().chain(nothing) {
        let headers = request.headers_mut();
        headers.entry(name).or_insert_with(|| HeaderValue::from_static(value));
    }
    let too_many = early_heads(&mut request);
    tokio::select! {
        biased;
        // The connection goes with the request.
        () = too_many.notified() => {
            Err(EgressError::Unreachable("the host says more before its answer than is read"))
        }
        answer = client.request(request) => {
            answer.map_err(|error| {
                explain(&error, if error.is_connect() { UNCONNECTED } else { BROKEN })
            })
        }
    }
}

/// Tells when more heads came before the answer's own than are read.
fn early_heads<B>(request: &mut Request<B>) -> Arc<Notify> {
    let (seen, too_many) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let told = Arc::clone(&too_many);
    hyper::ext::on_informational(request, move |_| {
        if seen.fetch_add(1, Ordering::Relaxed) == EARLY_HEADS_MAX {
            told.notify_one();
        }
    });
    too_many
}

/// Where the server sends its clients is not for the formula to have written better.
fn of_a_redirect(error: EgressError) -> EgressError {
    match error {
        EgressError::Invalid(_) => {
            EgressError::Unreachable("a redirect leads to an address that cannot be sent to")
        }
        error => error,
    }
}

/// Of an answer whose status is all that is wanted, headers do not count.
pub(super) fn check_headers(headers: &HeaderMap) -> Result<(), EgressError> {
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if headers.len() > HTTP_HEADERS_MAX || bytes.sum::<usize>() > HTTP_HEADERS_BYTES_MAX {
        return Err(EgressError::TooLarge);
    }
    Ok(())
}

/// What headers take once they are read.
fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| HEADER_BYTES + name.as_str().len() + value.len()).sum()
}

async fn read(
    response: Response<Incoming>,
    wanted: Wanted,
    has_room: &(dyn Fn(usize) -> bool + Send + Sync),
) -> Result<Answer, EgressError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if wanted == Wanted::Whole && !has_room(head_bytes(response.headers())) {
        return Err(NO_ROOM);
    }
    let headers = response.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect();
    let status = response.status().as_u16();
    let body = match wanted {
        Wanted::Whole => read_body(response.into_body(), has_room).await?,
        // Dropped with its rest; the client closes the connection unless there is none.
        Wanted::Head => Vec::new(),
    };
    Ok(Answer { status, headers, body })
}

async fn read_body(
    mut coming: Incoming,
    has_room: &(dyn Fn(usize) -> bool + Send + Sync),
) -> Result<Vec<u8>, EgressError> {
    if coming.size_hint().lower() > HTTP_BODY_BYTES_MAX as u64 {
        return Err(EgressError::TooLarge);
    }
    let mut body = Vec::new();
    while let Some(frame) = coming.frame().await {
        let frame = frame
            .map_err(|error| explain(&error, "the connection broke before the answer was whole"))?;
        // Trailers are nobody's.
        let Ok(chunk) = frame.into_data() else { continue };
        if body.len() + chunk.len() > HTTP_BODY_BYTES_MAX {
            return Err(EgressError::TooLarge);
        }
        if !has_room(chunk.len()) {
            return Err(NO_ROOM);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Puts the client's error into fixed words: its own may quote the address.
fn explain(error: &(dyn Error + 'static), otherwise: &'static str) -> EgressError {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(known) = of_a_cause(error) {
            return known;
        }
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            // What it holds is not what it calls its source.
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    EgressError::Unreachable(otherwise)
}

fn of_a_cause(error: &(dyn Error + 'static)) -> Option<EgressError> {
    if let Some(unresolved) = error.downcast_ref::<Unresolved>() {
        return Some(match unresolved {
            Unresolved::NotPublic => EgressError::Denied("the host's address is not a public one"),
            Unresolved::Unknown => EgressError::Unreachable("the host's name has no address"),
            Unresolved::Crowded => EgressError::Crowded,
        });
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return match error {
            error if error.is_parse_too_large() => Some(EgressError::TooLarge),
            error if error.is_parse() => Some(EgressError::Unreachable(NOT_HTTP)),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(EgressError::Unreachable(match error {
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
                "no secure connection: the host is not trusted"
            }
            _ => "no secure connection: the host does not agree to one",
        }));
    }
    let error = error.downcast_ref::<io::Error>()?;
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "the host refused the connection",
        // What TLS finds wrong comes as this too, and says so within.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
            // The system says so of an address.
            if error.raw_os_error().is_none()
                && error.get_ref().is_none_or(|held| !held.is::<rustls::Error>()) =>
        {
            NOT_HTTP
        }
        _ => return None,
    };
    Some(EgressError::Unreachable(reason))
}
