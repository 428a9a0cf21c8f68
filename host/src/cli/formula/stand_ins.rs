//! Answers in place of other hosts: the member `http` of a case.
//!
//! Where a case has it, nothing leaves the machine. What the formula sends is checked as ever, `allowed_hosts` too, and is
//! answered by the first exchange that it fits and that has answered nothing yet.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::differences::{compare, short};
use crate::egress::{Answer, EgressError, Outbound, StandIn, Url};

/// What a formula is told of a request that no exchange fits.
const UNEXPECTED: &str = "the case has no answer to this request";
const STATUS_OK: u16 = 200;
/// What is read of a form with files.
const MULTIPART: &str = "a form with files: body_contains looks into it";
/// Stands for any characters of an address.
const ANY: char = '*';

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
    #[serde(default)]
    form: Option<Map<String, Value>>,
    /// For a body that is another each time in part, as a form with files is.
    #[serde(default)]
    body_contains: Option<Values>,
    #[serde(default)]
    body_base64: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    #[serde(default, deserialize_with = "even_null")]
    body: Option<Value>,
    #[serde(default)]
    body_base64: Option<String>,
}

/// The values of a header, or the parts of a body.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "a header must be a text, or an array of texts, and so must body_contains"
)]
enum Values {
    One(String),
    Several(Vec<String>),
}

impl Values {
    fn each(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

/// Why there is no answer, by the names of the formula's world. The first two are those of requests that are not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Failure {
    Denied,
    Invalid,
    Unreachable,
    Timeout,
    TooLarge,
}

fn even_null<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(given).map(Some)
}

/// Where a request differs from what is expected.
#[derive(Default)]
struct Differences {
    /// It goes elsewhere.
    is_other: bool,
    found: Vec<String>,
}

impl Exchange {
    /// Why it cannot be used, if so.
    pub fn fault(&self) -> Option<&'static str> {
        let Some(response) = &self.response else {
            return self.error.is_none().then_some("has either `response` or `error`");
        };
        let is_base64 =
            |text: &Option<String>| text.as_ref().is_none_or(|text| STANDARD.decode(text).is_ok());
        if self.error.is_some() {
            return Some("has either `response` or `error`");
        }
        if response.status.is_some_and(|status| !(200..=599).contains(&status)) {
            return Some("response.status must be from 200 to 599");
        }
        if response.body.is_some() && response.body_base64.is_some() {
            return Some("response has either `body` or `body_base64`");
        }
        if !is_base64(&response.body_base64) || !is_base64(&self.request.body_base64) {
            return Some("body_base64 is no base 64");
        }
        None
    }

    /// Whether it stands for a request that is not sent for this.
    fn is_of(&self, refused: Option<EgressError>) -> bool {
        match refused {
            None => !matches!(self.error, Some(Failure::Denied | Failure::Invalid)),
            Some(why) => self.error == Some(refusal(why)),
        }
    }

    fn differences(&self, request: &Outbound) -> Differences {
        let mut found = Vec::new();
        if let Some(method) = &self.request.method {
            let (expected, method) = (method.as_str().into(), request.method.as_str().into());
            compare("method", &expected, &method, true, &mut found);
        }
        if let Some(expected) = &self.request.url
            && !fits(&normal(expected), &normal(&request.url))
        {
            let (expected, url) = (expected.as_str().into(), request.url.as_str().into());
            found.push(format!("url: expected {}, got {}", short(&expected), short(&url)));
        }
        let is_other = !found.is_empty();
        self.compare_rest(request, &mut found);
        Differences { is_other, found }
    }

    fn compare_rest(&self, request: &Outbound, found: &mut Vec<String>) {
        let Expected { headers, body, form, body_contains, body_base64, .. } = &self.request;
        let mut check = |at: &str, expected: &Value, value: Option<Value>| match (expected, value) {
            (Value::Null, None) => {}
            (_, Some(value)) => compare(at, expected, &value, true, found),
            (_, None) => found.push(format!("{at}: expected {}, is absent", short(expected))),
        };
        for (name, expected) in headers {
            check(&format!("headers.{name}"), expected, header(request, name));
        }
        if let Some(expected) = body {
            check("body", expected, read_body(request, expected));
        }
        if let Some(expected) = form {
            let is_multipart = header(request, "content-type").is_some_and(|kind| {
                kind.as_str().is_some_and(|kind| kind.starts_with("multipart/"))
            });
            let read = |body| if is_multipart { MULTIPART.into() } else { read_form(body) };
            check("form", &expected.clone().into(), request.body.as_deref().map(read));
        }
        if let Some(expected) = body_base64 {
            let body = request.body.as_ref().map(|body| STANDARD.encode(body).into());
            check("body_base64", &expected.as_str().into(), body);
        }
        for part in body_contains.iter().flat_map(Values::each) {
            let body = request.body.as_deref().unwrap_or_default();
            if !contains(body, part.as_bytes()) {
                found.push(format!("body_contains: {} is not in it", short(&part.as_str().into())));
            }
        }
    }

    fn answer(&self) -> Result<Answer, EgressError> {
        let Some(Response { status, headers, body, body_base64 }) = &self.response else {
            return Err(match self.error {
                Some(Failure::Timeout) => EgressError::Timeout,
                Some(Failure::TooLarge) => EgressError::TooLarge,
                _ => EgressError::Unreachable("the case says so"),
            });
        };
        let mut named = Vec::new();
        for (name, values) in headers {
            named.extend(values.each().iter().map(|value| (name.to_lowercase(), value.clone())));
        }
        let body = match (body, body_base64) {
            (None, None) => Vec::new(),
            (None, Some(text)) => STANDARD.decode(text).unwrap_or_default(),
            (Some(Value::String(text)), _) => text.clone().into_bytes(),
            (Some(json), _) => {
                if !named.iter().any(|(name, _)| name == "content-type") {
                    named.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                json.to_string().into_bytes()
            }
        };
        Ok(Answer { status: status.unwrap_or(STATUS_OK), headers: named, body })
    }

    /// The request, for people.
    fn shown(&self) -> String {
        let or_any = |text: &Option<String>| text.clone().unwrap_or_else(|| ANY.to_string());
        format!("{} {}", or_any(&self.request.method), or_any(&self.request.url))
    }
}

