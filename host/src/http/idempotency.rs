//! The header `SVC-IDEMPOTENCY-KEY` (decisions §1): a request that is repeated is not carried out again.
//!
//! What is kept of an answer must not outlive what it shows: a token that was erased, a right that
//! was revoked, a key of which the vault keeps a hash. So of tokens only the outline is kept, and
//! of keys nothing.
//!
//! An operation whose answer holds such things gets a row in [`Keeping::of`].

use axum::body::Body;
use axum::extract::{FromRequestParts as _, MatchedPath, Request, State as Shared};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::response::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use zeroize::Zeroizing;

use super::State;
use super::body;
use super::extract::Known;
use super::problem::{Problem, Rejection};
use crate::limits::{FORMULA_BODY_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX};
use crate::vault::{Answer, Attempt, Authenticated, Error};

/// The header that names a request.
pub const KEY: HeaderName = HeaderName::from_static("svc-idempotency-key");
/// The header that says that an answer is a repetition.
pub const REPLAY: HeaderName = HeaderName::from_static("svc-idempotent-replay");

/// What changes nothing, although it is a POST.
const READS: [&str; 2] = ["/tokens/search", "/detokenize"];
/// Members of an answer that are shown to whoever did it, and to nobody who repeats it.
const SECRETS: [&str; 4] = ["key", "session_key", "nonce", "secret"];
/// Members of a token that say which it is, and nothing of what it holds.
const OUTLINE: [&str; 6] = ["id", "tenant_id", "type", "fingerprint", "containers", "_extras"];

/// How much is kept of the answer of an operation, and how a repetition is answered from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// Nothing: the operation changes nothing, so that a repetition is carried out again.
    Nothing,
    /// All of it.
    Whole,
    /// All but the secrets in it.
    WithoutSecrets,
    /// The outline of the token it shows; a repetition shows it as the caller may see it then.
    Token,
    /// Its shape, with the outline of each token in it.
    Tokens,
}

/// Carries out the first request of each key, and answers the others with its answer.
pub async fn layer(Shared(state): Shared<State>, request: Request, next: Next) -> Response {
    let keeping = Keeping::of(&request);
    let key = match request.headers().get(KEY).map(read_key) {
        Some(_) if !may_change(&request) => None,
        Some(Err(rejection)) => return rejection.into_response(),
        Some(Ok(key)) => Some(key),
        None => None,
    };
    match key {
        Some(key) if keeping != Keeping::Nothing => {
            let answer = once(&state, keeping, &key, request, next).await;
            answer.unwrap_or_else(Rejection::into_response)
        }
        _ => next.run(request).await,
    }
}

/// Whether the method is one that the header goes with.
fn may_change(request: &Request) -> bool {
    matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH)
}

fn read_key(key: &HeaderValue) -> Result<String, Rejection> {
    let key = key.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_CHARS_MAX {
        let detail =
            format!("{KEY} must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible characters.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail).into());
    }
    Ok(key.to_owned())
}

async fn once(
    state: &State,
    keeping: Keeping,
    key: &str,
    request: Request,
    next: Next,
) -> Result<Response, Rejection> {
    let (mut parts, body) = request.into_parts();
    let Known(who) = Known::from_request_parts(&mut parts, state).await?;
    let request = Request::from_parts(parts, body);
    let (parts, body) = body::whole(request, FORMULA_BODY_BYTES_MAX).await?;
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let same = [parts.method.as_str().as_bytes(), target.as_bytes(), &body];
    match state.vault.attempt(&who, key, &same).await? {
        Attempt::Repeated(answer) if keeping == Keeping::Token => {
            Ok(replay(renewed(state, &who, answer).await?))
        }
        Attempt::Repeated(answer) => Ok(replay(answer)),
        Attempt::First(claim) => {
            let response = next.run(Request::from_parts(parts, Body::from(body))).await;
            if !response.status().is_success() {
                return Ok(response);
            }
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            let body = body.unwrap_or_default();
            claim.keep(keeping.kept(&who, &parts, &body)).await?;
            Ok(Response::from_parts(parts, Body::from(body)))
        }
    }
}

impl Keeping {
    fn of(request: &Request) -> Self {
        let method = request.method().as_str();
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        match (method, path) {
            _ if !may_change(request) || READS.contains(&path) => Self::Nothing,
            (
                "POST",
                "/applications"
                | "/applications/{id}/regenerate"
                | "/sessions"
                | "/webhooks/signing-secrets/rotate",
            ) => Self::WithoutSecrets,
            ("POST", "/tokens") | ("PATCH", "/tokens/{id}") => Self::Token,
            ("POST", "/tokenize") => Self::Tokens,
            _ => Self::Whole,
        }
    }

    /// As much of an answer as is kept.
    fn kept(self, who: &Authenticated, parts: &Parts, body: &[u8]) -> Answer {
        let location = parts.headers.get(header::LOCATION);
        let location = location.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = match self {
            Self::Nothing | Self::Whole => String::from_utf8_lossy(body).into_owned(),
            _ => self.reduced(who, body),
        };
        Answer { status: parts.status.as_u16(), location, body: Zeroizing::new(body) }
    }

    fn reduced(self, who: &Authenticated, body: &[u8]) -> String {
        // The body of a success is JSON of our own making.
        let mut value: Value = serde_json::from_slice(body).unwrap_or_default();
        match self {
            Self::Nothing | Self::Whole => {}
            Self::WithoutSecrets => retain(&mut value, |name| !SECRETS.contains(&name)),
            Self::Token => outline(&mut value),
            Self::Tokens => outline_within(&mut value, &who.caller().tenant().to_string()),
        }
        value.to_string()
    }
}

fn retain(value: &mut Value, keep: fn(&str) -> bool) {
    match value {
        Value::Object(members) => members.retain(|name, _| keep(name)),
        Value::Array(items) => items.iter_mut().for_each(|item| retain(item, keep)),
        _ => {}
    }
}

fn outline(token: &mut Value) {
    retain(token, |name| OUTLINE.contains(&name));
}

/// Reduces every token in what `tokenize` answered. All else there is objects and arrays of the
/// caller's with ids in them, and no such id is the tenant's.
fn outline_within(value: &mut Value, tenant: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| outline_within(item, tenant)),
        Value::Object(members) if members.get("tenant_id").is_some_and(|id| id == tenant) => {
            outline(value);
        }
        Value::Object(members) => {
            members.values_mut().for_each(|inner| outline_within(inner, tenant));
        }
        _ => {}
    }
}

/// A kept answer with its token as the caller may see it now; the outline, if it may not read it.
/// When the token is gone, so is the answer.
async fn renewed(state: &State, who: &Authenticated, kept: Answer) -> Result<Answer, Rejection> {
    let outline: Value = serde_json::from_str(&kept.body).unwrap_or_default();
    let id = outline["id"].as_str().unwrap_or_default();
    let Some(view) = state.vault.show_again(who, id).await? else { return Ok(kept) };
    let mut token = serde_json::to_value(view).map_err(Error::internal)?;
    if let (Value::Object(members), Some(extras)) = (&mut token, outline.get("_extras")) {
        members.insert("_extras".to_owned(), extras.clone());
    }
    Ok(Answer { body: Zeroizing::new(token.to_string()), ..kept })
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
