//! What becomes of the endpoint's answer.

use tokamak_sdk::{Error, Response, Value, http, json};

use crate::settings::Answering;

/// How the parser begins to tell of a number that is larger than any double.
const OUT_OF_RANGE: &str = "number out of range";

/// Maps an answer, or tells that its status is none of those expected.
pub(crate) fn answer(received: &http::Response, settings: &Answering) -> Result<Response, Error> {
    if !settings.expects(received.status) {
        return Err(unexpected(received.status));
    }
    let mut body = read(received)?;
    let tokenize = match &settings.tokenize_path {
        Some(path) if !received.is_exact(path, &body) => {
            return Err(inexact("tokenized", Some(path)));
        }
        Some(path) => Some(to_tokenize(&body, path, settings)?),
        None => None,
    };
    redact(&mut body, &settings.redact);
    let shown = match (&settings.raw_path, &tokenize) {
        (Some(path), _) => Some(path.as_str()),
        (None, None) => Some(""),
        // What is to become a token is not to be seen beside it.
        (None, Some(_)) => None,
    };
    // What was left out need not be kept.
    if shown.is_some_and(|part| !received.is_exact(part, &body)) {
        return Err(inexact("returned", settings.raw_path.as_deref()));
    }
    let response = match (&settings.raw_path, shown) {
        // The endpoint has done its work: that it says less than it might is no failure.
        (Some(path), _) => Response::raw(body.pointer(path)),
        (None, Some(_)) => Response::raw(json!({ "status": received.status, "body": body })),
        (None, None) => Response::raw(json!({ "status": received.status })),
    };
    Ok(match tokenize {
        Some(value) => response.and_tokenize(value),
        None => response,
    })
}

fn unexpected(status: u16) -> Error {
    let detail = format!("the endpoint answered {status}");
    match status {
        429 => Error::rate_limit(detail),
        502..=504 => Error::service_unavailable(detail),
        // 401 and 403 too: the credentials are the reactor's, not the caller's.
        _ => Error::runtime(detail),
    }
}

/// The body as JSON; as text when it is none, or a lone number or word in what is said to be text; null when it is empty.
fn read(received: &http::Response) -> Result<Value, Error> {
    if received.body.is_empty() {
        return Ok(Value::Null);
    }
    let Ok(text) = received.text() else {
        return Err(Error::runtime("the endpoint's answer is neither JSON nor text in UTF-8"));
    };
    // Some put a mark of the order of bytes before it, which is none of its characters.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed: Result<Value, _> = text.parse();
    if is_said_to_be_text(received)
        && !matches!(parsed, Ok(Value::Object(_) | Value::Array(_) | Value::String(_)))
    {
        // An identifier of digits has no other ones, none less and no exponent.
        return Ok(text.into());
    }
    parsed.or_else(|error| {
        if error.to_string().starts_with(OUT_OF_RANGE) {
            return Err(Error::runtime("the endpoint's answer has a number that is too large"));
        }
        Ok(text.into())
    })
}

fn is_said_to_be_text(received: &http::Response) -> bool {
    let said = received.header("content-type").unwrap_or_default();
    said.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"))
        && !said.to_ascii_lowercase().contains("json")
}

/// What is there, and what leads on to it, are as secret as the rest of the answer: only the configuration's own path is told.
fn inexact(done: &str, path: Option<&str>) -> Error {
    let place = path.map(|path| format!(", at {path:?}")).unwrap_or_default();
    Error::runtime(format!(
        "what would be {done} of the endpoint's answer has a number with more digits than are kept{place}"
    ))
}

fn to_tokenize(body: &Value, path: &str, settings: &Answering) -> Result<Value, Error> {
    let found = body.pointer(path).filter(|value| !value.is_null());
    let found = found.ok_or_else(|| {
        Error::runtime("the endpoint's answer has nothing at the reactor's `tokenize_path`")
    })?;
    Ok(match &settings.tokenize_type {
        Some(token_type) => json!({ "type": token_type, "data": found }),
        None => found.clone(),
    })
}

/// Takes out what is at these pointers. Of what has no parts nothing can be taken out, whatever it repeats: then all of it
/// goes.
fn redact(body: &mut Value, paths: &[String]) {
    if !(body.is_object() || body.is_array() || paths.is_empty()) {
        *body = Value::Null;
    }
    for steps in paths.iter().filter_map(|path| path.strip_prefix('/')) {
        remove(body, steps);
    }
}

/// Takes out what is at the end of these steps, of which `*` leads to every member or item. An item becomes null, so that
/// the others keep their places.
fn remove(within: &mut Value, steps: &str) {
    let (step, rest) =
        steps.split_once('/').map_or((steps, None), |(step, rest)| (step, Some(rest)));
    let name = step.replace("~1", "/").replace("~0", "~");
    match within {
        Value::Object(members) => {
            if let Some(rest) = rest {
                let named = members.iter_mut().filter(|(known, _)| step == "*" || **known == name);
                named.for_each(|(_, member)| remove(member, rest));
            } else {
                members.retain(|known, _| step != "*" && *known != name);
            }
        }
        Value::Array(items) => {
            let named = |index| step == "*" || step.parse() == Ok(index);
            for (_, item) in items.iter_mut().enumerate().filter(|(index, _)| named(*index)) {
                match rest {
                    Some(rest) => remove(item, rest),
                    None => *item = Value::Null,
                }
            }
        }
        _ => {}
    }
}
