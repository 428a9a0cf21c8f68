//! What goes around all else: trace ids, problems written out, one log line per request, panics caught.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use tracing::Instrument as _;
use tracing::level_filters::LevelFilter;

use super::State;
use super::problem::{Problem, names_problem};
use crate::figures::{figures, known_method};
use crate::limits::TRACE_ID_CHARS_MAX;
use crate::traces;

/// The header that carries a trace id in and out.
pub const TRACE_ID: HeaderName = HeaderName::from_static("svc-trace-id");

/// In a response: that it is no fault of the server's, or one that is counted elsewhere, whatever its status.
#[derive(Clone)]
pub struct NotCounted;

/// In a response: that a formula chose its status.
#[derive(Clone)]
pub struct ByFormula;

/// Runs the request inside a span that names its trace id, and gives every response that id.
pub async fn around<F>(state: &State, request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    let trace_id = given(&request).unwrap_or_else(|| state.vault.draw_trace_id().into());
    let is_named = asks_for_problems(&request);
    let method = request.method().clone();
    // As with the path: a caller may send any word, of any length.
    let named = known_method(method.as_str()).unwrap_or("_OTHER");
    // The pattern, not the path: a path holds ids, and ids are the caller's words.
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("-", MatchedPath::as_str).to_owned();
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let client = from.map(|ConnectInfo(address)| address.ip().to_canonical());
    // Of the highest level: lines that tell of errors alone are to name it too.
    // As `enabled!` it would be asked of the filters, one of which may then take the answer for the span's.
    let span = if LevelFilter::current() >= LevelFilter::INFO {
        tracing::error_span!("request", %trace_id, method = named, route = %route)
    } else {
        tracing::error_span!("request", %trace_id)
    };
    traces::continue_from(&span, request.headers());
    let (began, counted) = (Instant::now(), figures().request_begins());
    // Whatever wraps it copies it.
    let run = Box::pin(next(request));
    let run = AssertUnwindSafe(traces::within(Arc::clone(&trace_id), run).instrument(span.clone()));
    let changes = !matches!(method, Method::GET | Method::HEAD);
    let whole = async move {
        // Where it panicked is in the log by the hook, without what it said.
        let response = run.catch_unwind().await.unwrap_or_else(|_| failed());
        let mut response = write_problem(response, &trace_id, is_named);
        if let Ok(value) = HeaderValue::from_str(&trace_id) {
            response.headers_mut().insert(TRACE_ID, value);
        }
        let status = response.status().as_u16();
        drop(counted);
        let is_not_counted = response.extensions().get::<NotCounted>().is_some();
        let is_ours = response.extensions().get::<ByFormula>().is_none();
        let ours = is_ours.then_some(status);
        figures().request_answered(method.as_str(), &route, ours, is_not_counted, began.elapsed());
        let ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        let client = client.map(tracing::field::display);
        span.in_scope(|| tracing::info!(status, ms, client, "answered"));
        response
    };
    if !changes {
        return whole.await;
    }
    // What changes something is carried to its end even when the caller hangs up: what is committed is then also
    // forgotten by caches, kept for repetitions, counted and logged. A task of its own ends with nobody but itself, and a
    // server that stops waits for it.
    state.under_way().spawn(whole).await.unwrap_or_else(|_| failed())
}

fn failed() -> Response {
    let detail = "The server failed to handle the request.";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
}

fn given(request: &Request) -> Option<Arc<str>> {
    let text = request.headers().get(TRACE_ID)?.to_str().ok()?;
    let fits = !text.is_empty() && text.len() <= TRACE_ID_CHARS_MAX;
    (fits && text.chars().all(|c| c.is_ascii_graphic())).then(|| text.into())
}

/// Whether the client accepts problems by the name of their content type. Several lines are one list (RFC 9110 §5.3).
fn asks_for_problems(request: &Request) -> bool {
    let mut lines = request.headers().get_all(header::ACCEPT).iter();
    lines.any(|line| line.to_str().is_ok_and(names_problem))
}

fn write_problem(mut response: Response, trace_id: &str, is_named: bool) -> Response {
    let problem = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        // axum's own refusals, such as 405, come with an empty body and no content type.
        None if is_bare_refusal(&response) => {
            Problem::new(response.status(), bare_detail(response.status()))
        }
        None => return response,
    };
    let written = problem.write(trace_id, is_named);
    let (mut parts, _) = response.into_parts();
    let (own, body) = written.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(own.headers);
    Response::from_parts(parts, body)
}

fn is_bare_refusal(response: &Response) -> bool {
    let refused = response.status().is_client_error() || response.status().is_server_error();
    refused && !response.headers().contains_key(header::CONTENT_TYPE)
}

fn bare_detail(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => "This path does not take this method.",
        StatusCode::PAYLOAD_TOO_LARGE => "The body is too large.",
        _ => "The request was refused.",
    }
}
