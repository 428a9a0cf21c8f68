//! Connections that are slow, many, odd or half closed: each has its bound, and nobody else notices.
//!
//! The bounds are set low here where one is to be met, and where none is to be met, they are the usual ones. Each test
//! waits for what is to come, for as long as a busy machine may need.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::http::{Bounds, Parts, Rates, Scrapers, Serving, State, Stopping, serve_with};
use tokamak::limits::{HEADERS_MAX, ROOM_MS_MAX};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::server::Setup;
use crate::support::{TestServer, skipped};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// A bound that is to be met soon.
const SOON: Duration = Duration::from_millis(400);

async fn bounded(bounds: Bounds) -> TestServer {
    let serving = Serving { bounds, ..Serving::default() };
    TestServer::start_with(Setup { serving, ..Setup::default() }).await
}

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// Everything that comes until the server closes; a connection that is reset is closed too.
async fn rest(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = async {
        let mut piece = [0; 4_096];
        while let Ok(count @ 1..) = connection.read(&mut piece).await {
            bytes.extend_from_slice(&piece[..count]);
        }
    };
    timeout(PATIENCE, read).await.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a request as it is; gives what comes until the server closes.
async fn exchange(server: &TestServer, request: &str) -> String {
    let mut connection = connect(server).await;
    // A server that has answered already need not take the rest.
    let _ = connection.write_all(request.as_bytes()).await;
    rest(&mut connection).await
}

#[track_caller]
fn problem(answer: &str, status: u16) -> Value {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("no problem: {answer}"))
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_bounded() {
    let server = TestServer::start().await;
    // As large as may be.
    let header = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    let path = |bytes: usize| format!("/healthz?{}", "x".repeat(bytes));
    let many = |count: usize| "X-Many: 1\r\n".repeat(count);
    let largest = [
        get("/healthz", &header(30 << 10)),
        get(&path(15 << 10), ""),
        // `Host` and `Connection` are two more.
        get("/healthz", &many(HEADERS_MAX - 2)),
    ];
    for request in largest {
        let answer = exchange(&server, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{}", &answer[..100.min(answer.len())]);
    }
    // Past it, told as a problem.
    let answer = exchange(&server, &get("/healthz", &header(33 << 10))).await;
    let detail = problem(&answer, 431)["detail"].clone();
    assert_eq!(detail, "The headers must have at most 32768 bytes together.");
    let answer = exchange(&server, &get(&path(17 << 10), "")).await;
    assert_eq!(problem(&answer, 414)["detail"], "The address must have at most 16384 bytes.");
    // Far past it, refused before it is read.
    for (request, statuses) in [
        (get("/healthz", &many(HEADERS_MAX - 1)), &["431"][..]),
        (get("/healthz", &header(1 << 20)), &["431"]),
        (get(&path(1 << 20), ""), &["414", "431"]),
    ] {
        let answer = exchange(&server, &request).await;
        let refused =
            statuses.iter().any(|status| answer.starts_with(&format!("HTTP/1.1 {status} ")));
        // The refusal is lost when the system resets a connection that was still written to.
        assert!(refused || answer.is_empty(), "{answer}");
    }
    server.stranger().get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_has_a_bare_status_for_an_answer_and_ends_its_connection() {
    let server = TestServer::start().await;
    for broken in [
        "no request at all\r\n\r\n",
        "GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "G{T /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut connection = connect(&server).await;
        connection.write_all(broken.as_bytes()).await.unwrap();
        let answer = rest(&mut connection).await;
        let (head, body) =
            answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{broken}: {answer}"));
        assert!(head.starts_with("HTTP/1.1 400 ") && body.is_empty(), "{broken}: {answer}");
        // What comes behind it is not taken for a request.
        let answer = exchange(&server, &format!("{broken}{}", get("/healthz", ""))).await;
        assert!(!answer.contains("200 OK"), "{broken}: {answer}");
    }
    server.stranger().get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_http_2_has_no_answer_and_ends_its_connection() {
    let server = TestServer::start().await;
    let answer = exchange(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.is_empty(), "{answer}");
    server.stranger().get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_given_up() {
    let server = bounded(Bounds { head: SOON, ..Bounds::default() }).await;
    for start in ["", "G", "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "] {
        let mut connection = connect(&server).await;
        connection.write_all(start.as_bytes()).await.unwrap();
        server.stranger().get("/healthz").await.expect(200);
        let answer = rest(&mut connection).await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    // One that trickles has no more time than one that stops.
    let mut connection = connect(&server).await;
    let (mut read, mut write) = connection.split();
    let trickle = async {
        while write.write_all(b"X").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut piece = [0; 512];
    let closed = async { while let Ok(1..) = read.read(&mut piece).await {} };
    let ended = async {
        tokio::select! { () = trickle => {}, () = closed => {} }
    };
    timeout(PATIENCE, ended).await.expect("the server closes the connection");
    server.stranger().get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_must_come_at_a_rate() {
    let bounds = Bounds { body_grace: SOON, body_bytes_per_second: 1 << 30, ..Bounds::default() };
    let server = bounded(bounds).await;
    let key = server.private.key.clone().unwrap();
    for (framing, part) in [
        ("Content-Length: 1000", "{\"type\""),
        ("Transfer-Encoding: chunked", "7\r\n{\"type\"\r\n"),
        // None of it has come that could be refused for its encoding.
        ("Transfer-Encoding: chunked\r\nContent-Encoding: gzip", ""),
    ] {
        let head = format!(
            "POST /tokens HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\n\
             Content-Type: application/json\r\n{framing}\r\n\r\n{part}"
        );
        let answer = exchange(&server, &head).await;
        let problem = problem(&answer, 408);
        assert_eq!(problem["detail"], "The body came too slowly.");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
    assert!(server.private.list("").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_no_answer_is_left() {
    let bounds = Bounds { write_stall: SOON, connections_max: 4, ..Bounds::default() };
    let server = bounded(bounds).await;
    let request = "GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut connection = connect(&server).await;
    let (_read, mut write) = connection.split();
    // More is asked for than the system holds for who does not read; then the server stops taking requests, and ends.
    let ask = async { while write.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(PATIENCE, ask).await.expect("the server closes the connection");
    server.stranger().get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_closes_its_half_is_answered_whole_or_not_at_all() {
    let server = TestServer::start().await;
    let mut connection = connect(&server).await;
    connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    connection.shutdown().await.unwrap();
    let answer = rest(&mut connection).await;
    let whole = answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"ok\"");
    assert!(whole || answer.is_empty(), "{answer}");
    // A body that ends before it is complete stores nothing.
    let key = server.private.key.clone().unwrap();
    let mut connection = connect(&server).await;
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"type\":"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let answer = rest(&mut connection).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(server.private.list("").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_behind_one_another_are_answered_in_order() {
    const COUNT: usize = 60;
    let server = TestServer::start().await;
    let key = server.private.key.clone().unwrap();
    let one = |number: usize| {
        let last = if number + 1 == COUNT { "Connection: close\r\n" } else { "" };
        // Some are quick, some are refused, some write.
        let body = json!({"type": "token", "data": number}).to_string();
        let (line, body) = match number % 3 {
            0 => ("GET /healthz", String::new()),
            1 => ("GET /none", String::new()),
            _ => ("POST /tokens", body),
        };
        format!(
            "{line} HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\nSVC-TRACE-ID: number-{number}-\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{last}\r\n{body}",
            body.len()
        )
    };
    let requests: String = (0..COUNT).map(one).collect();
    let answers = exchange(&server, &requests).await.to_lowercase();
    let mut at = 0;
    for number in 0..COUNT {
        let header = format!("svc-trace-id: number-{number}-");
        let found = answers[at..].find(&header);
        at += found.unwrap_or_else(|| panic!("no answer to {number} behind {at}: {answers}"));
    }
    assert_eq!(server.private.list("").await.len(), COUNT / 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_places_are_taken_the_oldest_makes_room() {
    let server = bounded(Bounds { connections_max: 6, ..Bounds::default() }).await;
    // Idle ones go, the longest there first.
    let mut idle = Vec::new();
    for _ in 0..40 {
        let mut connection = connect(&server).await;
        connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut first = [0; 12];
        timeout(PATIENCE, connection.read_exact(&mut first)).await.unwrap().unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        idle.push(connection);
    }
    rest(&mut idle[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_places_are_busy_one_more_is_told_so() {
    let server = bounded(Bounds { connections_max: 3, ..Bounds::default() }).await;
    let mut busy = [busy(&server).await, busy(&server).await, busy(&server).await];
    let refused = timeout(PATIENCE, async {
        loop {
            let answer = exchange(&server, &get("/healthz", "")).await;
            if answer.starts_with("HTTP/1.1 503 ") {
                break answer;
            }
        }
    });
    let refused = refused.await.expect("a connection too many is refused");
    assert_eq!(problem(&refused, 503)["status"], 503);
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    // What they were busy with is carried out, and then there is room.
    for connection in &mut busy {
        connection.write_all(b"{\"type\":\"token\",\"data\":\"x\"}").await.unwrap();
        let answer = rest(connection).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    server.stranger().get("/healthz").await.expect(200);
}

/// A request of a private application that is waited for in the middle of its body.
async fn busy(server: &TestServer) -> TcpStream {
    busy_at(server.address(), server).await
}

/// The same, at an address that leads to the server's vault.
async fn busy_at(address: SocketAddr, server: &TestServer) -> TcpStream {
    let key = server.private.key.as_deref().unwrap();
    let head = format!(
        "POST /tokens HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 27\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    loop {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let _ = connection.write_all(head.as_bytes()).await;
        // The connections of the test's own clients may still be in the way.
        let mut go_on = [0; 25];
        let read = timeout(PATIENCE, connection.read_exact(&mut go_on)).await.unwrap();
        if read.is_ok() && go_on.starts_with(b"HTTP/1.1 100 ") {
            return connection;
        }
    }
}

/// The status of an answer to a client of its own; 0 when there is none.
async fn ask(address: SocketAddr) -> u16 {
    let Ok(mut connection) = TcpStream::connect(address).await else { return 0 };
    let _ = connection.write_all(get("/healthz", "").as_bytes()).await;
    let answer = rest(&mut connection).await;
    // One that was asked to leave before it had said anything is closed without a word.
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// How many of so many clients at the same time are told that there is no place, and after how long all of them know.
async fn refusals(address: SocketAddr, clients: u32) -> (usize, Duration) {
    let began = Instant::now();
    let all: Vec<_> = (0..clients).map(|_| tokio::spawn(ask(address))).collect();
    let mut told = 0;
    for client in all {
        let status = client.await.unwrap();
        // Who is refused at once may have its connection broken by what it has still to send.
        assert!([0, 503].contains(&status), "{status}");
        told += usize::from(status == 503);
    }
    (told, began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_places_are_busy_nobody_waits_for_those_who_came_before() {
    const CLIENTS: u32 = 80;
    let body_grace = Duration::from_hours(1);
    let server = bounded(Bounds { connections_max: 3, body_grace, ..Bounds::default() }).await;
    let _busy = [busy(&server).await, busy(&server).await, busy(&server).await];
    // One after the other they would wait for two and a half times as long.
    let bound = Duration::from_millis(ROOM_MS_MAX) * CLIENTS * 2 / 5;
    let mut elapsed = Duration::MAX;
    // A busy machine may be late once.
    for _ in 0..2 {
        let (told, this_time) = refusals(server.address(), CLIENTS).await;
        assert!(told > 0, "nobody was told");
        elapsed = elapsed.min(this_time);
        if elapsed < bound {
            break;
        }
    }
    assert!(elapsed < bound, "{elapsed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machine_may_take_all_places() {
    const PLACES: usize = 32;
    let body_grace = Duration::from_hours(1);
    let server = bounded(Bounds { connections_max: PLACES, body_grace, ..Bounds::default() }).await;
    let mut held = Vec::new();
    for _ in 0..PLACES {
        held.push(timeout(PATIENCE, busy(&server)).await.expect("there is a place"));
    }
    assert_eq!(ask(server.address()).await, 503);
}

/// An address of this machine that is not for itself alone, if it has one.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: it is only found out from where it would be.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Serves the vault of a server at all addresses of this machine, within bounds; gives the port.
async fn serve_everywhere(server: &TestServer, bounds: Bounds) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let state = State::from(Parts {
        vault: server.vault.clone(),
        stopping: Stopping::default(),
        rates: Rates::default(),
        scrapers: Scrapers::default(),
    });
    let serving = Serving { bounds, ..Serving::default() };
    tokio::spawn(serve_with(listener, state, serving, std::future::pending()));
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_does_not_take_the_last_places_from_others() {
    let Some(outer) = outer_address() else {
        skipped("this machine has no address but its own");
        return;
    };
    let server = TestServer::start().await;
    let body_grace = Duration::from_hours(1);
    let bounds = Bounds { connections_max: 32, body_grace, ..Bounds::default() };
    let port = serve_everywhere(&server, bounds).await;
    let (crowd, other) = (SocketAddr::new(outer, port), SocketAddr::from(([127, 0, 0, 1], port)));
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(timeout(PATIENCE, busy_at(crowd, &server)).await.expect("there is a place"));
    }
    for _ in 0..3 {
        assert_eq!(ask(crowd).await, 503);
        assert_eq!(ask(other).await, 200);
    }
    // When one of its own has gone there is a place for it.
    held.pop();
    let answered = async { while ask(crowd).await != 200 {} };
    timeout(PATIENCE, answered).await.expect("there is room again");
}

/// Whether a connection that is kept answers one more request.
async fn answers(connection: &mut TcpStream) -> bool {
    if connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let read = async {
        while !answer.ends_with(b"}") {
            let Ok(1..) = connection.read_buf(&mut answer).await else { return false };
        }
        answer.starts_with(b"HTTP/1.1 200 ")
    };
    timeout(PATIENCE, read).await.expect("an answer or an end")
}

/// So many connections that have been answered and are kept.
async fn keep(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut kept = Vec::new();
    for _ in 0..count {
        let mut connection = TcpStream::connect(address).await.unwrap();
        assert!(answers(&mut connection).await);
        kept.push(connection);
    }
    kept
}

/// Keeps a connection that asks for nothing, and has another as soon as it ends.
async fn come_again(mut connection: TcpStream, address: SocketAddr) {
    loop {
        let mut piece = [0; 512];
        while let Ok(1..) = connection.read(&mut piece).await {}
        let Ok(again) = TcpStream::connect(address).await else { return };
        connection = again;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_that_has_more_than_half_ends_no_connection_of_others() {
    // With those that are kept and without the spare ones, so many are left for it.
    const PLACES: usize = 50;
    const KEPT: usize = 10;
    const CROWD: usize = PLACES - PLACES / 16 - KEPT;
    let Some(outer) = outer_address() else {
        skipped("this machine has no address but its own");
        return;
    };
    let server = TestServer::start().await;
    let head = Duration::from_hours(1);
    let bounds = Bounds { connections_max: PLACES, head, ..Bounds::default() };
    let port = serve_everywhere(&server, bounds).await;
    let (crowd, other) = (SocketAddr::new(outer, port), SocketAddr::from(([127, 0, 0, 1], port)));
    let mut kept = keep(other, KEPT).await;
    let mut crowding = Vec::new();
    for _ in 0..80 {
        crowding.push(TcpStream::connect(crowd).await.unwrap());
    }
    // Those for whom there is no place are told so, at once or once they have waited.
    for connection in &mut crowding[CROWD..] {
        let answer = rest(connection).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    for connection in &mut crowding[..CROWD] {
        assert!(answers(connection).await, "one that had a place is gone");
    }
    // Others come and go, and are made room for, while some of it wait: it makes that room itself.
    crowding.truncate(CROWD + 6);
    for connection in crowding {
        tokio::spawn(come_again(connection, crowd));
    }
    for _ in 0..40 {
        assert_eq!(ask(other).await, 200);
    }
    for connection in &mut kept {
        assert!(answers(connection).await, "a connection that was kept is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_whose_connections_are_all_busy_ends_no_connection_of_others() {
    const PLACES: usize = 64;
    const KEPT: usize = 20;
    const CROWD: usize = PLACES - PLACES / 16 - KEPT;
    let Some(outer) = outer_address() else {
        skipped("this machine has no address but its own");
        return;
    };
    let server = TestServer::start().await;
    let (head, body_grace) = (Duration::from_hours(1), Duration::from_hours(1));
    let bounds = Bounds { connections_max: PLACES, head, body_grace, ..Bounds::default() };
    let port = serve_everywhere(&server, bounds).await;
    let (crowd, other) = (SocketAddr::new(outer, port), SocketAddr::from(([127, 0, 0, 1], port)));
    let mut kept = keep(other, KEPT).await;
    let mut crowding = Vec::new();
    for _ in 0..CROWD {
        crowding.push(timeout(PATIENCE, busy_at(crowd, &server)).await.expect("there is a place"));
    }
    // More than there are of it to ask.
    for _ in 0..CROWD + 10 {
        assert_eq!(ask(other).await, 200);
    }
    for connection in &mut kept {
        assert!(answers(connection).await, "a connection that was kept is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_are_hardly_any_places_room_is_made_for_any_address() {
    let Some(outer) = outer_address() else {
        skipped("this machine has no address but its own");
        return;
    };
    let server = TestServer::start().await;
    for connections_max in [1, 2] {
        let head = Duration::from_hours(1);
        let bounds = Bounds { connections_max, head, ..Bounds::default() };
        let port = serve_everywhere(&server, bounds).await;
        let _idle = keep(SocketAddr::from(([127, 0, 0, 1], port)), connections_max).await;
        let answered = async { while ask(SocketAddr::new(outer, port)).await != 200 {} };
        timeout(PATIENCE, answered).await.expect("an idle connection makes room");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_have_only_begun_make_room_and_a_request_under_way_is_carried_out() {
    // Nothing but the want of room ends a head here.
    let head = Duration::from_hours(1);
    let bounds = Bounds { connections_max: 4, head, ..Bounds::default() };
    let server = bounded(bounds).await;
    // There first, and so the first that is asked to leave.
    let mut busy = busy(&server).await;
    let mut begun = Vec::new();
    for _ in 0..6 {
        let mut connection = connect(&server).await;
        let _ = connection.write_all(b"G").await;
        begun.push(connection);
    }
    let address = server.address();
    let answered = async { while ask(address).await != 200 {} };
    timeout(PATIENCE, answered).await.expect("there is room for one more");
    busy.write_all(b"{\"type\":\"token\",\"data\":\"x\"}").await.unwrap();
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    drop(begun);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_connections_ends() {
    const CLIENTS: usize = 2_000;
    let server = bounded(Bounds { connections_max: 200, ..Bounds::default() }).await;
    // Both ends are in this process, as are other tests.
    let files = {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    };
    let clients = CLIENTS.min(usize::try_from(files / 4).unwrap_or(CLIENTS));
    let address = server.address();
    let all: Vec<_> = (0..clients).map(|_| tokio::spawn(ask(address))).collect();
    let mut answered = 0;
    for client in all {
        let status = client.await.unwrap();
        assert!([0, 200, 503].contains(&status), "{status}");
        answered += usize::from(status == 200);
    }
    assert!(answered > 0, "nobody was answered");
    server.stranger().get("/healthz").await.expect(200);
}
