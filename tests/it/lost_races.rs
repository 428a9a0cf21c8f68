//! Requests that meet another one in the middle (decisions §1): a change that loses is made anew and keeps what the other
//! did, one that loses too often is a 409 and has done nothing, and a key whose request still runs is in use.
//!
//! Which of them is first is not left to chance: a commit waits at a gate until the other request is answered.

use std::pin::{Pin, pin};
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokamak::store::{Batch, Kind, StoreError};

use crate::support::gate::{Gate, Held};
use crate::support::operator::{ANSWER, APPLICATION, REACTOR, SESSION, SIGNING_SECRETS, TOKEN};
use crate::support::receiver::Receiver;
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::Wrapped;
use crate::support::{Answer, Client, TestServer, guests};

/// A formula that ships with the product: nobody changes it.
const FORMULA: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";

/// How often a change is tried in all: one that loses twice is refused.
const TRIES: usize = 2;
/// The same of a reactor, whose application others write too although they change something else.
const REACTOR_TRIES: usize = 8;
/// The same of a new token, which loses only against tokens of the same contents that come and go.
const NEW_TOKEN_TRIES: usize = 100;

const TOKEN_LOST: &str = "Other requests changed the token at the same time.";
/// What the log says of a change that came through.
const UPDATED: &str = "Reactor updated: other name";
const ENTITY_LOST: &str = "Other requests changed the entity at the same time.";
const NEW_TOKEN_LOST: &str = "Other requests made the same tokens at the same time.";
const KEY_IN_USE: &str = "A request with this idempotency key is being carried out.";

/// A server whose commits can be held.
struct World {
    server: TestServer,
    store: Arc<Wrapped<Gate>>,
    _folder: TempDir,
}

/// A request, who sends it, and the kind of record that it changes.
#[derive(Clone)]
struct Operation {
    client: Client,
    method: Method,
    path: String,
    body: Value,
    kind: Kind,
}

impl Operation {
    /// A key that no other one of these has.
    fn key(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Sends the request under a key.
    async fn send(&self, key: &str) -> Answer {
        let content_type = match self.method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = self.client.request(self.method.clone(), &self.path);
        let request = request.header("content-type", content_type).body(self.body.to_string());
        self.client.send(request.header("svc-idempotency-key", key)).await
    }

    /// Asserts that nothing is kept under a key: the request is carried out, and then it is.
    async fn assert_free(&self, key: &str) {
        let first = self.send(key).await;
        assert!(first.status.is_success() && !is_replay(&first), "{}", first.text());
        self.assert_repeats(key, &first).await;
    }

    /// Asserts that an answer is kept under a key.
    async fn assert_repeats(&self, key: &str, first: &Answer) {
        let again = self.send(key).await;
        assert!(is_replay(&again), "{}", again.text());
        assert_eq!((again.status, again.json()), (first.status, first.json()));
    }
}

fn is_replay(answer: &Answer) -> bool {
    answer.headers.get("svc-idempotent-replay").is_some_and(|value| value == "true")
}

#[track_caller]
fn assert_refused(answer: &Answer, detail: &str) {
    assert_eq!(answer.expect(409)["detail"], detail);
    assert!(!is_replay(answer));
}

/// Waits until a request is about to commit; gives what. It may not be answered before.
async fn arrival(held: &mut Held, request: &mut Pin<&mut impl Future<Output = Answer>>) -> Batch {
    tokio::select! {
        batch = held.arrived() => batch,
        answer = request.as_mut() => panic!("answered before: {} {}", answer.status, answer.text()),
    }
}

impl World {
    async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    async fn start_with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Wrapped::<Gate>::new(open_store(&folder.path().join("store")).await);
        let setup = Setup { store: Some(Arc::clone(&store) as _), ..setup };
        Self { server: TestServer::start_with(setup).await, store, _folder: folder }
    }

    /// Sends a request, so many first commits of which lose. The rival acts while the commit waits; what it gives, if
    /// anything, is what the commit ends in, else the store decides.
    async fn lose(
        &self,
        operation: &Operation,
        key: &str,
        times: usize,
        rival: impl AsyncFn(usize, &Batch) -> Option<StoreError>,
    ) -> Answer {
        let mut request = pin!(operation.send(key));
        let mut lost = 0;
        let mut next = Some(self.store.hook.hold_next(operation.kind));
        while let Some(mut held) = next {
            let batch = arrival(&mut held, &mut request).await;
            let refusal = rival(lost, &batch).await;
            lost += 1;
            next = (lost < times).then(|| self.store.hook.hold_next(operation.kind));
            match refusal {
                None => held.let_go(),
                Some(error) => held.refuse(error),
            }
        }
        request.await
    }

