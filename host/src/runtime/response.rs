//! A formula's answer, checked before anybody relies on it.

use http::{HeaderName, HeaderValue, header};
use serde_json::Value;

use super::call::{Failure, FaultKind, GuestResponse};
use super::state::{CustomResponse, Fault, GuestError, Response};
use crate::limits::{CUSTOM_HEADERS_MAX, RESPONSE_BYTES_MAX};

/// Headers that are the server's to set, or that would reach further than an answer.
const KEPT_BACK: &[HeaderName] = &[
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::DATE,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::SET_COOKIE,
    header::STRICT_TRANSPORT_SECURITY,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Reads the answer of a formula that succeeded.
pub fn read(response: Response) -> Result<GuestResponse, Failure> {
    let Response { raw, tokenize } = response;
    let bytes = [&raw, &tokenize].into_iter().flatten().map(String::len).sum::<usize>();
    if bytes > RESPONSE_BYTES_MAX {
        return Err(Failure::TooLarge);
    }
    let read = |text: Option<String>, cause| text.map(|text| json(&text, cause)).transpose();
    Ok(GuestResponse {
        raw: read(raw, "raw is no JSON")?,
        tokenize: read(tokenize, "tokenize is no JSON")?,
    })
}

/// Reads the answer of a formula that failed.
pub fn read_error(error: GuestError) -> Failure {
    let (kind, Fault { detail, errors }) = match error {
        GuestError::Custom(custom) => {
            return read_custom(custom).unwrap_or_else(|failure| failure);
        }
        GuestError::Authentication(fault) => (FaultKind::Authentication, fault),
        GuestError::Authorization(fault) => (FaultKind::Authorization, fault),
        GuestError::BadRequest(fault) => (FaultKind::BadRequest, fault),
        GuestError::InvalidPaymentMethod(fault) => (FaultKind::InvalidPaymentMethod, fault),
        GuestError::RateLimit(fault) => (FaultKind::RateLimit, fault),
        GuestError::Runtime(fault) => (FaultKind::Runtime, fault),
        GuestError::ServiceUnavailable(fault) => (FaultKind::ServiceUnavailable, fault),
    };
    let texts = errors.iter().flat_map(|(path, messages)| std::iter::once(path).chain(messages));
    if detail.len() + texts.map(String::len).sum::<usize>() > RESPONSE_BYTES_MAX {
        return Failure::TooLarge;
    }
    Failure::Reported { kind, detail, errors }
}

fn read_custom(custom: CustomResponse) -> Result<Failure, Failure> {
    let bad = |cause| Failure::BadResponse { cause };
    let CustomResponse { status, headers, body } = custom;
    if !(400..=599).contains(&status) {
        return Err(bad("its status is not from 400 to 599"));
    }
    if headers.len() > CUSTOM_HEADERS_MAX {
        return Err(bad("it has too many headers"));
    }
    for (name, value) in &headers {
        let name =
            HeaderName::try_from(name.as_str()).map_err(|_| bad("a header has no valid name"))?;
        HeaderValue::try_from(value.as_str()).map_err(|_| bad("a header has no valid value"))?;
        if KEPT_BACK.contains(&name) || name.as_str().starts_with("svc-") {
            return Err(bad("a header is not the formula's to set"));
        }
    }
    if body.len() > RESPONSE_BYTES_MAX {
        return Err(Failure::TooLarge);
    }
    Ok(Failure::Custom { status, headers, body: json(&body, "its body is no JSON")? })
}

fn json(text: &str, cause: &'static str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::BadResponse { cause })
}
