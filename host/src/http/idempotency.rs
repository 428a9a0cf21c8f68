//! The header `SVC-IDEMPOTENCY-KEY` (decisions §1): a request that is repeated is not carried out again.
//!
//! To add an operation that changes something: what is kept of its answer in [`keeping`], beside what it asks of its caller
//! in [`super::asked`].

mod keeping;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, MatchedPath, Request, State as Shared};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use keeping::{Keeping, MADE};

use super::State;
use super::asked::{Asked, asked_for};
use super::body;
use super::extract::{ClaimedKey, Known};
use super::problem::{Problem, Rejection};
use crate::limits::{
    COMPONENT_BYTES_MAX, FORMULA_BODY_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX, REQUEST_BODY_BYTES_MAX,
};
use crate::model::weight;
use crate::vault::{Answer, Attempt, Authenticated, Error, Repetition, opened, uncounted};

/// The header that names a request.
pub const KEY: HeaderName = HeaderName::from_static("svc-idempotency-key");
/// The same as texts spell it.
const WRITTEN: &str = "SVC-IDEMPOTENCY-KEY";
/// The header that says that an answer is a repetition.
pub const REPLAY: HeaderName = HeaderName::from_static("svc-idempotent-replay");

/// Carries out the first request of each key, and answers the others with its answer.
pub async fn layer(Shared(state): Shared<State>, request: Request, next: Next) -> Response {
    let Some(key) = request.headers().get(KEY).filter(|_| changes(&request)) else {
        return next.run(request).await;
    };
    // What lies between may have read another one.
    let differ = request.headers().get_all(KEY).iter().any(|other| other != key);
    let key = if differ { Err(several()) } else { read_key(key) };
    // Apart, since few requests have a key: what waits for it would be carried around by all others too.
    let answer = Box::pin(once(&state, key, request, next)).await;
    answer.unwrap_or_else(Rejection::into_response)
}

/// Whether this is an operation that the header goes with. Who asks for none is told so, by whatever key.
fn changes(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    let method = request.method();
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
        && route.is_some_and(|route| asked_for(method, route.as_str()).is_some())
}

fn several() -> Rejection {
    let detail = format!("The request has several {WRITTEN} that differ.");
    Problem::new(StatusCode::BAD_REQUEST, detail).into()
}

fn read_key(key: &HeaderValue) -> Result<String, Rejection> {
    let key = key.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_CHARS_MAX {
        let detail = format!(
            "{WRITTEN} must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} characters of printable ASCII."
        );
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail).into());
    }
    Ok(key.to_owned())
}

