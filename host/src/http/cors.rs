//! Browsers: which of their requests other sites' pages may send (the Fetch standard's CORS protocol).
//!
//! Public applications and sessions are for pages, and a page may come from anywhere: what they may use is open to every
//! origin. That gives nobody a right: the key does, which a page must hold to send it, and nothing here asks a browser to
//! add cookies or the like of its own. Everything else stays closed to pages of other sites.
//!
//! To open an operation: its method, in the row of its path.

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

/// What public applications and sessions may use.
const OPEN: &[(&str, &str)] = &[
    ("/tokens", "GET, POST"),
    ("/tokens/{id}", "GET, PATCH, DELETE"),
    ("/tokens/search", "POST"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/sessions", "POST"),
    ("/applications/key", "GET"),
    ("/reactors/{id}/react", "POST"),
    ("/reactors/{id}/results/{invocation_id}", "GET"),
    ("/reactors/{id}/results/{invocation_id}/redeliver", "POST"),
    ("/permissions", "GET"),
];
/// Headers that a page may send.
const SENT: HeaderValue =
    HeaderValue::from_static("content-type, svc-api-key, svc-trace-id, svc-idempotency-key");
/// Headers of an answer that a page may read, beside those that it always may.
const READ: HeaderValue = HeaderValue::from_static(
    "location, retry-after, svc-trace-id, svc-invocation-id, svc-idempotent-replay",
);
/// How long a browser need not ask again, in seconds: as long as any browser takes.
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Answers what browsers ask before a request, and lets pages read the answers to those.
pub async fn around<F>(request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let methods = OPEN.iter().find(|(open, _)| *open == route).map(|(_, methods)| *methods);
    let headers = request.headers();
    let Some(methods) = methods.filter(|_| headers.contains_key(header::ORIGIN)) else {
        return next(request).await;
    };
    if *request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return allowed(methods);
    }
    // Where there is a GET there is a HEAD.
    let method = match request.method() {
        &Method::HEAD => &Method::GET,
        method => method,
    };
    let open = methods.split(", ").any(|open| open == method.as_str());
    let mut response = next(request).await;
    if open {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    }
    response
}

/// The answer to a browser that asks.
fn allowed(methods: &'static str) -> Response {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, SENT);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    (StatusCode::NO_CONTENT, headers).into_response()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::OPEN;
    use crate::http::routes::description;

    #[test]
    fn what_is_open_is_there() {
        let description = description();
        for (path, methods) in OPEN {
            let item = &description.paths.paths[*path];
            for method in methods.split(", ") {
                let found = match method {
                    "GET" => &item.get,
                    "POST" => &item.post,
                    "PATCH" => &item.patch,
                    "DELETE" => &item.delete,
                    other => panic!("{other}"),
                };
                assert!(found.is_some() && Method::from_bytes(method.as_bytes()).is_ok(), "{path}");
            }
        }
    }
}
