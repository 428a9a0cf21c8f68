//! The formula's way out: requests to other hosts, counted, bounded by what is left of the run's time, and passed on to
//! whoever decides where they may go.
//!
//! A formula sends one and waits for its answer, or begins several and takes the answer of each ([`begun`]). The runner of
//! scripts begins as many as a script wants and takes the answers as they come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::Instrument as _;
use wasmtime::Result;
use wasmtime::component::Resource;

pub use self::begun::Exchange;
use self::sent::Counted;
use self::under_way::{Ended, Held, UnderWay, Wanted, exchange};
use super::call::{GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse};
use super::memory::{Kept, Part, Refusal};
use super::state::http::{self, Error, Request, Response};
use super::state::{State, TooManyCalls, on_its_own_stack};
use crate::limits::{HTTP_BODIES_UNDER_WAY_BYTES_MAX, HTTP_BODY_BYTES_MAX, HTTP_CALLS_MAX};
use crate::model::weight::HEADER_BYTES;

mod begun;
mod sent;
#[cfg(test)]
mod tests;
mod under_way;

type Answer = std::result::Result<Response, Error>;

/// Methods by which nothing is asked for but an answer.
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
/// What a formula is told when the other server answered, and there is no room for that.
const NO_ROOM: &str = "the vault has no room for the answer now";
/// And when there is none for what it sends.
const NO_ROOM_TO_SEND: &str = "the vault has no room for the request now";
/// What is left of a run's time for its own answer when another server gives none; of a short rest it is a tenth.
const TO_ANSWER_MAX: Duration = Duration::from_millis(100);

/// What a run may send, and until when.
#[derive(Default)]
pub struct Outgoing {
    http: Option<Arc<dyn GuestHttp>>,
    /// When the run ends.
    ends: Option<Instant>,
    /// What answers are taken from until the run has them.
    memory: Option<Arc<Part>>,
    calls: u64,
    /// Whether a request was begun that asks for more than to be told something.
    pub has_acted: bool,
    under_way: UnderWay,
    /// Why there was no room for an answer, if that is why the last request that failed did.
    pub no_room: Option<Refusal>,
    is_told: bool,
}

/// Why a request was not sent.
struct Unsent {
    error: Error,
    no_room: Option<Refusal>,
}

