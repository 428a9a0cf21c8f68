//! A formula's answer, checked before anybody relies on it.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, header};
use serde_json::Value;

use super::call::{Failure, FaultKind, GuestResponse};
use super::state::{CustomResponse, Fault, GuestError, Response};
use crate::limits::{
    CUSTOM_HEADERS_BYTES_MAX, CUSTOM_HEADERS_MAX, RESPONSE_BYTES_MAX, RESPONSE_DEPTH_MAX,
};
use crate::model::depth::{is_too_deep, is_within};
use crate::model::{exact, weight};

/// Standard headers that a formula may set: those that say something about its refusal and no more. Any other is the
/// server's to set or would reach further than an answer: to the connection, to caches, or to what a browser keeps of
/// the server as a whole. New ones of that sort appear; hence a list of what is allowed, not of what is not.
const ALLOWED: &[HeaderName] = &[header::ALLOW, header::CONTENT_LANGUAGE, header::RETRY_AFTER];
/// How headers of a formula's own begin.
const OWN_PREFIX: &str = "x-";
/// Headers that begin so, but that a proxy in front of the server obeys (by answering with a file or address of its
/// own), that browsers obey, or that tell who a request came from.
const OBEYED: &[&str] = &[
    "x-accel-",
    "x-content-",
    "x-dns-prefetch-control",
    "x-envoy-",
    "x-forwarded-",
    "x-frame-options",
    "x-http-method",
    "x-lighttpd-",
    "x-litespeed-",
    "x-permitted-cross-domain-policies",
    "x-real-ip",
    "x-reproxy-",
    "x-robots-tag",
    "x-sendfile",
    "x-sourcemap",
    "x-ua-compatible",
    "x-webkit-csp",
    "x-xss-protection",
];

const TOO_DEEP: &str = "it is nested too deep, more than 120 levels";
const _: () = assert!(RESPONSE_DEPTH_MAX == 120, "the text names it");

/// What a text takes beside its characters, about.
const TEXT_BYTES: usize = 64;

/// About what an answer takes once it is read.
pub fn weight(Response { raw, tokenize }: &Response) -> usize {
    [raw, tokenize].into_iter().flatten().map(|text| weight::of_json(text.as_bytes())).sum()
}

/// The same of one that tells of a failure.
pub fn weight_of_error(error: &GuestError) -> usize {
    let fault = match error {
        GuestError::Custom(custom) => return weight::of_json(custom.body.as_bytes()),
        GuestError::Authentication(fault)
        | GuestError::Authorization(fault)
        | GuestError::BadRequest(fault)
        | GuestError::InvalidPaymentMethod(fault)
        | GuestError::RateLimit(fault)
        | GuestError::Runtime(fault)
        | GuestError::ServiceUnavailable(fault) => fault,
    };
    let errors = fault.errors.iter();
    let texts = errors.flat_map(|(path, messages)| std::iter::once(path).chain(messages));
    fault.detail.len() + texts.map(|text| TEXT_BYTES + text.len()).sum::<usize>()
}

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

fn bad(cause: impl Into<Cow<'static, str>>) -> Failure {
    Failure::BadResponse { cause: cause.into() }
}

fn read_custom(custom: CustomResponse) -> Result<Failure, Failure> {
    let CustomResponse { status, headers, body } = custom;
    if !(400..=599).contains(&status) {
        return Err(bad("its status is not from 400 to 599"));
    }
    if headers.len() > CUSTOM_HEADERS_MAX {
        return Err(bad("it has too many headers"));
    }
    let bytes = headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    if bytes > CUSTOM_HEADERS_BYTES_MAX {
        return Err(bad("its headers are too large"));
    }
    let mut kept = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let known =
            HeaderName::try_from(name.as_str()).map_err(|_| bad("a header has no valid name"))?;
        HeaderValue::try_from(value.as_str()).map_err(|_| bad("a header has no valid value"))?;
        // What the server says anyway.
        if known == header::CONTENT_TYPE && is_json(&value) {
            continue;
        }
        if !may_set(&known) {
            return Err(bad("a header is not the formula's to set"));
        }
        kept.push((name, value));
    }
    if body.len() > RESPONSE_BYTES_MAX {
        return Err(Failure::TooLarge);
    }
    Ok(Failure::Custom { status, headers: kept, body: json(&body, "its body is no JSON")? })
}