    /// How often the log says this of an entity.
    async fn logged(&self, id: &str, message: &str) -> usize {
        let path = format!("/logs?size=100&entity_id={id}");
        let log = self.server.management.get(&path).await.expect(200);
        log["data"].as_array().unwrap().iter().filter(|entry| entry["message"] == message).count()
    }

    /// Makes an application; gives it with its key.
    async fn application(&self) -> Value {
        let body = json!({"name": "before", "type": "private", "permissions": ["token:read"]});
        self.server.management.post("/applications", body).await.expect(201)
    }

    /// Makes a reactor that acts as an application; gives the reactor's id.
    async fn reactor(&self, application: &str) -> String {
        let body = json!({"name": "before", "formula": {"id": FORMULA}, "configuration": {},
            "application": {"id": application}});
        let made = self.server.management.post("/reactors", body).await.expect(201);
        text(&made, "id")
    }

    fn put(&self, path: String, body: Value, kind: Kind) -> Operation {
        let client = self.server.management.clone();
        Operation { client, method: Method::PUT, path, body, kind }
    }
}

fn text(of: &Value, member: &str) -> String {
    of[member].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_others_change_keeps_every_change_or_is_a_conflict() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    for times in [TRIES - 1, TRIES] {
        let id = client.token("token", json!({"before": 0})).await;
        let path = format!("/tokens/{id}");
        let body = json!({"data": {"mine": 1}});
        let (method, kind) = (Method::PATCH, TOKEN);
        let patch = Operation { client: client.clone(), method, path: path.clone(), body, kind };
        let rival = async |lost: usize, _: &Batch| {
            let body = json!({"data": {format!("theirs {lost}"): 2}, "metadata": {"k": "v"}});
            client.patch(&path, body).await.expect(200);
            None
        };
        let answer = world.lose(&patch, &id, times, rival).await;
        let read = client.get(&path).await.expect(200);
        assert_eq!(read["metadata"], json!({"k": "v"}));
        if times < TRIES {
            assert_eq!(answer.expect(200), read);
            assert_eq!(read["data"], json!({"before": 0, "theirs 0": 2, "mine": 1}));
            assert_eq!(world.logged(&id, "Token updated").await, times + 1);
        } else {
            assert_refused(&answer, TOKEN_LOST);
            assert_eq!(read["data"], json!({"before": 0, "theirs 0": 2, "theirs 1": 2}));
            assert_eq!(world.logged(&id, "Token updated").await, times);
            patch.assert_free(&id).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_made_anew_is_not_what_a_change_has_read() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    for method in [Method::PATCH, Method::DELETE] {
        let path = "/tokens/one".to_owned();
        let made = async |data: &str| {
            let body = json!({"id": "one", "type": "token", "data": {data: 1}});
            client.post("/tokens", body).await.expect(201);
        };
        made("before").await;
        let patches = method == Method::PATCH;
        let (body, kind) = (json!({"data": {"mine": 1}}), TOKEN);
        let change = Operation { client: client.clone(), method, path: path.clone(), body, kind };
        let rival = async |_: usize, _: &Batch| {
            client.delete(&path).await.expect(204);
            made("after").await;
            None
        };
        let answer = world.lose(&change, &change.key(), 1, rival).await;
        if patches {
            // Nothing of what was deleted comes back.
            let data = json!({"after": 1, "mine": 1});
            assert_eq!(answer.expect(200)["data"], data);
            assert_eq!(client.get(&path).await.expect(200)["data"], data);
            client.delete(&path).await.expect(204);
        } else {
            answer.expect(204);
            client.get(&path).await.expect(404);
            assert_eq!(world.logged("one", "Token deleted").await, 4);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_others_change_keeps_every_change_or_is_a_conflict() {
    const UPDATED: &str = "Application updated: other name";
    let world = World::start().await;
    for times in [TRIES - 1, TRIES] {
        let made = world.application().await;
        let id = text(&made, "id");
        let path = format!("/applications/{id}");
        let body = json!({"name": "mine", "permissions": ["token:read"]});
        let put = world.put(path.clone(), body, APPLICATION);
        let rival = async |_: usize, _: &Batch| {
            let regenerate = format!("{path}/regenerate");
            world.server.management.post(&regenerate, json!({})).await.expect(200);
            None
        };
        let answer = world.lose(&put, &id, times, rival).await;
        // Whoever writes what it read before the rival writes the old key back.
        let old = world.server.client(&text(&made, "key"));
        old.get("/applications/key").await.expect(401);
        assert_eq!(world.logged(&id, "Application key regenerated").await, times);
        let read = world.server.management.get(&path).await.expect(200);
        if times < TRIES {
            assert_eq!(answer.expect(200), read);
            assert_eq!(read["name"], "mine");
            assert_eq!(world.logged(&id, UPDATED).await, 1);
        } else {
            assert_refused(&answer, ENTITY_LOST);
            assert_eq!(read["name"], "before");
            assert_eq!(world.logged(&id, UPDATED).await, 0);
            put.assert_free(&id).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_whose_application_others_write_keeps_every_change_or_is_a_conflict() {
    let world = World::start().await;
    let management = &world.server.management;
    for times in [REACTOR_TRIES - 1, REACTOR_TRIES] {
        let application = text(&world.application().await, "id");
        let (id, other) = (world.reactor(&application).await, world.reactor(&application).await);
        let path = format!("/reactors/{id}");
        let body = |name: &str| json!({"name": name, "configuration": {}, "application": {"id": application}});
        let put = world.put(path.clone(), body("mine"), REACTOR);
        // Another reactor that holds the application, and a change of the application itself.
        let rival = async |lost: usize, _: &Batch| {
            let name = format!("theirs {lost}");
            if lost.is_multiple_of(2) {
                management.put(&format!("/reactors/{other}"), body(&name)).await.expect(200);
            } else {
                let body = json!({"name": name, "permissions": ["token:read"]});
                management.put(&format!("/applications/{application}"), body).await.expect(200);
            }
            None
        };
        let answer = world.lose(&put, &id, times, rival).await;
        let read = management.get(&path).await.expect(200);
        let other = management.get(&format!("/reactors/{other}")).await.expect(200);
        let of_application = if times < REACTOR_TRIES { "theirs 5" } else { "theirs 7" };
        assert_eq!(read["application"]["name"], of_application);
        assert_eq!(other["name"], "theirs 6");
        if times < REACTOR_TRIES {
            assert_eq!(answer.expect(200), read);
            assert_eq!(read["name"], "mine");
            assert_eq!(world.logged(&id, UPDATED).await, 1);
        } else {
            assert_refused(&answer, ENTITY_LOST);
            assert_eq!(read["name"], "before");
            assert_eq!(world.logged(&id, UPDATED).await, 0);
            put.assert_free(&id).await;
        }
    }
}

fn create(client: &Client, body: Value) -> Operation {
    let (method, path) = (Method::POST, "/tokens".to_owned());
    Operation { client: client.clone(), method, path, body, kind: TOKEN }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_gives_way_to_its_like_or_is_a_conflict() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let body = json!({"type": "token", "data": "same", "deduplicate_token": true});
    let post = create(&client, body.clone());
    // A token that was there for a moment, and is gone when it is looked for.
    let passing = async |_: usize, batch: &Batch| {
        let put = batch.puts.iter().find(|put| put.record.kind == TOKEN).unwrap();
        let by = (put.record.tenant, "passing".to_owned());
        Some(StoreError::Taken { kind: TOKEN, unique: put.record.uniques[0], by })
    };
    let refused = world.lose(&post, "lost", NEW_TOKEN_TRIES, passing).await;
    assert_refused(&refused, NEW_TOKEN_LOST);
    assert_eq!(client.list("").await, Vec::<String>::new());
    let log = world.server.management.get("/logs?entity_type=token").await.expect(200);
    assert_eq!(log["data"], json!([]));
    let made = world.lose(&post, "lost", NEW_TOKEN_TRIES - 1, passing).await;
    assert!(!is_replay(&made));
    let id = text(&made.expect(201), "id");
    post.assert_repeats("lost", &made).await;
    client.delete(&format!("/tokens/{id}")).await.expect(204);

    // One that stays is shown instead.
    let rival = async |_: usize, _: &Batch| {
        client.post("/tokens", body.clone()).await.expect(201);
        None
    };
    let shown = world.lose(&post, "shown", 1, rival).await;
    assert_eq!(shown.expect(200)["_extras"], json!({"deduplicated": true}));
    assert_eq!(client.list("").await, [text(&shown.json(), "id")]);
    post.assert_repeats("shown", &shown).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_tokens_with_one_id_the_later_is_a_conflict() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let body = |data: &str| json!({"id": "one", "type": "token", "data": data});
    let post = create(&client, body("mine"));
    let rival = async |_: usize, _: &Batch| {
        client.post("/tokens", body("theirs")).await.expect(201);
        None
    };
    let refused = world.lose(&post, "k", 1, rival).await;
    assert_refused(&refused, "A token with the id one exists already.");
    assert_eq!(client.get("/tokens/one").await.expect(200)["data"], "theirs");
    assert_eq!(world.logged("one", "Token created").await, 1);
    client.delete("/tokens/one").await.expect(204);
    post.assert_free("k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_free_when_others_remove_the_ended_token_that_had_it() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let mut ends = json!({"id": "one", "type": "token", "data": "before"});
    ends["expires_at"] = "2026-01-01T01:00:00Z".into();
    client.post("/tokens", ends).await.expect(201);
    world.server.clock.advance_ms(2 * 3_600_000);
    let post = create(&client, json!({"id": "one", "type": "token", "data": "mine"}));
    // It is removed after it stood in the way, and before anybody looks for what does.
    let rival = async |_: usize, _: &Batch| {
        world.server.vault.sweep_ended().await.unwrap();
        Some(StoreError::Exists { kind: TOKEN, id: "one".to_owned() })
    };
    let made = world.lose(&post, "k", 1, rival).await;
    assert_eq!(made.expect(201)["data"], "mine");
    assert_eq!(world.logged("one", "Token expired").await, 1);
    post.assert_repeats("k", &made).await;
}

/// A request of each of these kinds.
async fn operations(world: &World, client: &Client) -> [Operation; 4] {
    let token = client.token("token", json!({"before": 0})).await;
    let application = text(&world.application().await, "id");
    let reactor = world.reactor(&application).await;
    let post = create(client, json!({"type": "token", "data": "new"}));
    let patch = Operation {
        method: Method::PATCH,
        path: format!("/tokens/{token}"),
        body: json!({"data": {"mine": 1}}),
        ..post.clone()
    };
    let body = json!({"name": "mine", "permissions": ["token:read"]});
    let put_application = world.put(format!("/applications/{application}"), body, APPLICATION);
    let body = json!({"name": "mine", "configuration": {}});
    let put_reactor = world.put(format!("/reactors/{reactor}"), body, REACTOR);
    [post, patch, put_application, put_reactor]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_in_use_while_its_first_request_runs() {
    let world = World::start().await;
    let (client, other) = (world.server.revealing().await, world.server.revealing().await);
    let permissions = ["application:update", "reactor:update"];
    let manager = world.server.application("management", &permissions, json!([])).await;
    for operation in operations(&world, &client).await {
        let key = operation.key();
        let mut request = pin!(operation.send(&key));
        let mut held = world.store.hook.hold_next(operation.kind);
        arrival(&mut held, &mut request).await;
        assert_refused(&operation.send(&key).await, KEY_IN_USE);
        // Another key is another request, and so is the same one of another application.
        let theirs = if operation.kind == TOKEN { &other } else { &manager };
        let by_other = Operation { client: theirs.clone(), ..operation.clone() };
        for answer in [operation.send(&format!("not {key}")).await, by_other.send(&key).await] {
            assert!(answer.status.is_success() && !is_replay(&answer), "{key}: {}", answer.text());
        }
        assert_refused(&operation.send(&key).await, KEY_IN_USE);
        held.let_go();
        let first = request.await;
        assert!(first.status.is_success() && !is_replay(&first), "{key}: {}", first.text());
        operation.assert_repeats(&key, &first).await;
    }
    // One was there before; the others were made by three requests.
    assert_eq!(client.list("").await.len(), 1 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_first_request_failed_is_free() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    for operation in operations(&world, &client).await {
        let key = operation.key();
        let mut request = pin!(operation.send(&key));
        let mut held = world.store.hook.hold_next(operation.kind);
        arrival(&mut held, &mut request).await;
        assert_refused(&operation.send(&key).await, KEY_IN_USE);
        held.refuse(StoreError::Full);
        request.await.expect(503);
        operation.assert_free(&key).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looked_before_the_answer_was_kept_repeats_it() {
    let world = World::start().await;
    let client = world.server.revealing().await;
    let post = create(&client, json!({"type": "token", "data": "one"}));
    let mut first = pin!(post.send("k"));
    let mut held = world.store.hook.hold_next(TOKEN);
    arrival(&mut held, &mut first).await;
    // It finds no answer, and is told so when there is one.
    let mut look = world.store.hook.hold_next_look(ANSWER);
    let mut second = pin!(post.send("k"));
    tokio::select! {
        () = look.arrived() => {}
        answer = second.as_mut() => panic!("answered before: {} {}", answer.status, answer.text()),
    }
    held.let_go();
    let first = first.await;
    look.let_go();
    let second = second.await;
    assert!(!is_replay(&first) && is_replay(&second), "{}", second.text());
    assert_eq!(second.expect(201), first.expect(201));
    assert_eq!(client.list("").await, [text(&first.json(), "id")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_grants_by_one_nonce_one_counts() {
    let world = World::start().await;
    let grantor = &world.server.private;
    let public = world.server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let grant = |permission: &str| json!({"nonce": opened["nonce"], "permissions": [permission]});
    let late = Operation {
        client: grantor.clone(),
        method: Method::POST,
        path: "/sessions/authorize".to_owned(),
        body: grant("token:create"),
        kind: SESSION,
    };
    let rival = async |_: usize, _: &Batch| {
        grantor.post("/sessions/authorize", grant("token:read")).await.expect(200);
        None
    };
    let refused = world.lose(&late, "k", 1, rival).await;
    assert_eq!(refused.faults(), ["nonce"]);
    let session = world.server.client(&text(&opened, "session_key"));
    session.get("/tokens").await.expect(200);
    session.post("/tokens", json!({"type": "token", "data": "x"})).await.expect(403);
}

/// The secrets that an answer shows.
fn secrets(shown: &Value) -> Vec<String> {
    shown.as_array().unwrap().iter().map(|secret| text(secret, "secret")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_rotations_at_once_leave_both_secrets() {
    const SECRETS: &str = "/webhooks/signing-secrets";
    let world = World::start().await;
    let management = &world.server.management;
    let original = secrets(&management.get(SECRETS).await.expect(200));
    let rotate = Operation {
        client: management.clone(),
        method: Method::POST,
        path: format!("{SECRETS}/rotate"),
        body: json!({}),
        kind: SIGNING_SECRETS,
    };
    let mut first = pin!(rotate.send("first"));
    let mut held = world.store.hook.hold_next(rotate.kind);
    arrival(&mut held, &mut first).await;
    let second = secrets(&rotate.send("second").await.expect(200));
    held.let_go();
    let first = secrets(&first.await.expect(200));
    assert_eq!((first.len(), &first[1..]), (3, &second[..]));
    assert_eq!(second[1..], original);
    assert_eq!(secrets(&management.get(SECRETS).await.expect(200)), first);
}

/// A run that was accepted opens its tokens once more to begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_caller_is_changed_while_it_opens_its_tokens_does_not_begin() {
    let world = World::start_with(Setup::open()).await;
    let (server, store) = (&world.server, &world.store);
    let reactor = guests::echo_reactor(server).await;
    let receiver = Receiver::start().await;
    let with =
        |permissions: &[&str]| json!({"name": "a", "type": "private", "permissions": permissions});
    let body = with(&["token:use", "token:create"]);
    let made = server.management.post("/applications", body).await.expect(201);
    let client = server.client(&text(&made, "key"));
    let token = client.token("token", json!("kept")).await;
    let args = json!({"behaviour": "echo", "a": format!("{{{{ {token} }}}}")});
    let (path, body) = (
        format!("/reactors/{reactor}/react"),
        json!({"args": args, "callback_url": receiver.url()}),
    );
    let mut asked = pin!(client.post(&path, body));
    let mut accepted = store.hook.hold_next_look(TOKEN);
    tokio::select! {
        () = accepted.arrived() => {}
        answer = asked.as_mut() => panic!("answered before: {}", answer.text()),
    }
    let mut begun = store.hook.hold_next_look(TOKEN);
    accepted.let_go();
    let accepted = asked.await;
    accepted.expect(202);
    begun.arrived().await;
    let path = format!("/applications/{}", text(&made, "id"));
    server.management.put(&path, with(&["token:create"])).await.expect(200);
    begun.let_go();
    // It tells of its end.
    let ended = receiver.wait(1).await[0].json();
    let ended = &ended["data"];
    assert_eq!(ended["error"]["status"], 403, "{ended}");
}
