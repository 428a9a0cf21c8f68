//! Where to send and what to make of the answer: the reactor's configuration, checked.

use std::ops::RangeInclusive;

use serde::Deserialize;
use tokamak_sdk::{Map, Value, http, number};

use crate::configuration::Members;
use crate::target;

/// The types of tokens that there are.
pub(crate) const TOKEN_TYPES: &[&str] = &[
    "token",
    "card",
    "card_number",
    "bank",
    "us_bank_account_number",
    "us_bank_routing_number",
    "social_security_number",
    "employer_id_number",
];

/// The methods that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// The name in a request.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];
        all.into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }

    /// Whether the arguments are the body when there is no template of one.
    pub(crate) fn sends_args(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Form,
}

impl ContentType {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "form" => Some(Self::Form),
            _ => None,
        }
    }
}

/// What the body is made of.
pub(crate) enum Source {
    /// JSON whose texts are templates.
    Template(Value),
    /// The arguments as they are.
    Args,
    /// There is no body.
    Nothing,
}

/// What to send and where. What is none is wrong and has been noted; the rest can still be looked at.
pub(crate) struct Sending {
    /// An absolute address without a placeholder before its path.
    pub(crate) url: Option<String>,
    pub(crate) method: Option<Method>,
    pub(crate) content_type: Option<ContentType>,
    pub(crate) body: Option<Source>,
    /// Names and templates.
    pub(crate) headers: Option<Map<String, Value>>,
    /// None also when the host's own bound has to do.
    pub(crate) timeout_ms: Option<u32>,
}

impl Sending {
    /// Checks what the configuration says of it; notes all that is wrong.
    pub(crate) fn read(given: &mut Members) -> Self {
        let expected = "must be true or false";
        let allow_http = given.value("allow_http", Some(false), Value::as_bool, expected);
        let url = given.text(
            "url",
            None,
            // Where `allow_http` is wrong, the address is not to blame for it.
            |url| target::is_address(url, allow_http.unwrap_or(true)).then(|| url.to_owned()),
            "must be an https address with placeholders after its host only; one with http needs `allow_http`",
        );
        let method = given.text(
            "method",
            Some(Method::Post),
            Method::parse,
            "must be one of GET, POST, PUT, PATCH and DELETE",
        );
        let content_type = given.text(
            "content_type",
            Some(ContentType::Json),
            ContentType::parse,
            "must be json or form",
        );
        let template = given.text(
            "body_template",
            Some(None),
            |text| parsed(text).filter(|it| is_template(it) && is_exact(text)).map(Some),
            "must be JSON, with placeholders within its strings, none of them in a member's name, and no number that is \
             not kept as it stands",
        );
        if method == Some(Method::Get) && matches!(template, Some(Some(_))) {
            given.fault("body_template", "must be absent with GET");
        }
        let headers = given.text(
            "headers",
            Some(Map::new()),
            |text| parsed(text).filter(target::are_headers),
            "must be a JSON object of headers that may be set and their templates",
        );
        let timeout_ms = given.value(
            "timeout_ms",
            Some(None),
            |value| milliseconds(value).map(Some),
            "must be a whole number of milliseconds, 1 to 4294967295",
        );
        let body = match (template, method) {
            (Some(Some(template)), _) => Some(Source::Template(template)),
            (Some(None), Some(method)) if method.sends_args() => Some(Source::Args),
            (Some(None), Some(_)) => Some(Source::Nothing),
            _ => None,
        };
        Self { url, method, content_type, body, headers, timeout_ms: timeout_ms.flatten() }
    }
}

/// What to make of the answer.
pub(crate) struct Answering {
    expected_status: Vec<RangeInclusive<u16>>,
    /// A JSON pointer.
    pub(crate) raw_path: Option<String>,
    /// A JSON pointer.
    pub(crate) tokenize_path: Option<String>,
    pub(crate) tokenize_type: Option<&'static str>,
    /// JSON pointers.
    pub(crate) redact: Vec<String>,
}

