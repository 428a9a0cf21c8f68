//! The formula's way out: requests to other hosts, counted, bounded by what is left of the run's time, and passed on to
//! whoever decides where they may go.
//!
//! A formula sends one and waits for its answer. The runner of scripts begins as many as a script wants and takes the
//! answers as they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use wasmtime::Result;

use super::call::{GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse};
use super::memory::{Kept, Part};
use super::state::http::{self, Error, Request, Response};
use super::state::{HostFailed, State, TooManyCalls, on_its_own_stack};
use crate::limits::{
    HTTP_BODIES_UNDER_WAY_BYTES_MAX, HTTP_BODY_BYTES_MAX, HTTP_CALLS_MAX, HTTP_CALLS_UNDER_WAY_MAX,
};

type Answer = std::result::Result<Response, Error>;

/// What a run may send, and until when.
#[derive(Default)]
pub struct Outgoing {
    http: Option<Arc<dyn GuestHttp>>,
    /// When the run ends.
    ends: Option<Instant>,
    /// What answers are taken from until the run has them.
    memory: Option<Arc<Part>>,
    calls: u64,
    under_way: UnderWay,
}

/// Requests that were begun and whose answers are not taken yet. They end with the run.
struct UnderWay {
    tasks: JoinSet<Ended>,
    /// So that the answers that nobody took yet do not fill the host's memory.
    places: Arc<Semaphore>,
    begun: u32,
    /// Bytes of requests that have no answer yet.
    waiting: Arc<AtomicUsize>,
}

/// Bytes of a request, counted until this is dropped.
struct Counted(usize, Arc<AtomicUsize>);

impl Counted {
    fn take(bytes: usize, waiting: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(bytes, Arc::clone(waiting));
        let before = waiting.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes <= HTTP_BODIES_UNDER_WAY_BYTES_MAX).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// An answer, in its place until it is taken.
struct Ended {
    number: u32,
    answer: Answer,
    _place: Option<(OwnedSemaphorePermit, Arc<Kept>)>,
}

impl Default for UnderWay {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(HTTP_CALLS_UNDER_WAY_MAX));
        Self { tasks: JoinSet::new(), places, begun: 0, waiting: Arc::default() }
    }
}

impl Outgoing {
    /// The way out of a run that ends then, and is its owner's whose memory this is.
    pub fn new(http: Option<Arc<dyn GuestHttp>>, ends: Instant, memory: Arc<Part>) -> Self {
        Self { http, ends: Some(ends), memory: Some(memory), ..Self::default() }
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

    /// Where an answer is kept until the run has it.
    fn keep(&self) -> Arc<Kept> {
        Arc::new(Kept::of(self.memory.clone()))
    }

    fn left(&self) -> Duration {
        let left = |ends: Instant| ends.saturating_duration_since(Instant::now());
        self.ends.map_or(Duration::ZERO, left)
    }

    /// A request as the host sends it, within what is left of the run's time.
    fn bounded(&self, request: Request) -> GuestHttpRequest {
        let Request { method, url, headers, body, timeout_ms, redirects } = request;
        let asked = timeout_ms.map_or(Duration::MAX, |ms| Duration::from_millis(ms.into()));
        let timeout = asked.min(self.left());
        GuestHttpRequest { method, url, headers, body, timeout, redirects }
    }

    /// What a request has to be refused for at once, before anything of it is kept.
    fn admit(
        &mut self,
        request: &Request,
    ) -> std::result::Result<(Arc<dyn GuestHttp>, Counted), Error> {
        let http = self.next()?;
        let body = request.body.as_ref().map_or(0, Vec::len);
        if body > HTTP_BODY_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let headers = request.headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = body + request.url.len() + headers.sum::<usize>();
        let Some(counted) = Counted::take(bytes, &self.under_way.waiting) else {
            let most = HTTP_BODIES_UNDER_WAY_BYTES_MAX >> 20;
            let reason = format!("bodies of requests under way may take {most} MiB together");
            return Err(Error::Denied(reason));
        };
        Ok((http, counted))
    }

    /// Begins a request; its number. Far too many end the run.
    pub fn begin(&mut self, mut request: Request) -> Result<u32> {
        if self.calls > 10 * HTTP_CALLS_MAX {
            return Err(TooManyCalls.into());
        }
        let admitted = self.admit(&request);
        if admitted.is_err() {
            (request.body, request.headers, request.url) = Default::default();
        }
        let mut request = self.bounded(request);
        let number = self.under_way.begun;
        self.under_way.begun += 1;
        let (places, kept) = (Arc::clone(&self.under_way.places), self.keep());
        let began = Instant::now();
        let run = async move {
            let (http, _counted) = match admitted {
                Ok(admitted) => admitted,
                Err(error) => return Ended { number, answer: Err(error), _place: None },
            };
            let place = tokio::time::timeout(request.timeout, places.acquire_owned()).await;
            let Ok(Ok(place)) = place else {
                return Ended { number, answer: Err(Error::Timeout), _place: None };
            };
            request.timeout = request.timeout.saturating_sub(began.elapsed());
            let answer = http.send(request, Arc::clone(&kept)).await;
            let answer = answer.map(Response::from).map_err(Error::from);
            Ended { number, answer, _place: Some((place, kept)) }
        };
        self.under_way.tasks.spawn(run.in_current_span());
        Ok(number)
    }

    /// The next answer to a request that was begun, with that request's number; waits for one, at most so many
    /// milliseconds. `None` when they are over, or no request is under way.
    pub async fn next_answer(&mut self, within_ms: Option<u32>) -> Result<Option<(u32, Answer)>> {
        let next = self.under_way.tasks.join_next();
        let next = match within_ms {
            None => next.await,
            Some(ms) => {
                let within = Duration::from_millis(ms.into());
                tokio::time::timeout(within, next).await.unwrap_or_default()
            }
        };
        match next {
            None => Ok(None),
            Some(Ok(Ended { number, answer, .. })) => Ok(Some((number, answer))),
            Some(Err(_)) => Err(HostFailed.into()),
        }
    }
}

impl http::Host for State {
    async fn send(&mut self, request: Request) -> Result<std::result::Result<Response, Error>> {
        self.count_call()?;
        let http = match self.outgoing.next() {
            Ok(http) => http,
            Err(error) => return Ok(Err(error)),
        };
        let (request, kept) = (self.outgoing.bounded(request), self.outgoing.keep());
        let answer = on_its_own_stack(async move { http.send(request, kept).await }).await?;
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
    use super::{
        Error, GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse, Kept, Outgoing,
        Part, Request,
    };
    use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_CALLS_MAX};
    use crate::runtime::memory::Room;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    struct Closed;

