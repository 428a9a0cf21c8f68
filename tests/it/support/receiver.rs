//! A service that receives webhooks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;

/// Longest wait for a webhook.
const PATIENCE: Duration = Duration::from_mins(2);

/// A webhook as it arrived.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub bytes: Bytes,
}

/// What the receiver does with the n-th webhook, from 0.
pub enum Action {
    /// Answers so.
    Answer(u16),
    /// Answers so, with a header.
    With(u16, &'static str, String),
    /// Answers after a while.
    After(Duration),
}

type Script = Arc<dyn Fn(usize) -> Action + Send + Sync>;

/// A receiver that runs as long as the test does.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Hook>>>,
}

impl Hook {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Checks the signature with somebody else's implementation, which checks the time too.
    pub fn verify(&self, secret: &str) -> Result<(), standardwebhooks::WebhookError> {
        standardwebhooks::Webhook::new(secret).unwrap().verify(&self.bytes, &self.headers)
    }
}

impl Receiver {
    /// A receiver that takes everything.
    pub async fn start() -> Self {
        Self::with(|_| Action::Answer(204)).await
    }

    /// A receiver that does as `script` says.
    pub async fn with(script: impl Fn(usize) -> Action + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::listening(listener, script)
    }

    /// A receiver on a listener that is there already.
    pub fn listening(
        listener: TcpListener,
        script: impl Fn(usize) -> Action + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Hook>>> = Arc::default();
        let state = (Arc::clone(&seen), Arc::new(script) as Script);
        let router = Router::new().fallback(receive);
        let router = router.layer(axum::extract::DefaultBodyLimit::disable()).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, seen }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What arrived so far.
    pub fn seen(&self) -> Vec<Hook> {
        self.seen.lock().clone()
    }

    /// Waits until so many webhooks have arrived; gives them.
    pub async fn wait(&self, count: usize) -> Vec<Hook> {
        let began = Instant::now();
        loop {
            let seen = self.seen();
            if seen.len() >= count {
                return seen;
            }
            assert!(began.elapsed() < PATIENCE, "{} of {count} webhooks arrived", seen.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn receive(
    State((seen, script)): State<(Arc<Mutex<Vec<Hook>>>, Script)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let number = {
        let mut seen = seen.lock();
        seen.push(Hook { headers, bytes });
        seen.len() - 1
    };
    let status = |status: u16| StatusCode::from_u16(status).unwrap();
    match script(number) {
        Action::Answer(code) => status(code).into_response(),
        Action::With(code, name, value) => (status(code), [(name, value)]).into_response(),
        Action::After(wait) => {
            tokio::time::sleep(wait).await;
            StatusCode::OK.into_response()
        }
    }
}
