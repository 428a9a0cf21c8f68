//! Requests that can be read as HTTP and are refused whatever they are about: without one host, framed or encoded in a way
//! that the server does not know, or for a path that begins with two slashes.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Client, TestServer};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Sends a request as it is, which is the last of its connection; gives the status, the head and the body of the answer.
async fn exchange(server: &TestServer, request: &str) -> (u16, String, Value) {
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = connection.read_to_string(&mut answer);
    timeout(PATIENCE, read).await.expect("the server closes the connection").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = serde_json::from_str(body).unwrap_or_default();
    (status.unwrap_or_default(), head.to_lowercase(), body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_one_host() {
    let server = TestServer::start().await;
    let origin = "Origin: https://shop.example\r\nAccess-Control-Request-Method: POST\r\n";
    for (hosts, detail) in [
        ("", "The request has no Host header."),
        ("Host: a\r\nHost: a\r\n", "The request has more than one Host header."),
        ("Host: a\r\nX: 1\r\nHost: b\r\n", "The request has more than one Host header."),
        ("Host:\r\n", "The Host header must be a host, with a port or without."),
        ("Host: a b\r\n", "The Host header must be a host, with a port or without."),
        ("Host: http://a\r\n", "The Host header must be a host, with a port or without."),
        ("Host: a:b\r\n", "The Host header must be a host, with a port or without."),
        ("Host: [zz]\r\n", "The Host header must be a host, with a port or without."),
        ("Host: %00\r\n", "The Host header must be a host, with a port or without."),
        ("Host: a:65536\r\n", "The Host header must be a host, with a port or without."),
    ] {
        for (line, headers) in [
            ("GET /healthz", ""),
            ("GET /none", ""),
            ("GET /tokens", "SVC-API-KEY: key_prv_none\r\n"),
            ("GET http://a/healthz", ""),
            ("OPTIONS /tokens", origin),
        ] {
            let request = format!("{line} HTTP/1.1\r\n{hosts}{headers}Connection: close\r\n\r\n");
            let (status, head, problem) = exchange(&server, &request).await;
            assert_eq!(status, 400, "{request}{head}");
            assert_eq!((&problem["status"], &problem["detail"]), (&json!(400), &json!(detail)));
            let trace_id = problem["trace_id"].as_str().unwrap();
            assert!(head.contains(&format!("\r\nsvc-trace-id: {trace_id}")), "{head}");
            assert!(head.contains("\r\nx-content-type-options: nosniff"), "{head}");
        }
    }
    for host in ["a", "a_b", "a:8080", "a:", "127.0.0.1:80", "[::1]", "[2001:db8::1]:8080"] {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(exchange(&server, &request).await.0, 200, "{host}");
    }
    // Before HTTP/1.1 there need be none.
    assert_eq!(exchange(&server, "GET /healthz HTTP/1.0\r\n\r\n").await.0, 200);
    let two = "GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n";
    assert_eq!(exchange(&server, two).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_in_chunks_or_whole_and_in_no_other_coding() {
    let server = TestServer::start().await;
    let key = server.private.key.clone().unwrap();
    let send = async |codings: &str| {
        let body = "1b\r\n{\"type\":\"token\",\"data\":\"x\"}\r\n0\r\n\r\n";
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\nConnection: close\r\n\
             Content-Type: application/json\r\n{codings}\r\n{body}"
        );
        exchange(&server, &request).await
    };
    for codings in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
    ] {
        let (status, head, problem) = send(codings).await;
        assert_eq!(status, 501, "{codings}{head}");
        assert_eq!(problem["title"], "Not Implemented");
        assert!(problem["detail"].as_str().unwrap().contains("Transfer-Encoding"), "{problem}");
    }
    assert!(server.private.list("").await.is_empty());
    assert_eq!(send("Transfer-Encoding: Chunked\r\n").await.0, 201);
    assert_eq!(server.private.list("").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn codings_that_do_not_end_in_chunks_get_a_bare_400() {
    let server = TestServer::start().await;
    for codings in ["gzip", "chunked, gzip", "identity", "xchunked", "chunked;a=b"] {
        let head = format!("POST /tokens HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {codings}");
        let (status, head, body) = exchange(&server, &format!("{head}\r\n\r\n")).await;
        assert_eq!((status, body), (400, Value::Null), "{codings}{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_that_cannot_be_read_are_told_from_those_that_do_not_come() {
    let server = TestServer::start().await;
    let key = server.private.key.clone().unwrap();
    for (chunks, detail) in [
        ("zz\r\n", "The body's chunks cannot be read."),
        ("ffffffffffffffffff\r\n", "The body's chunks cannot be read."),
        ("2\r\n{}x\r\n", "The body's chunks cannot be read."),
        ("5\r\n{}", "The body ended before it was complete."),
    ] {
        let request = format!(
            "POST /tokens HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n{chunks}"
        );
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = String::new();
        let read = connection.read_to_string(&mut answer);
        timeout(PATIENCE, read).await.expect("the server closes the connection").unwrap();
        // Who has closed its half may be left without an answer.
        assert!(answer.is_empty() || answer.contains(detail), "{chunks:?} {answer}");
        assert!(!answer.is_empty() || chunks.starts_with('5'), "{chunks:?}");
        assert!(answer.is_empty() || answer.contains("connection: close\r\n"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_not_well_formed_is_the_last_of_its_connection() {
    let server = TestServer::start().await;
    let chunks = "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    for (request, expected) in [
        ("GET /healthz HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(), 400),
        (format!("POST /tokens HTTP/1.1\r\nHost: a\r\n{chunks}"), 501),
    ] {
        // Which it would not be of its own accord.
        let (status, head, _) = exchange(&server, &request).await;
        assert_eq!(status, expected, "{request}{head}");
        assert!(head.contains("\r\nconnection: close"), "{request}{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_encoded_is_refused() {
    let server = TestServer::start().await;
    let (private, management) = (&server.private, &server.management);
    let id = private.token("token", json!("a")).await;
    let token = format!("/tokens/{id}");
    let nothing = "00000000-0000-7000-8000-000000000000";
    let component = format!("/reactor-formulas/{nothing}/component");
    let (patch, wasm) = ("application/merge-patch+json", "application/wasm");
    let usual = "application/json";
    let send = async |client: &Client, line: (&Method, &str), kind: &str, coding: &str| {
        let request = client.request(line.0.clone(), line.1).header("content-type", kind);
        let request = request.header("content-encoding", coding);
        client.send(request.body(r#"{"type":"token","data":1,"name":"n"}"#)).await
    };
    let (post, put) = (&Method::POST, &Method::PUT);
    for coding in ["gzip", "GZIP", "br", "identity, deflate", "x-own"] {
        for (client, line, kind) in [
            (private, (post, "/tokens"), usual),
            (private, (post, "/tokens/search"), usual),
            (private, (post, "/tokenize"), usual),
            (private, (&Method::PATCH, token.as_str()), patch),
            (management, (put, "/tenants/self"), usual),
            (management, (post, "/reactor-formulas"), usual),
            (management, (put, component.as_str()), wasm),
            (management, (post, "/webhooks/signing-secrets/rotate"), usual),
        ] {
            let answer = send(client, line, kind, coding).await;
            let problem = answer.expect(415);
            assert_eq!(answer.headers["accept-encoding"], "identity", "{line:?}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("Content-Encoding"), "{line:?} {detail}");
        }
    }
    assert_eq!(private.list("").await, [id]);
    for coding in ["identity", "Identity", "identity, identity", ""] {
        send(private, (post, "/tokens"), usual, coding).await.expect(201);
    }
    // The key comes before it, and so does the permission; another content type is refused for that.
    send(&server.stranger(), (post, "/tokens"), usual, "gzip").await.expect(401);
    send(management, (post, "/tokens"), usual, "gzip").await.expect(403);
    let answer = send(private, (post, "/tokens"), "text/plain", "gzip").await;
    answer.expect(415);
    assert!(!answer.headers.contains_key("accept-encoding"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoding_of_no_body_means_nothing_and_a_key_for_repetitions_changes_nothing() {
    let server = TestServer::start().await;
    let send = async |client: &Client, method: Method, path: &str, body: &'static str| {
        let request = client.request(method, path).header("content-type", "application/json");
        let request = request.header("content-encoding", "gzip");
        client.send(request.header("svc-idempotency-key", path).body(body)).await
    };
    let (private, management) = (&server.private, &server.management);
    send(private, Method::POST, "/tokens/search", "").await.expect(200);
    let rotate = "/webhooks/signing-secrets/rotate";
    let rotated = send(management, Method::POST, rotate, "").await;
    assert!(rotated.status.is_success(), "{}", rotated.text());
    // What must be there is missing.
    send(management, Method::PUT, "/tenants/self", "").await.expect(400);
    let token = r#"{"type":"token","data":1}"#;
    let refused = send(private, Method::POST, "/tokens", token).await;
    refused.expect(415);
    assert_eq!(refused.headers["accept-encoding"], "identity");
    // It was a failure: the same key does what it is for once nothing is encoded.
    let request = private.request(Method::POST, "/tokens").header("svc-idempotency-key", "/tokens");
    let request = request.header("content-type", "application/json").body(token);
    private.send(request).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_encoding_that_is_taken_is_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut described = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let takes_body = ["post", "put", "patch"].contains(&method.as_str());
            let refusal = operation["responses"].get("415");
            assert_eq!(refusal.is_some(), takes_body, "{method} {path}");
            if let Some(refusal) = refusal {
                assert!(refusal["headers"]["Accept-Encoding"].is_object(), "{method} {path}");
                described += 1;
            }
        }
    }
    assert!(described >= 16, "{described}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_begins_with_two_slashes_is_no_path() {
    let server = TestServer::start().await;
    let get = async |target: &str| {
        let key = server.private.key.as_deref().unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\nConnection: close\r\n\r\n"
        );
        let (status, _, body) = exchange(&server, &request).await;
        (status, body)
    };
    for target in [
        "//metrics",
        "///metrics",
        "//metrics/",
        "//",
        "//tokens?size=1",
        "//healthz?x=//",
        "//docs/index.html",
        "http://a//metrics",
    ] {
        let (status, problem) = get(target).await;
        assert_eq!(status, 404, "{target}");
        assert_eq!(problem["detail"], "There is no such path.", "{target}");
    }
    for target in ["/metrics", "/metrics/", "/tokens/?size=1", "/healthz?x=//", "http://a/metrics"]
    {
        assert_eq!(get(target).await.0, 200, "{target}");
    }
}
