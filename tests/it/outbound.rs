//! Requests of formulas to other hosts (decisions §6), by a formula that is built without the SDK.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::binary::eventually;
use crate::support::server::Setup;
use crate::support::upstream::Upstream;
use crate::support::{Answer, TestServer, guests};

/// A server, the host that its one formula may reach, and the path of that formula's reactor.
pub struct World {
    pub server: TestServer,
    pub upstream: Upstream,
    pub path: String,
}

impl World {
    /// A server that may reach this machine, and a formula that may reach the upstream server.
    pub async fn new() -> Self {
        let setup = Setup { allow_private_networks: true, ..Setup::default() };
        let upstream = Upstream::start().await;
        let allowed = vec![upstream.address.to_string()];
        Self::with(setup, upstream, json!(allowed)).await
    }

    async fn with(setup: Setup, upstream: Upstream, allowed_hosts: Value) -> Self {
        let server = TestServer::start_with(setup).await;
        let members = json!({ "allowed_hosts": allowed_hosts });
        let formula = guests::formula(&server, "fetch", members).await;
        let reactor = guests::reactor(&server, &formula, json!({})).await;
        Self { server, upstream, path: format!("/reactors/{reactor}/react") }
    }

    async fn react(&self, args: Value) -> Answer {
        self.server.private.post(&self.path, json!({ "args": args })).await
    }

    /// What the formula saw.
    async fn fetch(&self, args: Value) -> Value {
        self.react(args).await.expect(200)["raw"].clone()
    }

    async fn get(&self, path: &str) -> Value {
        self.fetch(json!({ "url": self.upstream.url(path) })).await
    }
}