impl Answering {
    /// Checks what the configuration says of it; notes all that is wrong.
    pub(crate) fn read(given: &mut Members) -> Option<Self> {
        let expected_status = given.text(
            "expected_status",
            Some(vec![200..=299]),
            statuses,
            "must be statuses from 100 to 599, such as `200,201` or `200-299`",
        );
        let mut pointer = |name| {
            let read = |path: &str| is_pointer(path).then(|| Some(path.to_owned()));
            given.text(name, Some(None), read, "must be a JSON pointer")
        };
        let (raw_path, tokenize_path) = (pointer("raw_path"), pointer("tokenize_path"));
        // The vault would refuse another one when the request was sent already, and blame the caller.
        let tokenize_type = given.text(
            "tokenize_type",
            Some(None),
            |name| TOKEN_TYPES.iter().find(|known| **known == name).map(|known| Some(*known)),
            &format!("must be one of {}", TOKEN_TYPES.join(", ")),
        );
        if given.has("tokenize_type") && !given.has("tokenize_path") {
            given.fault("tokenize_type", "must be absent without `tokenize_path`");
        }
        let redact = given.text(
            "redact",
            Some(Vec::new()),
            |text| {
                parsed(text).filter(|paths: &Vec<String>| paths.iter().all(|path| is_part(path)))
            },
            "must be a JSON array of JSON pointers, none of them to the whole",
        );
        Some(Self {
            expected_status: expected_status?,
            raw_path: raw_path?,
            tokenize_path: tokenize_path?,
            tokenize_type: tokenize_type?,
            redact: redact?,
        })
    }

    /// Whether an answer with this status is a success.
    pub(crate) fn expects(&self, status: u16) -> bool {
        self.expected_status.iter().any(|range| range.contains(&status))
    }
}

/// JSON in a text.
fn parsed<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let value: Value = text.parse().ok()?;
    T::deserialize(value).ok()
}

/// Whether a template says what would be sent: no name is filled.
fn is_template(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_template),
        Value::Object(members) => {
            members.iter().all(|(name, value)| !name.contains("{{") && is_template(value))
        }
        _ => true,
    }
}

/// Whether all numbers of a text are kept as they stand.
fn is_exact(text: &str) -> bool {
    http::Response::new(200, text).exact_json::<Value>().is_ok()
}

/// A whole number above 0.
fn milliseconds(value: &Value) -> Option<u32> {
    let milliseconds = number::whole(value).and_then(|number| u32::try_from(number).ok());
    milliseconds.filter(|milliseconds| *milliseconds > 0)
}

/// Whether this is a JSON pointer, and not one to the whole.
fn is_part(path: &str) -> bool {
    is_pointer(path) && !path.is_empty()
}

/// Whether this is a JSON pointer (RFC 6901): empty for the whole, or parts after slashes.
fn is_pointer(path: &str) -> bool {
    let escaped = path.split('~').skip(1).all(|part| part.starts_with(['0', '1']));
    (path.is_empty() || path.starts_with('/')) && escaped
}

/// Reads `200,201` or `200-299`, or a list of both.
fn statuses(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let status =
        |text: &str| text.trim().parse::<u16>().ok().filter(|status| (100..=599).contains(status));
    let range = |part: &str| match part.split_once('-') {
        Some((from, to)) => Some(status(from)?..=status(to)?).filter(|range| !range.is_empty()),
        None => status(part).map(|status| status..=status),
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use tokamak_sdk::{Value, json};

    use super::{is_exact, is_pointer, is_template, milliseconds, statuses};

    #[test]
    fn milliseconds_are_whole_and_above_nothing() {
        for (right, read) in
            [(json!(1), 1), (json!(1500.0), 1_500), (json!(u32::MAX), 4_294_967_295)]
        {
            assert_eq!(milliseconds(&right), Some(read), "{right}");
        }
        for wrong in [json!(0), json!(-1), json!(1.5), json!(4_294_967_296_u64), json!("1")] {
            assert_eq!(milliseconds(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn statuses_are_single_ones_and_ranges() {
        assert_eq!(statuses("200"), Some(vec![200..=200]));
        assert_eq!(statuses(" 200 , 404-410"), Some(vec![200..=200, 404..=410]));
        for wrong in ["", "2xx", "200,", "299-200", "99", "600", "200-", "-200", "200-600"] {
            assert_eq!(statuses(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pointers_are_empty_or_start_with_a_slash() {
        for right in ["", "/", "/a/0/b", "/a~1b/~0"] {
            assert!(is_pointer(right), "{right}");
        }
        for wrong in ["a", "a/b", "/a~", "/a~2", "$.a"] {
            assert!(!is_pointer(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_template_is_sent_as_it_stands() {
        for (text, right) in [
            (r#"{"a": "{{ args.a }}", "b": [1, 1.5, 1e16, 18446744073709551615, null]}"#, true),
            (r#"{"a": 12345678901234567890123}"#, false),
            (r#"{"a": 0.12345678901234567890}"#, false),
            ("[[123456.7890123456789]]", false),
            (r#"{"{{ args.a }}": 1}"#, false),
            (r#"{"a": [{"b{{ args.a }}": 1}]}"#, false),
        ] {
            let is_right = is_template(&text.parse::<Value>().unwrap()) && is_exact(text);
            assert_eq!(is_right, right, "{text}");
        }
    }
}
