//! How the server stops (decisions §9): requests under way finish, new ones are refused, and those who ask whether it is
//! ready are told.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::json;
use tokamak::clock::{Clock, ManualClock};
use tokamak::config::RateLimits;
use tokamak::http::{Parts, Rates, Scrapers, State, Stopping, router};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::Service as _;

use crate::support::binary::{Process, ROOT_KEY, command};
use crate::support::{Client, TestServer, guests};

/// A host that notes when it is asked, and answers when it may.
struct Held {
    url: String,
    asked: Arc<Semaphore>,
    may_answer: Arc<Semaphore>,
}

impl Held {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (asked, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let held = Self { url, asked: Arc::clone(&asked), may_answer: Arc::clone(&may_answer) };
        let answer = move || async move {
            asked.add_permits(1);
            may_answer.acquire().await.unwrap().forget();
            "held"
        };
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async { axum::serve(listener, router).await });
        held
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_finishes_and_new_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.args(["--allow-private-networks", "--data-dir"]).arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY);
    serve.env("TOKAMAK_BOOTSTRAP_KEY", crate::support::binary::MANAGEMENT_KEY);
    let process = Process::start(serve);
    let management = process.management();
    management.get("/readyz").await.expect(200);
    let held = Held::start().await;
    let (caller, path) = fetching(&management).await;
    let body = json!({"args": {"url": held.url}});
    let under_way = tokio::spawn(async move { caller.post(&path, body).await });
    held.asked.acquire().await.unwrap().forget();
    process.signal();
    // The listener is gone soon, while the request is still waited for.
    for tries in 0.. {
        match TcpStream::connect(process.address).await {
            Err(_) => break,
            Ok(_) => assert!(tries < 1_200, "a stopping server takes new connections"),
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(!under_way.is_finished(), "nothing cut it off");
    held.may_answer.add_permits(1);
    let answer = under_way.await.unwrap().expect(200);
    assert_eq!(answer["raw"]["status"], 200, "{answer}");
    assert_eq!(process.wait(), Some(0));
    // What it did is there at the next start, and in the log once.
    let process = Process::serve(folder.path());
    let logs = process.management().get("/logs?entity_type=reactor").await.text();
    assert_eq!(logs.matches("Reactor invoked").count(), 1, "{logs}");
    assert_eq!(process.terminate(), Some(0));
}

/// A caller, and where it runs a reactor that sends requests anywhere.
async fn fetching(management: &Client) -> (Client, String) {
    let formula = guests::send(management, "fetch", json!({"allowed_hosts": ["*"]})).await;
    let body = json!({"name": "fetch", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let application = management.post("/applications", body).await.expect(201);
    let caller = management.with_key(application["key"].as_str().unwrap());
    (caller, format!("/reactors/{}/react", reactor["id"].as_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_is_alive_and_not_ready() {
    let server = TestServer::start().await;
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    let stopping = Stopping::default();
    let state = State::from(Parts {
        vault: server.vault.clone(),
        stopping: stopping.clone(),
        rates: Rates::new(&RateLimits::default(), &clock),
        scrapers: Scrapers::default(),
    });
    let mut router = router(state);
    let mut ask = async |path: &str| {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        router.call(request).await.unwrap().status().as_u16()
    };
    assert_eq!((ask("/healthz").await, ask("/readyz").await), (200, 200));
    stopping.begin();
    assert_eq!((ask("/healthz").await, ask("/readyz").await), (200, 503));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_has_ended_is_alive_and_not_ready() {
    let server = TestServer::start().await;
    server.stranger().get("/readyz").await.expect(200);
    server.vault.close();
    server.stranger().get("/healthz").await.expect(200);
    let answer = server.stranger().get("/readyz").await;
    assert_eq!(answer.expect(503)["title"], "Service Unavailable");
    // And so it is to callers: nothing was stored.
    let refused = server.private.post("/tokens", json!({"type": "token", "data": 1})).await;
    refused.expect(503);
    assert!(refused.headers.contains_key("retry-after"));
}
