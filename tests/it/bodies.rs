//! Bodies in memory: taken in of who may send them, all of them within one room, and large components at their places.
//!
//! No body here is given up for being slow: what is refused is refused for another reason.

use std::time::Duration;

use futures::future::select_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokamak::http::{Bounds, Serving};
use tokamak::limits::{BODIES_BYTES_MAX, BODY_BYTES_FREE, UPLOADS_PER_TENANT_MAX};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer, guests};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const JSON: &str = "Content-Type: application/json";

async fn with_room(bodies_bytes_max: usize) -> TestServer {
    let body_grace = Duration::from_hours(1);
    let bounds = Bounds { body_grace, bodies_bytes_max, ..Bounds::default() };
    let serving = Serving { bounds, ..Serving::default() };
    TestServer::start_with(Setup { serving, ..Setup::default() }).await
}

/// A request of which the head is sent.
async fn begin(server: &TestServer, client: &Client, line: &str, headers: &[&str]) -> TcpStream {
    let key = client.key.as_deref().unwrap();
    let headers: String = headers.iter().flat_map(|header| [*header, "\r\n"]).collect();
    let head = format!("{line} HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\n{headers}\r\n");
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

/// The head of what comes next.
async fn head(connection: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let read = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
    };
    timeout(PATIENCE, read).await.expect("an answer comes");
    String::from_utf8(head).unwrap().to_lowercase()
}

/// The head of the first answer on one of these connections, which is closed.
async fn first_answer(begun: &mut Vec<TcpStream>) -> String {
    let heads = begun.iter_mut().map(|connection| Box::pin(head(connection)));
    let (head, at, others) = select_all(heads).await;
    drop(others);
    begun.swap_remove(at);
    head
}

