//! Receives the results of asynchronous runs, and believes those whose signature is right.
//!
//! ```console
//! cargo run --example webhook-receiver -- 127.0.0.1:9000 whsec_…
//! ```
//!
//! The secrets are those that `GET /webhooks/signing-secrets` shows; any library for Standard Webhooks checks them. A
//! result may come more than once: what was done already is known by its `webhook-id`.

#![allow(clippy::print_stdout, reason = "it prints what it receives")]

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use standardwebhooks::Webhook;

struct Receiver {
    /// More than one while a secret is being replaced.
    secrets: Vec<Webhook>,
    seen: Mutex<HashSet<String>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or("an address is missing")?.parse()?;
    let secrets = arguments.map(|secret| Webhook::new(&secret)).collect::<Result<Vec<_>, _>>()?;
    let receiver = Arc::new(Receiver { secrets, seen: Mutex::default() });
    let router = Router::new().route("/hook", post(receive)).with_state(receiver);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}/hook", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    // The signature is over the bytes as they came: it is checked before they are read.
    if !receiver.secrets.iter().any(|secret| secret.verify(&body, &headers).is_ok()) {
        return StatusCode::UNAUTHORIZED;
    }
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    if !receiver.seen.lock().insert(id.to_owned()) {
        println!("{id} came once more");
        return StatusCode::NO_CONTENT;
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(event) => {
            println!("{id} {} {}", event["type"], event["data"]);
            StatusCode::NO_CONTENT
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}
