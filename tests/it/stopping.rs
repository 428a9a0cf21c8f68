//! How the server stops (decisions §9): requests under way finish, new ones are refused, and those who ask whether it is
//! ready are told.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tokamak::clock::{Clock, ManualClock};
use tokamak::config::{JobLimits, RateLimits};
use tokamak::http::{Parts, Rates, Scrapers, State, Stopping, router};
use tokamak::vault::Vault;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tower::Service as _;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, children, command, eventually};
use crate::support::receiver::Receiver;
use crate::support::server::{START_MS, Setup, foundation};
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

/// A server whose formulas may reach the hosts of this machine.
fn serve_where_hosts_are(folder: &Path) -> Process {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.args(["--allow-private-networks", "--data-dir"]).arg(folder);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    Process::start(serve)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_finishes_and_new_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve_where_hosts_are(folder.path());
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

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_that_hung_up_had_begun_is_carried_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve_where_hosts_are(folder.path());
    let held = Held::start().await;
    let (caller, path) = fetching(&process.management()).await;
    let body = json!({"args": {"url": held.url}}).to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nsvc-api-key: {}\r\n\
        content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        caller.key.as_deref().unwrap(),
        body.len()
    );
    let mut connection = TcpStream::connect(process.address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    held.asked.acquire().await.unwrap().forget();
    drop(connection);
    begin_to_stop(&process).await;
    // Long enough for a server that waits for connections alone.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    held.may_answer.add_permits(1);
    assert_eq!(process.wait(), Some(0));
    let process = Process::serve(folder.path());
    let logs = process.management().get("/logs?entity_type=reactor").await.text();
    assert_eq!(logs.matches("Reactor invoked").count(), 1, "{logs}");
    let runs = format!("{}/invocations", path.strip_suffix("/react").unwrap());
    let runs = process.management().get(&runs).await.expect(200);
    assert_eq!(runs["data"][0]["status"], "completed", "{runs}");
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_there_yet_holds_up_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let mut connections = Vec::new();
    let asked = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    for (whole, half) in [(&b""[..], &b""[..]), (b"", b"GET /heal"), (asked, b"GET /heal")] {
        let mut connection = TcpStream::connect(process.address).await.unwrap();
        connection.write_all(&[whole, half].concat()).await.unwrap();
        if !whole.is_empty() {
            // What was asked before is answered.
            let mut answer = [0; 12];
            connection.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        connections.push(connection);
    }
    // Accepted, all of them, since they came before.
    process.management().get("/healthz").await.expect(200);
    let began = Instant::now();
    assert_eq!(process.terminate(), Some(0));
    // Far less than requests under way are waited for, and far more than a stop takes.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_interrupts_again_does_not_wait_for_what_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let mut connection = TcpStream::connect(process.address).await.unwrap();
    let head = format!(
        "POST /applications HTTP/1.1\r\nhost: a\r\nsvc-api-key: {MANAGEMENT_KEY}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    process.management().get("/healthz").await.expect(200);
    let interrupt = || {
        let id = process.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    };
    let began = Instant::now();
    // Twice at once is what a terminal and a wrapper do.
    interrupt();
    interrupt();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    interrupt();
    assert_eq!(process.wait(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Tells the server to stop, and waits until it does: it takes no connection then.
async fn begin_to_stop(process: &Process) {
    process.signal();
    while TcpStream::connect(process.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_read_slowly_is_sent_to_its_end() {
    const BYTES: usize = 3_900_000;
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let management = process.management();
    let code = format!("module.exports = () => ({{raw: 'x'.repeat({BYTES})}});");
    let body = json!({"name": "long", "code": code});
    let formula = management.post("/reactor-formulas", body).await.expect(201);
    let body = json!({"name": "r", "formula": {"id": formula["id"]}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let application = management.post("/applications", body).await.expect(201);

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut connection = socket.connect(process.address).await.unwrap();
    let (id, key) = (reactor["id"].as_str().unwrap(), application["key"].as_str().unwrap());
    let asked = format!(
        "POST /reactors/{id}/react HTTP/1.1\r\nhost: a\r\nsvc-api-key: {key}\r\n\
        content-type: application/json\r\ncontent-length: 11\r\n\r\n{{\"args\":{{}}}}"
    );
    connection.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1_024];
    connection.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    begin_to_stop(&process).await;
    connection.read_to_end(&mut answer).await.unwrap();
    let letters = answer.iter().rev().skip_while(|&&byte| byte != b'x');
    assert_eq!(letters.take_while(|&&byte| byte == b'x').count(), BYTES);
    assert_eq!(process.wait(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_before_it_serves_ends_with_the_command_that_it_asked() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for signal in ["-TERM", "-INT"] {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--root-key-command", "sleep 600"]);
        let mut server = serve.arg("--data-dir").arg(&data).spawn().unwrap();
        let asked = || children(server.id()).into_iter().find(|(_, words)| words == "sleep 600 ");
        let (asked, _) = eventually("command that is asked for the key", asked).await;
        let id = server.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(server.wait().unwrap().code(), Some(0), "{signal}");
        let status = format!("/proc/{asked}/status");
        let is_over = || {
            // Whoever has it now may let it lie.
            let status = fs::read_to_string(&status).unwrap_or_default();
            (status.is_empty() || status.contains("State:\tZ")).then_some(())
        };
        eventually("end of the command", is_over).await;
        assert!(!data.exists(), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_before_it_came_is_read_to_its_end() {
    const BYTES: usize = 4_000_000;
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let mut connection = TcpStream::connect(process.address).await.unwrap();
    let asked = format!("POST /tokens HTTP/1.1\r\nhost: a\r\ncontent-length: {BYTES}\r\n\r\n");
    connection.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 401");
    begin_to_stop(&process).await;
    for piece in vec![b' '; BYTES].chunks(100_000) {
        connection.write_all(piece).await.unwrap();
    }
    connection.read_to_end(&mut answer).await.unwrap();
    assert!(answer.ends_with(b"}"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(process.wait(), Some(0));
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

/// A vault as its routes see it.
fn state(vault: &Vault, stopping: &Stopping) -> State {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    State::from(Parts {
        vault: vault.clone(),
        stopping: stopping.clone(),
        rates: Rates::new(&RateLimits::default(), &clock),
        scrapers: Scrapers::default(),
    })
}

/// The routes of a vault whose workers a test starts and stops itself; gives a client that manages its first tenant.
async fn serve_without_workers(vault: &Vault) -> Client {
    let management_key = vault.bootstrap(None).await.unwrap().unwrap().management_key;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router(state(vault, &Stopping::default()));
    let router = axum::Router::new().fallback_service(router);
    tokio::spawn(async { axum::serve(listener, router).await });
    Client::new(address, Some(management_key.expose()))
}

/// Asks for a result until it has a status.
async fn result(caller: &Client, place: &str, status: &str) -> Value {
    let began = Instant::now();
    loop {
        let result = caller.get(place).await.expect(200);
        if result["status"] == status {
            return result;
        }
        assert!(began.elapsed() < Duration::from_mins(2), "{result}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_past_the_bound_of_a_stop_ends_as_interrupted_and_one_that_waits_goes_on_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { jobs: JobLimits::new(Some(1), Some(1), None), ..Setup::open() };
    let foundation = foundation(setup, folder.path(), &ManualClock::new(START_MS)).await;
    let vault = Vault::open(foundation).await.unwrap();
    let management = serve_without_workers(&vault).await;
    let formula = guests::send(&management, "probe", json!({})).await;
    let body = json!({"name": "probe", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let application = management.post("/applications", body).await.expect(201);
    let caller = management.with_key(application["key"].as_str().unwrap());
    let receiver = Receiver::start().await;
    let queue = async |args: Value, timeout_ms: u64| {
        let url = receiver.url();
        let body = json!({"args": args, "callback_url": url, "timeout_ms": timeout_ms});
        let queued = caller.post(&path, body).await;
        queued.expect(202);
        queued.headers["location"].to_str().unwrap().to_owned()
    };
    let long = queue(json!({"behaviour": "sleep", "ms": 200_000}), 210_000).await;
    // Theirs alone: connections of the test's own clients come and go.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let workers = {
        let _entered = runtime.enter();
        vault.start_workers()
    };
    let alive = || runtime.metrics().num_alive_tasks();
    result(&caller, &long, "running").await;
    assert!(alive() > 0);
    let waiting = queue(json!({"behaviour": "echo"}), 10_000).await;
    let began = Instant::now();
    workers.stop(Duration::from_millis(500)).await;
    // Far less than the run would take.
    assert!(began.elapsed() >= Duration::from_millis(500));
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    // Nothing of the run goes on.
    eventually("the end of all that workers began", || (alive() == 0).then_some(())).await;
    runtime.shutdown_background();
    let ended = caller.get(&long).await.expect(200);
    assert_eq!(
        (&ended["status"], &ended["error"]["title"]),
        (&json!("failed"), &json!("Reactor Interrupted"))
    );
    // To be told by the next process.
    assert_eq!(ended["delivery"]["attempts"], 0, "{ended}");
    assert!(receiver.seen().is_empty());
    assert_eq!(caller.get(&waiting).await.expect(200)["status"], "queued");
    vault.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_is_alive_and_not_ready() {
    let server = TestServer::start().await;
    let stopping = Stopping::default();
    let mut router = router(state(&server.vault, &stopping));
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