impl From<Error> for Unsent {
    fn from(error: Error) -> Self {
        Self { error, no_room: None }
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

    /// Notes whether there was room for the answer that the run gets. The operator is told once in a run. Another answer that
    /// came says nothing of one that did not; a request that failed otherwise may be what the run gives up for.
    fn note(&mut self, answer: &Answer, no_room: Option<Refusal>) {
        if let Some(refusal) = no_room
            && !self.is_told
        {
            tracing::warn!(?refusal, "there is no room for a formula's request or its answer");
            self.is_told = true;
        }
        if no_room.is_some() || answer.is_err() {
            self.no_room = no_room;
        }
    }

    /// Notes that a request goes out: by most methods it may change something there.
    fn goes_out(&mut self, request: &GuestHttpRequest) {
        self.has_acted |= !SAFE.iter().any(|method| request.method.eq_ignore_ascii_case(method));
    }

    fn left(&self) -> Duration {
        let left = |ends: Instant| ends.saturating_duration_since(Instant::now());
        self.ends.map_or(Duration::ZERO, left)
    }

    /// A request as the host sends it, within what is left of the run's time.
    fn bounded(&self, request: Request) -> GuestHttpRequest {
        let Request { method, url, headers, body, timeout_ms, redirects } = request;
        let asked = timeout_ms.map_or(Duration::MAX, |ms| Duration::from_millis(ms.into()));
        let left = self.left();
        // One that is given no answer is to be able to say so itself.
        let timeout = asked.min(left.saturating_sub(TO_ANSWER_MAX.min(left / 10)));
        GuestHttpRequest { method, url, headers, body, timeout, redirects }
    }

    /// What a request has to be refused for at once, before anything of it is kept.
    fn admit(
        &mut self,
        request: &Request,
    ) -> std::result::Result<(Arc<dyn GuestHttp>, Counted), Unsent> {
        let http = self.next()?;
        let body = request.body.as_ref().map_or(0, Vec::len);
        if body > HTTP_BODY_BYTES_MAX {
            return Err(Error::TooLarge.into());
        }
        let headers = request.headers.iter();
        let headers = headers.map(|(name, value)| HEADER_BYTES + name.len() + value.len());
        let bytes = body + request.url.len() + headers.sum::<usize>();
        match Counted::take(bytes, &self.under_way.waiting, self.memory.as_ref()) {
            Ok(counted) => Ok((http, counted)),
            // As when there is no room for an answer.
            Err(Some(refusal)) => {
                let error = Error::Unreachable(NO_ROOM_TO_SEND.to_owned());
                Err(Unsent { error, no_room: Some(refusal) })
            }
            Err(None) => {
                let most = HTTP_BODIES_UNDER_WAY_BYTES_MAX >> 20;
                let reason = format!("requests under way may take {most} MiB together");
                Err(Error::Denied(reason).into())
            }
        }
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
        let request = self.bounded(request);
        let number = self.under_way.begun;
        self.under_way.begun += 1;
        self.under_way.note_all()?;
        let kept = self.keep();
        let (http, counted) = match admitted {
            Ok(admitted) => admitted,
            Err(Unsent { error, no_room }) => {
                self.under_way
                    .is_there(Ended { no_room, ..Ended::unsent(number, error) }, Held::default());
                return Ok(number);
            }
        };
        if let Some(answer) = http.stood_in(&request, &kept) {
            let (answer, no_room) = told(answer, &kept);
            let held = Held { kept: Some(kept), ..Held::default() };
            self.under_way.is_there(Ended { number, answer, no_room }, held);
            return Ok(number);
        }
        self.goes_out(&request);
        let held = Held { counted: Some(counted), kept: Some(kept), ..Held::default() };
        let held = Arc::new(Mutex::new(held));
        let ahead = Arc::new(Notify::new());
        let turn = self.under_way.turn(&ahead);
        let run = exchange(number, (http, request), turn, Arc::clone(&held));
        let task = Some(self.under_way.tasks.spawn(run.in_current_span()));
        self.under_way.wanted.insert(number, Wanted { task, held, ahead });
        Ok(number)
    }

    /// Gives up a request that was begun. The other server may have it.
    pub fn abandon(&mut self, number: u32) -> Result<()> {
        self.under_way.give_up(number)
    }

    /// The next answer to a request that was begun, with that request's number; waits for one, at most so many
    /// milliseconds. `None` when they are over, or no request is under way.
    pub async fn next_answer(&mut self, within_ms: Option<u32>) -> Result<Option<(u32, Answer)>> {
        let next = self.under_way.next();
        let next = match within_ms {
            None => next.await,
            Some(ms) => {
                let within = Duration::from_millis(ms.into());
                tokio::time::timeout(within, next).await.unwrap_or(Ok(None))
            }
        };
        let Some(Ended { number, answer, no_room, .. }) = next? else { return Ok(None) };
        self.note(&answer, no_room);
        Ok(Some((number, answer)))
    }
}

impl http::Host for State {
    async fn send(&mut self, request: Request) -> Result<std::result::Result<Response, Error>> {
        self.count_call()?;
        let (http, counted) = match self.outgoing.admit(&request) {
            Ok(admitted) => admitted,
            Err(Unsent { error, no_room }) => {
                let answer = Err(error);
                self.outgoing.note(&answer, no_room);
                return Ok(answer);
            }
        };
        let (request, kept) = (self.outgoing.bounded(request), self.outgoing.keep());
        if let Some(answer) = http.stood_in(&request, &kept) {
            return Ok(told(answer, &kept).0);
        }
        self.outgoing.goes_out(&request);
        let growing = Arc::clone(&kept);
        let send = async move {
            let _counted = counted;
            http.send(request, growing).await
        };
        let answer = on_its_own_stack(send).await?;
        let (answer, no_room) = told(answer, &kept);
        self.outgoing.note(&answer, no_room);
        Ok(answer)
    }

    async fn begin(&mut self, request: Request) -> Result<Resource<Exchange>> {
        self.count_call()?;
        let number = self.outgoing.begin(request)?;
        Ok(self.table.push(Exchange(number))?)
    }
}

/// What came of a request, for the formula; and why there was no room for the answer, if that is why it is none.
fn told(
    answer: std::result::Result<GuestHttpResponse, GuestHttpError>,
    kept: &Kept,
) -> (Answer, Option<Refusal>) {
    match (answer, kept.refused()) {
        // Not as denied or as invalid: those say that nothing was sent.
        (Err(_), Some(refusal)) => (Err(Error::Unreachable(NO_ROOM.to_owned())), Some(refusal)),
        (answer, _) => (answer.map(Response::from).map_err(Error::from), None),
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
