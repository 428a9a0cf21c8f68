//! Which connections are kept, for whom, and how many.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt as _;

use super::super::lookup::Lookup;
use super::server::Server;
use super::{Egress, EgressError, Outbound, PUBLIC, Wanted, anywhere, get, send};
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_IDLE_MAX, HTTP_POOLS_PER_OWNER_MAX};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let server = Server::answering(OK).await;
    let egress = anywhere();
    for _ in 0..3 {
        send(&egress, get(server.url("a.test", "/"))).await.unwrap();
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 1));
}

/// Answers a connection's first request, and hangs up on the second one.
async fn hanging_up_on_the_second() -> Server {
    let asked = Arc::new(AtomicUsize::new(0));
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), move |_, mut stream| {
        let is_first = asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        async move {
            stream.write_all(if is_first { OK.as_bytes() } else { b"" }).await.ok()?;
            is_first.then_some(stream)
        }
        .boxed()
    })
    .await
}

#[tokio::test]
async fn what_does_no_harm_twice_is_sent_again_where_a_kept_connection_ends() {
    for (method, repeatable, is_answered) in
        [("GET", false, true), ("HEAD", false, true), ("POST", true, true), ("POST", false, false)]
    {
        let (server, egress) = (hanging_up_on_the_second().await, anywhere());
        send(&egress, get(server.url("a.test", "/"))).await.unwrap();
        let method = method.to_owned();
        let second = Outbound { method, repeatable, ..get(server.url("a.test", "/")) };
        let answer = send(&egress, second).await;
        assert_eq!(answer.is_ok(), is_answered, "{answer:?}");
        assert_eq!(server.seen().len(), if is_answered { 3 } else { 2 });
    }
}

/// Answers every request with its path; takes what a `GET` sends after its head for the next request, as some do.
async fn deaf() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), |request, mut stream| {
        async move {
            let heads = request.split("\r\n\r\n").filter_map(|head| head.split(' ').nth(1));
            let answer = |path: &str| {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len())
            };
            let mut answers = heads.map(answer);
            stream.write_all(answers.next()?.as_bytes()).await.ok()?;
            if let Some(late) = answers.next() {
                // It comes when the client has taken the connection for its next request.
                stream.readable().await.ok()?;
                stream.write_all(late.as_bytes()).await.ok()?;
            }
            Some(stream)
        }
        .boxed()
    })
    .await
}

#[tokio::test]
async fn owners_share_no_connection() {
    let server = deaf().await;
    let egress = anywhere();
    let own = |owner, path: &str| Outbound { owner, ..get(server.url("a.test", path)) };
    for owner in 1..=3 {
        for _ in 0..2 {
            assert_eq!(send(&egress, own(owner, "/mine")).await.unwrap().body, b"/mine");
        }
    }
    assert_eq!((server.seen().len(), server.connections()), (6, 3));
    // What one leaves on its connection is not the answer to another one's request.
    let smuggled = Outbound { body: Some("GET /smuggled HTTP/1.1\r\n\r\n".into()), ..own(1, "/") };
    send(&egress, smuggled).await.unwrap();
    let (theirs, another) = (own(1, "/mine"), own(2, "/mine"));
    let (theirs, another) = tokio::join!(send(&egress, theirs), send(&egress, another));
    assert_eq!(theirs.unwrap().body, b"/smuggled", "who leaves it gets it");
    assert_eq!(another.unwrap().body, b"/mine");
}

/// Every name is this machine.
struct Wildcard;

impl Lookup for Wildcard {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async { Ok(vec![PUBLIC]) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_hosts_keeps_few_connections() {
    let server = Server::answering(OK).await;
    let egress = Egress::assemble(Arc::new(|_| true), Arc::new(Wildcard), &[]).unwrap();
    let hosts = 5 * HTTP_POOLS_PER_OWNER_MAX;
    for at in 0..hosts {
        let url = server.url(&format!("{at}.test"), "/");
        assert_eq!(send(&egress, get(url)).await.unwrap().body, b"ok");
    }
    assert_eq!(server.connections(), hosts);
    let open = server.open_at_most(HTTP_POOLS_PER_OWNER_MAX).await;
    assert_eq!(open, HTTP_POOLS_PER_OWNER_MAX);
    // The last one is kept still.
    let last = server.url(&format!("{}.test", hosts - 1), "/");
    send(&egress, get(last)).await.unwrap();
    // Or it came too early for the connection to be back in its pool.
    assert!(server.connections() <= hosts + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_keep_few_connections() {
    let answer = |_, mut stream: tokio::net::TcpStream| -> BoxFuture<'static, _> {
        async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            stream.write_all(OK.as_bytes()).await.ok()?;
            Some(stream)
        }
        .boxed()
    };
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), answer).await;
    let egress = anywhere();
    let many = (0..5 * HTTP_IDLE_MAX).map(|_| send(&egress, get(server.url("a.test", "/"))));
    assert!(futures::future::join_all(many).await.iter().all(Result::is_ok));
    assert!(server.connections() > HTTP_IDLE_MAX);
    assert_eq!(server.open_at_most(HTTP_IDLE_MAX).await, HTTP_IDLE_MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_head_is_wanted_the_rest_is_not_waited_for() {
    use EgressError::{Timeout, TooLarge, Unreachable};
    const HEAD: &str = "HTTP/1.1 202 Accepted\r\nRetry-After: 7\r\n";
    let endless = "HTTP/1.1 202 Accepted\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n";
    let silent = "HTTP/1.1 202 Accepted\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\nx";
    let large = format!("{HEAD}Content-Length: {}\r\n\r\n", HTTP_BODY_BYTES_MAX + 1);
    let mut broken = format!("{HEAD}Content-Length: 99\r\n\r\n").into_bytes();
    broken.extend(b"short");
    for (name, server) in [
        ("endless", Server::repeating(endless, b"1\r\nx\r\n".repeat(1_000)).await),
        ("silent", Server::falling_silent(silent).await),
        ("large", Server::answering(large).await),
        ("broken", Server::hanging_up_after(broken).await),
        ("empty", Server::answering(format!("{HEAD}Content-Length: 0\r\n\r\n")).await),
    ] {
        let mut egress = anywhere();
        let request =
            |wanted, timeout| Outbound { timeout, wanted, ..get(server.url("a.test", "/")) };
        let long = Duration::from_mins(1);
        let answer = send(&egress, request(Wanted::Head, long)).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{name}");
        let retry = ("retry-after".to_owned(), "7".to_owned());
        assert!(answer.headers.contains(&retry), "{name}");
        // One that still speaks is left alone; the next request has another connection.
        if name == "empty" {
            // A moment after its answer the connection is there for the next request; on a busy machine that may come
            // first. So it is tried again, by somebody else each time, who has no other connection to take.
            let mut tries = 1;
            loop {
                let whole = send(&egress, request(Wanted::Whole, long)).await.unwrap();
                assert_eq!(whole.status, 202);
                if server.connections() < 2 * tries {
                    break;
                }
                assert!(tries < 100, "none of {tries} connections was taken again");
                tries += 1;
                egress = anywhere();
                send(&egress, request(Wanted::Head, long)).await.unwrap();
            }
        } else {
            let whole = send(&egress, request(Wanted::Whole, Duration::from_secs(4))).await;
            assert!(matches!(whole, Err(TooLarge | Timeout | Unreachable(_))), "{name}: {whole:?}");
            assert_eq!(server.connections(), 2, "{name}");
        }
    }
}
