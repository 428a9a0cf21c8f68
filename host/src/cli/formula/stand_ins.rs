//! Answers in place of other hosts: the member `http` of a case.
//!
//! Where a case has it, nothing leaves the machine. What the formula sends is checked as ever, `allowed_hosts` too, and is
//! answered by the first exchange that it fits and that has answered nothing yet.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::differences::{compare, short};
use crate::egress::Url;
use crate::runtime::{GuestHttpError, GuestHttpRequest, GuestHttpResponse};
use crate::vault::{HttpAnswer, StandIn};

/// What a formula is told of a request that no exchange fits.
const UNEXPECTED: &str = "the case has no answer to this request";
const STATUS_OK: u16 = 200;

/// A request that a case expects, and what comes of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    #[serde(default)]
    request: Expected,
    #[serde(default)]
    response: Option<Response>,
    #[serde(default)]
    error: Option<Failure>,
}

/// What is named of a request has to be so.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "even_null")]
    body: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "even_null")]
    body: Option<Value>,
}

/// Why there is no answer, by the names of the formula's world.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Failure {
    Unreachable,
    Timeout,
    TooLarge,
}

fn even_null<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(given).map(Some)
}

impl Exchange {
    /// Why it cannot be used, if so.
    pub fn fault(&self) -> Option<&'static str> {
        if self.response.is_some() == self.error.is_some() {
            return Some("has either `response` or `error`");
        }
        let status = self.response.as_ref().and_then(|response| response.status);
        let is_final = status.is_none_or(|status| (200..=599).contains(&status));
        (!is_final).then_some("response.status must be from 200 to 599")
    }

    /// Whether a request goes elsewhere, and where it is another one than this.
    fn differences(&self, request: &GuestHttpRequest) -> (bool, Vec<String>) {
        let Expected { method, url, headers, body } = &self.request;
        let mut found = Vec::new();
        let mut check = |at: &str, expected: &Value, value: &Value| {
            compare(at, expected, value, true, &mut found);
        };
        if let Some(method) = method {
            check("method", &method.as_str().into(), &request.method.as_str().into());
        }
        if let Some(url) = url {
            check("url", &normal(url).into(), &normal(&request.url).into());
        }
        let is_other = !found.is_empty();
        let mut check = |at: &str, expected: &Value, value: Option<Value>| match value {
            Some(value) => compare(at, expected, &value, true, &mut found),
            None => found.push(format!("{at}: expected {}, is absent", short(expected))),
        };
        for (name, expected) in headers {
            check(&format!("headers.{name}"), expected, header(request, name));
        }
        if let Some(expected) = body {
            check("body", expected, read_body(request, expected));
        }
        (is_other, found)
    }

    fn answer(&self) -> HttpAnswer {
        let Some(Response { status, headers, body }) = &self.response else {
            return Err(match self.error {
                Some(Failure::Timeout) => GuestHttpError::Timeout,
                Some(Failure::TooLarge) => GuestHttpError::TooLarge,
                _ => GuestHttpError::Unreachable("the case says so"),
            });
        };
        let mut headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let body = match body {
            None => Vec::new(),
            Some(Value::String(text)) => text.clone().into_bytes(),
            Some(json) => {
                if !headers.iter().any(|(name, _)| name == "content-type") {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                json.to_string().into_bytes()
            }
        };
        Ok(GuestHttpResponse { status: status.unwrap_or(STATUS_OK), headers, body })
    }

    /// The request, for people.
    fn shown(&self) -> String {
        let or_any = |text: &Option<String>| text.clone().unwrap_or_else(|| "*".to_owned());
        format!("{} {}", or_any(&self.request.method), or_any(&self.request.url))
    }
}

/// An address as it is sent, however it is written.
fn normal(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.to_string())
}

/// The values of a header, joined.
fn header(request: &GuestHttpRequest, name: &str) -> Option<Value> {
    let of_name = request.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<&str> = of_name.map(|(_, value)| value.as_str()).collect();
    (!values.is_empty()).then(|| values.join(", ").into())
}

/// A body as what it is compared with: text as text, anything else as JSON.
fn read_body(request: &GuestHttpRequest, expected: &Value) -> Option<Value> {
    let body = request.body.as_ref()?;
    let json = || serde_json::from_slice(body).ok();
    let read = if expected.is_string() { None } else { json() };
    Some(read.unwrap_or_else(|| String::from_utf8_lossy(body).into()))
}

/// What stands in for other hosts while a case runs.
#[derive(Default)]
pub struct StandIns(Mutex<Option<Scene>>);

/// One case's exchanges, and what came otherwise.
struct Scene {
    exchanges: Vec<(Exchange, bool)>,
    differences: Vec<String>,
}

impl StandIns {
    /// Begins a case; without exchanges, nothing stands in.
    pub fn begin(&self, exchanges: Option<Vec<Exchange>>) {
        let of = |exchanges: Vec<Exchange>| Scene {
            exchanges: exchanges.into_iter().map(|exchange| (exchange, false)).collect(),
            differences: Vec::new(),
        };
        *self.0.lock() = exchanges.map(of);
    }

    /// Ends it, and tells where what was sent differs from what the case says.
    pub fn end(&self) -> Vec<String> {
        let Some(Scene { exchanges, mut differences }) = self.0.lock().take() else {
            return Vec::new();
        };
        for (index, (exchange, is_used)) in exchanges.iter().enumerate() {
            if !is_used {
                differences.push(format!("http[{index}]: {} was not sent", exchange.shown()));
            }
        }
        differences
    }
}

impl StandIn for StandIns {
    fn answer(&self, request: &GuestHttpRequest) -> Option<HttpAnswer> {
        let mut scene = self.0.lock();
        let Scene { exchanges, differences } = scene.as_mut()?;
        // Of those that do not fit, the one that fits best says most.
        let mut closest: Option<(usize, (bool, Vec<String>))> = None;
        for (index, (exchange, is_used)) in exchanges.iter_mut().enumerate() {
            if *is_used {
                continue;
            }
            let found = exchange.differences(request);
            if found.1.is_empty() {
                *is_used = true;
                return Some(exchange.answer());
            }
            let far = |found: &(bool, Vec<String>)| (found.0, found.1.len());
            if closest.as_ref().is_none_or(|(_, least)| far(&found) < far(least)) {
                closest = Some((index, found));
            }
        }
        let sent = format!("{} {}", request.method, short(&request.url.as_str().into()));
        match closest {
            Some((index, (false, found))) => differences.extend(
                found.iter().map(|found| format!("http[{index}].request.{found} ({sent})")),
            ),
            _ => differences.push(format!("http: {sent} is not expected")),
        }
        Some(Err(GuestHttpError::Unreachable(UNEXPECTED)))
    }
}

#[cfg(test)]
mod tests;
