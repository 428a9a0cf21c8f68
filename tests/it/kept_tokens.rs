//! What is kept of the tokens that a run made: which they are and how they were shown, never what they hold (decisions §3:
//! a deleted token's data is gone, and a `cvc` after its time).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests};

const MINUTE_MS: u64 = 60_000;
/// What the log says of who reads a token in a result.
const READ: &str = "read: Token read in a reactor result";
/// What it says of a try to send the result, each of which has its entry.
const SENT: &str = "read: Token read to send a reactor result";
/// What it says of who gets such an answer again.
const REPEATED: &str = "read: Answer repeated";

/// A run that made tokens twice: once from the queue, once under an idempotency key.
struct Made {
    server: TestServer,
    client: Client,
    receiver: Receiver,
    react: String,
    place: String,
    args: Value,
    /// Both answers, as they first were.
    first: [Value; 2],
}

/// Has `probe` make these tokens: `queued` from the queue, `keyed` at once.
async fn made(queued: Value, keyed: Value) -> Made {
    let server = TestServer::start_with(Setup::open()).await;
    let client = server.revealing().await;
    let receiver = Receiver::start().await;
    let react = format!("/reactors/{}/react", guests::echo_reactor(&server).await);
    let args = |tokenize| json!({"behaviour": "respond", "tokenize": {"made": tokenize}});
    let body = json!({"args": args(queued), "callback_url": receiver.url()});
    let place = client.post(&react, body).await;
    place.expect(202);
    let place = place.headers["location"].to_str().unwrap().to_owned();
    let told =
        receiver.wait(1).await.remove(0).json()["data"]["response"]["tokens"]["made"].clone();
    let first = [told, Value::Null];
    let mut made = Made { server, client, receiver, react, place, args: args(keyed), first };
    made.first[1] = made.again().await;
    made
}

impl Made {
    /// The answer to the request under its key.
    async fn again(&self) -> Value {
        let body = json!({"args": self.args});
        let request = self.client.request(Method::POST, &self.react).json(&body);
        let answer = self.client.send(request.header("SVC-IDEMPOTENCY-KEY", "k")).await;
        answer.expect(200)["tokens"]["made"].clone()
    }

    /// The token that was made from the queue as its result shows it, and as it is told again.
    async fn result(&self) -> [Value; 2] {
        let shown =
            self.client.get(&self.place).await.expect(200)["response"]["tokens"]["made"].clone();
        let seen = self.receiver.seen().len();
        let answered = self.client.post(&format!("{}/redeliver", self.place), json!({})).await;
        assert_eq!(answered.expect(202)["response"]["tokens"]["made"], shown);
        let hooks = self.receiver.wait(seen + 1).await;
        [shown, hooks[seen].json()["data"]["response"]["tokens"]["made"].clone()]
    }

    /// Everything that shows the tokens now: the result, a webhook, the repeated answer.
    async fn all(&self) -> [Value; 3] {
        let [shown, told] = self.result().await;
        [shown, told, self.again().await]
    }
}

