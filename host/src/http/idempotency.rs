//! The header `SVC-IDEMPOTENCY-KEY` (decisions §1): a request that is repeated is not carried out again.

use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request, State as Shared};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use zeroize::Zeroizing;

use super::State;
use super::body;
use super::extract::Known;
use super::problem::{Problem, Rejection};
use crate::limits::{FORMULA_BODY_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX};
use crate::vault::{Answer, Attempt};

/// The header that names a request.
pub const KEY: HeaderName = HeaderName::from_static("svc-idempotency-key");
/// The header that says that an answer is a repetition.
pub const REPLAY: HeaderName = HeaderName::from_static("svc-idempotent-replay");

/// Carries out the first request of each key, and answers the others with its answer.
pub async fn layer(Shared(state): Shared<State>, request: Request, next: Next) -> Response {
    let repeatable = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    match request.headers().get(KEY).cloned() {
        Some(key) if repeatable => {
            once(&state, &key, request, next).await.unwrap_or_else(Rejection::into_response)
        }
        _ => next.run(request).await,
    }
}

async fn once(
    state: &State,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response, Rejection> {
    let key = key.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_CHARS_MAX {
        let detail =
            format!("{KEY} must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible characters.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail).into());
    }
    let (mut parts, body) = request.into_parts();
    let Known(who) = Known::from_request_parts(&mut parts, state).await?;
    let request = Request::from_parts(parts, body);
    let (parts, body) = body::whole(request, FORMULA_BODY_BYTES_MAX).await?;
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let same = [parts.method.as_str().as_bytes(), target.as_bytes(), &body];
    match state.vault.attempt(&who, key, &same).await? {
        Attempt::Repeated(answer) => Ok(replay(answer)),
        Attempt::First(claim) => {
            let response = next.run(Request::from_parts(parts, Body::from(body))).await;
            if !response.status().is_success() {
                return Ok(response);
            }
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            let body = body.unwrap_or_default();
            let text = Zeroizing::new(String::from_utf8_lossy(&body).into_owned());
            let location = parts.headers.get(header::LOCATION);
            let location = location.and_then(|value| value.to_str().ok()).map(str::to_owned);
            let status = parts.status.as_u16();
            claim.keep(Answer { status, location, body: text }).await?;
            Ok(Response::from_parts(parts, Body::from(body)))
        }
    }
}

fn replay(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (REPLAY, HeaderValue::from_static("true")),
    ];
    let mut response = (status, headers, answer.body.as_str().to_owned()).into_response();
    if let Some(Ok(location)) = answer.location.map(HeaderValue::try_from) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
