//! What goes into a run and what comes out of it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use zeroize::Zeroizing;

use super::log::LogLine;
use super::memory::Kept;
use crate::model::plaintext::opaque;

/// One call of a formula.
pub struct Call {
    /// The arguments, as JSON.
    pub args: Zeroizing<String>,
    /// The reactor's configuration, as JSON.
    pub configuration: Zeroizing<String>,
    /// The vault, as the formula may use it.
    pub vault: Option<Arc<dyn GuestVault>>,
    /// Its way to other hosts, as the formula may use it.
    pub http: Option<Arc<dyn GuestHttp>>,
    /// Which call it is.
    pub invocation: GuestInvocation,
    /// Whose slots it counts against, and with whose runs it shares its turns.
    pub owner: u128,
    /// What it may use.
    pub budget: Budget,
}

/// Which call it is, for the formula to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestInvocation {
    /// The invocation's id.
    pub id: String,
    /// The reactor's id.
    pub reactor_id: String,
    /// 1 for the first try.
    pub attempt: u32,
    /// When it ends, in milliseconds since the Unix epoch.
    pub deadline_ms: u64,
}

/// What a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Memory, all of the formula's memories together.
    pub memory_bytes: u64,
    /// Time on the wall, waiting included.
    pub timeout: Duration,
    /// Computing: about one unit for each WebAssembly instruction.
    pub fuel: u64,
}

/// The vault behind `svc`. Bodies and answers are JSON, as over HTTP.
pub trait GuestVault: Send + Sync + 'static {
    /// `POST /tokens`
    fn create_token(&self, token: String) -> BoxFuture<'_, Result<String, GuestProblem>>;
    /// `GET /tokens/{id}`
    fn get_token(&self, id: String) -> BoxFuture<'_, Result<String, GuestProblem>>;
    /// `GET /tokens`, its parameters as an object
    fn list_tokens(&self, filter: String) -> BoxFuture<'_, Result<String, GuestProblem>>;
    /// `POST /tokens/search`
    fn search_tokens(&self, search: String) -> BoxFuture<'_, Result<String, GuestProblem>>;
    /// `PATCH /tokens/{id}`
    fn update_token(
        &self,
        id: String,
        patch: String,
    ) -> BoxFuture<'_, Result<String, GuestProblem>>;
    /// `DELETE /tokens/{id}`
    fn delete_token(&self, id: String) -> BoxFuture<'_, Result<(), GuestProblem>>;
    /// `POST /tokenize`
    fn tokenize(&self, value: String) -> BoxFuture<'_, Result<String, GuestProblem>>;
    /// `POST /detokenize`
    fn detokenize(&self, value: String) -> BoxFuture<'_, Result<String, GuestProblem>>;
}

/// The way to other hosts.
pub trait GuestHttp: Send + Sync + 'static {
    /// The answer of somebody who stands in for the other host, if anybody does. It is there at once, in the order in which
    /// it is asked for: a case of a formula is to come out the same each time.
    fn stood_in(
        &self,
        _request: &GuestHttpRequest,
        _kept: &Kept,
    ) -> Option<Result<GuestHttpResponse, GuestHttpError>> {
        None
    }

    /// Sends a request and reads the answer to its end, within the request's time. What is read of its body is `kept`.
    fn send(
        &self,
        request: GuestHttpRequest,
        kept: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>>;
}

/// A request of a formula.
#[derive(Clone, PartialEq, Eq)]
pub struct GuestHttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
    /// How long it may take: never past the end of the run.
    pub timeout: Duration,
    /// How many redirects are followed.
    pub redirects: u8,
}

/// An answer for a formula.
#[derive(Clone, PartialEq, Eq)]
pub struct GuestHttpResponse {
    /// The status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a formula's request has no answer, in fixed words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestHttpError {
    /// It may not be sent there.
    Denied(&'static str),
    /// It is no request.
    Invalid(&'static str),
    /// No connection, or it broke.
    Unreachable(&'static str),
    /// It took too long.
    Timeout,
    /// The request or its answer is too large.
    TooLarge,
}

/// A refusal of the vault, for the formula to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestProblem {
    /// The status it would have over HTTP.
    pub status: u16,
    /// Its title.
    pub title: String,
    /// What is wrong.
    pub detail: String,
    /// Member paths with their messages.
    pub errors: Vec<(String, Vec<String>)>,
}

/// What came of a call.
#[derive(Debug)]
pub struct Outcome {
    /// The answer, or why there is none.
    pub result: Result<GuestResponse, Failure>,
    /// What it used.
    pub usage: Usage,
    /// What it logged and printed.
    pub log: Vec<LogLine>,
    /// Whether it logged or printed more than is kept.
    pub log_truncated: bool,
    /// What the answer takes of its owner's memory, until what came of the run is stored.
    pub(super) _kept: Kept,
}

impl Outcome {
    /// The outcome of a call that never began, after so long.
    pub fn without_a_run(failure: Failure, elapsed: Duration) -> Self {
        let usage = Usage { elapsed, ..Usage::default() };
        let (log, log_truncated) = (Vec::new(), false);
        Self { result: Err(failure), usage, log, log_truncated, _kept: Kept::default() }
    }
}

impl Outcome {
    /// Whether it may be that the formula has done anything.
    pub fn has_begun(&self) -> bool {
        use Failure::{NoSandbox, NoSlot, NotCompiled, Saturated, TooLate};
        !matches!(self.result, Err(NoSandbox(_) | NoSlot | NotCompiled | Saturated | TooLate))
    }
}

/// What a call used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Fuel, at least: after a trap the exact figure is lost.
    pub fuel: u64,
    /// The most memory held.
    pub memory_peak_bytes: u64,
    /// Time on the wall.
    pub elapsed: Duration,
}

/// A formula's answer.
#[derive(Clone, Default, PartialEq)]
pub struct GuestResponse {
    /// For the caller as it is.
    pub raw: Option<Value>,
    /// To be tokenized.
    pub tokenize: Option<Value>,
}

opaque!(GuestResponse);

/// The kinds of failure a formula can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The caller is not who it says.
    Authentication,
    /// The caller may not.
    Authorization,
    /// The request is wrong.
    BadRequest,
    /// The payment method is refused.
    InvalidPaymentMethod,
    /// Too many requests.
    RateLimit,
    /// Anything else.
    Runtime,
    /// Something the formula needs is not there.
    ServiceUnavailable,
}