fn token(id: &str, data: &str) -> Value {
    json!({"id": id, "type": "token", "data": data, "metadata": {"noted": data}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_made_anew_under_an_id_is_not_the_one_that_a_run_made() {
    let made = made(token("order-1", "secret-1"), token("order-2", "secret-2")).await;
    for (first, data) in made.first.iter().zip(["secret-1", "secret-2"]) {
        assert_eq!(first["data"], data);
    }
    let [queued, again] = [made.result().await[0].clone(), made.again().await];
    assert_eq!([queued, again], made.first);
    made.server.clock.advance_ms(1);
    for id in ["order-1", "order-2"] {
        made.client.delete(&format!("/tokens/{id}")).await.expect(204);
        made.client.post("/tokens", token(id, "another's")).await.expect(201);
    }
    for (shown, id) in made.all().await.iter().zip(["order-1", "order-1", "order-2"]) {
        assert_eq!(shown["id"], id);
        for hidden in ["data", "metadata", "created_at", "_shown"] {
            assert!(shown.get(hidden).is_none(), "{shown}");
        }
        let text = shown.to_string();
        assert!(!text.contains("secret") && !text.contains("another's"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cvc_is_in_no_answer_after_its_time() {
    let card = |number: &str| {
        json!({"type": "card", "data": {"number": number, "expiration_month": 12,
            "expiration_year": 2030, "cvc": "987"}})
    };
    let made = made(card("4242424242424242"), card("4111111111111111")).await;
    made.server.clock.advance_ms(60 * MINUTE_MS - 1);
    for shown in made.all().await {
        assert_eq!(shown["data"]["cvc"], "987", "{shown}");
    }
    made.server.clock.advance_ms(1);
    let numbers = ["4242424242424242", "4242424242424242", "4111111111111111"];
    for (shown, number) in made.all().await.iter().zip(numbers) {
        assert_eq!(shown["data"]["number"], number);
        assert!(shown["data"].get("cvc").is_none() && !shown.to_string().contains("987"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_was_changed_to_is_in_no_answer_from_before() {
    let made = made(token("order-1", "before"), token("order-2", "before")).await;
    for id in ["order-1", "order-2"] {
        let changed = json!({"metadata": {"noted": "after"}, "containers": ["/elsewhere/"]});
        made.client.patch(&format!("/tokens/{id}"), changed).await.expect(200);
    }
    for (shown, id) in made.all().await.iter().zip(["order-1", "order-1", "order-2"]) {
        assert_eq!(shown["id"], id);
        // The outline is that of then.
        assert_eq!(shown["containers"], made.first[0]["containers"]);
        assert!(shown.get("data").is_none() && shown.get("metadata").is_none(), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_not_ask_for_a_run_sees_of_its_tokens_what_it_may_read_itself() {
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    let made = made(card.clone(), card).await;
    for (permissions, rules, data) in [
        (json!(["token:use"]), json!([]), None),
        (json!(["token:use", "token:read"]), json!([]), Some("XXXXXXXXXXXX4242")),
        (json!([]), rule("redact", &["token:use", "token:read"]), None),
        (json!([]), rule("reveal", &["token:use", "token:read"]), Some("4242424242424242")),
    ] {
        let body = json!({"name": "other", "type": "private", "permissions": permissions,
            "rules": rules});
        let key = made.server.management.post("/applications", body).await.expect(201);
        let other = made.server.client(key["key"].as_str().unwrap());
        let shown = other.get(&made.place).await.expect(200)["response"]["tokens"]["made"].clone();
        assert_eq!(shown["id"], made.first[0]["id"]);
        assert_eq!(shown["data"].get("number").and_then(Value::as_str), data, "{shown}");
        // Under a key of its own too, the first time and again.
        for _ in 0..2 {
            let redeliver = other.request(Method::POST, &format!("{}/redeliver", made.place));
            let again = other.send(redeliver.header("SVC-IDEMPOTENCY-KEY", "k")).await;
            assert_eq!(again.expect(202)["response"]["tokens"]["made"], shown);
        }
    }
    // The receiver gets what it was to get.
    for hook in made.receiver.wait(5).await {
        assert_eq!(hook.json()["data"]["response"]["tokens"]["made"], made.first[0]);
    }
}

/// What the log says that a client did with the token that was made from the queue, in order.
async fn logged(made: &Made, client: &Client) -> Vec<String> {
    let id = client.get("/applications/key").await.expect(200)["id"].clone();
    let page = made.server.management.get("/logs?entity_id=order-1&size=100").await.expect(200);
    let entries = page["data"].as_array().unwrap().iter().rev();
    let own = entries.filter(|entry| entry["actor_id"] == id);
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    own.map(|entry| format!("{}: {}", text(entry, "operation"), text(entry, "message"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_a_token_in_a_result_is_in_the_log_of_that_token() {
    let made = made(token("order-1", "secret-1"), token("order-2", "secret-2")).await;
    let rules = rule("reveal", &["token:use", "token:read"]);
    let other = made.server.application("private", &[], rules).await;
    let read = async |client: &Client| {
        client.get(&made.place).await.expect(200)["response"]["tokens"]["made"].clone()
    };
    let redeliver = async |client: &Client| {
        let request = client.request(Method::POST, &format!("{}/redeliver", made.place));
        let answer = client.send(request.header("SVC-IDEMPOTENCY-KEY", "k")).await;
        answer.expect(202)["response"]["tokens"]["made"].clone()
    };
    assert_eq!(read(&other).await["data"], "secret-1");
    assert_eq!(logged(&made, &other).await, [READ]);
    assert_eq!(redeliver(&other).await["data"], "secret-1");
    assert_eq!(logged(&made, &other).await, [READ, READ]);
    assert_eq!(redeliver(&other).await["data"], "secret-1");
    assert_eq!(logged(&made, &other).await, [READ, READ, REPEATED]);
    // Who asked for the run reads its result as anybody does.
    assert_eq!(read(&made.client).await["data"], "secret-1");
    let mut own = logged(&made, &made.client).await;
    let all = own.len();
    own.retain(|entry| entry != SENT);
    assert_eq!(own, ["create: Token created", READ]);
    // It is told once, and again as often as somebody asked for that.
    assert!((1..=2).contains(&(all - own.len())), "{all}");
    // Of a token that was changed since, its outline is all there is to see.
    made.client.patch("/tokens/order-1", json!({"data": "secret-3"})).await.expect(200);
    assert!(read(&other).await.get("data").is_none());
    assert_eq!(logged(&made, &other).await, [READ, READ, REPEATED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_see_more_when_it_repeats_a_redelivery_is_in_the_log_of_what_it_sees_then() {
    let made = made(token("order-1", "secret-1"), token("order-2", "secret-2")).await;
    let other = made.server.application("private", &["token:use"], json!([])).await;
    let redeliver = async || {
        let request = other.request(Method::POST, &format!("{}/redeliver", made.place));
        let answer = other.send(request.header("SVC-IDEMPOTENCY-KEY", "k")).await;
        answer.expect(202)["response"]["tokens"]["made"].clone()
    };
    for _ in 0..2 {
        assert!(redeliver().await.get("data").is_none());
        assert!(logged(&made, &other).await.is_empty());
    }
    let own = other.get("/applications/key").await.expect(200)["id"].clone();
    let rules = rule("reveal", &["token:use", "token:read"]);
    let body = json!({"name": "test", "permissions": [], "rules": rules});
    let path = format!("/applications/{}", own.as_str().unwrap());
    made.server.management.put(&path, body).await.expect(200);
    assert_eq!(redeliver().await["data"], "secret-1");
    assert_eq!(logged(&made, &other).await, [REPEATED]);
}

fn rule(transform: &str, permissions: &[&str]) -> Value {
    json!([{"description": "", "priority": 1, "container": "/", "transform": transform,
        "permissions": permissions}])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_formula_has_tokenized_is_not_taken_for_a_token() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let hidden = json!({"id": "hidden", "type": "token", "data": "secret", "containers": ["/x/"]});
    server.private.post("/tokens", hidden).await.expect(201);
    let tenant = server.management.get("/tenants/self").await.expect(200)["id"].clone();
    let settings = json!({"name": "one", "settings": {"deduplicate_tokens": true}});
    server.management.put("/tenants/self", settings).await.expect(200);
    // Values whose tokens have these ids are there: a tokenized value is replaced by them.
    let maker = server.revealing().await;
    let mut of = std::collections::BTreeMap::new();
    for id in [tenant.as_str().unwrap(), "hidden-2", "reveal", "1767225600000"] {
        maker
            .post("/tokens", json!({"id": id, "type": "token", "data": format!("as {id}")}))
            .await
            .expect(201);
        of.insert(id.to_owned(), format!("as {id}"));
    }
    let client =
        server.application("private", &[], rule("redact", &["token:create", "token:use"])).await;
    let imitation = json!({"tenant_id": of[tenant.as_str().unwrap()], "id": of["hidden-2"],
        "_shown": {"transform": of["reveal"], "made_ms": of["1767225600000"]}});
    let args = json!({"behaviour": "respond", "tokenize": {"made": imitation}});
    let react = async || {
        let request = client.request(Method::POST, &format!("/reactors/{reactor}/react"));
        let request = request.json(&json!({"args": args})).header("SVC-IDEMPOTENCY-KEY", "k");
        client.send(request).await.expect(200)["tokens"]["made"].clone()
    };
    let first = react().await;
    assert_eq!(
        first,
        json!({"tenant_id": tenant, "id": "hidden-2",
            "_shown": {"transform": "reveal", "made_ms": "1767225600000"}})
    );
    assert_eq!(react().await, json!({"tenant_id": tenant, "id": "hidden-2"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_shown_masked_stays_masked() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let rule = rule("mask", &["token:create", "token:read", "token:use"]);
    let client = server.application("private", &[], rule).await;
    let masked = json!({"type": "card_number", "data": "4242424242424242",
        "deduplicate_token": true});
    let args = json!({"behaviour": "respond", "tokenize": {"a": masked, "b": "plain"}});
    let react = async |key: &str| {
        let request = client.request(Method::POST, &format!("/reactors/{reactor}/react"));
        let request = request.json(&json!({"args": args})).header("SVC-IDEMPOTENCY-KEY", key);
        client.send(request).await.expect(200)["tokens"].clone()
    };
    let first = react("k").await;
    assert_eq!(first["a"]["data"], "XXXXXXXXXXXX4242");
    assert_eq!(react("k").await, first);
    // The second run finds the token that the first one made, and says so again.
    let second = react("other").await;
    assert_eq!(second["a"]["_extras"], json!({"deduplicated": true}));
    assert_eq!(react("other").await, second);
}

/// Each token that a formula asks for may be one that was there already, and much larger than the answer.
#[tokio::test(flavor = "multi_thread")]
async fn of_tokens_that_are_more_than_can_be_told_the_last_ones_are_told_in_outline() {
    const THERE: usize = 20;
    let server = TestServer::start_with(Setup::open()).await;
    let client = server.revealing().await;
    let receiver = Receiver::start().await;
    let large = json!({"id": "large", "type": "token", "data": "a".repeat(1_000_000), "fingerprint_expression": "same"});
    client.post("/tokens", large).await.expect(201);
    let react = format!("/reactors/{}/react", guests::echo_reactor(&server).await);
    let same = json!({"type": "token", "data": 1, "fingerprint_expression": "same",
        "deduplicate_token": true});
    let args = json!({"behaviour": "respond", "tokenize": vec![same; THERE]});
    let queued = client.post(&react, json!({"args": args, "callback_url": receiver.url()})).await;
    queued.expect(202);
    let told = receiver.wait(1).await.remove(0).json();
    let place = queued.headers["location"].to_str().unwrap();
    let shown = client.get(place).await.expect(200);
    for tokens in [&told["data"]["response"]["tokens"], &shown["response"]["tokens"]] {
        let tokens = tokens.as_array().unwrap();
        assert_eq!(tokens.len(), THERE);
        assert!(tokens.iter().all(|token| token["id"] == "large"));
        let whole = tokens.iter().filter(|token| token["data"].is_string()).count();
        assert!((10..THERE).contains(&whole), "{whole}");
    }
}
