//! What the server is measured beside: the same framework with nothing of the vault in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;

/// A service that parses and writes the JSON it is sent (`/echo`).
pub fn yardstick() -> Router {
    let echo = async |body: Bytes| -> Result<_, StatusCode> {
        let body: Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let body = serde_json::to_vec(&body).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body))
    };
    Router::new().route("/echo", post(echo))
}

/// A service that takes webhooks (`/hook`), and counts them.
pub fn receiver(hooks: Arc<AtomicU64>) -> Router {
    let take = async move || {
        hooks.fetch_add(1, Ordering::Relaxed);
        StatusCode::NO_CONTENT
    };
    Router::new().route("/hook", post(take))
}

/// Serves one of them until the process ends.
pub async fn serve_plain(listener: TcpListener, router: Router) -> std::io::Result<()> {
    axum::serve(listener, router).await
}
