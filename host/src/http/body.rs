//! Bodies of requests: content type, size, JSON.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::State;
use super::pace::TooSlow;
use super::problem::{Problem, Rejection};
use crate::limits::{
    COMPONENT_BYTES_MAX, FORMULA_BODY_BYTES_MAX, JSON_DEPTH_MAX, REQUEST_BODY_BYTES_MAX,
};
use crate::model::depth::is_within;
use crate::model::{exact, member};
use crate::vault::Error;

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A JSON object read into a request struct.
pub struct Body<T>(pub T);

/// As [`Body`], for bodies that carry a component.
pub struct LargeBody<T>(pub T);

/// Any JSON value.
pub struct JsonBody(pub Value);

/// A JSON Merge Patch read into a request struct.
pub struct PatchBody<T>(pub T);

/// A WebAssembly component as it is.
pub struct ComponentBody(pub Vec<u8>);

impl<T: DeserializeOwned> FromRequest<State> for Body<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, _: &State) -> Result<Self, Rejection> {
        Ok(Self(read_struct(request, JSON, REQUEST_BODY_BYTES_MAX).await?))
    }
}

impl<T: DeserializeOwned> FromRequest<State> for LargeBody<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, _: &State) -> Result<Self, Rejection> {
        Ok(Self(read_struct(request, JSON, FORMULA_BODY_BYTES_MAX).await?))
    }
}

impl FromRequest<State> for JsonBody {
    type Rejection = Rejection;

    async fn from_request(request: Request, _: &State) -> Result<Self, Rejection> {
        let bytes = read_typed(request, JSON, REQUEST_BODY_BYTES_MAX).await?;
        Ok(Self(read_json(&bytes, |_| true)?))
    }
}

impl<T: DeserializeOwned> FromRequest<State> for PatchBody<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, _: &State) -> Result<Self, Rejection> {
        Ok(Self(read_struct(request, MERGE_PATCH, REQUEST_BODY_BYTES_MAX).await?))
    }
}

impl FromRequest<State> for ComponentBody {
    type Rejection = Rejection;

    async fn from_request(request: Request, _: &State) -> Result<Self, Rejection> {
        Ok(Self(read_typed(request, "application/wasm", COMPONENT_BYTES_MAX).await?.to_vec()))
    }
}

/// A request struct. No body at all is an object without members: what is required is then said to be missing.
async fn read_struct<T: DeserializeOwned>(
    request: Request,
    content_type: &str,
    bytes_max: usize,
) -> Result<T, Rejection> {
    let may_be_absent = request.method() == Method::POST;
    let bytes = read_typed(request, content_type, bytes_max).await?;
    let value = if may_be_absent && bytes.is_empty() {
        Value::Object(serde_json::Map::new())
    } else {
        // What the struct does not read is ignored, whatever it is.
        let names = member::names_of::<T>();
        read_json(&bytes, |name| names.is_none_or(|names| names.contains(&name)))?
    };
    Ok(member::read(value).map_err(Error::from)?)
}

/// A body of this content type; a POST without one may carry any (decisions §1).
async fn read_typed(
    request: Request,
    content_type: &str,
    bytes_max: usize,
) -> Result<Bytes, Rejection> {
    match expect_type(request.headers(), content_type) {
        Ok(()) => read(request, bytes_max).await,
        Err(refusal) if request.method() == Method::POST => {
            read(request, 0).await.map_err(|_| refusal)
        }
        Err(refusal) => Err(refusal),
    }
}

fn read_json(bytes: &[u8], is_read: impl Fn(&str) -> bool) -> Result<Value, Rejection> {
    let too_deep = || {
        let detail = format!("The body must not be nested more than {JSON_DEPTH_MAX} levels deep.");
        Problem::new(StatusCode::BAD_REQUEST, detail)
    };
    let malformed = |error: serde_json::Error| match error.to_string() {
        // The parser has a bound of its own, which it tells by its words alone.
        text if text.starts_with("recursion limit exceeded") => too_deep(),
        // Its own texts name what it expected and where, and quote nothing of the body.
        text => Problem::new(StatusCode::BAD_REQUEST, format!("The body is no JSON: {text}.")),
    };
    let value = serde_json::from_slice(bytes).map_err(malformed)?;
    // A record wraps what it keeps, and must still be read by a parser of limited depth.
    if !is_within(&value, JSON_DEPTH_MAX) {
        return Err(too_deep().into());
    }
    exact::check(bytes, is_read).map_err(Error::from)?;
    Ok(value)
}

fn expect_type(headers: &HeaderMap, expected: &str) -> Result<(), Rejection> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.and_then(|value| value.split(';').next()).map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let detail = format!("The body's content type must be {expected}.");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into())
}

/// A request with its body read, if it can be.
pub async fn whole(request: Request, bytes_max: usize) -> (Parts, Result<Bytes, Rejection>) {
    let (parts, body) = request.into_parts();
    let headers = parts.headers.clone();
    let mut request = Request::new(body);
    *request.headers_mut() = headers;
    (parts, read(request, bytes_max).await)
}

async fn read(request: Request, bytes_max: usize) -> Result<Bytes, Rejection> {
    let too_large = || {
        let detail = format!("The body must have at most {bytes_max} bytes.");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large().into());
    }
    let limited = Limited::new(request.into_body(), bytes_max);
    match limited.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large().into()),
        Err(error) if TooSlow::is_cause_of(&*error) => {
            let detail = "The body came too slowly.";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail).into())
        }
        Err(_) => {
            let detail = "The body ended before it was complete.";
            Err(Problem::new(StatusCode::BAD_REQUEST, detail).into())
        }
    }
}
