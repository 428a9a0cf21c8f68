//! Where requests go, and where they do not: names, what they stand for, redirects.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::super::lookup::Lookup;
use super::super::{AllowedHosts, EgressConfig, is_public};
use super::server::Server;
use super::{Egress, EgressError, Names, Outbound, PUBLIC, anywhere, egress, get, send};
use crate::limits::HTTP_CONNECT_MS;

const NOT_PUBLIC: EgressError = EgressError::Denied("the host's address is not a public one");
const ENDING: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// Two servers at one port: the inside, and the only address that is public.
async fn inside_and_outside() -> (Server, Server) {
    let outside = Server::hanging_up_after(ENDING).await;
    let inside = SocketAddr::from(([127, 0, 0, 2], outside.port));
    let answer = |_, mut stream: TcpStream| -> BoxFuture<'static, _> {
        async move {
            stream.write_all(ENDING.as_bytes()).await.ok()?;
            None
        }
        .boxed()
    };
    (Server::start(inside, answer).await, outside)
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let (inside, outside) = inside_and_outside().await;
    let changing: &[&[&str]] = &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1"], &["127.0.0.2"]];
    let names = Names::new(&[("mind.test", changing)]);
    let egress = egress(|address| address == PUBLIC, &names);
    let mut went_through = 0;
    for asked in 1..=4 {
        let answer = send(&egress, get(outside.url("mind.test", "/"))).await;
        // Asked once: there is no second answer between what was checked and what is connected to.
        assert_eq!(names.asked("mind.test"), asked);
        if asked % 2 == 1 {
            assert_eq!(answer.unwrap().body, b"ok");
            went_through += 1;
        } else {
            assert_eq!(answer, Err(NOT_PUBLIC));
        }
        assert_eq!((outside.connections(), inside.connections()), (went_through, 0));
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_between_redirects_gains_nothing() {
    let outside = Server::hanging_up_after(
        "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )
    .await;
    let inside = SocketAddr::from(([127, 0, 0, 2], outside.port));
    let inside = Server::start(inside, |_, _| async { None }.boxed()).await;
    let names = Names::new(&[("mind.test", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let egress = egress(|address| address == PUBLIC, &names);
    let request = Outbound { redirects: 5, ..get(outside.url("mind.test", "/")) };
    assert_eq!(send(&egress, request).await, Err(NOT_PUBLIC));
    assert_eq!((outside.connections(), inside.connections()), (1, 0));
}

#[tokio::test]
async fn names_that_stand_for_somebodys_inside() {
    let server = Server::answering(ENDING).await;
    let names = Names::new(&[
        ("loopback.test", &[&["127.0.0.1"]]),
        ("mapped.test", &[&["::ffff:127.0.0.1"]]),
        ("metadata.test", &[&["169.254.169.254"]]),
        ("mixed.test", &[&["8.8.8.8", "127.0.0.1"]]),
        ("mixed-six.test", &[&["2606:4700::1111", "::1"]]),
        ("any.test", &[&["0.0.0.0"]]),
    ]);
    let egress = egress(is_public, &names);
    for name in ["loopback", "mapped", "metadata", "mixed", "mixed-six", "any"] {
        let url = server.url(&format!("{name}.test"), "/");
        assert_eq!(send(&egress, get(url)).await, Err(NOT_PUBLIC), "{name}");
    }
    let unknown = send(&egress, get(server.url("unknown.test", "/"))).await;
    assert_eq!(unknown, Err(EgressError::Unreachable("the host's name has no address")));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn this_machine_by_all_its_names() {
    let server = Server::answering(ENDING).await;
    let guarded = Egress::new(EgressConfig::default()).unwrap();
    let open =
        Egress::new(EgressConfig { allow_private_networks: true, ..EgressConfig::default() })
            .unwrap();
    for host in ["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1", "LOCALHOST"] {
        assert_eq!(send(&guarded, get(server.url(host, "/"))).await, Err(NOT_PUBLIC), "{host}");
        let answer = send(&open, get(server.url(host, "/"))).await;
        assert_eq!(answer.unwrap().body, b"ok", "{host}");
    }
    // A mapped address is this machine's too.
    for host in ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0"] {
        let before = server.connections();
        assert_eq!(send(&guarded, get(server.url(host, "/"))).await, Err(NOT_PUBLIC), "{host}");
        assert_eq!(server.connections(), before, "{host}");
    }
}

/// An address that swallows what is sent to it, as long as the streams are there: connections wait until there is room.
async fn swallowing(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    (listener, waiting)
}

#[tokio::test]
async fn beside_an_address_that_is_dead_the_next_is_tried_in_time() {
    let server = Server::hanging_up_after(ENDING).await;
    let _dead = swallowing(SocketAddr::from(([127, 0, 0, 3], server.port))).await;
    let two: &[&[&str]] = &[&["127.0.0.3", "127.0.0.1"]];
    let egress = egress(|_| true, &Names::new(&[("two.test", two)]));
    // A dead address that is the only one may use up more than this.
    let timeout = Duration::from_millis(HTTP_CONNECT_MS / 3 - 1_000);
    let request = Outbound { timeout, ..get(server.url("two.test", "/")) };
    assert_eq!(send(&egress, request).await.unwrap().body, b"ok");
}

#[tokio::test]
async fn a_host_that_is_not_permitted_is_not_even_looked_up() {
    let names = Names::new(&[("a.test", &[&["127.0.0.1"]])]);
    let egress = egress(|_| true, &names);
    let answer = egress.send(get("http://a.test/".to_owned()), &|_| false).await;
    assert!(matches!(answer, Err(EgressError::Denied(_))), "{answer:?}");
    assert_eq!(names.asked("a.test"), 0);
}

#[tokio::test]
async fn where_https_is_asked_for() {
    let server = Server::answering(ENDING).await;
    let request = Outbound { https_only: true, ..get(server.url("a.test", "/")) };
    assert!(matches!(send(&anywhere(), request).await, Err(EgressError::Denied(_))));
    assert!(anywhere().check_address("https://a.test/", true).is_ok());
    assert!(anywhere().check_address("http://a.test/", true).is_err());
    assert_eq!(server.connections(), 0);
}

#[test]
fn an_address_that_nothing_has_or_that_is_mended_by_whoever_reads_it_is_refused() {
    let long = format!("https://{}.test/", "a".repeat(64));
    let longer = format!("https://{}test/", "a.".repeat(125));
    for text in [
        " https://a.test/",
        "https://a.test/ ",
        "https://a.test\n/",
        "https:\\\\a.test/",
        "https:a.test",
        "https:/a.test",
        "https://.",
        "https://a..test/",
        "https://a.test:0/",
        long.as_str(),
        longer.as_str(),
    ] {
        let refused = anywhere().check_address(text, true);
        assert!(matches!(refused, Err(EgressError::Invalid(_))), "{text}: {refused:?}");
    }
    for text in ["https://a.test", "HTTPS://A.test./b c?d=\u{e9}#e", "https://a_b.test:8443/%zz"] {
        assert!(anywhere().check_address(text, true).is_ok(), "{text}");
    }
}

/// Redirects `/n` to `/n-1` until `/0`, and `/to/<address>` to the address.
async fn redirecting() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), |request, mut stream| {
        async move {
            let path = request.split(' ').nth(1)?;
            let count = path[1..].parse::<u32>().ok();
            let to = match (path.strip_prefix("/to/"), count) {
                (Some(address), _) => Some(format!("http://{address}")),
                (None, Some(count)) if count > 0 => Some(format!("/{}", count - 1)),
                _ => None,
            };
            let answer = match to {
                Some(to) => {
                    format!("HTTP/1.1 307 X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
                }
                None => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend".to_owned(),
            };
            stream.write_all(answer.as_bytes()).await.ok()?;
            Some(stream)
        }
        .boxed()
    })
    .await
}

#[tokio::test]
async fn as_many_redirects_as_are_asked_for() {
    let server = redirecting().await;
    for (redirects, status, requests) in
        [(0, 307, 1), (1, 307, 2), (2, 307, 3), (3, 200, 4), (10, 200, 4)]
    {
        let before = server.seen().len();
        let request = Outbound { redirects, ..get(server.url("a.test", "/3")) };
        let answer = send(&anywhere(), request).await.unwrap();
        assert_eq!(answer.status, status, "{redirects}");
        assert_eq!(server.seen().len() - before, requests, "{redirects}");
    }
}

#[tokio::test]
async fn a_redirect_is_checked_as_a_request_is() {
    let server = redirecting().await;
    let port = server.port;
    let allowed = AllowedHosts::parse(&[format!("a.test:{port}"), format!("127.0.0.2:{port}")]);
    let names = Names::new(&[("a.test", &[&["127.0.0.1"]]), ("b.test", &[&["127.0.0.1"]])]);
    let egress = egress(|address| address == PUBLIC, &names);
    for (to, expected) in [
        (format!("b.test:{port}/0"), "a redirect leads to a host that is not allowed"),
        (format!("a.test:{}/0", port ^ 1), "a redirect leads to a host that is not allowed"),
        (format!("127.0.0.2:{port}/0"), "the host's address is not a public one"),
        (format!("0x7f.2:{port}/0"), "the host's address is not a public one"),
    ] {
        let request = Outbound { redirects: 3, ..get(server.url("a.test", &format!("/to/{to}"))) };
        let answer = egress.send(request, &|url| allowed.permits(url)).await;
        assert_eq!(answer, Err(EgressError::Denied(expected)), "{to}");
    }
    let to = "user:secret@a.test/0";
    let request = Outbound { redirects: 3, ..get(server.url("a.test", &format!("/to/{to}"))) };
    let answer = egress.send(request, &|url| allowed.permits(url)).await;
    assert!(matches!(answer, Err(EgressError::Unreachable(_))), "{answer:?}");
    assert_eq!(names.asked("b.test"), 0);
}

#[tokio::test]
async fn credentials_do_not_follow_to_another_origin() {
    let server = redirecting().await;
    let send_to = async |to: &str| {
        let headers =
            [("Authorization", "Bearer s3cret"), ("X-Api-Key", "s3cret"), ("Accept", "x/y")];
        let request = Outbound {
            method: "POST".to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Some("body".into()),
            redirects: 3,
            ..get(server.url("a.test", &format!("/to/{to}:{}/0", server.port)))
        };
        assert_eq!(send(&anywhere(), request).await.unwrap().status, 200);
        server.seen().pop().unwrap().to_lowercase()
    };
    let same = send_to("a.test").await;
    assert!(same.starts_with("post /0 ") && same.matches("s3cret").count() == 2, "{same}");
    let other = send_to("b.test").await;
    assert!(other.starts_with("post /0 ") && other.ends_with("body"), "{other}");
    assert!(other.contains("accept: x/y") && !other.contains("s3cret"), "{other}");
}

/// Never answers.
struct Silent;

impl Lookup for Silent {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn looking_a_name_up_is_part_of_the_time() {
    let egress = Egress::assemble(Arc::new(is_public), Arc::new(Silent), &[]).unwrap();
    let request =
        Outbound { timeout: Duration::from_millis(50), ..get("http://a.test/".to_owned()) };
    assert_eq!(send(&egress, request).await, Err(EgressError::Timeout));
}
