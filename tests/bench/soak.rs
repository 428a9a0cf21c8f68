//! A soak of asynchronous runs: receivers that answer, stall, fail, redirect and vanish, and a server that is killed at
//! random moments.
//!
//! Every run sends its number to a counter, by the formula `http-forward`: what ran twice is counted twice. At the end
//! every accepted run has one result, told at least once with a right signature, and none ran twice; anything else ends
//! the program by a panic.
//!
//! `cargo bench --bench soak -- 50000` does so many runs of the real binary; a second number is the seconds between two
//! kills, about, 0 for none.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    missing_docs,
    reason = "it fails by panicking, prints what it counts, and uses a part of what the tests share"
)]

#[path = "../it/support/binary.rs"]
mod binary;
#[path = "../it/support/client.rs"]
mod client;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as Segments, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::client::Client;

const RUNS_DEFAULT: usize = 2_000;
const KILL_EVERY_DEFAULT: u64 = 6;
/// Requests for runs in flight.
const CALLERS: usize = 48;
const HTTP_FORWARD: &str = "3f0d8a5e-7c41-4b9a-a6e2-91d4c05b7e03";
/// Longest wait for what is still to come once nothing more is asked for.
const PATIENCE: Duration = Duration::from_mins(12);

/// What arrived.
#[derive(Default)]
struct Seen {
    /// Executions, by the number of the run.
    executed: Mutex<HashMap<usize, usize>>,
    /// Webhooks, by invocation: the body, and how many came.
    told: Mutex<HashMap<String, (Bytes, usize)>>,
    /// Webhooks that were taken.
    taken: Mutex<HashMap<String, usize>>,
    secret: RwLock<String>,
    wrong: AtomicUsize,
}

type Shared = Arc<Seen>;

async fn count(State(seen): State<Shared>, body: Bytes) -> StatusCode {
    let run: Value = serde_json::from_slice(&body).unwrap();
    let number = usize::try_from(run["run"].as_u64().unwrap()).unwrap();
    *seen.executed.lock().entry(number).or_default() += 1;
    StatusCode::OK
}

/// Notes a webhook; gives how many of its invocation came before.
fn note(seen: &Seen, headers: &HeaderMap, body: &Bytes) -> usize {
    let id = headers["webhook-id"].to_str().unwrap().to_owned();
    let checked = standardwebhooks::Webhook::new(&seen.secret.read()).unwrap();
    if checked.verify(body, headers).is_err() {
        seen.wrong.fetch_add(1, Ordering::Relaxed);
    }
    let mut told = seen.told.lock();
    let (first, count) = told.entry(id).or_insert_with(|| (body.clone(), 0));
    if *first != *body {
        seen.wrong.fetch_add(1, Ordering::Relaxed);
    }
    *count += 1;
    *count - 1
}

async fn receive(
    State(seen): State<Shared>,
    Segments(kind): Segments<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let id = headers["webhook-id"].to_str().unwrap().to_owned();
    let before = note(&seen, &headers, &body);
    match (kind.as_str(), before) {
        ("fail", 0) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        ("redirect", 0) => {
            return (StatusCode::FOUND, [("location", "/hook/never")]).into_response();
        }
        ("stall", 0) => tokio::time::sleep(Duration::from_secs(20)).await,
        ("never", _) => {
            seen.wrong.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
    *seen.taken.lock().entry(id).or_default() += 1;
    StatusCode::NO_CONTENT.into_response()
}

/// A receiver that closes every other connection as soon as it is asked anything.
async fn vanish(listener: TcpListener, to: SocketAddr) {
    let mut turn = 0_usize;
    while let Ok((mut stream, _)) = listener.accept().await {
        turn += 1;
        if turn % 2 == 1 {
            drop(stream);
            continue;
        }
        tokio::spawn(async move {
            if let Ok(mut onward) = tokio::net::TcpStream::connect(to).await {
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut onward).await;
            }
        });
    }
}

fn serve(folder: &Path) -> Process {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
    serve.args(["--allow-private-networks", "--allow-http-callbacks"]);
    serve.args(["--reactor-jobs-per-tenant", "0", "--reactor-slots-per-tenant", "0"]);
    serve.arg("--data-dir").arg(folder);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    Process::start(serve)
}

/// Where the server is now; it moves with every kill.
struct Site {
    key: String,
    path: String,
    now: RwLock<Client>,
    next: AtomicUsize,
    accepted: Mutex<HashMap<String, usize>>,
    runs: usize,
}

impl Site {
    /// Asks for runs until there are enough.
    async fn call(&self, urls: &[(usize, String)]) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.runs {
                return;
            }
            let url = &urls.iter().find(|(share, _)| number.is_multiple_of(*share)).unwrap().1;
            let body = json!({"args": {"run": number}, "callback_url": url});
            loop {
                let client = self.now.read().clone();
                let request = client.request(reqwest::Method::POST, &self.path).json(&body);
                let answer = match request.send().await {
                    Ok(answer) if answer.status() == 202 => answer.json::<Value>().await.ok(),
                    _ => None,
                };
                match answer {
                    Some(job) => {
                        let id = job["invocation_id"].as_str().unwrap().to_owned();
                        self.accepted.lock().insert(id, number);
                        break;
                    }
                    // Whether the server took it before it died cannot be known: another number is asked for.
                    None if client.get_quietly("/healthz").await.is_none() => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        break;
                    }
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }
    }
}

impl Client {
    /// The answer, if there is any.
    async fn get_quietly(&self, path: &str) -> Option<u16> {
        let answer = self.request(reqwest::Method::GET, path).send().await.ok()?;
        Some(answer.status().as_u16())
    }
}

