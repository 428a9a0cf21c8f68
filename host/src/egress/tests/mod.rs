//! Requests that are really sent, to servers of which every byte is written here.

mod api;
mod bounds;
mod connections;
mod places;
mod server;
mod tls;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::lookup::Lookup;
use super::{Answer, Egress, EgressError, Outbound, Wanted};
use server::Server;

/// Names that tests make up. A name with several answers gives one after the other and stays with the last.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn new(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let addresses = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let entry = |(name, answers): &(&str, &[&[&str]])| {
            ((*name).to_owned(), answers.iter().map(addresses).collect())
        };
        let answers = names.iter().map(entry).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    /// How often it was asked for a name.
    fn asked(&self, name: &str) -> usize {
        self.asked.lock().iter().filter(|asked| *asked == name).count()
    }
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = match self.answers.lock().get_mut(&name) {
            Some(answers) if answers.len() > 1 => answers.pop_front(),
            Some(answers) => answers.front().cloned(),
            None => None,
        };
        self.asked.lock().push(name);
        async { found.ok_or_else(|| io::ErrorKind::NotFound.into()) }.boxed()
    }
}

/// Only this one is public, as far as the tests are concerned that need a public address to answer.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn egress(guard: fn(IpAddr) -> bool, names: &Arc<Names>) -> Egress {
    Egress::assemble(Arc::new(guard), names.clone(), &[]).unwrap()
}

/// Everything may be reached, and `a.test` and `b.test` are this machine.
fn anywhere() -> Egress {
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    egress(|_| true, &Names::new(&[("a.test", here), ("b.test", here)]))
}

fn get(url: String) -> Outbound {
    Outbound {
        method: "GET".to_owned(),
        url,
        headers: Vec::new(),
        body: None,
        body_bytes_max: crate::limits::HTTP_BODY_BYTES_MAX,
        timeout: Duration::from_secs(20),
        redirects: 0,
        https_only: false,
        owner: 1,
        wanted: Wanted::Whole,
        repeatable: false,
    }
}

async fn send(egress: &Egress, request: Outbound) -> Result<Answer, EgressError> {
    egress.send(request, &|_| true).await
}

#[tokio::test]
async fn a_request_and_its_answer() {
    let server = Server::answering("HTTP/1.1 201 Created\r\nX-A: 1\r\nx-a: 2\r\nX-B: \u{e9}\r\nContent-Length: 4\r\n\r\n\0\x01ab").await;
    let headers = [("X-Own", "yes"), ("Cookie", "a=b")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let request = Outbound {
        method: "POST".to_owned(),
        headers,
        body: Some("the body".into()),
        ..get(server.url("a.test", "/path?query#fragment"))
    };
    let answer = send(&anywhere(), request).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"\0\x01ab"[..]));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected =
        [pair("x-a", "1"), pair("x-a", "2"), pair("x-b", "é"), pair("content-length", "4")];
    for header in expected {
        assert!(answer.headers.contains(&header), "{header:?} in {:?}", answer.headers);
    }
    let seen = server.seen().remove(0).to_lowercase();
    let (line, rest) = seen.split_once("\r\n").unwrap();
    assert_eq!(line, "post /path?query http/1.1");
    assert!(rest.ends_with("\r\n\r\nthe body"), "{rest}");
    let port = server.port;
    for header in [
        "x-own: yes",
        "cookie: a=b",
        "content-length: 8",
        "user-agent: tokamak",
        &format!("host: a.test:{port}"),
    ] {
        assert!(rest.lines().any(|line| line == header), "{header} in {rest}");
    }
    // What is encoded stays so, and is not asked for.
    assert!(!rest.contains("accept-encoding") && !rest.contains("referer"), "{rest}");
}

#[tokio::test]
async fn what_may_have_a_body_says_that_it_has_none() {
    for (method, body, says) in [
        ("POST", None, true),
        ("PUT", Some(""), true),
        ("PATCH", None, true),
        ("GET", None, false),
        ("DELETE", None, false),
    ] {
        let server =
            Server::answering("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
        let body = body.map(Into::into);
        let method = method.to_owned();
        let request = Outbound { method, body, ..get(server.url("a.test", "/")) };
        send(&anywhere(), request).await.unwrap();
        let seen = server.seen().remove(0).to_lowercase();
        assert_eq!(seen.matches("content-length: 0\r\n").count(), usize::from(says), "{seen}");
    }
}

#[tokio::test]
async fn what_is_encoded_stays_so() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x08zz",
    )
    .await;
    let answer = send(&anywhere(), get(server.url("a.test", "/"))).await.unwrap();
    assert_eq!(answer.body, b"\x1f\x08zz");
}

#[tokio::test]
async fn cookies_are_not_kept() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    let egress = anywhere();
    for _ in 0..2 {
        send(&egress, get(server.url("a.test", "/"))).await.unwrap();
    }
    assert!(server.seen().iter().all(|request| !request.to_lowercase().contains("cookie")));
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n",
    )
    .await;
    let request = Outbound { method: "HEAD".to_owned(), ..get(server.url("a.test", "/")) };
    let answer = send(&anywhere(), request).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}

#[tokio::test]
async fn what_the_host_cannot_do() {
    let closed = Server::closed_port().await;
    let url = format!("http://a.test:{closed}/");
    let refused = EgressError::Unreachable("the host refused the connection");
    assert_eq!(send(&anywhere(), get(url)).await, Err(refused));
    for answer in
        ["", "SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]
    {
        let server = Server::hanging_up_after(answer).await;
        let broken = send(&anywhere(), get(server.url("a.test", "/"))).await;
        assert!(matches!(broken, Err(EgressError::Unreachable(_))), "{answer:?}: {broken:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    let server = Server::hanging_up_after("").await;
    let request = Outbound {
        method: "POST".to_owned(),
        body: Some("pay".into()),
        ..get(server.url("a.test", "/"))
    };
    assert!(send(&anywhere(), request).await.is_err());
    assert_eq!((server.connections(), server.seen().len()), (1, 1));
}
