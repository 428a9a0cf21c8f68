//! What came of a run belongs to those who may use its tokens where these lie now: moving one takes it away from some callers
//! and gives it to others (interface §4.5, §5; decisions §2, §7).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tokamak::clock::Clock as _;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::receiver::Receiver;
use crate::support::scripts::reactor;
use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer, guests};

/// A server with a token in `/from/` and callers of several containers.
struct World {
    server: TestServer,
    reactor: String,
    receiver: Receiver,
    /// May do everything everywhere.
    owner: Client,
    /// May use what lies in one of two containers.
    from: Client,
    to: Client,
}

const SECRET: &str = "moved-plaintext";
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl World {
    async fn start() -> Self {
        let server = TestServer::start_with(Setup::open()).await;
        let rule = |container: &str, permissions: &[&str]| {
            json!([{"description": "", "priority": 1, "container": container,
                "transform": "reveal", "permissions": permissions}])
        };
        let all = ["token:create", "token:read", "token:update", "token:delete", "token:use"];
        let reactor = guests::echo_reactor(&server).await;
        let owner = server.application("private", &[], rule("/", &all)).await;
        let from = server.application("private", &[], rule("/from/", &["token:use"])).await;
        let to = server.application("private", &[], rule("/to/", &["token:use"])).await;
        let receiver = Receiver::start().await;
        Self { server, reactor, receiver, owner, from, to }
    }

    async fn make(&self, id: &str, containers: Value, data: &str) {
        let body = json!({"id": id, "type": "token", "data": data, "containers": containers});
        self.owner.post("/tokens", body).await.expect(201);
    }

    async fn put_into(&self, id: &str, containers: Value) {
        let patch = json!({"containers": containers});
        self.owner.patch(&format!("/tokens/{id}"), patch).await.expect(200);
    }

    /// Has a run of its own end, and gives where its result is.
    async fn run(&self, id: &str) -> String {
        let args = json!({"behaviour": "echo", "seen": format!("{{{{ {id} }}}}")});
        let body = json!({"args": args, "callback_url": self.receiver.url()});
        let path = format!("/reactors/{}/react", self.reactor);
        let place = self.queue(&path, body).await;
        let began = Instant::now();
        while self.owner.get(&place).await.expect(200)["status"] != "completed" {
            assert!(began.elapsed() < Duration::from_mins(1), "{place}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        place
    }

    /// Asks for a run, and gives where its result will be.
    async fn queue(&self, path: &str, body: Value) -> String {
        let queued = self.owner.post(path, body).await;
        queued.expect(202);
        queued.headers["location"].to_str().unwrap().to_owned()
    }

    /// Which of the two may look at a result, and have it sent again; and that the others learn nothing.
    async fn may(&self, place: &str) -> (bool, bool) {
        let of = async |client: &Client| {
            let shown = client.get(place).await;
            let again = client.post(&format!("{place}/redeliver"), json!({})).await;
            let may = shown.status == 200;
            assert_eq!(again.status, if may { 202 } else { 403 }, "{}", again.text());
            for answer in [shown, again] {
                assert_eq!(answer.text().contains(SECRET), may, "{}", answer.text());
            }
            may
        };
        (of(&self.from).await, of(&self.to).await)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_goes_with_its_token() {
    let world = World::start().await;
    world.make("moves", json!(["/from/"]), SECRET).await;
    let place = world.run("moves").await;
    assert_eq!(world.may(&place).await, (true, false));
    world.put_into("moves", json!(["/to/"])).await;
    assert_eq!(world.may(&place).await, (false, true));
    // In several, each must be covered.
    world.put_into("moves", json!(["/to/", "/from/"])).await;
    assert_eq!(world.may(&place).await, (false, false));
    world.put_into("moves", json!(["/from/"])).await;
    assert_eq!(world.may(&place).await, (true, false));
    // Whoever may do everything everywhere is never kept from it.
    world.owner.get(&place).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_token_that_is_gone_stays_where_that_lay_last() {
    let world = World::start().await;
    world.make("goes", json!(["/from/"]), SECRET).await;
    let place = world.run("goes").await;
    world.owner.delete("/tokens/goes").await.expect(204);
    assert_eq!(world.may(&place).await, (true, false));
    // Another one of that id is not it, wherever it lies.
    world.server.clock.advance_ms(1);
    world.make("goes", json!(["/to/"]), "another").await;
    assert_eq!(world.may(&place).await, (true, false));
    // One that has ended is gone as well.
    world.make("ends", json!(["/from/"]), SECRET).await;
    let place = world.run("ends").await;
    let soon = world.server.clock.now_ms() + 1_000;
    let ends = chrono::DateTime::from_timestamp_millis(i64::try_from(soon).unwrap()).unwrap();
    let patch = json!({"containers": ["/to/"], "expires_at": ends.to_rfc3339()});
    world.owner.patch("/tokens/ends", patch).await.expect(200);
    assert_eq!(world.may(&place).await, (false, true));
    world.server.clock.advance_ms(2_000);
    assert_eq!(world.may(&place).await, (false, true));
    // Also once nothing of it is left.
    assert_eq!(world.server.vault.sweep().await.unwrap().0, 1);
    assert_eq!(world.may(&place).await, (false, true));
    // Whoever takes a token away from somebody, and then deletes it, has taken it away.
    world.make("moves", json!(["/from/"]), SECRET).await;
    let place = world.run("moves").await;
    world.put_into("moves", json!(["/to/"])).await;
    world.owner.delete("/tokens/moves").await.expect(204);
    world.server.clock.advance_ms(1);
    world.make("moves", json!(["/from/"]), "another").await;
    assert_eq!(world.may(&place).await, (false, true));
    // One of the same contents takes nothing of it along.
    world.make("stays", json!(["/from/"]), "the same").await;
    world.make("gives-way", json!(["/from/"]), SECRET).await;
    let place = world.run("gives-way").await;
    world.put_into("gives-way", json!(["/to/"])).await;
    let patch = json!({"data": "the same", "deduplicate_token": true});
    let shown = world.owner.patch("/tokens/gives-way", patch).await.expect(200);
    assert_eq!(shown["id"], "stays");
    world.owner.get("/tokens/gives-way").await.expect(404);
    assert_eq!(world.may(&place).await, (false, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_token_lay_last_is_known_as_long_as_a_result() {
    let world = World::start().await;
    world.make("goes", json!(["/from/"]), SECRET).await;
    let place = world.run("goes").await;
    world.put_into("goes", json!(["/to/"])).await;
    world.owner.delete("/tokens/goes").await.expect(204);
    world.server.clock.advance_ms(7 * DAY_MS - 60_000);
    world.server.vault.sweep().await.unwrap();
    assert_eq!(world.may(&place).await, (false, true));
}

/// A result is kept from its end on.
#[tokio::test(flavor = "multi_thread")]
async fn where_a_token_lay_last_is_known_after_a_run_that_ended_long_after_it_was_gone() {
    let world = World::start().await;
    world.make("goes", json!(["/from/"]), SECRET).await;
    let [begun, gone] = [Arc::new(Notify::new()), Arc::new(Notify::new())];
    let meet = {
        let (begun, gone) = (Arc::clone(&begun), Arc::clone(&gone));
        async move || {
            begun.notify_one();
            gone.notified().await;
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let routes = Router::new().route("/", get(meet));
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    let code = "module.exports = async ({ args }) => {
        await fetch(args.url);
        return { raw: args.seen };
    };";
    let path = reactor(&world.server, code, json!({"allowed_hosts": [address]}), json!({})).await;
    let args = json!({"url": format!("http://{address}/"), "seen": "{{ goes }}"});
    let body = json!({"args": args, "callback_url": world.receiver.url(), "timeout_ms": 60_000});
    let place = world.queue(&path, body).await;
    begun.notified().await;
    world.put_into("goes", json!(["/to/"])).await;
    world.owner.delete("/tokens/goes").await.expect(204);
    world.server.clock.advance_ms(6 * DAY_MS);
    gone.notify_one();
    // It has ended when it is told.
    world.receiver.wait(1).await;
    world.server.clock.advance_ms(6 * DAY_MS);
    world.server.vault.sweep().await.unwrap();
    assert_eq!(world.may(&place).await, (false, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_answer_goes_with_the_tokens_too() {
    let world = World::start().await;
    world.make("moves", json!(["/from/"]), SECRET).await;
    let path = format!("/reactors/{}/react", world.reactor);
    let react = async |client: &Client| -> Answer {
        let args = json!({"behaviour": "echo", "seen": "{{ moves }}"});
        let request = client.request(reqwest::Method::POST, &path).json(&json!({"args": args}));
        client.send(request.header("svc-idempotency-key", "k")).await
    };
    let first = react(&world.from).await;
    first.expect(200);
    assert!(first.text().contains(SECRET), "{}", first.text());
    let again = react(&world.from).await;
    assert_eq!(
        (again.expect(200), again.headers.contains_key("svc-idempotent-replay")),
        (first.json(), true)
    );
    world.put_into("moves", json!(["/to/"])).await;
    let refused = react(&world.from).await;
    let detail = refused.expect(403)["detail"].as_str().unwrap().to_owned();
    assert_eq!(detail, "No rule of the application grants token:use for the token moves.");
    assert!(!refused.text().contains(SECRET));
    // What was refused did not take the answer's place.
    world.put_into("moves", json!(["/from/"])).await;
    assert_eq!(react(&world.from).await.expect(200), first.json());
}