/// Of who may do what it asks for, a request's body is read, to tell whether it is the same. Of others it is read if an
/// answer is kept under the key: what a caller did while it might is answered still, but for runs, whose answers hold what
/// was made of data. Else the refusal of the operation comes first (decisions §1), which is the operation's to give and to
/// log.
async fn once(
    state: &State,
    key: Result<String, Rejection>,
    request: Request,
    next: Next,
) -> Result<Response, Rejection> {
    let keeping = Keeping::of(&request);
    let (mut parts, body) = request.into_parts();
    let Known(who) = Known::from_request_parts(&mut parts, state).await?;
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let permitted = may(&who, &parts.method, &route);
    let named = key.as_deref().ok();
    let is_answered = async || keeping != Keeping::Run && was_answered(state, &who, named).await;
    if !permitted && !is_answered().await {
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    let key = key?;
    if keeping == Keeping::Nothing {
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    // Who may no longer do it sends no more than it may send elsewhere.
    let bytes_max = if permitted { body_bytes_max(&route) } else { REQUEST_BODY_BYTES_MAX };
    let body = match body::arrive(state, &who, body, bytes_max).await {
        // The operation refuses it whatever is wrong with the body.
        Err(_) if !permitted => {
            return Ok(next.run(Request::from_parts(parts, Body::empty())).await);
        }
        body => body?,
    };
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let same = [parts.method.as_str().as_bytes(), target.as_bytes(), body.bytes()];
    let form = keeping.form(&parts.method, &route, who.caller().tenant());
    let attempt = match state.vault.attempt(&who, &key, &same, form).await {
        // That a key is in use is told to those alone who may use it.
        Err(_) if !permitted => return Ok(next.run(body.pass_on(parts)).await),
        attempt => attempt?,
    };
    match attempt {
        Attempt::Repeated(repetition) => {
            Ok(replay(repeated(state, &who, keeping, repetition).await?))
        }
        Attempt::First(claim) => {
            // Held until the request is answered; the operation keeps its answer in the commit of what it does.
            let claim = ClaimedKey(Some(Arc::new(claim)));
            let mut request = body.pass_on(parts);
            request.extensions_mut().insert(claim.clone());
            let response = next.run(request).await;
            drop(claim);
            Ok(response)
        }
    }
}

/// Whether an answer is kept under a key that is one.
async fn was_answered(state: &State, who: &Authenticated, key: Option<&str>) -> bool {
    match key {
        // Nothing of it is kept, so that it need not count.
        Some(key) => uncounted(state.vault.has_answer(who, key)).await.unwrap_or_default(),
        None => false,
    }
}

/// The largest body of an operation: read whole here, it must not be larger than its handler would take.
fn body_bytes_max(route: &str) -> usize {
    match route {
        "/reactor-formulas" | "/reactor-formulas/{id}" => FORMULA_BODY_BYTES_MAX,
        "/reactor-formulas/{id}/component" => COMPONENT_BYTES_MAX,
        _ => REQUEST_BODY_BYTES_MAX,
    }
}

/// What a repetition is answered with.
async fn repeated(
    state: &State,
    who: &Authenticated,
    keeping: Keeping,
    repetition: Repetition,
) -> Result<Answer, Rejection> {
    match keeping {
        Keeping::Token => renewed(state, who, repetition).await,
        Keeping::Run => with_tokens(state, who, repetition).await,
        _ => {
            state.vault.log_repetition(who, &repetition).await?;
            Ok(repetition.answer)
        }
    }
}

/// Whether the caller holds what an operation asks for.
fn may(who: &Authenticated, method: &Method, route: &str) -> bool {
    match asked_for(method, route) {
        Some(Asked::Permission(permission)) => who.caller().rights.hold(permission),
        Some(Asked::Application(kind)) => who.is_application(kind),
        Some(Asked::AnyKey) | None => true,
    }
}

/// A kept answer with its token as the caller may see it now, or in outline if it may not read it. When the token is gone,
/// so is the answer.
async fn renewed(
    state: &State,
    who: &Authenticated,
    repetition: Repetition,
) -> Result<Answer, Rejection> {
    let mut outline: Map<String, Value> =
        serde_json::from_str(&repetition.answer.body).unwrap_or_default();
    let made = outline.remove(MADE).and_then(|made| serde_json::from_value(made).ok());
    let id = outline.get("id").and_then(Value::as_str).unwrap_or_default();
    let answer = |token: Value| Answer {
        status: repetition.answer.status,
        location: repetition.answer.location.clone(),
        body: Zeroizing::new(token.to_string()),
    };
    let Some(view) = state.vault.show_again(who, id, made).await? else {
        state.vault.log_repetition(who, &repetition).await?;
        return Ok(answer(Value::Object(outline)));
    };
    let mut token = serde_json::to_value(view).map_err(Error::internal)?;
    if let (Value::Object(members), Some(extras)) = (&mut token, outline.get("_extras")) {
        members.insert("_extras".to_owned(), extras.clone());
    }
    Ok(answer(token))
}

/// A run's kept answer for a caller that could still ask for it, with the tokens it made as they were shown, if they are
/// as they were.
async fn with_tokens(
    state: &State,
    who: &Authenticated,
    repetition: Repetition,
) -> Result<Answer, Rejection> {
    state.vault.may_repeat(who, &repetition).await?;
    opened(weight::of_json(repetition.answer.body.as_bytes())).map_err(Error::from)?;
    let mut answer: Value = serde_json::from_str(&repetition.answer.body).unwrap_or_default();
    // A result that is to be delivered again holds the answer of its run, which somebody else may have asked for.
    let id = answer["invocation_id"].as_str().map(str::to_owned);
    let read = if let (Some(id), Some(tokens)) = (id, answer.pointer_mut("/response/tokens")) {
        state.vault.show_kept_of_result(who, &id, tokens).await?
    } else if let Some(tokens) = answer.get_mut("tokens") {
        state.vault.show_kept(who.caller().tenant(), tokens, None).await?
    } else {
        state.vault.log_repetition(who, &repetition).await?;
        return Ok(repetition.answer);
    };
    let repetition = repetition.about(&read);
    state.vault.log_repetition(who, &repetition).await?;
    Ok(Answer { body: Zeroizing::new(answer.to_string()), ..repetition.answer })
}

fn replay(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (REPLAY, HeaderValue::from_static("true")),
    ];
    let mut response = (status, headers, Bytes::from_owner(answer.body)).into_response();
    if let Some(Ok(location)) = answer.location.map(HeaderValue::try_from) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
