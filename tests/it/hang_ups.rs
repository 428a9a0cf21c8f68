//! Callers that hang up: what they began is carried to its end, whole.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::TestServer;
use crate::support::binary::Process;

/// Sends a request and closes the connection without reading an answer: the later the higher the number, so that on any
/// machine some are gone before the server has begun, and some after.
async fn send_and_leave(
    address: SocketAddr,
    (number, key): (u32, &str),
    (head, headers): (&str, &str),
    body: &str,
) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: test\r\nSVC-API-KEY: {key}\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    connection.flush().await.unwrap();
    tokio::time::sleep(Duration::from_micros(200) * (number * number)).await;
    drop(connection);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_regenerated_key_is_the_only_one_although_nobody_read_it() {
    let server = TestServer::start().await;
    let key = server.management.key.as_deref().unwrap();
    let mut seen = 0;
    for number in 0..60 {
        if seen > 4 {
            break;
        }
        let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
        let made = server.management.post("/applications", body).await.expect(201);
        let (id, old) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
        let client = server.client(old);
        client.get("/applications/key").await.expect(200);
        let head = format!("POST /applications/{id}/regenerate");
        send_and_leave(server.address(), (number, key), (&head, ""), "").await;
        let entries = format!("/logs?entity_id={id}");
        let regenerated =
            async || server.management.get(&entries).await.text().contains("regenerated");
        for _ in 0..200 {
            if regenerated().await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The entry is of the same commit as the new key: from then on the old one is void.
        if regenerated().await {
            seen += 1;
            for _ in 0..2_000 {
                let answer = client.get("/applications/key").await;
                if answer.status == 401 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            client.get("/applications/key").await.expect(401);
        }
    }
    assert!(seen > 0, "no request was begun before its caller was gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_after_a_hang_up_makes_nothing_twice() {
    let server = TestServer::start().await;
    for number in 0..30 {
        let body = json!({"type": "token", "data": number, "metadata": {"n": number.to_string()}});
        let header = format!("SVC-IDEMPOTENCY-KEY: order-{number}\r\n");
        let text = body.to_string();
        let key = server.private.key.as_deref().unwrap();
        send_and_leave(server.address(), (number, key), ("POST /tokens", &header), &text).await;
        let repeat = async || {
            let request = server.private.request(reqwest::Method::POST, "/tokens");
            let request = request.header("SVC-IDEMPOTENCY-KEY", format!("order-{number}"));
            let request = request.header("Content-Type", "application/json").body(text.clone());
            server.private.send(request).await
        };
        let mut answer = repeat().await;
        // The first may still be under way.
        for _ in 0..6_000 {
            if answer.status != 409 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            answer = repeat().await;
        }
        answer.expect(201);
        let found = server.private.list(&format!("metadata.n={number}")).await;
        assert_eq!(found.len(), 1, "{number}");
    }
}

/// Requests whose callers have left are counted when they end, as all others are.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_carried_to_its_end_is_counted_although_nobody_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let management = process.management();
    let body = json!({"name": "a", "type": "private", "permissions": ["token:create"]});
    let made = management.post("/applications", body).await.expect(201);
    let key = made["key"].as_str().unwrap();
    // What takes long enough to leave before it has ended.
    let mask = "{{ data | upcase | downcase | upcase | downcase | size }}";
    let body = json!({"type": "token", "data": "x".repeat(200_000), "mask": mask}).to_string();
    let sent = 20;
    for number in 0..sent {
        send_and_leave(process.address, (number, key), ("POST /tokens", ""), &body).await;
    }
    let counted = r#"tokamak_http_requests_total{method="POST",route="/tokens",status="201"}"#;
    let began = Instant::now();
    while process.figure(counted).await != Some(sent.into()) {
        assert!(began.elapsed() < Duration::from_mins(2), "{:?}", process.figure(counted).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(process.figure("tokamak_http_requests_in_flight").await, Some(1));
}