async fn set_up(process: &Process, counter: SocketAddr, runs: usize) -> (Site, String) {
    let management = process.management();
    let body = json!({"name": "soak", "type": "private", "permissions": ["token:use"]});
    let key = management.post("/applications", body).await.expect(201)["key"].clone();
    let body = json!({"name": "soak", "formula": {"id": HTTP_FORWARD},
        "configuration": {"url": format!("http://{counter}/count"), "allow_http": true}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let secrets = management.get("/webhooks/signing-secrets").await.expect(200);
    let key = key.as_str().unwrap().to_owned();
    let site = Site {
        path: format!("/reactors/{}/react", reactor["id"].as_str().unwrap()),
        now: RwLock::new(Client::new(process.address, Some(&key))),
        key,
        next: AtomicUsize::new(0),
        accepted: Mutex::default(),
        runs,
    };
    (site, secrets[0]["secret"].as_str().unwrap().to_owned())
}

/// Kills and starts the server anew until told to stop; gives the last process and how often it died.
async fn trouble(
    mut process: Process,
    folder: &Path,
    site: &Site,
    (kill_every, done): (u64, &AtomicBool),
) -> (Process, usize) {
    let mut kills = 0;
    while !done.load(Ordering::Relaxed) {
        let moment = kills as u64 * 7_919 % 1_000;
        let wait = Duration::from_millis(kill_every * (500 + moment));
        let until = Instant::now() + wait.max(Duration::from_millis(100));
        while Instant::now() < until && !done.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if kill_every == 0 || done.load(Ordering::Relaxed) {
            continue;
        }
        process.kill();
        kills += 1;
        process = serve(folder);
        *site.now.write() = Client::new(process.address, Some(&site.key));
    }
    (process, kills)
}

async fn settled(seen: &Seen, site: &Site) {
    let began = Instant::now();
    loop {
        let missing = {
            let taken = seen.taken.lock();
            site.accepted.lock().keys().filter(|id| !taken.contains_key(*id)).count()
        };
        if missing == 0 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{missing} runs were never told");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Checks what came of every accepted run, and prints the counts.
fn check(seen: &Seen, site: &Site) {
    let (told, executed) = (seen.told.lock(), seen.executed.lock());
    let (mut completed, mut interrupted, mut ran_and_interrupted, mut again) = (0, 0, 0, 0);
    for (id, number) in site.accepted.lock().iter() {
        let (body, count) = &told[id];
        again += usize::from(*count > 1);
        let event: Value = serde_json::from_slice(body).unwrap();
        let times = executed.get(number).copied().unwrap_or_default();
        assert!(times <= 1, "run {number} ran {times} times");
        if event["type"] == "reactor.completed" {
            completed += 1;
            assert_eq!(times, 1, "run {number} is told as completed: {event}");
        } else {
            interrupted += 1;
            ran_and_interrupted += times;
            let title = &event["data"]["error"]["title"];
            assert_eq!(title, "Reactor Interrupted", "run {number}: {event}");
        }
    }
    assert_eq!(seen.wrong.load(Ordering::Relaxed), 0, "signatures or bodies were wrong");
    println!("completed {completed}, interrupted {interrupted} ({ran_and_interrupted} had sent)");
    println!("told more than once {again}; ran twice 0; lost 0; wrong signatures 0");
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let runs = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS_DEFAULT);
    let kill_every = arguments.next().and_then(|seconds| seconds.parse().ok());
    let kill_every = kill_every.unwrap_or(KILL_EVERY_DEFAULT);
    let folder = tempfile::tempdir().unwrap();
    let seen = Shared::default();
    let router = Router::new()
        .route("/count", post(count))
        .route("/hook/{kind}", post(receive))
        .with_state(Arc::clone(&seen));
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    // One address each, so that what is bounded for each receiver is bounded for each of these.
    let mut addresses = Vec::new();
    for _ in 0..5 {
        let listener = listen().await;
        addresses.push(listener.local_addr().unwrap());
        let router = router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
    }
    let vanishing = listen().await;
    let vanishing_at = vanishing.local_addr().unwrap();
    tokio::spawn(vanish(vanishing, addresses[0]));
    let hook = |address: SocketAddr, kind: &str| format!("http://{address}/hook/{kind}");
    // The first whose share divides the run's number.
    let urls = [
        (1_009, hook(addresses[1], "stall")),
        (101, hook(vanishing_at, "answer")),
        (23, hook(addresses[2], "redirect")),
        (11, hook(addresses[3], "fail")),
        (1, hook(addresses[4], "answer")),
    ];
    let process = serve(folder.path());
    let (site, secret) = set_up(&process, addresses[0], runs).await;
    *seen.secret.write() = secret;
    let began = Instant::now();
    let done = AtomicBool::new(false);
    let calls = async {
        let callers = (0..CALLERS).map(|_| site.call(&urls));
        futures::future::join_all(callers).await;
        println!("all asked for after {:.1} s", began.elapsed().as_secs_f64());
        // The trouble goes on until most of them are told.
        let most = || seen.taken.lock().len() * 10 >= site.accepted.lock().len() * 9;
        while !most() && began.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let (killed, ()) =
        tokio::join!(trouble(process, folder.path(), &site, (kill_every, &done)), calls);
    let (process, kills) = killed;
    println!("{} accepted of {runs}, {kills} kills", site.accepted.lock().len());
    settled(&seen, &site).await;
    println!("all told after {:.1} s", began.elapsed().as_secs_f64());
    check(&seen, &site);
    drop(process);
}
