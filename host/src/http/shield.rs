//! What every answer tells browsers and caches, and how large a request's head may be.
//!
//! The headers are set where the answer leaves, over whatever a handler or a formula put there: what a formula shapes is
//! no page of this server, and nobody on the way is to keep it.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::problem::Problem;
use crate::limits::{HEADERS_BYTES_MAX, STRICT_TRANSPORT_SECONDS, URI_BYTES_MAX};

/// What an answer is, for a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Values, or what tells of them.
    Values,
    /// The same for everybody: the description, and the files of its page.
    Public,
    /// The console's page and files, the same for everybody too.
    Console,
}

/// No answer is a page that may load or run anything, or be framed.
const VALUES_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";
/// The page of the description runs its own scripts and asks this server alone. It sets styles of elements.
const PUBLIC_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The console runs its own scripts, which ask this server alone; what its library makes of templates passes its own gate.
const CONSOLE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types lit-html";

/// The headers that all answers have.
static ALWAYS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl Place {
    /// What is answered at this path.
    pub fn of(path: &str) -> Self {
        let first = path.split('/').nth(1).unwrap_or_default();
        match first {
            "docs" | "openapi.json" => Self::Public,
            "console" => Self::Console,
            _ => Self::Values,
        }
    }
}

/// Sets the headers of an answer.
pub fn protect(headers: &mut HeaderMap, place: Place, tls: bool) {
    for (name, value) in &ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let (policy, caching) = match place {
        Place::Values => (VALUES_POLICY, "no-store"),
        Place::Public => (PUBLIC_POLICY, "no-cache"),
        Place::Console => (CONSOLE_POLICY, "no-cache"),
    };
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    // How long a file of the console is kept is said where it is served; no formula shapes it.
    if place != Place::Console || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    }
    if tls {
        let value = HeaderValue::try_from(format!("max-age={STRICT_TRANSPORT_SECONDS}"));
        // Digits are a header's value.
        headers.extend(value.ok().map(|value| (header::STRICT_TRANSPORT_SECURITY, value)));
    } else {
        // Over plain HTTP it means nothing, and a formula has no say in it.
        headers.remove(header::STRICT_TRANSPORT_SECURITY);
    }
}

/// The refusal of a request whose head is too large: 414 for its address, 431 for its headers.
pub fn refusal_of_head(request: &Request) -> Option<Response> {
    if uri_bytes(request) > URI_BYTES_MAX {
        let detail = format!("The address must have at most {URI_BYTES_MAX} bytes.");
        return Some(Problem::new(StatusCode::URI_TOO_LONG, detail).into_response());
    }
    if headers_bytes(request.headers()) > HEADERS_BYTES_MAX {
        let detail = format!("The headers must have at most {HEADERS_BYTES_MAX} bytes together.");
        let refusal = Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail);
        return Some(refusal.into_response());
    }
    None
}

fn uri_bytes(request: &Request) -> usize {
    request.uri().path_and_query().map_or(0, |path| path.as_str().len())
}

fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::{Place, headers_bytes, protect};
    use http::{HeaderMap, HeaderName, HeaderValue, header};

    #[test]
    fn what_is_public_is_named() {
        for (path, place) in [
            ("/docs", Place::Public),
            ("/docs/index.html", Place::Public),
            ("/openapi.json", Place::Public),
            ("/console", Place::Console),
            ("/console/0/main.js", Place::Console),
            ("/consoles", Place::Values),
            ("/tokens/console", Place::Values),
            ("/", Place::Values),
            ("/tokens/docs", Place::Values),
            ("/docsx", Place::Values),
            ("*", Place::Values),
            ("", Place::Values),
        ] {
            assert_eq!(Place::of(path), place, "{path}");
        }
    }

    #[test]
    fn a_formula_has_no_say() {
        let mut headers = HeaderMap::new();
        for name in [header::CACHE_CONTROL, header::X_CONTENT_TYPE_OPTIONS] {
            headers.append(&name, HeaderValue::from_static("public"));
            headers.append(&name, HeaderValue::from_static("max-age=1"));
        }
        let own = HeaderValue::from_static("max-age=0");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, own);
        headers.insert(HeaderName::from_static("x-own"), HeaderValue::from_static("kept"));
        protect(&mut headers, Place::Values, false);
        let all: Vec<_> = headers.get_all(header::CACHE_CONTROL).iter().collect();
        assert_eq!(all, ["no-store"]);
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(!headers.contains_key(header::STRICT_TRANSPORT_SECURITY));
        assert_eq!(headers["x-own"], "kept");
        protect(&mut headers, Place::Public, true);
        assert_eq!(headers[header::STRICT_TRANSPORT_SECURITY], "max-age=31536000");
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
    }

    #[test]
    fn the_console_says_itself_how_long_its_files_are_kept() {
        let mut headers = HeaderMap::new();
        protect(&mut headers, Place::Console, false);
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=5"));
        protect(&mut headers, Place::Console, false);
        assert_eq!(headers[header::CACHE_CONTROL], "max-age=5");
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(!policy.contains("unsafe") && policy.contains("script-src 'self';"), "{policy}");
    }

    #[test]
    fn names_and_values_count() {
        let mut headers = HeaderMap::new();
        assert_eq!(headers_bytes(&headers), 0);
        headers.append("ab", HeaderValue::from_static("cde"));
        headers.append("ab", HeaderValue::from_static("f"));
        assert_eq!(headers_bytes(&headers), 8);
    }
}