/// Whether a content type is the one that every answer has.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// Whether a header is one for a formula to set.
fn may_set(name: &HeaderName) -> bool {
    let text = name.as_str();
    let own = text.starts_with(OWN_PREFIX) && !OBEYED.iter().any(|obeyed| text.starts_with(obeyed));
    own || ALLOWED.contains(name)
}

fn json(text: &str, cause: &'static str) -> Result<Value, Failure> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        if is_too_deep(&error) {
            return bad(TOO_DEEP);
        }
        let (line, column) = exact::place_of(&error, text.as_bytes());
        bad(format!("{cause} at line {line}, column {column}"))
    })?;
    if !is_within(&value, RESPONSE_DEPTH_MAX) {
        return Err(bad(TOO_DEEP));
    }
    exact::check(text.as_bytes(), |_| true).map_err(|_| {
        bad("a number in it has more digits than a number can hold, or is too small a one")
    })?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::{
        CustomResponse, Fault, GuestError, Response, json, may_set, weight, weight_of_error,
    };
    use crate::limits::RESPONSE_DEPTH_MAX;
    use crate::runtime::Failure;
    use http::HeaderName;

    #[test]
    fn answers_that_cannot_be_kept_as_they_are_say_why() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        for (text, expected) in [
            (nested(RESPONSE_DEPTH_MAX), None),
            (nested(RESPONSE_DEPTH_MAX + 1), Some("nested too deep")),
            (nested(100_000), Some("nested too deep")),
            ("[0.30000000000000004, 18446744073709551615]".to_owned(), None),
            ("[12345678901234567890123]".to_owned(), Some("more digits than a number can hold")),
            ("[".to_owned(), Some("raw is no JSON at line 1, column 1")),
            ("[1,\n é]".to_owned(), Some("raw is no JSON at line 2, column 2")),
        ] {
            let found = match json(&text, "raw is no JSON") {
                Err(Failure::BadResponse { cause }) => Some(cause),
                other => other.map(|_| None).unwrap(),
            };
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(expected.unwrap_or_default()), "{found}");
        }
    }

    #[test]
    fn what_tells_of_a_failure_weighs_as_much_as_what_does_not() {
        let body = format!("[{}0]", r#"{"":0},"#.repeat(10_000));
        let raw = weight(&Response { raw: Some(body.clone()), tokenize: None });
        let custom = CustomResponse { status: 400, headers: Vec::new(), body };
        assert!(raw > 1 << 20 && weight_of_error(&GuestError::Custom(custom)) == raw);
        let errors = vec![("a".to_owned(), vec![String::new(); 10_000])];
        let fault = Fault { detail: "x".repeat(1_000), errors };
        assert!(weight_of_error(&GuestError::Runtime(fault)) > 10_000 * 24);
    }

    #[test]
    fn headers_that_reach_no_further_than_an_answer() {
        for (name, expected) in [
            ("x-kind", true),
            ("X-Request-Cost", true),
            ("Retry-After", true),
            ("allow", true),
            ("content-language", true),
            ("content-encoding", false),
            ("content-type", false),
            ("content-length", false),
            ("alt-svc", false),
            ("cache-control", false),
            ("clear-site-data", false),
            ("connection", false),
            ("keep-alive", false),
            ("location", false),
            ("refresh", false),
            ("link", false),
            ("set-cookie", false),
            ("strict-transport-security", false),
            ("access-control-allow-origin", false),
            ("www-authenticate", false),
            ("svc-trace-id", false),
            ("never-heard-of", false),
            ("X-Accel-Redirect", false),
            ("x-sendfile", false),
            ("x-frame-options", false),
            ("x-content-type-options", false),
        ] {
            let header = HeaderName::try_from(name).unwrap();
            assert_eq!(may_set(&header), expected, "{name}");
        }
    }
}
