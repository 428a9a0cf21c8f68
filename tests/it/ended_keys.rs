//! Keys that end while a request with them is under way: what is done is done by who may at that time (interface §4.4,
//! decisions §2, §7).

use std::time::Duration;

use serde_json::{Value, json};
use tokamak::clock::Clock as _;
use tokamak::runtime::CompileBounds;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::binary::{compiling, eventually};
use crate::support::receiver::Receiver;
use crate::support::server::{Setup, runtime};
use crate::support::{Client, TestServer, guests};

/// An application of the test's, by its path, with its client.
struct Holder {
    path: String,
    client: Client,
}

async fn holder(server: &TestServer, body: Value) -> Holder {
    let made = server.management.post("/applications", body).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    Holder { path, client: server.client(made["key"].as_str().unwrap()) }
}

/// Begins a POST, and leaves out the last byte of its body.
async fn begun(server: &TestServer, client: &Client, path: &str, body: &str) -> TcpStream {
    let key = client.key.as_deref().unwrap();
    let length = body.len();
    let more = if path.starts_with("/applications") { "SVC-IDEMPOTENCY-KEY: k\r\n" } else { "" };
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {key}\r\nConnection: close\r\n{more}\
         Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    // It is known by now whose request this is.
    let mut early = [0; 12];
    connection.read_exact(&mut early).await.unwrap();
    assert_eq!(&early, b"HTTP/1.1 100");
    connection.write_all(&body.as_bytes()[..length - 1]).await.unwrap();
    connection
}