/// Why there is no answer.
#[derive(Clone, PartialEq)]
pub enum Failure {
    /// The formula reported a failure.
    Reported {
        /// Which.
        kind: FaultKind,
        /// In its words.
        detail: String,
        /// Member paths with their messages, in its words.
        errors: Vec<(String, Vec<String>)>,
    },
    /// The formula shaped the answer itself.
    Custom {
        /// 400 to 599.
        status: u16,
        /// Names and values, checked.
        headers: Vec<(String, String)>,
        /// The body.
        body: Value,
    },
    /// It trapped.
    Trapped {
        /// Why, in fixed words.
        cause: &'static str,
    },
    /// It wanted more memory than it may have.
    OutOfMemory,
    /// It wanted more memory, and its owner's runs hold all they may.
    OwnerOutOfMemory,
    /// It wanted more memory, and there is none left for anybody's.
    HostOutOfMemory,
    /// The system gave no memory for its sandbox; the cause is for the operator.
    NoSandbox(String),
    /// One of these three, of a run that had asked its vault or another server for what changes something.
    OutOfMemoryAfterActs(Box<Failure>),
    /// It used up its fuel.
    OutOfFuel,
    /// It called its host more often than a run may.
    TooManyCalls,
    /// Its time was up.
    Deadline,
    /// Its time was up before its formula was compiled: it never began.
    NotCompiled,
    /// No slot was free in time: it never began.
    NoSlot,
    /// What it takes was not there in time: it never began.
    TooLate,
    /// It ended the process instead of answering.
    Exited,
    /// Its answer cannot be used.
    BadResponse {
        /// Why, in fixed words and places.
        cause: Cow<'static, str>,
    },
    /// Its answer is too large.
    TooLarge,
    /// No slot of its owner's was free, and too many waited or none became free in time.
    Saturated,
    /// A fault of ours; the cause is for the operator.
    HostFault(String),
}

impl Failure {
    /// The same of a run that had asked its vault or another server for what changes something.
    #[must_use]
    pub fn after_acts(self) -> Self {
        match self {
            Self::OwnerOutOfMemory | Self::HostOutOfMemory | Self::NoSandbox(_) => {
                Self::OutOfMemoryAfterActs(Box::new(self))
            }
            failure => failure,
        }
    }
}

/// Says what happened, and nothing of what the formula said.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported { kind, .. } => write!(f, "Reported({kind:?}, ..)"),
            Self::Custom { status, .. } => write!(f, "Custom({status}, ..)"),
            Self::Trapped { cause } => write!(f, "Trapped({cause})"),
            Self::OutOfMemory => f.write_str("OutOfMemory"),
            Self::OwnerOutOfMemory => f.write_str("OwnerOutOfMemory"),
            Self::HostOutOfMemory => f.write_str("HostOutOfMemory"),
            Self::NoSandbox(cause) => write!(f, "NoSandbox({cause})"),
            Self::OutOfMemoryAfterActs(failure) => write!(f, "OutOfMemoryAfterActs({failure:?})"),
            Self::OutOfFuel => f.write_str("OutOfFuel"),
            Self::TooManyCalls => f.write_str("TooManyCalls"),
            Self::Deadline => f.write_str("Deadline"),
            Self::NotCompiled => f.write_str("NotCompiled"),
            Self::NoSlot => f.write_str("NoSlot"),
            Self::TooLate => f.write_str("TooLate"),
            Self::Exited => f.write_str("Exited"),
            Self::BadResponse { cause } => write!(f, "BadResponse({cause})"),
            Self::TooLarge => f.write_str("TooLarge"),
            Self::Saturated => f.write_str("Saturated"),
            Self::HostFault(cause) => write!(f, "HostFault({cause})"),
        }
    }
}
