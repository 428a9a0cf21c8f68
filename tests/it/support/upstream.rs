//! A host of the outside world, on this machine: what formulas send requests to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

/// What was asked for: method, address, headers.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server, as long as it is held.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Seen,
    serving: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Upstream {
    /// Starts a server.
    ///
    /// `/echo` tells of the request, `/bytes/{n}` answers with so many, `/headers/{n}` with so many headers,
    /// `/redirects/{n}` with a redirect until none is left, `/to/{url}` with one to there; `/never` does not answer,
    /// `/endless` does not end, and `/meet` answers when three are there.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, met) = (Seen::default(), Arc::new(Barrier::new(3)));
        let routes = axum::Router::new()
            .route("/echo", any(echo))
            .route("/bytes/{count}", any(async |Path(count): Path<usize>| vec![b'x'; count]))
            .route("/headers/{count}", any(headers))
            .route("/redirects/{left}", any(redirects))
            .route("/to/{*url}", any(async |Path(url): Path<String>| redirect(&url)))
            .route("/meet", any(async move || met.wait().await.is_leader().to_string()))
            .route("/never", any(std::future::pending::<()>))
            .route("/endless", any(endless))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&seen), note))
            .with_state(());
        let serving = tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        Self { address, seen, serving }
    }

    /// An address of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked for so far.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Takes note of a request, all of it: who answers and hangs up before it has read what was sent resets the connection,
/// and its client may see that instead of the answer.
async fn note(
    State(seen): State<Seen>,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    let line = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
    seen.lock().unwrap().push(line);
    let (parts, body) = request.into_parts();
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let pair = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())])
    };
    let told = json!({
        "method": method.as_str(),
        "uri": uri.to_string(),
        "headers": headers.iter().map(pair).collect::<Value>(),
        "body": String::from_utf8_lossy(body.get(..100).unwrap_or(&body)),
        "body_bytes": body.len(),
    });
    (StatusCode::ACCEPTED, [("x-answer", "yes"), ("set-cookie", "a=b")], told.to_string())
}

async fn headers(Path(count): Path<usize>) -> impl IntoResponse {
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        headers.append("x-flood", header::HeaderValue::from_static("drop"));
    }
    headers
}

async fn redirects(Path(left): Path<usize>) -> Response {
    match left {
        0 => "arrived".into_response(),
        left => redirect(&format!("/redirects/{}", left - 1)),
    }
}

fn redirect(to: &str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, to.to_owned())], "this way").into_response()
}

async fn endless() -> Body {
    let pieces = futures::stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b"on and on ")), ()))
    });
    Body::from_stream(pieces)
}