    impl GuestHttp for Closed {
        fn send(
            &self,
            _: GuestHttpRequest,
            _: Arc<Kept>,
        ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
            async { Err(GuestHttpError::Timeout) }.boxed()
        }
    }

    /// An owner's part of 16 MiB: half.
    fn memory() -> Arc<Part> {
        Arc::new(Part::of(&Arc::new(Room::new(16 << 20, 1))))
    }

    /// Answers with so much, if there is memory for it.
    struct Large(usize);

    impl GuestHttp for Large {
        fn send(
            &self,
            _: GuestHttpRequest,
            kept: Arc<Kept>,
        ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
            let fits = kept.grow(self.0);
            let answer =
                GuestHttpResponse { status: 200, headers: Vec::new(), body: vec![0; self.0] };
            async move { if fits { Ok(answer) } else { Err(GuestHttpError::Unreachable("full")) } }
                .boxed()
        }
    }

    #[tokio::test]
    async fn answers_that_nobody_took_yet_are_memory_of_the_owners_runs() {
        let ends = Instant::now() + Duration::from_mins(1);
        let mut outgoing = Outgoing::new(Some(Arc::new(Large(3 << 20))), ends, memory());
        for _ in 0..3 {
            outgoing.begin(request(0)).unwrap();
        }
        // All have ended, and nobody has looked.
        while outgoing.under_way.waiting.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        let mut full = 0;
        for _ in 0..3 {
            let (_, answer) = outgoing.next_answer(None).await.unwrap().unwrap();
            full += usize::from(matches!(answer, Err(Error::Unreachable(_))));
        }
        assert_eq!(full, 1);
        // Those that were taken make room.
        outgoing.begin(request(0)).unwrap();
        let (_, answer) = outgoing.next_answer(None).await.unwrap().unwrap();
        assert!(answer.is_ok());
    }

    #[test]
    fn so_many_requests_and_no_more() {
        let ends = Instant::now() + Duration::from_mins(1);
        let mut outgoing = Outgoing::new(Some(Arc::new(Closed)), ends, memory());
        for _ in 0..HTTP_CALLS_MAX {
            assert!(outgoing.next().is_ok());
        }
        assert!(matches!(outgoing.next(), Err(Error::Denied(reason)) if reason.contains("100")));
        assert!(outgoing.left() > Duration::from_secs(50));
    }

    /// Never answers.
    struct Silent;

    impl GuestHttp for Silent {
        fn send(
            &self,
            _: GuestHttpRequest,
            _: Arc<Kept>,
        ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
            std::future::pending().boxed()
        }
    }

    fn request(body_bytes: usize) -> Request {
        Request {
            method: "POST".to_owned(),
            url: "https://example.com".to_owned(),
            headers: Vec::new(),
            body: Some(vec![0; body_bytes]),
            timeout_ms: None,
            redirects: 0,
        }
    }

    #[tokio::test]
    async fn requests_that_wait_do_not_fill_the_hosts_memory() {
        let ends = Instant::now() + Duration::from_mins(1);
        let mut outgoing = Outgoing::new(Some(Arc::new(Silent)), ends, memory());
        // One and a half of the largest fit beside each other, so the third is too much, and small ones are not.
        for bytes in [HTTP_BODY_BYTES_MAX, HTTP_BODY_BYTES_MAX / 2, HTTP_BODY_BYTES_MAX, 10] {
            outgoing.begin(request(bytes)).unwrap();
        }
        let (number, answer) = outgoing.next_answer(Some(30_000)).await.unwrap().unwrap();
        assert_eq!(number, 2);
        assert!(matches!(answer, Err(Error::Denied(reason)) if reason.contains("8 MiB")));
        outgoing.begin(request(HTTP_BODY_BYTES_MAX + 1)).unwrap();
        let (number, answer) = outgoing.next_answer(Some(30_000)).await.unwrap().unwrap();
        assert!(number == 4 && matches!(answer, Err(Error::TooLarge)));
        assert!(outgoing.next_answer(Some(1)).await.unwrap().is_none());
        // Those past the most are told so; far more end the run.
        let begun = (0..100 * HTTP_CALLS_MAX).take_while(|_| outgoing.begin(request(0)).is_ok());
        assert!((HTTP_CALLS_MAX..20 * HTTP_CALLS_MAX).contains(&(begun.count() as u64)));
    }

    #[test]
    fn without_a_way_out_nothing_goes_out() {
        let mut none = Outgoing::new(None, Instant::now(), memory());
        assert!(matches!(none.next(), Err(Error::Denied(_))));
        assert_eq!(none.left(), Duration::ZERO);
        assert_eq!(Outgoing::default().left(), Duration::ZERO);
    }
}
