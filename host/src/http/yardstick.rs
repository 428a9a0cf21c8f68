//! What the server is measured beside: the same framework with nothing of the vault in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use serde_json::Value;
use tokio::net::TcpListener;

/// A service that parses and writes the JSON it is sent (`/echo`).
#[expect(clippy::disallowed_types, reason = "the yardstick is axum alone")]
pub fn yardstick() -> Router {
    Router::new().route("/echo", post(async |axum::Json(body): axum::Json<Value>| axum::Json(body)))
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
