//! Where to send and what to make of the answer: the reactor's configuration, checked.

use std::ops::RangeInclusive;

use serde::Deserialize;
use tokamak_sdk::{Faults, Map, Value};

use crate::target;

/// The configuration, as the reactor's owner writes it; all else in it is for templates.
#[derive(Deserialize)]
struct Configuration {
    url: String,
    allow_http: Option<bool>,
    method: Option<String>,
    content_type: Option<String>,
    body_template: Option<String>,
    headers: Option<String>,
    expected_status: Option<String>,
    raw_path: Option<String>,
    tokenize_path: Option<String>,
    tokenize_type: Option<String>,
    redact: Option<String>,
    timeout_ms: Option<u32>,
}

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

/// The configuration, checked.
pub(crate) struct Settings {
    /// An absolute address without a placeholder before its path.
    pub(crate) url: String,
    pub(crate) method: Method,
    pub(crate) content_type: ContentType,
    /// JSON whose texts are templates.
    pub(crate) body_template: Option<Value>,
    /// Names and templates.
    pub(crate) headers: Map<String, Value>,
    expected_status: Vec<RangeInclusive<u16>>,
    /// A JSON pointer.
    pub(crate) raw_path: Option<String>,
    /// A JSON pointer.
    pub(crate) tokenize_path: Option<String>,
    pub(crate) tokenize_type: Option<String>,
    /// JSON pointers.
    pub(crate) redact: Vec<String>,
    pub(crate) timeout_ms: Option<u32>,
}

impl Settings {
    /// Checks the configuration; notes all that is wrong with it.
    pub(crate) fn read(configuration: &Value, faults: &mut Faults) -> Option<Self> {
        let expected = "must have a `url`, texts, a `timeout_ms` that is a whole number, and an `allow_http` that is a boolean";
        let given = Configuration::deserialize(configuration).ok();
        let given = faults.expect(given, "configuration", expected)?;
        let allow_http = given.allow_http.unwrap_or_default();
        let url = Some(given.url).filter(|url| target::is_address(url, allow_http));
        let url = faults.expect(
            url,
            "configuration.url",
            "must be an https address with placeholders after its host only; one with http needs `allow_http`",
        );
        let method = faults.expect(
            given.method.map_or(Some(Method::Post), |name| Method::parse(&name)),
            "configuration.method",
            "must be one of GET, POST, PUT, PATCH and DELETE",
        );
        let content_type = match given.content_type.as_deref() {
            None | Some("json") => Some(ContentType::Json),
            Some("form") => Some(ContentType::Form),
            Some(_) => None,
        };
        let content_type =
            faults.expect(content_type, "configuration.content_type", "must be json or form");
        let body_template = faults.expect(
            parsed(given.body_template.as_deref()),
            "configuration.body_template",
            "must be JSON, with placeholders within its strings",
        );
        if method == Some(Method::Get) && matches!(body_template, Some(Some(_))) {
            faults.add("configuration.body_template", "must be absent with GET");
        }
        let headers = parsed(given.headers.as_deref())
            .map(Option::unwrap_or_default)
            .filter(target::are_headers);
        let headers = faults.expect(
            headers,
            "configuration.headers",
            "must be a JSON object of headers that may be set and their templates",
        );
        let expected_status = faults.expect(
            statuses(given.expected_status.as_deref().unwrap_or("200-299")),
            "configuration.expected_status",
            "must be statuses from 100 to 599, such as `200,201` or `200-299`",
        );
        let raw_path = pointer(given.raw_path, "configuration.raw_path", faults);
        let tokenize_path = pointer(given.tokenize_path, "configuration.tokenize_path", faults);
        let redact = parsed::<Vec<String>>(given.redact.as_deref())
            .map(Option::unwrap_or_default)
            .filter(|paths| paths.iter().all(|path| is_pointer(path) && !path.is_empty()));
        let redact = faults.expect(
            redact,
            "configuration.redact",
            "must be a JSON array of JSON pointers, none of them to the whole",
        );
        if given.tokenize_type.is_some() && tokenize_path.is_none() {
            faults.add("configuration.tokenize_type", "must be absent without `tokenize_path`");
        }
        Some(Self {
            url: url?,
            method: method?,
            content_type: content_type?,
            body_template: body_template?,
            headers: headers?,
            expected_status: expected_status?,
            raw_path,
            tokenize_path,
            tokenize_type: given.tokenize_type,
            redact: redact?,
            timeout_ms: given.timeout_ms,
        })
    }

    /// Whether an answer with this status is a success.
    pub(crate) fn expects(&self, status: u16) -> bool {
        self.expected_status.iter().any(|range| range.contains(&status))
    }
}

/// JSON in a text; the inner none when there is no text.
#[expect(clippy::option_option, reason = "absent is right, and not the same as wrong")]
fn parsed<T: for<'de> Deserialize<'de>>(text: Option<&str>) -> Option<Option<T>> {
    text.map(|text| {
        let value: Value = text.parse().ok()?;
        T::deserialize(value).ok()
    })
    .map_or(Some(None), |value| value.map(Some))
}

fn pointer(path: Option<String>, member: &str, faults: &mut Faults) -> Option<String> {
    let path = path?;
    faults.expect(Some(path).filter(|path| is_pointer(path)), member, "must be a JSON pointer")
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
    use super::{is_pointer, statuses};

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
}
