//! What a redirect makes of a request. Whether it may be sent is checked as for any other.

use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use url::Url;

use super::EgressError;
use super::request::Hop;

/// Headers that go along to another origin: what tells which answer is wanted and what the body is. Any other may be a
/// credential, under whatever name its service has given it.
const CARRIED: &[HeaderName] = &[
    header::ACCEPT,
    header::ACCEPT_CHARSET,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::PRAGMA,
    header::RANGE,
    header::USER_AGENT,
];

/// Where an answer redirects to, if it does.
pub fn target(
    status: StatusCode,
    headers: &HeaderMap,
    from: &Url,
) -> Result<Option<Url>, EgressError> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let nowhere = EgressError::Unreachable("a redirect leads to no valid address");
    let text = std::str::from_utf8(location.as_bytes()).map_err(|_| nowhere)?;
    from.join(text).map(Some).map_err(|_| nowhere)
}

/// The request that follows; `url` is checked.
pub fn follow(hop: Hop, status: StatusCode, url: Url) -> Result<Hop, EgressError> {
    let Hop { mut method, url: from, mut headers, mut body } = hop;
    if from.scheme() == "https" && url.scheme() != "https" {
        return Err(EgressError::Denied("a redirect leads from https:// to http://"));
    }
    let becomes_get = match status {
        StatusCode::SEE_OTHER => method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::POST,
        _ => false,
    };
    if becomes_get {
        method = Method::GET;
        body = None;
        let of_the_body: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with("content-")).cloned().collect();
        for name in of_the_body {
            headers.remove(name);
        }
    }
    if from.origin() != url.origin() {
        let mut carried = HeaderMap::new();
        for (name, value) in headers.iter().filter(|(name, _)| CARRIED.contains(name)) {
            carried.append(name.clone(), value.clone());
        }
        headers = carried;
    }
    Ok(Hop { method, url, headers, body })
}

#[cfg(test)]
mod tests {
    use super::{EgressError, Hop, follow, target};
    use http::{HeaderMap, Method, StatusCode};
    use url::Url;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn hop(method: Method) -> Hop {
        let mut headers = HeaderMap::new();
        for name in ["accept", "authorization", "cookie", "x-api-key", "content-type"] {
            headers.insert(name, "value".parse().unwrap());
        }
        headers.append("accept", "another".parse().unwrap());
        Hop { method, url: url("https://a.test/"), headers, body: Some("body".into()) }
    }

    fn names(hop: &Hop) -> Vec<&str> {
        let mut names: Vec<_> = hop.headers.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn methods_and_bodies() {
        for (status, method, expected) in [
            (301, Method::GET, Method::GET),
            (301, Method::POST, Method::GET),
            (301, Method::PUT, Method::PUT),
            (302, Method::POST, Method::GET),
            (302, Method::DELETE, Method::DELETE),
            (303, Method::POST, Method::GET),
            (303, Method::PUT, Method::GET),
            (303, Method::DELETE, Method::GET),
            (303, Method::HEAD, Method::HEAD),
            (307, Method::POST, Method::POST),
            (308, Method::PUT, Method::PUT),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let next = follow(hop(method.clone()), status, url("https://a.test/b")).unwrap();
            assert_eq!(next.method, expected, "{status} {method}");
            let kept = expected != Method::GET || (method == Method::GET && status != 303);
            assert_eq!(next.body.is_some(), kept, "{status} {method}");
            assert_eq!(next.headers.contains_key("content-type"), kept, "{status} {method}");
        }
    }

    #[test]
    fn credentials_stay_at_their_origin() {
        let to =
            |text| follow(hop(Method::POST), StatusCode::PERMANENT_REDIRECT, url(text)).unwrap();
        let all = ["accept", "authorization", "content-type", "cookie", "x-api-key"];
        assert_eq!(names(&to("https://a.test/b")), all);
        assert_eq!(names(&to("https://a.test:443/b")), all);
        for other in ["https://b.test/", "https://a.test:8443/", "https://sub.a.test/"] {
            let next = to(other);
            assert_eq!(names(&next), ["accept", "content-type"], "{other}");
            assert_eq!(next.headers.get_all("accept").iter().count(), 2);
            assert_eq!(next.body.as_deref(), Some(&b"body"[..]));
        }
    }

    #[test]
    fn nothing_goes_on_in_clear() {
        let next = follow(hop(Method::GET), StatusCode::FOUND, url("http://a.test/"));
        assert!(matches!(next, Err(EgressError::Denied(_))));
    }

    #[test]
    fn where_to() {
        let from = url("https://a.test/b/c?d");
        let location = |status, text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("location", http::HeaderValue::from_bytes(text.as_bytes()).unwrap());
            target(StatusCode::from_u16(status).unwrap(), &headers, &from)
        };
        for (text, expected) in [
            ("x", "https://a.test/b/x"),
            ("/x", "https://a.test/x"),
            ("//b.test/x", "https://b.test/x"),
            ("http://127.1/", "http://127.0.0.1/"),
            ("?y", "https://a.test/b/c?y"),
        ] {
            assert_eq!(location(302, text), Ok(Some(url(expected))), "{text}");
        }
        assert!(matches!(location(302, "https://[::1"), Err(EgressError::Unreachable(_))));
        for status in [200, 201, 300, 304, 305, 306, 400] {
            assert_eq!(location(status, "/x"), Ok(None), "{status}");
        }
        assert_eq!(target(StatusCode::FOUND, &HeaderMap::new(), &from), Ok(None));
    }
}
