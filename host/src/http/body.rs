//! Bodies of requests: content type, encoding, size, room in memory ([`super::bodies`]), JSON.
//!
//! All are taken in here, and none before it is known whose it is.

use std::sync::Arc;

use axum::body::{Body as Coming, Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::State;
use super::bodies::Place;
use super::extract::Known;
use super::pace::TooSlow;
use super::problem::{Problem, Rejection};
use crate::crypto::wiped::WipedBuffer;
use crate::limits::{
    COMPONENT_BYTES_MAX, FORMULA_BODY_BYTES_MAX, JSON_DEPTH_MAX, REQUEST_BODY_BYTES_MAX,
};
use crate::model::depth::{is_too_deep, is_within};
use crate::model::faults::Faults;
use crate::model::{exact, member};
use crate::vault::{Authenticated, Error, Share, apart};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What a component is sent as.
const WASM: &str = "application/wasm";

/// What a body takes of the memory, up to the end of its operation: that has it as a parameter.
type Room = Option<Share>;

/// A JSON object read into a request struct.
pub struct Body<T>(pub T, pub Room);

/// As [`Body`], for bodies that carry a component; with the place of a large one, which it has until it is answered.
pub struct LargeBody<T>(pub T, pub Option<Place>, pub Room);

/// Any JSON value, with what is wrong with its numbers.
pub struct JsonBody(pub Value, pub Faults, pub Room);

/// For an operation that reads nothing of its body: if there is one, it is a JSON object, as everywhere, or `null`.
pub struct NoMembers;

#[derive(Deserialize)]
struct Nothing {}

/// A JSON Merge Patch read into a request struct.
pub struct PatchBody<T>(pub T, pub Room);

/// A WebAssembly component as it is, with its place as in a [`LargeBody`].
pub struct ComponentBody(pub Vec<u8>, pub Option<Place>, pub Room);

/// A body that has arrived.
pub struct Arrived {
    bytes: Bytes,
    /// Given back once the operation is over, unless the place bounds what it takes.
    room: Room,
    place: Option<Place>,
}

/// A body that was taken in already, for whoever asks for it next.
#[derive(Clone)]
struct Passed(Arc<Mutex<Option<Arrived>>>);

impl<T: DeserializeOwned> FromRequest<State> for Body<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let (body, _, room) = read_struct(request, state, JSON, REQUEST_BODY_BYTES_MAX).await?;
        Ok(Self(body, room))
    }
}

impl FromRequest<State> for NoMembers {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let arrived = read_typed(request, state, JSON, REQUEST_BODY_BYTES_MAX).await?.weighed()?;
        if !arrived.bytes.is_empty() {
            let (value, _) = read_json(&arrived.bytes, |_| false)?;
            // Some clients write so that there is none.
            if !value.is_null() {
                let Nothing {} = member::read(value).map_err(Error::from)?;
            }
        }
        Ok(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<State> for LargeBody<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let bytes_max = FORMULA_BODY_BYTES_MAX;
        let (body, place, room) = read_struct(request, state, JSON, bytes_max).await?;
        // What may wait long for the compiler is bounded by its place.
        let room = room.filter(|_| place.is_none());
        Ok(Self(body, place, room))
    }
}

impl FromRequest<State> for JsonBody {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let arrived = read_typed(request, state, JSON, REQUEST_BODY_BYTES_MAX).await?;
        let arrived = arrived.weighed()?;
        let (value, inexact) = read_json(&arrived.bytes, |_| true)?;
        Ok(Self(value, inexact, arrived.room))
    }
}

impl<T: DeserializeOwned> FromRequest<State> for PatchBody<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let bytes_max = REQUEST_BODY_BYTES_MAX;
        let (body, _, room) = read_struct(request, state, MERGE_PATCH, bytes_max).await?;
        Ok(Self(body, room))
    }
}

impl FromRequest<State> for ComponentBody {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let arrived = read_typed(request, state, WASM, COMPONENT_BYTES_MAX).await?;
        let Arrived { bytes, room, place } = arrived;
        let room = room.filter(|_| place.is_none());
        Ok(Self(bytes.to_vec(), place, room))
    }
}

