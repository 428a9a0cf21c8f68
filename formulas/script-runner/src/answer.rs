//! What is told of a script that does not parse, or that ends with an error.

use core::ops::Range;

use serde_json::Value;

use crate::bindings::exports::tokamak::formula::reactor::Error;
use crate::bindings::tokamak::formula::types::{CustomResponse, Fault};
use crate::place;

/// A failure that is nobody's but the script's.
pub fn runtime(detail: &str, errors: &[(String, Vec<String>)]) -> Error {
    Error::Runtime(Fault { detail: detail.to_owned(), errors: errors.to_vec() })
}

/// A script that does not parse: `at line 3, column 7: …`; `opened` tells the place of what is never closed.
pub fn does_not_parse(message: &str, code: &str, opened: impl FnOnce() -> (usize, usize)) -> Error {
    let words = message.strip_prefix("SyntaxError: ").unwrap_or(message);
    let words = words.strip_suffix(" (native)").unwrap_or(words);
    let detail = match (place::of(code, words), words.rsplit_once(" at line ")) {
        (Some(bytes), told) => {
            let cause = told.map_or(words, |(cause, _)| cause);
            format!("{}: {cause}", place_of(code, &bytes))
        }
        (None, Some((cause, place))) => {
            let place = place.replace(", col ", ", column ");
            let end = place.find(|c: char| !c.is_ascii_alphanumeric() && c != ' ' && c != ',');
            let (place, rest) = place.split_at(end.unwrap_or(place.len()));
            format!("at line {place}: {cause}{rest}")
        }
        (None, None) if words == "abrupt end" => {
            let last = code.lines().last().unwrap_or_default();
            let (line, column) = (code.lines().count().max(1), last.chars().count() + 1);
            format!("at line {line}, column {column}: it ends too early")
        }
        (None, None) => {
            let (line, column) = opened();
            format!("at line {line}, column {column}: {words}")
        }
    };
    Error::BadRequest(Fault { detail, errors: Vec::new() })
}

/// The place of a range of bytes: where it begins, or between which lines it is.
fn place_of(code: &str, bytes: &Range<usize>) -> String {
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    let (first, last) = (line(bytes.start), line(bytes.end));
    if first < last {
        return format!("between line {first} and line {last}");
    }
    let before = code[..bytes.start].rsplit('\n').next().unwrap_or_default();
    format!("at line {first}, column {}", before.chars().count() + 1)
}

/// What the prelude says of a thrown value: an object with `kind` and what that kind has.
pub fn thrown(described: &str) -> Error {
    let described: Value = serde_json::from_str(described).unwrap_or_default();
    let text = |member: &str| described[member].as_str().unwrap_or_default().to_owned();
    let fault = Fault { detail: text("detail"), errors: errors(&described["errors"]) };
    match described["kind"].as_str().unwrap_or_default() {
        "authentication" => Error::Authentication(fault),
        "authorization" => Error::Authorization(fault),
        "bad-request" => Error::BadRequest(fault),
        "invalid-payment-method" => Error::InvalidPaymentMethod(fault),
        "rate-limit" => Error::RateLimit(fault),
        "service-unavailable" => Error::ServiceUnavailable(fault),
        "custom" => Error::Custom(CustomResponse {
            // A status that is none is refused by the host, as any that is out of range.
            status: described["status"]
                .as_u64()
                .and_then(|status| status.try_into().ok())
                .unwrap_or(0),
            headers: pairs(&described["headers"]),
            body: text("body"),
        }),
        _ => Error::Runtime(fault),
    }
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    let pair = |entry: &Value| Some((entry[0].as_str()?.to_owned(), entry[1].as_str()?.to_owned()));
    value.as_array().into_iter().flatten().filter_map(pair).collect()
}

fn errors(value: &Value) -> Vec<(String, Vec<String>)> {
    let texts = |value: &Value| -> Vec<String> {
        let text = |message: &Value| message.as_str().map(str::to_owned);
        value.as_array().into_iter().flatten().filter_map(text).collect()
    };
    let entry = |entry: &Value| Some((entry[0].as_str()?.to_owned(), texts(&entry[1])));
    value.as_array().into_iter().flatten().filter_map(entry).collect()
}
