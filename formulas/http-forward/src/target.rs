//! The address and the headers of the request.
//!
//! Both are places where a value could become syntax: another path, another header. So values in addresses are
//! percent-encoded and never make up a step of the path that leads elsewhere, and those in headers are printable.

use tokamak_sdk::http::percent_encode;
use tokamak_sdk::{Faults, Map, Value};

use crate::template::{Piece, Scope, Template};

/// Headers that belong to the connection, or that the body decides.
const RESERVED: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Bytes of an address, and of one header's value, that the host takes in any case.
const BYTES_MAX: usize = 8_000;
/// Bytes of the values of all headers.
const HEADERS_BYTES_MAX: usize = 32_000;

/// Whether this is an absolute address whose placeholders, if any, come after its host. One in clear is none unless
/// that is allowed.
pub(crate) fn is_address(url: &str, allow_http: bool) -> bool {
    let in_clear = || url.strip_prefix("http://").filter(|_| allow_http);
    let Some(rest) = url.strip_prefix("https://").or_else(in_clear) else { return false };
    let (host, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"{}@\\".contains(c);
    let (path, _) = split_query(after);
    !host.is_empty()
        && host.chars().all(plain)
        && !after.contains(['#', '\\'])
        && !after.contains(char::is_control)
        && !path.split('/').any(leads_elsewhere)
        && Template::parse(after).is_some()
}

/// Whether these are headers that may be set, and templates of printable text.
pub(crate) fn are_headers(headers: &Map<String, Value>) -> bool {
    let named = |name: &str| {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !name.is_empty()
            && name.bytes().all(token)
            && !RESERVED.contains(&name.to_ascii_lowercase().as_str())
            && !name.to_ascii_lowercase().starts_with("proxy-")
    };
    let right = |value: &Value| {
        value.as_str().is_some_and(|text| is_printable(text) && Template::parse(text).is_some())
    };
    headers.iter().all(|(name, value)| named(name) && right(value))
}

/// The address, its values encoded.
pub(crate) fn url(url: &str, scope: &Scope, faults: &mut Faults) -> Option<String> {
    let (path, query) = split_query(url);
    let mut rendered: Vec<Option<String>> = Vec::new();
    // No placeholder holds a slash.
    for step in path.split('/') {
        rendered.push(render_step(&Template::parse(step)?, scope, faults));
    }
    let query = query.map(|query| {
        Template::parse(query)?.render(scope, faults, |text| Ok(percent_encode(text)))
    });
    let path = rendered.into_iter().collect::<Option<Vec<_>>>()?.join("/");
    let rendered = match query {
        Some(query) => format!("{path}?{}", query?),
        None => path,
    };
    fits(rendered, BYTES_MAX, (&Template::parse(url)?, "configuration.url"), faults)
}

/// What was rendered, if it is not too long; what makes it so is what its placeholders stand for, if it has any.
fn fits(
    rendered: String,
    bytes_max: usize,
    (template, member): (&Template, &str),
    faults: &mut Faults,
) -> Option<String> {
    if rendered.len() <= bytes_max {
        return Some(rendered);
    }
    let places = template.pieces().iter().filter_map(|piece| match piece {
        Piece::Place(place) => Some(place.path.as_str()),
        Piece::Text(_) => None,
    });
    let mut places: Vec<&str> = places.collect();
    if places.is_empty() {
        places.push(member);
    }
    for place in places {
        faults.add(place, "makes an address or headers that are too long");
    }
    None
}

/// The path and what follows the first `?` that is not one of a placeholder.
fn split_query(url: &str) -> (&str, Option<&str>) {
    let mut within = false;
    for (at, character) in url.char_indices() {
        match character {
            '{' => within = true,
            '}' => within = false,
            '?' if !within => return (&url[..at], Some(&url[at + 1..])),
            _ => {}
        }
    }
    (url, None)
}

/// One step of the path. An empty value would be another address, and so would one that makes dots of the step.
fn render_step(step: &Template, scope: &Scope, faults: &mut Faults) -> Option<String> {
    let rendered = step.render(scope, faults, |text| match text {
        "" => Err("must not be empty"),
        text => Ok(percent_encode(text)),
    })?;
    let mut places = step.pieces().iter().filter_map(|piece| match piece {
        Piece::Place(place) => Some(place),
        Piece::Text(_) => None,
    });
    match places.next() {
        Some(place) if leads_elsewhere(&rendered) => {
            faults.add(place.path.as_str(), "cannot stand in an address");
            None
        }
        _ => Some(rendered),
    }
}

/// Whether a step of a path is not a name: `.` or `..`, encoded or not.
fn leads_elsewhere(step: &str) -> bool {
    matches!(step.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

/// The headers. One that is a placeholder which stands for nothing is left out.
pub(crate) fn headers(
    headers: &Map<String, Value>,
    scope: &Scope,
    faults: &mut Faults,
) -> Option<Vec<(String, String)>> {
    let (mut rendered, mut right, mut room) = (Vec::new(), true, HEADERS_BYTES_MAX);
    for (name, value) in headers {
        let template = Template::parse(value.as_str()?)?;
        let absent = |place| matches!(scope.value(place), None | Some(Value::Null));
        if template.whole().is_some_and(|place| place.optional && absent(place)) {
            continue;
        }
        let value = template.render(scope, faults, |text| {
            is_printable(text).then(|| text.to_owned()).ok_or("cannot stand in a header")
        });
        let (most, place) = (BYTES_MAX.min(room), (&template, "configuration.headers"));
        match value.and_then(|value| fits(value, most, place, faults)) {
            Some(value) => {
                room -= value.len();
                rendered.push((name.clone(), value));
            }
            None => right = false,
        }
    }
    right.then_some(rendered)
}

/// Whether a text can stand in a header: printable ASCII, which no line end is.
fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use tokamak_sdk::json;

    use super::{are_headers, is_address, split_query};

    #[test]
    fn placeholders_stand_after_the_host() {
        for right in [
            "https://a.example",
            "https://a.example:8080/",
            "https://a.example/x/{{ args.a }}?b={{ args.b }}",
            "https://a.example?b={{ args.b }}",
            "https://[::1]/x",
        ] {
            assert!(is_address(right, false), "{right}");
            let in_clear = right.replace("https://", "http://");
            assert!(is_address(&in_clear, true), "{in_clear}");
            assert!(!is_address(&in_clear, false), "{in_clear}");
        }
        for wrong in [
            "",
            "a.example",
            "ftp://a.example/",
            "HTTPS://a.example/",
            "https://",
            "https:///x",
            "https://{{ args.host }}/",
            "https://a{{ args.host }}.example/",
            "https://user@a.example/",
            "https://a.example\\@b.example/",
            "https://a.example/{{ args.a",
            "https://a.example/../x",
            "https://a.example/%2E./x",
            "https://a.example/x#y",
            "https://a.example/\r\nx",
            "{{ args.url }}",
        ] {
            assert!(!is_address(wrong, false), "{wrong}");
            assert!(!is_address(wrong, true), "{wrong}");
        }
    }

    #[test]
    fn a_question_mark_of_a_placeholder_begins_no_query() {
        for (url, path, query) in [
            ("/a", "/a", None),
            ("/a?", "/a", Some("")),
            ("/a?b?c", "/a", Some("b?c")),
            ("/{{ args.a? }}", "/{{ args.a? }}", None),
            ("/{{ args.a? }}?b={{ args.b? }}", "/{{ args.a? }}", Some("b={{ args.b? }}")),
        ] {
            assert_eq!(split_query(url), (path, query), "{url}");
        }
    }

    #[test]
    fn headers_of_the_connection_are_not_for_setting() {
        let right = json!({ "Authorization": "Bearer {{ configuration.api_key }}", "x-a": "" });
        assert!(are_headers(right.as_object().unwrap()));
        for wrong in [
            json!({ "Host": "a" }),
            json!({ "content-length": "1" }),
            json!({ "Transfer-Encoding": "chunked" }),
            json!({ "proxy-authorization": "a" }),
            json!({ "": "a" }),
            json!({ "a b": "a" }),
            json!({ "a:": "a" }),
            json!({ "a\r\nb": "a" }),
            json!({ "a": "b\r\nc: d" }),
            json!({ "a": "é" }),
            json!({ "a": 1 }),
            json!({ "a": "{{ args.a" }),
        ] {
            assert!(!are_headers(wrong.as_object().unwrap()), "{wrong}");
        }
    }
}