impl Arrived {
    /// What has arrived.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, with room for what it takes once it is read.
    fn weighed(mut self) -> Result<Self, Rejection> {
        if let Some(room) = &mut self.room {
            room.grow_to(room.weight_of(&self.bytes))?;
        }
        Ok(self)
    }

    /// The request with this body, for whoever reads it next.
    pub fn pass_on(self, mut parts: Parts) -> Request {
        parts.extensions.insert(Passed(Arc::new(Mutex::new(Some(self)))));
        Request::from_parts(parts, Coming::empty())
    }
}

/// A request struct, with the place and the room that its body has. No body at all is an object without members: what is
/// required is then said to be missing.
async fn read_struct<T: DeserializeOwned>(
    request: Request,
    state: &State,
    content_type: &str,
    bytes_max: usize,
) -> Result<(T, Option<Place>, Room), Rejection> {
    let may_be_absent = request.method() == Method::POST;
    let arrived = read_typed(request, state, content_type, bytes_max).await?.weighed()?;
    let bytes = arrived.bytes();
    let (value, inexact) = if may_be_absent && bytes.is_empty() {
        (Value::Object(serde_json::Map::new()), Faults::new())
    } else {
        // What the struct does not read is ignored, whatever it is.
        let names = member::names_of::<T>();
        read_json(bytes, |name| names.is_none_or(|names| names.contains(&name)))?
    };
    let body = member::read_inexact(value, inexact).map_err(Error::from)?;
    Ok((body, arrived.place, arrived.room))
}

/// A body of this content type, and not encoded. A POST without one may carry any type (decisions §1), and whatever has
/// none any encoding.
async fn read_typed(
    request: Request,
    state: &State,
    content_type: &str,
    bytes_max: usize,
) -> Result<Arrived, Rejection> {
    match expect_type(request.headers(), content_type) {
        Ok(()) if is_encoded(request.headers()) => {
            read_none(request, state, Rejection::encoded()).await
        }
        Ok(()) => read(request, state, bytes_max).await,
        Err(refusal) if request.method() == Method::POST => {
            read_none(request, state, refusal).await
        }
        Err(refusal) => Err(refusal),
    }
}

/// What a body holds, and which of its numbers would be rounded: no reason not to look for what else is wrong with it.
fn read_json(bytes: &[u8], is_read: impl Fn(&str) -> bool) -> Result<(Value, Faults), Rejection> {
    // Some clients write this mark, and parsers may pass over it (RFC 8259, section 8.1).
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let too_deep = || {
        let detail = format!("The body must not be nested more than {JSON_DEPTH_MAX} levels deep.");
        Problem::new(StatusCode::BAD_REQUEST, detail)
    };
    let malformed = |error: serde_json::Error| {
        if is_too_deep(&error) {
            return too_deep();
        }
        // The parser's texts name what it expected and where, and quote nothing of the body.
        let text = at_its_place(&error, bytes);
        Problem::new(StatusCode::BAD_REQUEST, format!("The body is no JSON: {text}."))
    };
    let value = exact::parse(bytes).map_err(malformed)?;
    // A record wraps what it keeps, and must still be read by a parser of limited depth.
    if !is_within(&value, JSON_DEPTH_MAX) {
        return Err(too_deep().into());
    }
    Ok((value, exact::check(bytes, is_read).err().unwrap_or_default()))
}

/// What the parser says, with the column in characters.
fn at_its_place(error: &serde_json::Error, bytes: &[u8]) -> String {
    let (line, column) = exact::place_of(error, bytes);
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let Some(what) = said.strip_suffix(&place) else { return said };
    format!("{what} at line {line} column {column}")
}

fn expect_type(headers: &HeaderMap, expected: &str) -> Result<(), Rejection> {
    let lines = headers.get_all(header::CONTENT_TYPE).iter();
    let mut essences = lines.map(|line| {
        let essence = line.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    });
    let first = essences.next();
    // What lies between may have read the other one.
    let differ = essences.any(|other| first.as_ref() != Some(&other));
    if !differ && first.is_some_and(|essence| essence == expected) {
        return Ok(());
    }
    let detail = if differ {
        format!("The request has content types that differ; it must be {expected} alone.")
    } else if expected == WASM {
        format!(
            "The body's content type must be {expected}. A script is replaced as `code` of the formula, by \
             PUT /reactor-formulas/{{id}}."
        )
    } else {
        format!("The body's content type must be {expected}.")
    };
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into())
}

