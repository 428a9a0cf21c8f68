//! Sending: one exchange after the other, each checked, all within one time and the bounds of an answer.

use std::error::Error;
use std::io;

use http::HeaderMap;
use reqwest::Response;
use url::Url;

use super::redirect::{follow, target};
use super::request::Hop;
use super::resolve::Unresolved;
use super::{Answer, Egress, EgressError, Outbound, Wanted};
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_HEADERS_BYTES_MAX, HTTP_HEADERS_MAX};

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

    /// As [`Self::send`], with a body of the answer for which there is room: it is asked for so many bytes before they are
    /// kept.
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

    async fn exchange(
        &self,
        request: &Outbound,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
        has_room: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<Answer, EgressError> {
        let rules = self.rules(request.https_only);
        let mut hop = Hop::first(request, rules)?;
        if !permits(&hop.url) {
            return Err(EgressError::Denied("the host is not an allowed one"));
        }
        let mut redirects = request.redirects;
        loop {
            let response = self.once(&hop, request.owner).await?;
            let (status, headers) = (response.status(), response.headers());
            if request.wanted == Wanted::Whole {
                check_headers(headers)?;
            }
            let next = if redirects > 0 { target(status, headers, &hop.url)? } else { None };
            let Some(next) = next else { return read(response, request.wanted, has_room).await };
            drop(response);
            redirects -= 1;
            let next = rules.check(next).map_err(of_a_redirect)?;
            if !permits(&next) {
                return Err(EgressError::Denied("a redirect leads to a host that is not allowed"));
            }
            hop = follow(hop, status, next)?;
        }
    }

    async fn once(&self, hop: &Hop, owner: u128) -> Result<Response, EgressError> {
        let client = self.client(owner, &hop.url);
        let client = client.map_err(|error| explain(&error, "no connection could be set up"))?;
        let request = client.request(hop.method.clone(), hop.url.clone());
        let request = request.headers(hop.headers.clone());
        let request = hop.body.iter().fold(request, |request, body| request.body(body.clone()));
        request.send().await.map_err(|error| explain(&error, "the exchange broke off"))
    }
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
fn check_headers(headers: &HeaderMap) -> Result<(), EgressError> {
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if headers.len() > HTTP_HEADERS_MAX || bytes.sum::<usize>() > HTTP_HEADERS_BYTES_MAX {
        return Err(EgressError::TooLarge);
    }
    Ok(())
}

async fn read(
    response: Response,
    wanted: Wanted,
    has_room: &(dyn Fn(usize) -> bool + Send + Sync),
) -> Result<Answer, EgressError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = response.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect();
    let status = response.status().as_u16();
    let body = match wanted {
        Wanted::Whole => read_body(response, has_room).await?,
        // Dropped with its rest; the client closes the connection unless there is none.
        Wanted::Head => Vec::new(),
    };
    Ok(Answer { status, headers, body })
}

async fn read_body(
    mut response: Response,
    has_room: &(dyn Fn(usize) -> bool + Send + Sync),
) -> Result<Vec<u8>, EgressError> {
    let announced = response.content_length().unwrap_or_default();
    if announced > HTTP_BODY_BYTES_MAX as u64 {
        return Err(EgressError::TooLarge);
    }
    let mut body = Vec::new();
    let broke = |error| explain(&error, "the connection broke before the answer was whole");
    while let Some(chunk) = response.chunk().await.map_err(broke)? {
        if body.len() + chunk.len() > HTTP_BODY_BYTES_MAX {
            return Err(EgressError::TooLarge);
        }
        if !has_room(chunk.len()) {
            return Err(EgressError::Unreachable("there is no memory left for the answer"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Puts the client's error into fixed words: its own may quote the address.
fn explain(error: &reqwest::Error, otherwise: &'static str) -> EgressError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
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
    let unconnected = "no connection to the host could be made";
    EgressError::Unreachable(if error.is_connect() { unconnected } else { otherwise })
}

fn of_a_cause(error: &(dyn Error + 'static)) -> Option<EgressError> {
    if let Some(unresolved) = error.downcast_ref::<Unresolved>() {
        return Some(match unresolved {
            Unresolved::NotPublic => EgressError::Denied("the host's address is not a public one"),
            Unresolved::Unknown => EgressError::Unreachable("the host's name has no address"),
        });
    }
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large) {
        return Some(EgressError::TooLarge);
    }
    let reason = match error.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::ConnectionRefused => "the host refused the connection",
        // What TLS finds wrong comes as this.
        io::ErrorKind::InvalidData => "no secure connection: the host is not trusted",
        _ => return None,
    };
    Some(EgressError::Unreachable(reason))
}
