//! Between the generated bindings and the types that authors see.
//!
//! The only module that knows both. It exists in a component alone; `testing` is its counterpart.
//! A new case of the contract's `error` is one row in [`fault`], a new method of `svc` one in [`Host`].

use crate::bindings::exports::tokamak::formula::reactor as wire;
use crate::bindings::tokamak::formula::types::{CustomResponse, Error as WireError, Fault};
use crate::bindings::tokamak::formula::{http, logging, vault};
use crate::error::{Custom, Report};
use crate::http::{Error as HttpError, Response, Sent};
use crate::log::Level;
use crate::request::{Argument, Inbound};
use crate::response::{Answer, Outbound};
use crate::{Error, ErrorKind, Invocation, Problem, Svc, Vault};

/// Runs a formula on a request from the host.
pub fn react<A: Argument, R: Answer>(
    request: wire::Request,
    formula: fn(A) -> R,
) -> Result<wire::Response, WireError> {
    let inbound = Inbound {
        args: &request.args,
        configuration: &request.configuration,
        svc: request.svc.map(|svc| Svc::over(Host(svc))),
        invocation: Invocation {
            id: request.invocation.id,
            reactor_id: request.invocation.reactor_id,
            attempt: request.invocation.attempt,
            deadline_ms: request.invocation.deadline_ms,
        },
    };
    let answer = A::read(inbound).and_then(|argument| formula(argument).into_outbound());
    match answer {
        Ok(Outbound { raw, tokenize }) => Ok(wire::Response { raw, tokenize }),
        Err(error) => Err(wire_error(error)),
    }
}

/// Keeps a line with the invocation.
pub(crate) fn write_line(level: Level, message: &str) {
    let level = match level {
        Level::Trace => logging::Level::Trace,
        Level::Debug => logging::Level::Debug,
        Level::Info => logging::Level::Info,
        Level::Warn => logging::Level::Warn,
        Level::Error => logging::Level::Error,
    };
    logging::write(level, message);
}

/// Sends a request and waits for its answer.
pub(crate) fn send(sent: Sent) -> Result<Response, HttpError> {
    answered(http::send(&request(sent)))
}

/// A request that was begun. One that is dropped is given up.
pub(crate) struct Begun(http::Exchange);

/// Begins a request without waiting for its answer.
pub(crate) fn begin(sent: Sent) -> Begun {
    Begun(http::begin(&request(sent)))
}

impl Begun {
    /// Waits for the answer.
    pub(crate) fn answer(self) -> Result<Response, HttpError> {
        answered(self.0.answer())
    }
}

fn request(sent: Sent) -> http::Request {
    let Sent { method, url, headers, body, timeout_ms, redirects } = sent;
    http::Request { method, url, headers, body, timeout_ms, redirects }
}

fn answered(answer: Result<http::Response, http::Error>) -> Result<Response, HttpError> {
    match answer {
        Ok(http::Response { status, headers, body }) => Ok(Response { status, headers, body }),
        Err(error) => Err(match error {
            http::Error::Denied(cause) => HttpError::Denied(cause),
            http::Error::Invalid(cause) => HttpError::Invalid(cause),
            http::Error::Unreachable(cause) => HttpError::Unreachable(cause),
            http::Error::Timeout => HttpError::Timeout,
            http::Error::TooLarge => HttpError::TooLarge,
        }),
    }
}

fn wire_error(error: Error) -> WireError {
    match error.into_report() {
        Report::Fault { kind, detail, errors } => fault(kind)(Fault { detail, errors }),
        Report::Custom(Custom { status, headers, body }) => {
            WireError::Custom(CustomResponse { status, headers, body })
        }
    }
}

fn fault(kind: ErrorKind) -> fn(Fault) -> WireError {
    match kind {
        ErrorKind::Authentication => WireError::Authentication,
        ErrorKind::Authorization => WireError::Authorization,
        ErrorKind::BadRequest => WireError::BadRequest,
        ErrorKind::InvalidPaymentMethod => WireError::InvalidPaymentMethod,
        ErrorKind::RateLimit => WireError::RateLimit,
        ErrorKind::Runtime => WireError::Runtime,
        ErrorKind::ServiceUnavailable => WireError::ServiceUnavailable,
    }
}

/// The vault, as the host offers it.
struct Host(vault::Svc);

impl Vault for Host {
    fn create_token(&self, token: &str) -> Result<String, Problem> {
        self.0.create_token(token).map_err(problem)
    }

    fn get_token(&self, id: &str) -> Result<String, Problem> {
        self.0.get_token(id).map_err(problem)
    }

    fn list_tokens(&self, filter: &str) -> Result<String, Problem> {
        self.0.list_tokens(filter).map_err(problem)
    }

    fn search_tokens(&self, search: &str) -> Result<String, Problem> {
        self.0.search_tokens(search).map_err(problem)
    }

    fn update_token(&self, id: &str, patch: &str) -> Result<String, Problem> {
        self.0.update_token(id, patch).map_err(problem)
    }

    fn delete_token(&self, id: &str) -> Result<(), Problem> {
        self.0.delete_token(id).map_err(problem)
    }

    fn tokenize(&self, value: &str) -> Result<String, Problem> {
        self.0.tokenize(value).map_err(problem)
    }

    fn detokenize(&self, value: &str) -> Result<String, Problem> {
        self.0.detokenize(value).map_err(problem)
    }
}

fn problem(problem: vault::Problem) -> Problem {
    let vault::Problem { status, title, detail, errors } = problem;
    Problem { status, title, detail, errors }
}