fn header<'a>(headers: &'a Value, name: &str) -> Vec<&'a str> {
    let pairs = headers.as_array().unwrap().iter().filter(|pair| pair[0] == name);
    pairs.map(|pair| pair[1].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_its_answer() {
    let world = World::new().await;
    let seen = world
        .fetch(json!({
            "method": "POST", "url": world.upstream.url("/echo?a=b#c"), "body": "{\"é\": 1}",
            "headers": [["Content-Type", "application/json"], ["X-One", "1"], ["X-One", "2"]],
        }))
        .await;
    assert_eq!(seen["status"], 202, "{seen}");
    assert_eq!(header(&seen["headers"], "x-answer"), ["yes"]);
    assert_eq!(header(&seen["headers"], "set-cookie"), ["a=b"]);
    let echoed: Value = serde_json::from_str(seen["body"].as_str().unwrap()).unwrap();
    assert_eq!((&echoed["method"], &echoed["uri"]), (&json!("POST"), &json!("/echo?a=b")));
    assert_eq!(echoed["body"], "{\"é\": 1}");
    assert_eq!(header(&echoed["headers"], "content-type"), ["application/json"]);
    assert_eq!(header(&echoed["headers"], "x-one"), ["1", "2"]);
    assert_eq!(header(&echoed["headers"], "host"), [world.upstream.address.to_string()]);
    // Nothing of the server's or of an answer before.
    for name in ["cookie", "svc-api-key", "authorization", "referer", "svc-trace-id"] {
        assert!(header(&echoed["headers"], name).is_empty(), "{name}");
    }
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let url = world.upstream.url("/echo");
        let seen = world.fetch(json!({ "method": method, "url": url })).await;
        let echoed: Value = serde_json::from_str(seen["body"].as_str().unwrap()).unwrap();
        assert_eq!((&echoed["method"], &echoed["body_bytes"]), (&json!(method), &json!(0)));
        assert!(header(&echoed["headers"], "cookie").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_up_to_their_bound_both_ways() {
    const MOST: usize = 4 << 20;
    let world = World::new().await;
    let send = async |bytes: usize| {
        let url = world.upstream.url("/bytes/3");
        world.fetch(json!({ "method": "PUT", "url": url, "body_bytes": bytes })).await
    };
    assert_eq!(send(MOST).await["body_bytes"], 3);
    assert_eq!(send(MOST + 1).await["error"], "too-large");
    // What would fill the host's memory ends the run.
    let url = world.upstream.url("/bytes/3");
    let flood = world.react(json!({ "method": "PUT", "url": url, "body_bytes": 3 * MOST })).await;
    assert!(flood.expect(500)["detail"].as_str().unwrap().contains("too large"));

    assert_eq!(world.get(&format!("/bytes/{MOST}")).await["body_bytes"], MOST);
    for path in [format!("/bytes/{}", MOST + 1), "/headers/101".to_owned()] {
        assert_eq!(world.get(&path).await["error"], "too-large", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects() {
    let world = World::new().await;
    let follow = async |path: &str, redirects: u8| {
        let headers = json!([["Authorization", "Bearer s3cret"]]);
        let url = world.upstream.url(path);
        world.fetch(json!({ "url": url, "redirects": redirects, "headers": headers })).await
    };
    let none = follow("/redirects/2", 0).await;
    assert_eq!((&none["status"], &none["body"]), (&json!(302), &json!("this way")));
    assert_eq!(header(&none["headers"], "location"), ["/redirects/1"]);
    assert_eq!(follow("/redirects/2", 1).await["status"], 302);
    assert_eq!(follow("/redirects/2", 2).await["body"], "arrived");
    assert_eq!(follow("/redirects/11", 10).await["status"], 302);
    assert_eq!(follow("/redirects/1", 11).await["error"], "invalid");

    // To a host that the formula does not name, although it is the same machine.
    let other = Upstream::start().await;
    let before = world.upstream.seen().len();
    for to in
        [other.url("/echo"), format!("http://localhost:{}/echo", world.upstream.address.port())]
    {
        let denied = follow(&format!("/to/{to}"), 3).await;
        assert_eq!(denied["error"], "denied", "{to}: {denied}");
        assert!(denied["reason"].as_str().unwrap().contains("redirect"), "{denied}");
    }
    assert_eq!((world.upstream.seen().len() - before, other.seen().len()), (2, 0));
    for to in ["ftp://127.0.0.1/", "http://user:pass@127.0.0.1/"] {
        assert_eq!(follow(&format!("/to/{to}"), 3).await["error"], "unreachable", "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_another_host_leaves_credentials_behind() {
    let (upstream, other) = (Upstream::start().await, Upstream::start().await);
    let setup = Setup { allow_private_networks: true, ..Setup::default() };
    let allowed = json!([upstream.address.to_string(), other.address.to_string()]);
    let world = World::with(setup, upstream, allowed).await;
    let url = world.upstream.url(&format!("/to/{}", other.url("/echo")));
    let headers =
        json!([["Authorization", "Bearer s3cret"], ["Cookie", "s3cret"], ["X-Key", "s3cret"]]);
    let seen = world.fetch(json!({ "url": url, "redirects": 1, "headers": headers })).await;
    assert_eq!(seen["status"], 202, "{seen}");
    let (first, second) = (world.upstream.seen().concat(), other.seen().concat());
    assert_eq!(first.matches("s3cret").count(), 3, "{first}");
    assert!(second.starts_with("GET /echo") && !second.contains("s3cret"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn time() {
    let setup =
        Setup { allow_private_networks: true, react_timeout_ms: 15_000, ..Setup::default() };
    let upstream = Upstream::start().await;
    let allowed = json!([upstream.address.to_string()]);
    let world = World::with(setup, upstream, allowed).await;
    world.get("/echo").await;
    for path in ["/never", "/endless"] {
        let url = world.upstream.url(path);
        // The formula's own time: it goes on and tells.
        let began = Instant::now();
        let seen = world.fetch(json!({ "url": url, "timeout_ms": 200 })).await;
        assert_eq!(seen["error"], "timeout", "{path}");
        assert!(began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
        // The run's: whatever the formula says.
        let began = Instant::now();
        let react = async |timeout_ms: Value| {
            let late = world.react(json!({ "url": url, "timeout_ms": timeout_ms })).await;
            (late, began.elapsed())
        };
        let both = tokio::join!(react(Value::Null), react(json!(u32::MAX)));
        for (late, took) in [both.0, both.1] {
            // Whether the request or the run is told first is a matter of luck.
            match late.status.as_u16() {
                504 => assert_eq!(late.json()["title"], "Reactor Timeout"),
                _ => assert_eq!(late.expect(200)["raw"]["error"], "timeout"),
            }
            assert!((14_900..120_000).contains(&took.as_millis()), "{path}: {took:?}");
        }
    }
    assert_eq!(world.get("/bytes/1").await["body_bytes"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_are_not_there() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = Setup { allow_private_networks: true, ..Setup::default() };
    let world = World::with(setup, Upstream::start().await, json!(["*"])).await;
    for url in [format!("http://{closed}/"), "http://no-such-host.invalid/".to_owned()] {
        let seen = world.fetch(json!({ "url": url })).await;
        assert_eq!(seen["error"], "unreachable", "{url}: {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_the_formula_does_not_name() {
    let upstream = Upstream::start().await;
    let address = upstream.address;
    let setup = || Setup { allow_private_networks: true, ..Setup::default() };
    let world = World::with(setup(), upstream, json!([])).await;
    let denied = world.get("/echo").await;
    assert_eq!(denied["error"], "denied");
    assert_eq!(denied["reason"], "the formula's allowed_hosts name no host");
    assert!(world.upstream.seen().is_empty());
    // The scheme's usual port, another port, names that end or begin alike.
    let allowed = json!(["127.0.0.1", "127.0.0.1:1", "localhost", "*.localhost"]);
    let world = World::with(setup(), Upstream::start().await, allowed).await;
    for host in [
        address.to_string(),
        world.upstream.address.to_string(),
        format!("localhost:{}", address.port()),
    ] {
        let seen = world.fetch(json!({ "url": format!("http://{host}/echo?s3cret") })).await;
        assert_eq!(seen["error"], "denied", "{host}");
        assert!(!seen.to_string().contains("s3cret"), "{seen}");
    }
    assert!(world.upstream.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_opens_single_networks() {
    let allow_networks = vec!["127.0.0.1/32".parse().unwrap(), "0.0.0.0/0".parse().unwrap()];
    let setup = |allow_networks| Setup { allow_networks, ..Setup::default() };
    let upstream = Upstream::start().await;
    let world = World::with(setup(vec![allow_networks[0]]), upstream, json!(["*"])).await;
    let port = world.upstream.address.port();
    assert_eq!(world.get("/echo").await["status"], 202);
    for host in ["127.0.0.2", "[::1]", "10.0.0.1", "169.254.169.254"] {
        let url = format!("http://{host}:{port}/echo");
        let seen = world.fetch(json!({ "url": url, "timeout_ms": 5_000 })).await;
        assert_eq!(seen["error"], "denied", "{host}: {seen}");
    }
    assert_eq!(world.upstream.seen().len(), 1);
    // A network around everything does not open what tells a cloud's credentials.
    let world = World::with(setup(allow_networks), Upstream::start().await, json!(["*"])).await;
    assert_eq!(world.get("/echo").await["status"], 202);
    let metadata = json!({ "url": "http://169.254.169.254/latest", "timeout_ms": 5_000 });
    assert_eq!(world.fetch(metadata).await["error"], "denied");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_closed_unless_the_operator_opens_them() {
    let world = World::with(Setup::default(), Upstream::start().await, json!(["*"])).await;
    let port = world.upstream.address.port();
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "017700000001",
        "2130706433",
        "0.0.0.0",
        "0",
        "%31%32%37.0.0.1",
        "\u{ff11}27.0.0.1",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ] {
        let url = format!("http://{host}:{port}/echo");
        let seen = world.fetch(json!({ "url": url, "timeout_ms": 5_000 })).await;
        assert_eq!(seen["error"], "denied", "{host}: {seen}");
    }
    assert!(world.upstream.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request() {
    let world = World::new().await;
    let url = world.upstream.url("/echo");
    for args in [
        json!({ "url": "" }),
        json!({ "url": "/echo" }),
        json!({ "url": "ftp://127.0.0.1/" }),
        json!({ "url": "file:///etc/passwd" }),
        json!({ "url": format!("http://s3cret:s3cret@{}/echo", world.upstream.address) }),
        json!({ "url": format!("{url}?{}", "s3cret".repeat(2_000)) }),
        json!({ "url": url, "method": "get" }),
        json!({ "url": url, "method": "CONNECT" }),
        json!({ "url": url, "method": "GET / HTTP/1.1\r\nHost: s3cret\r\n\r\nGET" }),
        json!({ "url": url, "headers": [["Host", "s3cret"]] }),
        json!({ "url": url, "headers": [["Content-Length", "0"]], "body": "x" }),
        json!({ "url": url, "headers": [["Transfer-Encoding", "chunked"]] }),
        json!({ "url": url, "headers": [["Connection", "upgrade"]] }),
        json!({ "url": url, "headers": [["X-A", "s3cret\r\nX-B: c"]] }),
        json!({ "url": url, "headers": [["X-A: s3cret\r\nX-B", "c"]] }),
        json!({ "url": url, "headers": vec![["x", "y"]; 101] }),
        json!({ "url": url, "headers": [["x", "s3cret".repeat(20_000)]] }),
    ] {
        let seen = world.fetch(args.clone()).await;
        assert_eq!(seen["error"], "invalid", "{args}: {seen}");
        assert!(!seen.to_string().contains("s3cret"), "{seen}");
    }
    assert!(world.upstream.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_invocation_sends_so_many_and_no_more() {
    let world = World::new().await;
    let url = world.upstream.url("/bytes/1");
    let seen = world.fetch(json!({ "url": url, "times": 1_000 })).await;
    assert_eq!((&seen["error"], &seen["made"]), (&json!("denied"), &json!(101)), "{seen}");
    assert_eq!(world.upstream.seen().len(), 100);
    // The next one has its own.
    assert_eq!(world.fetch(json!({ "url": url, "times": 100 })).await["made"], 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let read = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        let mut request = Vec::new();
        let _ = stream.read_to_end(&mut request).and_then(|_| stream.flush());
        request
    });
    let setup = Setup { allow_private_networks: true, ..Setup::default() };
    let world = World::with(setup, Upstream::start().await, json!(["*"])).await;
    let seen = world.fetch(json!({ "url": format!("https://localhost:{port}/s3cret") })).await;
    assert_eq!(seen["error"], "unreachable", "{seen}");
    assert!(seen["reason"].as_str().unwrap().contains("not trusted"), "{seen}");
    assert!(read.join().unwrap().is_empty(), "nothing was sent");
}

/// What the one leaves on a connection, at a host that reads messages otherwise than they are meant, is not the other's.
#[tokio::test(flavor = "multi_thread")]
async fn a_formula_shares_no_connection_with_what_tells_of_results() {
    let seen: Arc<Mutex<Vec<(Method, SocketAddr)>>> = Arc::default();
    let note = {
        let seen = Arc::clone(&seen);
        async move |ConnectInfo(from): ConnectInfo<SocketAddr>, method: Method, _: Bytes| {
            seen.lock().push((method, from));
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let routes = Router::new().fallback(note);
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    let world = World::with(Setup::open(), Upstream::start().await, json!([address])).await;
    let url = format!("http://{address}/");
    // Each comes at once after the one before, so that its connection is there to be taken.
    for run in 1..=3 {
        let body = json!({ "args": { "url": url }, "callback_url": url });
        world.server.private.post(&world.path, body).await.expect(202);
        eventually("webhook", || (seen.lock().len() >= 2 * run).then_some(())).await;
    }
    let seen = seen.lock();
    let by = |method: &Method| -> Vec<SocketAddr> {
        seen.iter().filter(|(one, _)| one == method).map(|(_, from)| *from).collect()
    };
    let (fetched, told) = (by(&Method::GET), by(&Method::POST));
    assert_eq!((fetched.len(), told.len()), (3, 3));
    assert!(fetched.iter().all(|from| !told.contains(from)), "{fetched:?} {told:?}");
}