/// Sends a request until it is answered otherwise than with one of these, which say that there is no room now.
async fn once_there_is_room(send: impl AsyncFn() -> Answer) -> Answer {
    let sent = async {
        loop {
            let answer = send().await;
            if ![429, 503].contains(&answer.status.as_u16()) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, sent).await.expect("there is room again")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_not_waited_for_that_its_caller_may_not_send() {
    let server = with_room(BODIES_BYTES_MAX).await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let refuse = async || {
        let headers = [JSON, "Content-Length: 41943040", "SVC-IDEMPOTENCY-KEY: k"];
        let mut begun = begin(&server, &public, "POST /reactor-formulas", &headers).await;
        assert!(head(&mut begun).await.starts_with("http/1.1 403 "));
    };
    refuse().await;
    // Nor is it when there is an answer under the key: what was so large is not what this caller did.
    let request = public.request(Method::POST, "/tokens").header("SVC-IDEMPOTENCY-KEY", "k");
    let request = request.json(&json!({"type": "token", "data": "a"}));
    public.send(request).await.expect(201);
    refuse().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_components_have_their_places_before_they_come() {
    let server = with_room(BODIES_BYTES_MAX).await;
    let other = server.other_tenant().await;
    let (post, wasm) = ("POST /reactor-formulas", "Content-Type: application/wasm");
    let put = "PUT /reactor-formulas/00000000-0000-0000-0000-000000000000/component";
    let (length, chunked) = ("Content-Length: 5242880", "Transfer-Encoding: chunked");
    let mut begun = Vec::new();
    for (line, content_type, framing, more) in [
        (post, JSON, length, "X-Trace: a"),
        (post, JSON, chunked, "X-Trace: a"),
        (put, wasm, length, "X-Trace: a"),
        (post, JSON, length, "SVC-IDEMPOTENCY-KEY: k"),
    ] {
        let headers = [content_type, framing, more, "Expect: 100-continue"];
        let mut upload = begin(&server, &server.management, line, &headers).await;
        // From here on the server waits for the body.
        assert!(head(&mut upload).await.starts_with("http/1.1 100 "));
        begun.push(upload);
    }
    assert_eq!(begun.len(), UPLOADS_PER_TENANT_MAX);
    let large = guests::upload(&vec![0; 4 << 20]);
    let upload = async |client: &Client| client.post("/reactor-formulas", large.clone()).await;
    let refused = upload(&server.management).await;
    let problem = refused.expect(429);
    assert!(problem["detail"].as_str().unwrap().contains("Too many components"), "{problem}");
    assert_eq!(refused.headers["retry-after"], "1");
    // Another tenant has places of its own, and a small one needs none to be taken in. Neither is a component.
    upload(&other).await.expect(422);
    let small = guests::upload(&[0; 100]);
    server.management.post("/reactor-formulas", small).await.expect(422);
    drop(begun.pop());
    once_there_is_room(async || upload(&server.management).await).await.expect(422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_counts_as_much_as_it_takes_once_it_is_read() {
    let server = with_room(16 << 20).await;
    let create =
        |data: Value| server.private.post("/tokens", json!({"type": "token", "data": data}));
    let large = async || create(json!(vec![0; 50_000])).await;
    for _ in 0..3 {
        // However much a body takes, there is room for it alone.
        create(json!(vec![0; 200_000])).await.expect(201);
        let headers = [JSON, "Content-Length: 4000000"];
        let mut begun = Vec::new();
        for looks in 0.. {
            // One may have come while the body before was still in memory, and be refused.
            if looks % 100 == 0 {
                begun.clear();
                for _ in 0..2 {
                    let mut body = begin(&server, &server.private, "POST /tokens", &headers).await;
                    // Whoever is refused may be cut off.
                    let _ = body.write_all(&vec![b' '; 3 << 20]).await;
                    begun.push(body);
                }
            }
            if large().await.status != 201 {
                break;
            }
            // What was sent may not have come yet.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        create(json!("x".repeat(1_000_000))).await.expect(201);
        let problem = large().await.expect(429);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("hold all the memory"), "{problem}");
        drop(begun);
        once_there_is_room(&large).await.expect(201);
    }
}

/// Each of the bodies that are begun here takes a fifth of the room, nearly: two are less than half of it, and five less
/// than the whole. Which of them is one too many is not said.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_memory_have_a_room_of_which_one_tenant_has_half() {
    const ROOM: usize = 1 << 20;
    const PART: usize = 200 << 10;
    let server = with_room(ROOM).await;
    let second = server.other_tenant().await;
    let third = server.vault.create_tenant("third", None).await.unwrap();
    let third = server.client(third.management_key.expose());
    let begin = async |client: &Client| {
        let headers = [JSON, "Content-Length: 1048576"];
        let mut begun = begin(&server, client, "POST /applications", &headers).await;
        begun.write_all(&vec![b' '; PART + BODY_BYTES_FREE]).await.unwrap();
        begun
    };
    let mut all = Vec::new();
    for client in [&server.management, &second] {
        let mut own = vec![begin(client).await, begin(client).await, begin(client).await];
        let refusal = first_answer(&mut own).await;
        assert!(refusal.starts_with("http/1.1 429 "), "{refusal}");
        assert!(refusal.contains("retry-after: 1\r\n"), "{refusal}");
        all.append(&mut own);
    }
    all.extend([begin(&third).await, begin(&third).await]);
    let refusal = first_answer(&mut all).await;
    assert!(refusal.starts_with("http/1.1 503 "), "{refusal}");
    assert!(refusal.contains("retry-after: 1\r\n"), "{refusal}");
    assert_eq!(all.len(), 5);
    // Ordinary ones are read all the same; that these have faults is known from there on.
    let named = |bytes: usize| json!({"name": "n".repeat(bytes)});
    for client in [&server.management, &second, &third] {
        client.post("/applications", named(10 << 10)).await.expect(400);
    }
    // With those who sent them goes what they took, and one that is read twice is counted once.
    drop(all);
    let send = async || {
        let request = third.request(Method::POST, "/applications").json(&named(ROOM / 2 - PART));
        third.send(request.header("SVC-IDEMPOTENCY-KEY", "k")).await
    };
    once_there_is_room(send).await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_a_body_reads_why_its_head_is_refused() {
    let server = with_room(BODIES_BYTES_MAX).await;
    let body = vec![b'x'; 3 << 20];
    let length = format!("Content-Length: {}", body.len());
    let long_line = format!("POST /tokens?{}", "x".repeat(17 << 10));
    let long_header = format!("X-Long: {}", "x".repeat(40 << 10));
    for (line, more, status) in [
        (long_line.as_str(), "X-A: a", 414),
        ("POST /tokens", long_header.as_str(), 431),
        ("POST /tokens", "Host: b", 400),
        ("POST /nowhere", "X-A: a", 404),
        ("PUT /tokens", "X-A: a", 405),
    ] {
        let headers = [JSON, length.as_str(), more];
        let mut connection = begin(&server, &server.private, line, &headers).await;
        let sent = timeout(PATIENCE, connection.write_all(&body)).await.expect("it is taken");
        assert!(sent.is_ok(), "{status}: {sent:?}");
        let head = head(&mut connection).await;
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{status}: {head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_refused_is_not_asked_for() {
    let server = with_room(BODIES_BYTES_MAX).await;
    let too_long = "Content-Length: 50000000";
    let short = "Content-Length: 27";
    for (line, key, length, status) in [
        ("POST /tokens", "key_prv_none", short, 401),
        ("POST /applications", "private", short, 403),
        ("POST /nowhere", "private", short, 404),
        ("POST /tokens", "private", too_long, 413),
    ] {
        let key = if key == "private" { server.private.key.clone().unwrap() } else { key.into() };
        let client = server.client(&key);
        // Which of two tasks is the first to run differs from time to time.
        for _ in 0..20 {
            let headers = [JSON, length, "Expect: 100-continue"];
            let mut connection = begin(&server, &client, line, &headers).await;
            let head = head(&mut connection).await;
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{line}: {head}");
            // As what is left is not read, nothing else is either.
            assert!(head.contains("\r\nconnection: close\r\n"), "{line}: {head}");
        }
    }
    // One that is not refused is asked for, and its connection stays.
    let body = br#"{"type":"token","data":"ab"}"#;
    let length = format!("Content-Length: {}", body.len());
    let headers = [JSON, length.as_str(), "Expect: 100-continue"];
    let mut connection = begin(&server, &server.private, "POST /tokens", &headers).await;
    assert!(head(&mut connection).await.starts_with("http/1.1 100 "));
    connection.write_all(body).await.unwrap();
    let made = head(&mut connection).await;
    assert!(made.starts_with("http/1.1 201 ") && !made.contains("connection: close"), "{made}");
}
