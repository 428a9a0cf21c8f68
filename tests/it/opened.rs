//! What is read for requests: tokens count as much as they take in memory, up to the end of what is done with them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::receiver::{Hook, Receiver};
use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer, guests};

const MIB: usize = 1 << 20;

/// A server where what is read for one tenant's requests may take half of so much.
async fn with_room(mib: usize) -> TestServer {
    TestServer::start_with(Setup { opened_bytes_max: mib * MIB, ..Setup::default() }).await
}

/// Data that takes about so much as text and as it is read.
fn text(kib: usize) -> Value {
    json!("x".repeat(kib << 10))
}

/// Data that takes dozens of times its text once it is read.
fn zeros(count: usize) -> Value {
    json!(vec![0; count])
}

fn assert_refused(answer: &Answer) {
    let problem = answer.expect(429);
    assert_eq!(answer.headers["retry-after"], "1");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("holds all the memory that it may"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_tokens_shows_each_as_it_is() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    let mut made = Vec::new();
    for number in 0..5 {
        let data = json!({"number": number, "text": text(200), "many": zeros(20_000)});
        let body = json!({"type": "token", "data": data, "mask": {"number": "{{ data.number }}"}});
        made.push(client.post("/tokens", body).await.expect(201));
    }
    made.reverse();
    for size in [1, 3, 5, 100] {
        let page = client.get(&format!("/tokens?size={size}")).await.expect(200);
        let shown = page["data"].as_array().unwrap();
        assert_eq!(shown.as_slice(), &made[..size.min(5)]);
        let body = json!({"query": "type:token", "size": size});
        assert_eq!(client.post("/tokens/search", body).await.expect(200), page);
    }
    let reads = server.management.get("/logs?entity_type=token&size=100").await.expect(200);
    // Each token of a page is an entry: five made, twice 1, 3, 5 and 5 shown.
    assert_eq!(reads["pagination"]["total_items"], 5 + 2 * 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_finds_no_room_is_refused_and_smaller_ones_go_on() {
    let server = with_room(32).await;
    for _ in 0..6 {
        server.private.token("token", text(1_000)).await;
    }
    // What is given back is there again.
    for _ in 0..10 {
        assert_refused(&server.private.get("/tokens?size=6").await);
        assert_refused(&server.private.post("/tokens/search", json!({"size": 6})).await);
        let page = server.private.get("/tokens?size=3").await.expect(200);
        assert_eq!(page["data"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_counts_until_it_is_read() {
    // One of these takes nearly half: none finds room beside one that is written and not read.
    let server = with_room(112).await;
    let client = server.revealing().await;
    for _ in 0..12 {
        client.token("token", text(1_000)).await;
    }
    let all = "/tokens?size=12";
    client.get(all).await.expect(200);
    let mut unread = small_socket(&server).await;
    let key = client.key.as_deref().unwrap();
    let head = format!("GET {all} HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\n\r\n");
    unread.write_all(head.as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    unread.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    assert_refused(&client.get(all).await);
    // Another tenant has its own half.
    let other = server.other_tenant().await;
    let rights = ["token:create", "token:read"];
    let rule =
        json!({"priority": 1, "container": "/", "transform": "reveal", "permissions": rights});
    let body = json!({"name": "a", "type": "private", "permissions": rights, "rules": [rule]});
    let made = other.post("/applications", body).await.expect(201);
    let other = server.client(made["key"].as_str().unwrap());
    for _ in 0..12 {
        other.token("token", text(1_000)).await;
    }
    other.get(all).await.expect(200);
    assert_refused(&client.get(all).await);
    drop(unread);
    let began = Instant::now();
    while client.get(all).await.status != 200 {
        assert!(began.elapsed() < Duration::from_mins(2), "there is no room again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bytes of each answer that nobody takes, of which the system takes less by itself. Five are more than half of 32 MiB.
const UNREAD_BYTES: usize = 4_100_000;

/// Runs whose answers are not taken, with the status of each.
async fn unread(server: &TestServer, reactor: &str, statuses: &[u16]) -> Vec<TcpStream> {
    let args = json!({"behaviour": "output", "bytes": UNREAD_BYTES});
    let body = json!({"args": args}).to_string();
    let head = format!(
        "POST /reactors/{reactor}/react HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {}\r\n\
        Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.private.key.as_deref().unwrap(),
        body.len()
    );
    let mut unread = Vec::new();
    for status in statuses {
        let mut socket = small_socket(server).await;
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body.as_bytes()).await.unwrap();
        let mut begun = [0; 12];
        socket.read_exact(&mut begun).await.unwrap();
        assert_eq!(begun, format!("HTTP/1.1 {status}").as_bytes());
        unread.push(socket);
    }
    unread
}

/// Asks until it is answered as wanted.
async fn until(what: &str, mut asked: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !asked().await {
        assert!(began.elapsed() < Duration::from_mins(2), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_hold_up_their_tenant_alone() {
    let server = with_room(32).await;
    let other = server.other_tenant().await;
    let reactor = guests::echo_reactor(&server).await;
    let client = server.revealing().await;
    // What was carried out is answered, even when that comes to more than there is.
    let unread = unread(&server, &reactor, &[200, 200, 200, 200, 200, 429]).await;
    // Whatever its tenant asks for next, but for who may end the key that all this came with.
    assert_refused(&client.get("/tokens?size=1").await);
    server.management.get("/logs").await.expect(200);
    other.get("/logs").await.expect(200);
    drop(unread);
    until("there is room again", async || client.get("/tokens?size=1").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_for_one_token_or_one_change_counts_too() {
    let server = with_room(32).await;
    let reactor = guests::echo_reactor(&server).await;
    let client = server.revealing().await;
    let body = json!({"type": "token", "data": zeros(60_000), "deduplicate_token": true});
    let large = client.post("/tokens", body.clone()).await.expect(201)["id"].clone();
    let path = format!("/tokens/{}", large.as_str().unwrap());
    let small = format!("/tokens/{}", client.token("token", text(10)).await);
    let all = async || {
        [
            client.get(&path).await,
            client.patch(&path, json!({"metadata": {"a": "b"}})).await,
            client.post("/tokens", body.clone()).await,
        ]
    };
    for answer in all().await {
        assert_eq!(answer.expect(200)["id"], large);
    }
    let unread = unread(&server, &reactor, &[200; 4]).await;
    for answer in all().await {
        assert_refused(&answer);
    }
    client.get(&small).await.expect(200);
    drop(unread);
    until("there is room again", async || client.get(&path).await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_webhooks_without_memory_wait_and_smaller_ones_go_on() {
    let setup = Setup { opened_bytes_max: 32 * MIB, ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let queue = async |args: Value| {
        let body = json!({"args": args, "callback_url": receiver.url()});
        let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
        queued.expect(202);
        queued.headers["location"].to_str().unwrap().to_owned()
    };
    let runs = async || {
        let page = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
        page.expect(200)["pagination"]["total_items"].as_u64().unwrap()
    };
    let unread = unread(&server, &reactor, &[200; 4]).await;
    // There is room to check it, and not to read it from the store and run it.
    let large = queue(json!({"a": zeros(16_000)})).await;
    let told = queue(json!({"behaviour": "output", "bytes": UNREAD_BYTES})).await;
    let small = queue(json!({"a": 1})).await;
    let is_of =
        |hook: &Hook, place: &str| place.ends_with(hook.headers["webhook-id"].to_str().unwrap());
    let of_small = async || receiver.seen().iter().any(|hook| is_of(hook, &small));
    until("the small one is told", of_small).await;
    // The one whose result is long has run and waits to be told, and the one with long arguments waits to run.
    until("one more has run", async || runs().await == 6).await;
    assert_eq!(receiver.seen().len(), 1);
    drop(unread);
    until("the large one has run", async || runs().await == 7).await;
    until("all are told", async || {
        server.clock.advance_ms(31_000);
        receiver.seen().len() >= 3
    })
    .await;
    for place in [large, told, small] {
        let delivered = async || {
            let result = server.private.get(&place).await.expect(200);
            assert!(result["delivery"]["attempts"].as_u64() <= Some(1), "{}", result["delivery"]);
            result["delivery"]["status"] == "delivered"
        };
        until("each was tried once", delivered).await;
    }
}

/// A connection that takes little by itself.
async fn small_socket(server: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(server.address()).await.unwrap()
}

/// References to tokens, in places of their own.
fn references(ids: &[String]) -> Value {
    ids.iter().map(|id| (id.clone(), json!(format!("{{{{ {id} }}}}")))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn references_count_what_their_tokens_take_once_they_are_read() {
    let server = with_room(64).await;
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let make = async |data: Value| {
        vec![
            server.private.token("token", data.clone()).await,
            server.private.token("token", data).await,
        ]
    };
    let (small, large) = (make(text(500)).await, make(zeros(100_000)).await);
    let (revealing, private): (&Client, &Client) = (&server.revealing().await, &server.private);
    for _ in 0..3 {
        assert_refused(&revealing.post("/detokenize", references(&large)).await);
        assert_refused(&private.post(&path, json!({"args": references(&large)})).await);
        revealing.post("/detokenize", references(&large[..1])).await.expect(200);
        revealing.post("/detokenize", references(&small)).await.expect(200);
        private.post(&path, json!({"args": references(&small)})).await.expect(200);
    }
    // One that is referred to often counts for each of its places.
    let often: Value =
        (0..4).map(|n| (format!("n{n}"), json!(format!("{{{{ {} }}}}", large[0])))).collect();
    assert_refused(&revealing.post("/detokenize", often).await);
    // However many others there are, of which faults name but a part.
    let (light, heavy) = (make(json!(1)).await, make(zeros(2_000)).await);
    let places = [(&light[0], 120), (&heavy[0], 300)];
    let places = places.map(|(id, count)| vec![json!(format!("{{{{ {id} }}}}")); count]);
    let all = places.concat();
    assert_refused(&revealing.post("/detokenize", json!(all)).await);
}
