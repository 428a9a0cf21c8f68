//! The formula's way out: requests to other hosts, counted, bounded by what is left of the run's time, and passed on to
//! whoever decides where they may go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::Result;

use super::call::{GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse};
use super::state::http::{self, Error, Request, Response};
use super::state::{State, on_its_own_stack};
use crate::limits::HTTP_CALLS_MAX;

/// What a run may send, and until when.
#[derive(Default)]
pub struct Outgoing {
    http: Option<Arc<dyn GuestHttp>>,
    /// When the run ends.
    ends: Option<Instant>,
    calls: u64,
}

impl Outgoing {
    /// The way out of a run that ends then.
    pub fn new(http: Option<Arc<dyn GuestHttp>>, ends: Instant) -> Self {
        Self { http, ends: Some(ends), calls: 0 }
    }

    /// The way out, or why it is closed.
    fn next(&mut self) -> std::result::Result<Arc<dyn GuestHttp>, Error> {
        self.calls += 1;
        if self.calls > HTTP_CALLS_MAX {
            let reason = format!("one invocation may send {HTTP_CALLS_MAX} requests");
            return Err(Error::Denied(reason));
        }
        let closed = || Error::Denied("the formula has no network".to_owned());
        self.http.as_ref().map(Arc::clone).ok_or_else(closed)
    }

    fn left(&self) -> Duration {
        let left = |ends: Instant| ends.saturating_duration_since(Instant::now());
        self.ends.map_or(Duration::ZERO, left)
    }
}

impl http::Host for State {
    async fn send(&mut self, request: Request) -> Result<std::result::Result<Response, Error>> {
        self.count_call()?;
        let http = match self.outgoing.next() {
            Ok(http) => http,
            Err(error) => return Ok(Err(error)),
        };
        let Request { method, url, headers, body, timeout_ms, redirects } = request;
        let asked = timeout_ms.map_or(Duration::MAX, |ms| Duration::from_millis(ms.into()));
        let timeout = asked.min(self.outgoing.left());
        let request = GuestHttpRequest { method, url, headers, body, timeout, redirects };
        let answer = on_its_own_stack(async move { http.send(request).await }).await?;
        Ok(answer.map(Response::from).map_err(Error::from))
    }
}

impl From<GuestHttpResponse> for Response {
    fn from(response: GuestHttpResponse) -> Self {
        let GuestHttpResponse { status, headers, body } = response;
        Self { status, headers, body }
    }
}

impl From<GuestHttpError> for Error {
    fn from(error: GuestHttpError) -> Self {
        match error {
            GuestHttpError::Denied(reason) => Self::Denied(reason.to_owned()),
            GuestHttpError::Invalid(reason) => Self::Invalid(reason.to_owned()),
            GuestHttpError::Unreachable(reason) => Self::Unreachable(reason.to_owned()),
            GuestHttpError::Timeout => Self::Timeout,
            GuestHttpError::TooLarge => Self::TooLarge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse, Outgoing};
    use crate::limits::HTTP_CALLS_MAX;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    struct Closed;

    impl GuestHttp for Closed {
        fn send(
            &self,
            _: GuestHttpRequest,
        ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
            async { Err(GuestHttpError::Timeout) }.boxed()
        }
    }

    #[test]
    fn so_many_requests_and_no_more() {
        let ends = Instant::now() + Duration::from_mins(1);
        let mut outgoing = Outgoing::new(Some(Arc::new(Closed)), ends);
        for _ in 0..HTTP_CALLS_MAX {
            assert!(outgoing.next().is_ok());
        }
        assert!(matches!(outgoing.next(), Err(Error::Denied(reason)) if reason.contains("100")));
        assert!(outgoing.left() > Duration::from_secs(50));
    }

    #[test]
    fn without_a_way_out_nothing_goes_out() {
        let mut none = Outgoing::new(None, Instant::now());
        assert!(matches!(none.next(), Err(Error::Denied(_))));
        assert_eq!(none.left(), Duration::ZERO);
        assert_eq!(Outgoing::default().left(), Duration::ZERO);
    }
}
