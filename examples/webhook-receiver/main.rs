//! Receives the results of asynchronous runs, and believes those whose signature is right.
//!
//! ```console
//! WEBHOOK_SECRETS=whsec_… cargo run --example webhook-receiver -- 127.0.0.1:9000
//! ```
//!
//! The secrets are those that `GET /webhooks/signing-secrets` shows, several with spaces between them; any library for
//! Standard Webhooks checks them. They come from the environment, since others on the machine see a program's arguments. A
//! result may come more than once: what was done already is known by its `webhook-id`.

#![allow(clippy::print_stdout, reason = "it prints what it receives")]

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use standardwebhooks::Webhook;

/// Ids that are known, at most. A receiver that moves money notes them in its database, with what it did, in one
/// transaction: then neither a restart nor two attempts at the same time do it twice.
const SEEN_MAX: usize = 1_000;
/// Bytes of a webhook's body, at most.
const BODY_BYTES_MAX: usize = 32 << 20;

struct Receiver {
    /// More than one while a secret is being replaced.
    secrets: Vec<Webhook>,
    seen: Mutex<Seen>,
}

/// The last ids that were dealt with.
#[derive(Default)]
struct Seen {
    ids: HashSet<String>,
    oldest_first: VecDeque<String>,
}

impl Seen {
    fn note(&mut self, id: &str) {
        if !self.ids.insert(id.to_owned()) {
            return;
        }
        self.oldest_first.push_back(id.to_owned());
        if self.oldest_first.len() > SEEN_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("an address is missing")?;
    let address = address.parse::<SocketAddr>().map_err(|error| format!("{address}: {error}"))?;
    let receiver = Arc::new(Receiver { secrets: secrets()?, seen: Mutex::default() });
    // A result may be far larger than what axum takes unless told otherwise.
    let router = Router::new().route("/hook", post(receive)).with_state(receiver);
    let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}/hook", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}

#[expect(clippy::disallowed_methods, reason = "it has no options beside its address")]
fn secrets() -> Result<Vec<Webhook>, String> {
    let named = |error: &dyn std::fmt::Display| format!("WEBHOOK_SECRETS: {error}");
    let given = std::env::var("WEBHOOK_SECRETS").map_err(|error| named(&error))?;
    let secrets = given.split_whitespace().map(Webhook::new).collect::<Result<Vec<_>, _>>();
    let secrets = secrets.map_err(|error| named(&error))?;
    if secrets.is_empty() { Err(named(&"there is none")) } else { Ok(secrets) }
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
    if receiver.seen.lock().ids.contains(id) {
        println!("{id} came once more");
        return StatusCode::NO_CONTENT;
    }
    // Only what was dealt with is known from then on: after any other answer it is sent again.
    match deal_with(id, &body) {
        Ok(()) => {
            receiver.seen.lock().note(id);
            StatusCode::NO_CONTENT
        }
        Err(error) => {
            println!("{id} failed: {error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// What is to be done goes here.
fn deal_with(id: &str, body: &[u8]) -> Result<(), serde_json::Error> {
    let event: Value = serde_json::from_slice(body)?;
    println!("{id} {} {}", event["type"], event["data"]);
    Ok(())
}