/// Whether a body is encoded in any way (RFC 9110 §8.4): it would be read as what it is not.
fn is_encoded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

/// Takes in no body, if there is none. Any is refused in this way, unless it fails for a reason of its own, such as that it
/// does not come.
async fn read_none(
    request: Request,
    state: &State,
    refusal: Rejection,
) -> Result<Arrived, Rejection> {
    match read(request, state, 0).await {
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(refusal),
        outcome => outcome,
    }
}

/// Takes in the body of a request, or what was taken in before.
async fn read(request: Request, state: &State, bytes_max: usize) -> Result<Arrived, Rejection> {
    let (mut parts, body) = request.into_parts();
    let passed = parts.extensions.remove::<Passed>();
    if let Some(arrived) = passed.and_then(|Passed(arrived)| arrived.lock().take()) {
        let fits = arrived.bytes.len() <= bytes_max;
        return if fits { Ok(arrived) } else { Err(too_large(bytes_max)) };
    }
    let Known(who) = Known::from_request_parts(&mut parts, state).await?;
    arrive(state, &who, body, bytes_max).await
}

/// Takes in a body, up to so many bytes, from a caller who is still the same once it is there.
pub async fn arrive(
    state: &State,
    who: &Authenticated,
    mut body: Coming,
    bytes_max: usize,
) -> Result<Arrived, Rejection> {
    let (announced, tenant) = (body.size_hint(), who.caller().tenant());
    if announced.lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    // One that does not say how long it is may be as long as any.
    let longest = announced.upper().unwrap_or(bytes_max as u64);
    let is_large = longest > REQUEST_BODY_BYTES_MAX as u64;
    let place = is_large.then(|| state.bodies().place(tenant)).transpose()?;
    let mut room = state.bodies().share(tenant);
    let (mut first, mut whole, mut length) = (Bytes::new(), None::<WipedBuffer>, 0);
    while let Some(frame) = body.frame().await {
        // Trailers mean nothing.
        let Ok(piece) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
        length += piece.len();
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        place.as_ref().map_or(Ok(()), |place| place.has_come(length))?;
        room.grow_to(length)?;
        if length == piece.len() {
            // Most come in one piece, which is not copied.
            first = piece;
        } else {
            // Whoever sends tiny pieces must not have each of them kept with what belongs to a piece.
            whole.get_or_insert_with(|| beginning_with(&first)).extend(&piece);
        }
    }
    place.as_ref().map_or(Ok(()), Place::has_come_whole)?;
    apart(tenant, length).await;
    state.vault.expect_unchanged(who).await?;
    let bytes = whole.map_or(first, |whole| Bytes::from_owner(whole.into_bytes()));
    Ok(Arrived { bytes, room: Some(room), place })
}

fn beginning_with(piece: &[u8]) -> WipedBuffer {
    let mut buffer = WipedBuffer::default();
    buffer.extend(piece);
    buffer
}

fn too_large(bytes_max: usize) -> Rejection {
    let detail = format!("The body must have at most {bytes_max} bytes.");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into()
}

/// Whether what came was no body, rather than not all of one.
fn is_malformed(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput};
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| matches!(error.kind(), InvalidData | InvalidInput))
}

fn broken(error: &axum::Error) -> Rejection {
    let (status, detail) = if TooSlow::is_cause_of(error) {
        (StatusCode::REQUEST_TIMEOUT, "The body came too slowly.")
    } else if is_malformed(error) {
        (StatusCode::BAD_REQUEST, "The body's chunks cannot be read.")
    } else {
        (StatusCode::BAD_REQUEST, "The body ended before it was complete.")
    };
    // Where it would have ended, and another request begins, is not known.
    Rejection::from(Problem::new(status, detail)).closing()
}