/// Sends the last byte; gives the answer.
async fn ended(mut connection: TcpStream) -> String {
    connection.write_all(b"}").await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer.trim_start().trim_start_matches("Continue\r\n\r\n").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_that_has_ended_does_what_its_request_asked_for_before() {
    let server = TestServer::start().await;
    let token = server.private.token("token", json!("plain-secret")).await;
    let detokenize = json!({ "v": format!("{{{{ {token} }}}}") }).to_string();
    let application = json!({
        "name": "successor", "type": "management", "permissions": ["application:create"],
    });
    let reveal = json!({"description": "", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:read"]});
    let reads = json!({"name": "a", "type": "private", "rules": [reveal]});
    let manages = json!({"name": "a", "type": "management", "permissions": ["application:create"]});
    let detokenizes = ("/detokenize", detokenize, reads);
    let makes = ("/applications", application.to_string(), manages);
    for (path, body, rights) in [detokenizes, makes] {
        for (what, status) in [
            ("nothing", if path == "/detokenize" { 200 } else { 201 }),
            // Somebody else's has changed.
            ("other", if path == "/detokenize" { 200 } else { 201 }),
            ("key", 401),
            ("deleted", 401),
            ("expired", 401),
            ("narrowed", 429),
        ] {
            let mut rights = rights.clone();
            if what == "expired" {
                let end_ms = i64::try_from(server.clock.now_ms() + 60_000).unwrap();
                let end = chrono::DateTime::from_timestamp_millis(end_ms).unwrap();
                rights["expires_at"] = json!(end.to_rfc3339());
            }
            let Holder { path: own, client } = holder(&server, rights.clone()).await;
            let connection = begun(&server, &client, path, &body).await;
            match what {
                "other" => {
                    holder(&server, rights).await;
                }
                "key" => {
                    let path = format!("{own}/regenerate");
                    server.management.post(&path, json!({})).await.expect(200);
                }
                "deleted" => {
                    server.management.delete(&own).await.expect(204);
                }
                "expired" => server.clock.advance_ms(60_000),
                "narrowed" => {
                    let managing = rights["type"] == "management";
                    let other = if managing { "application:read" } else { "token:create" };
                    let other = json!({"name": "a", "permissions": [other]});
                    server.management.put(&own, other).await.expect(200);
                }
                _ => {}
            }
            let answer = ended(connection).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {what}: {answer}");
            let is_done = answer.contains("plain-secret") || answer.contains("successor");
            assert_eq!(is_done, status < 300, "{path} {what}: {answer}");
        }
    }
    let made = server.management.get("/applications?size=100").await.expect(200);
    let named = |one: &&Value| one["name"] == "successor";
    assert_eq!(made["data"].as_array().unwrap().iter().filter(named).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_is_erased_meanwhile_is_told_as_any_key_that_has_ended() {
    let server = TestServer::start().await;
    let other = server.other_tenant().await;
    let tenant = other.get("/applications/key").await.expect(200)["tenant_id"].clone();
    let body = json!({"name": "a", "type": "private", "permissions": ["token:create"]});
    let made = other.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    let token = json!({"type": "token", "data": "x"}).to_string();
    let connection = begun(&server, &client, "/tokens", &token).await;
    server.vault.erase_tenant(tenant.as_str().unwrap().parse().unwrap()).await.unwrap();
    let answer = ended(connection).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_deleted_while_a_component_is_compiled_keeps_no_formula() {
    let bounds = CompileBounds { cpu_seconds: 63, ..CompileBounds::default() };
    let runtime = Some(runtime(2, bounds, None));
    let server = TestServer::start_with(Setup { runtime, ..Setup::default() }).await;
    let rights = json!({"name": "a", "type": "management", "permissions": ["reactor:create"]});
    let Holder { path, client } = holder(&server, rights).await;
    let upload = guests::upload(guests::component("probe"));
    let asked = tokio::spawn(async move { client.post("/reactor-formulas", upload).await });
    let at_work = || compiling(std::process::id(), "--cpu-seconds 63").pop();
    eventually("process that compiles", at_work).await;
    server.management.delete(&path).await.expect(204);
    asked.await.unwrap().expect(401);
    let found = server.management.get("/reactor-formulas?name=test").await.expect(200);
    assert_eq!(found["pagination"]["total_items"], 0);
}

/// A server with a reactor that takes a while, and then makes a token with the rights of who asked for it.
struct Slow {
    server: TestServer,
    receiver: Receiver,
    reactor: String,
}

impl Slow {
    async fn start() -> Self {
        let server = TestServer::start_with(Setup::open()).await;
        let code = "module.exports = async () => {
            await new Promise((done) => setTimeout(done, 1500));
            return { tokenize: 'made' };
        };";
        let formula = json!({"name": "slow", "code": code});
        let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
        let id = formula["id"].as_str().unwrap();
        let reactor = guests::reactor(&server, id, json!({})).await;
        Self { server, receiver: Receiver::start().await, reactor }
    }

    /// Queues a run; gives the place of its result once it has begun.
    async fn begun(&self, client: &Client) -> String {
        let body = json!({"args": {}, "callback_url": self.receiver.url()});
        let queued = client.post(&format!("/reactors/{}/react", self.reactor), body).await;
        queued.expect(202);
        let place = queued.headers["location"].to_str().unwrap().to_owned();
        self.once_not(&place, "queued").await;
        place
    }

    async fn once_not(&self, place: &str, status: &str) -> Value {
        loop {
            let result = self.server.private.get(place).await.expect(200);
            if result["status"] != status {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Takes something from the application of this path.
    async fn take(&self, what: &str, path: &str) {
        match what {
            "rights" => {
                let less = json!({"name": "a", "permissions": ["token:use"]});
                self.server.management.put(path, less).await.expect(200);
            }
            "all" => {
                self.server.management.delete(path).await.expect(204);
            }
            "key" => {
                let path = format!("{path}/regenerate");
                self.server.management.post(&path, json!({})).await.expect(200);
            }
            _ => {}
        }
    }

    async fn assert_ends(&self, place: &str, status: u16, case: &str) {
        let ended = self.once_not(place, "running").await;
        match status {
            200 => assert!(ended["response"]["tokens"].is_string(), "{case}: {ended}"),
            _ => assert_eq!(ended["error"]["status"], status, "{case}: {ended}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_an_application_makes_tokens_with_the_rights_that_its_caller_has_then() {
    let slow = Slow::start().await;
    // What ends a key ends nothing that was asked for with it.
    for (what, status) in [("nothing", 200), ("rights", 403), ("all", 401), ("key", 200)] {
        let permissions = json!(["token:use", "token:create"]);
        let body = json!({"name": "a", "type": "private", "permissions": permissions});
        let Holder { path, client } = holder(&slow.server, body).await;
        let place = slow.begun(&client).await;
        slow.take(what, &path).await;
        slow.assert_ends(&place, status, what).await;
    }
}

/// What ends by its time may finish what it began, and no more than it could do then.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_from_who_asked_for_a_run_is_not_given_back_by_its_end() {
    let slow = Slow::start().await;
    let server = &slow.server;
    for (whose, what, status) in [
        ("application", "nothing", 200),
        ("application", "swept", 200),
        ("application", "rights", 403),
        ("application", "all", 401),
        ("session", "nothing", 200),
        ("session", "swept", 200),
        ("session", "rights", 403),
        ("session", "all", 401),
        ("session", "key", 401),
    ] {
        let end_ms = i64::try_from(server.clock.now_ms() + 120_000).unwrap();
        let end = chrono::DateTime::from_timestamp_millis(end_ms).unwrap().to_rfc3339();
        let permissions = json!(["token:use", "token:create"]);
        let mut body = json!({"name": "a", "type": "private", "permissions": permissions});
        if whose == "application" {
            body["expires_at"] = json!(end);
        }
        let Holder { path, mut client } = holder(server, body).await;
        if whose == "session" {
            client = session(server, &client, &json!({"permissions": permissions})).await;
        }
        let place = slow.begun(&client).await;
        slow.take(what, &path).await;
        // Past the end of the application, and of the session.
        server.clock.advance_ms(200_000);
        if what == "swept" {
            server.vault.sweep().await.unwrap();
        }
        client.get("/applications/key").await.expect(401);
        slow.assert_ends(&place, status, &format!("{whose} {what}")).await;
    }
    // Some minutes later nothing is left of those that ended.
    server.clock.advance_ms(500_000);
    server.vault.sweep().await.unwrap();
    let logs = server.management.get("/logs?entity_type=session&size=100").await.expect(200);
    let entries = logs["data"].as_array().unwrap().iter();
    assert_eq!(entries.filter(|entry| entry["message"] == "Session expired").count(), 5);
}

/// A session that this client grants some rights.
async fn session(server: &TestServer, grantor: &Client, rights: &Value) -> Client {
    let public = server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let mut grant = rights.clone();
    grant["nonce"] = opened["nonce"].clone();
    grantor.post("/sessions/authorize", grant).await.expect(200);
    server.client(opened["session_key"].as_str().unwrap())
}