/// An address as it is sent, however it is written.
fn normal(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    url.set_fragment(None);
    url.to_string()
}

/// Whether a text has the parts of a pattern, in their order, and between them anything.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(ANY) else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let (between, last) = rest.rsplit_once(ANY).unwrap_or(("", rest));
    for part in between.split(ANY) {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

/// The values of a header, joined.
fn header(request: &Outbound, name: &str) -> Option<Value> {
    let of_name = request.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<&str> = of_name.map(|(_, value)| value.as_str()).collect();
    (!values.is_empty()).then(|| values.join(", ").into())
}

/// A body as what it is compared with: text as text, anything else as JSON.
fn read_body(request: &Outbound, expected: &Value) -> Option<Value> {
    let body = request.body.as_deref()?;
    let json = if expected.is_string() { None } else { serde_json::from_slice(body).ok() };
    let text = || match std::str::from_utf8(body) {
        Ok(text) => text.into(),
        // Not as text, which it might equal.
        Err(_) => serde_json::json!({ "base64": STANDARD.encode(body) }),
    };
    Some(json.unwrap_or_else(text))
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    part.is_empty() || body.windows(part.len()).any(|window| window == part)
}

/// The fields of a form; the values of one that comes more than once are an array.
fn read_form(body: &[u8]) -> Value {
    let mut fields = Map::new();
    // Fields are written as those of an address are.
    let Ok(mut written) = Url::parse("https://form.example/") else { return Value::Null };
    written.set_query(Some(&String::from_utf8_lossy(body)));
    for (name, value) in written.query_pairs() {
        let value = Value::from(value.into_owned());
        match fields.get_mut(name.as_ref()) {
            None => drop(fields.insert(name.into_owned(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(one) => *one = vec![one.take(), value].into(),
        }
    }
    fields.into()
}

fn refusal(error: EgressError) -> Failure {
    match error {
        EgressError::Denied(_) => Failure::Denied,
        EgressError::TooLarge => Failure::TooLarge,
        _ => Failure::Invalid,
    }
}

/// What stands in for other hosts while a case runs.
#[derive(Default)]
pub struct StandIns(Mutex<Option<Scene>>);

/// One case's exchanges, and what came otherwise.
struct Scene {
    exchanges: Vec<(Exchange, bool)>,
    differences: Vec<String>,
}

impl Scene {
    /// The first exchange that a request fits, and none of it from then on; otherwise it is told where it fits best.
    fn find(&mut self, request: &Outbound, refused: Option<EgressError>) -> Option<&Exchange> {
        // Of those that do not fit, the one that fits best says most.
        let mut closest: Option<(usize, Differences)> = None;
        let mut fitting = None;
        for (index, (exchange, is_used)) in self.exchanges.iter().enumerate() {
            if *is_used || !exchange.is_of(refused) {
                continue;
            }
            let differences = exchange.differences(request);
            if differences.found.is_empty() {
                fitting = Some(index);
                break;
            }
            let far = |told: &Differences| (told.is_other, told.found.len());
            if closest.as_ref().is_none_or(|(_, least)| far(&differences) < far(least)) {
                closest = Some((index, differences));
            }
        }
        if let Some(index) = fitting {
            let (exchange, is_used) = &mut self.exchanges[index];
            *is_used = true;
            return Some(exchange);
        }
        let sent = format!("{} {}", request.method, short(&request.url.as_str().into()));
        match (closest, refused) {
            (Some((index, Differences { is_other: false, found })), _) => {
                let told = |found| format!("http[{index}].request.{found} ({sent})");
                self.differences.extend(found.iter().map(told));
            }
            (_, Some(why)) => self.differences.push(format!("http: {sent} is not sent: {why}")),
            (_, None) => self.differences.push(format!("http: {sent} is not expected")),
        }
        None
    }
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
    fn stands(&self) -> bool {
        self.0.lock().is_some()
    }

    fn answer(&self, request: &Outbound) -> Result<Answer, EgressError> {
        let mut scene = self.0.lock();
        let found = scene.as_mut().and_then(|scene| scene.find(request, None));
        found.map_or(Err(EgressError::Unreachable(UNEXPECTED)), Exchange::answer)
    }

    fn refused(&self, request: &Outbound, why: EgressError) {
        if let Some(scene) = self.0.lock().as_mut() {
            scene.find(request, Some(why));
        }
    }
}

#[cfg(test)]
mod tests;
