//! Servers that would go on for ever, or say more than anybody wants to hear.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::server::Server;
use super::{EgressError, Outbound, anywhere, get, send};
use crate::egress::Wanted;
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_HEADERS_BYTES_MAX, HTTP_HEADERS_MAX};
use crate::model::weight::HEADER_BYTES;

async fn error_of(server: Server, timeout: Duration) -> (EgressError, Duration) {
    let began = Instant::now();
    let request = Outbound { timeout, ..get(server.url("a.test", "/")) };
    (send(&anywhere(), request).await.unwrap_err(), began.elapsed())
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large() {
    let announced =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", HTTP_BODY_BYTES_MAX + 1);
    let headers = "x: y\r\n".repeat(HTTP_HEADERS_MAX + 1);
    let long = "v".repeat(HTTP_HEADERS_BYTES_MAX);
    let wide = &vec![b'x'; 64 << 10];
    for (name, server) in [
        ("announced", Server::answering(announced).await),
        ("endless body", Server::repeating("HTTP/1.1 200 OK\r\n\r\n", wide.clone()).await),
        (
            "small chunks",
            Server::repeating(CHUNKED, b"10\r\n0123456789abcdef\r\n".repeat(1_000)).await,
        ),
        ("many headers", Server::answering(format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).await),
        ("a long header", Server::answering(format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n")).await),
        ("endless headers", Server::repeating("HTTP/1.1 200 OK\r\n", b"x: y\r\n").await),
        ("an endless header", Server::repeating("HTTP/1.1 200 OK\r\nx: ", wide.clone()).await),
        ("an endless first line", Server::repeating("HTTP/1.1 200 ", wide.clone()).await),
    ] {
        let (error, _) = error_of(server, LONG).await;
        assert_eq!(error, EgressError::TooLarge, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_ends_ends_with_its_time() {
    for (name, server) in [
        ("says nothing", Server::falling_silent("").await),
        ("stops in its head", Server::falling_silent("HTTP/1.1 200 OK\r\nx: y").await),
        (
            "stops in its body",
            Server::falling_silent("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx").await,
        ),
        (
            "stops in a chunk",
            Server::falling_silent("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nx")
                .await,
        ),
    ] {
        let (error, took) = error_of(server, SHORT).await;
        assert_eq!(error, EgressError::Timeout, "{name}");
        assert!((SHORT..LONG).contains(&took), "{name}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_at_a_time_takes_no_longer_than_the_time() {
    let server = Server::repeating(CHUNKED, b"1\r\nx\r\n".repeat(1_000)).await;
    let (error, took) = error_of(server, Duration::from_secs(2)).await;
    assert!(matches!(error, EgressError::TooLarge | EgressError::Timeout), "{error:?}");
    assert!(took < LONG, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_beside_the_body_is_bounded() {
    for (name, piece) in [
        (
            "extensions of chunks",
            &b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n"[..],
        ),
        (
            "trailers",
            b"0\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
        ),
    ] {
        let (error, _) = error_of(Server::repeating(CHUNKED, piece).await, LONG).await;
        assert_eq!(error, EgressError::Unreachable("the answer is no valid HTTP"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_before_the_answers_own_are_few() {
    let early = |count: usize| {
        let early = "HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n".repeat(count);
        format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    };
    let egress = anywhere();
    let server = Server::answering(early(100)).await;
    assert_eq!(send(&egress, get(server.url("a.test", "/"))).await.unwrap().body, b"ok");
    let server = Server::repeating("", b"HTTP/1.1 100 Go on\r\n\r\n".repeat(4_000)).await;
    let asked = (0..50).map(|owner| Outbound { owner, ..get(server.url("a.test", "/")) });
    for answer in futures::future::join_all(asked.map(|one| send(&egress, one))).await {
        assert!(matches!(answer, Err(EgressError::Unreachable(_))), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_much_as_is_allowed() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {HTTP_BODY_BYTES_MAX}\r\n\r\n");
    let mut largest = head.into_bytes();
    largest.resize(largest.len() + HTTP_BODY_BYTES_MAX, b'x');
    let server = Server::answering(largest).await;
    let answer = send(&anywhere(), get(server.url("a.test", "/"))).await.unwrap();
    assert_eq!(answer.body.len(), HTTP_BODY_BYTES_MAX);

    let headers = "x: y\r\n".repeat(HTTP_HEADERS_MAX - 1);
    let most = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\n\r\n");
    let server = Server::answering(most).await;
    let answer = send(&anywhere(), get(server.url("a.test", "/"))).await.unwrap();
    assert_eq!(answer.headers.len(), HTTP_HEADERS_MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_wants_the_status_alone_gets_it_beside_many_headers() {
    let headers = "x: y\r\n".repeat(HTTP_HEADERS_MAX + 1);
    let long = "v".repeat(HTTP_HEADERS_BYTES_MAX);
    for headers in [headers, format!("x: {long}\r\n")] {
        let server = Server::answering(format!("HTTP/1.1 204 No Content\r\n{headers}\r\n")).await;
        let request = Outbound { wanted: Wanted::Head, ..get(server.url("a.test", "/")) };
        assert_eq!(send(&anywhere(), request).await.unwrap().status, 204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_read_as_far_as_there_is_room_for_it() {
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", "x".repeat(1_000));
    let server = Server::answering(answer).await;
    // Its one header counts, too.
    let head = HEADER_BYTES + "content-length".len() + "1000".len();
    for (room, fits) in [(head + 1_000, true), (head + 999, false)] {
        let asked = AtomicUsize::new(0);
        let has_room = |bytes| asked.fetch_add(bytes, Ordering::Relaxed) + bytes <= room;
        let request = get(server.url("a.test", "/"));
        let answer = anywhere().send_within(request, &|_| true, &has_room).await;
        match answer {
            Ok(answer) => assert!(fits && answer.body.len() == 1_000, "{room}"),
            Err(error) => assert!(!fits && matches!(error, EgressError::Unreachable(_)), "{error}"),
        }
        assert_eq!(asked.into_inner(), head + 1_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_waits_for_ends() {
    let server = Server::falling_silent("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx").await;
    let egress = anywhere();
    for asked in 1..=2 {
        // Had the first connection been kept, the second request would wait behind it or find it in the middle of an
        // answer, and would never come.
        let request = Outbound { timeout: LONG, ..get(server.url("a.test", "/")) };
        tokio::select! {
            answer = send(&egress, request) => panic!("{answer:?}"),
            () = server.asked(asked) => {}
        }
        assert_eq!(server.connections(), asked);
    }
}
