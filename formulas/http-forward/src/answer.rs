//! What becomes of the endpoint's answer.

use tokamak_sdk::{Error, Response, Value, http, json};

use crate::settings::Answering;

/// Maps an answer, or tells that its status is none of those expected.
pub(crate) fn answer(received: &http::Response, settings: &Answering) -> Result<Response, Error> {
    if !settings.expects(received.status) {
        return Err(unexpected(received.status));
    }
    let mut body = read(received)?;
    let tokenize = match &settings.tokenize_path {
        Some(path) => Some(to_tokenize(&body, path, settings)?),
        None => None,
    };
    redact(&mut body, &settings.redact);
    let response = match &settings.raw_path {
        // The endpoint has done its work: that it says less than it might is no failure.
        Some(path) => Response::raw(body.pointer(path)),
        // What is to become a token is not to be seen beside it.
        None if tokenize.is_some() => Response::raw(json!({ "status": received.status })),
        None => Response::raw(json!({ "status": received.status, "body": body })),
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

/// The body as JSON; as text when it is none; null when it is empty.
fn read(received: &http::Response) -> Result<Value, Error> {
    if received.body.is_empty() {
        return Ok(Value::Null);
    }
    received.json().or_else(|_| {
        let text = received.text();
        text.map(Value::from)
            .map_err(|_| Error::runtime("the endpoint's answer is neither JSON nor text in UTF-8"))
    })
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

/// Takes out what is at these pointers. Of a text nothing can be taken out, whatever it repeats: then all of it goes.
fn redact(body: &mut Value, paths: &[String]) {
    if body.is_string() && !paths.is_empty() {
        *body = Value::Null;
    }
    for path in paths {
        remove(body, path);
    }
}

/// Takes out what is at a pointer. An item of an array becomes null, so that the others keep their places.
fn remove(body: &mut Value, path: &str) {
    let Some((parent, name)) = path.rsplit_once('/') else { return };
    match body.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(_)) => {
            if let Some(item) = body.pointer_mut(path) {
                *item = Value::Null;
            }
        }
        _ => {}
    }
}
