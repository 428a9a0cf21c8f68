//! What is told of a script that does not parse, or that ends with an error.

use serde_json::Value;

use crate::bindings::exports::tokamak::formula::reactor::Error;
use crate::bindings::tokamak::formula::types::{CustomResponse, Fault};
use crate::place;

/// Bytes of `\ud83d`.
const UNIT_BYTES: usize = 6;
/// What the engine says of parts within parts that are more than its stack holds.
const TOO_DEEP: &str = "Maximum call stack size exceeded";
/// What it says of a name that is declared twice, once it is behind it.
const REDEFINED: &str = "invalid redefinition";
/// What it says where something is missing.
const MISSING: &[&str] = &["unexpected token", "Unexpected", "expecting"];

/// A failure that is nobody's but the script's.
pub fn runtime(detail: &str, errors: &[(String, Vec<String>)]) -> Error {
    Error::Runtime(Fault { detail: detail.to_owned(), errors: errors.to_vec() })
}

/// A script that leaves nothing to call. The server says so in its own words.
pub fn no_formula() -> Error {
    Error::BadRequest(Fault { detail: String::new(), errors: Vec::new() })
}

/// A script that does not parse: `at line 3, column 7: …`; `at` is the byte at which the engine gave up.
pub fn does_not_parse(words: &str, at: Option<usize>, code: &str) -> Error {
    let detail = match at {
        _ if words == TOO_DEEP => "its parts are nested too deeply".to_owned(),
        None => words.to_owned(),
        Some(at) => {
            let at =
                if words.starts_with(REDEFINED) { place::of_name_before(code, at) } else { at };
            let (line, column) = place::of(code, at);
            let is_missing =
                at == code.len() && MISSING.iter().any(|start| words.starts_with(start));
            let cause = if is_missing { "it ends too early" } else { words };
            format!("at line {line}, column {column}: {cause}")
        }
    };
    Error::BadRequest(Fault { detail, errors: Vec::new() })
}

/// What a script wrote as JSON, with the replacement character for lone surrogates: no other reader takes them.
pub fn well_formed(json: String) -> String {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return json;
    }
    let mut made = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        made.push_str(before);
        let (bytes, is_lone) = match unit(escape) {
            Some(0xd800..=0xdbff)
                if matches!(unit(&escape[UNIT_BYTES..]), Some(0xdc00..=0xdfff)) =>
            {
                (2 * UNIT_BYTES, false)
            }
            Some(0xd800..=0xdfff) => (UNIT_BYTES, true),
            _ => (1 + escape[1..].chars().next().map_or(0, char::len_utf8), false),
        };
        made.push_str(if is_lone { "\\ufffd" } else { &escape[..bytes] });
        rest = &escape[bytes..];
    }
    made + rest
}

/// The unit that an escape is, such as `\ud83d`, if a text begins with one.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..UNIT_BYTES - 2)?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hexadecimal.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// What the prelude says of a thrown value: an object with `kind` and what that kind has. `None` if it says nothing.
pub fn thrown(described: &str) -> Option<Error> {
    let described: Value = serde_json::from_str(&well_formed(described.to_owned())).ok()?;
    let text = |member: &str| described[member].as_str().unwrap_or_default().to_owned();
    let fault = Fault { detail: text("detail"), errors: errors(&described["errors"]) };
    Some(match described["kind"].as_str().unwrap_or_default() {
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
    })
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
