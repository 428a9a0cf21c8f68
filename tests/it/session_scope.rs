//! What a session sees: what its conditions cover, and no more than its grantor sees at that moment (decisions §2). The
//! list and the search tell it as `GET` of each token does, totals included.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer};

/// Attribute, operator and value.
type Condition = (&'static str, &'static str, &'static str);

/// The tokens, each with its containers.
const TOKENS: &[(&str, &[&str])] = &[
    ("cart-1", &["/web/"]),
    ("cart-10", &["/web/"]),
    ("CART-1", &["/web/"]),
    ("cart-2", &["/web/eu/"]),
    ("cart-3", &["/shop/"]),
    // One of its containers lies beyond the narrow grantor, and one within.
    ("cart-4", &["/shop/", "/web/eu/"]),
    ("cart-5", &["/web-old/"]),
    ("order-1", &["/web/"]),
    ("order-2", &["/web/eu/high/"]),
    ("order-3", &["/bank/"]),
    ("order-4", &["/"]),
];

/// The containers of a narrow grantor's rules.
const NARROW: [&str; 2] = ["/web/", "/bank/"];
/// The tokens that it does not see.
const BEYOND: &[&str] = &["cart-3", "cart-5", "order-4"];

/// Conditions of a session's rule, with the tokens that they cover.
const SCOPES: &[(&[Condition], &[&str])] = &[
    (&[("id", "equals", "cart-1")], &["cart-1"]),
    (&[("id", "equals", "cart-")], &[]),
    (&[("id", "equals", "cart-3")], &["cart-3"]),
    (&[("id", "equals", "cart-4")], &["cart-4"]),
    (
        &[("id", "starts_with", "cart-")],
        &["cart-1", "cart-10", "cart-2", "cart-3", "cart-4", "cart-5"],
    ),
    (&[("id", "starts_with", "cart-1")], &["cart-1", "cart-10"]),
    (&[("id", "starts_with", "art-")], &[]),
    (&[("container", "equals", "/web/")], &["CART-1", "cart-1", "cart-10", "order-1"]),
    (&[("container", "equals", "/web/eu/")], &["cart-2", "cart-4"]),
    (&[("container", "equals", "/shop/")], &["cart-3", "cart-4"]),
    (&[("container", "equals", "/")], &["order-4"]),
    (
        &[("container", "starts_with", "/web/")],
        &["CART-1", "cart-1", "cart-10", "cart-2", "cart-4", "order-1", "order-2"],
    ),
    // As containers are kept: in lower case.
    (&[("container", "starts_with", "/Web/EU/")], &["cart-2", "cart-4", "order-2"]),
    (&[("container", "starts_with", "/shop/")], &["cart-3", "cart-4"]),
    (
        &[("container", "starts_with", "/")],
        &[
            "CART-1", "cart-1", "cart-10", "cart-2", "cart-3", "cart-4", "cart-5", "order-1",
            "order-2", "order-3", "order-4",
        ],
    ),
    // All conditions of a rule hold together; different containers of a token may meet them.
    (&[("id", "equals", "cart-4"), ("container", "equals", "/web/eu/")], &["cart-4"]),
    (&[("id", "equals", "cart-1"), ("container", "equals", "/bank/")], &[]),
    (&[("id", "equals", "order-2"), ("container", "starts_with", "/web/")], &["order-2"]),
    (&[("id", "starts_with", "cart-1"), ("container", "equals", "/web/")], &["cart-1", "cart-10"]),
    (
        &[("id", "starts_with", "cart-"), ("container", "starts_with", "/web/")],
        &["cart-1", "cart-10", "cart-2", "cart-4"],
    ),
    // In whatever order they stand.
    (&[("container", "equals", "/web/eu/"), ("container", "equals", "/shop/")], &["cart-4"]),
    (&[("container", "equals", "/shop/"), ("container", "equals", "/web/eu/")], &["cart-4"]),
];

/// A server with the tokens, and who opens and who authorizes sessions there.
struct World {
    server: TestServer,
    opener: Client,
    grantor: Client,
    /// The grantor's address.
    path: String,
}

impl World {
    /// A world whose grantor has these rules, and nothing else.
    async fn with(rules: Value) -> Self {
        let server = TestServer::start().await;
        for (id, containers) in TOKENS {
            let body = json!({"id": id, "type": "token", "data": id, "containers": containers});
            server.private.post("/tokens", body).await.expect(201);
        }
        let opener = server.application("public", &["token:create"], json!([])).await;
        let body = json!({"name": "grantor", "type": "private", "rules": rules});
        let made = server.management.post("/applications", body).await.expect(201);
        let grantor = server.client(made["key"].as_str().unwrap());
        let path = format!("/applications/{}", made["id"].as_str().unwrap());
        Self { server, opener, grantor, path }
    }

    /// Opens a session and asks the grantor for a rule with these conditions; gives its answer too.
    async fn session(&self, conditions: &[Condition]) -> (Client, Answer) {
        let opened = self.opener.post("/sessions", json!({})).await.expect(201);
        let condition = |condition: &Condition| {
            let (attribute, operator, value) = condition;
            json!({"attribute": attribute, "operator": operator, "value": value})
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let rule = json!({"priority": 1, "transform": "reveal", "conditions": conditions,
            "permissions": ["token:read", "token:search"]});
        let grant = json!({"nonce": opened["nonce"], "rules": [rule]});
        let answer = self.grantor.post("/sessions/authorize", grant).await;
        (self.server.client(opened["session_key"].as_str().unwrap()), answer)
    }

    /// Gives the grantor other rules.
    async fn change(&self, rules: Value) {
        let body = json!({"name": "grantor", "rules": rules});
        self.server.management.put(&self.path, body).await.expect(200);
    }
}

/// Rules for reading and searching alike, one for each container.
fn rules(containers: &[&str], transform: &str) -> Value {
    let rule = |(index, container): (usize, &&str)| {
        json!({"priority": index + 1, "container": container, "transform": transform,
            "permissions": ["token:read", "token:search"]})
    };
    containers.iter().enumerate().map(rule).collect()
}

/// The tokens of a page that has room for all, by their ids.
fn all_of(page: &Value) -> BTreeMap<String, Value> {
    let tokens = page["data"].as_array().unwrap();
    let id = |token: &Value| token["id"].as_str().unwrap().to_owned();
    let by_id: BTreeMap<_, _> = tokens.iter().map(|token| (id(token), token.clone())).collect();
    assert_eq!(by_id.len(), tokens.len());
    assert_eq!(page["pagination"]["total_items"], tokens.len());
    by_id
}

/// The tokens that `GET` of each shows, by their ids: the same ones, and the same of them, as lists and searches show.
async fn seen(session: &Client, case: &str) -> BTreeMap<String, Value> {
    let mut seen = BTreeMap::new();
    for (id, _) in TOKENS {
        let answer = session.get(&format!("/tokens/{id}")).await;
        if answer.status == 200 {
            seen.insert((*id).to_owned(), answer.json());
        } else {
            assert_eq!(answer.status, 403, "{case}: {id} {}", answer.text());
        }
    }
    // A filter narrows: asking for a token by its name does not show it.
    let named: Vec<_> = TOKENS.iter().map(|(id, _)| format!("&id={id}")).collect();
    let named = named.concat();
    for filter in ["", "&type=token", named.as_str()] {
        let listed = session.get(&format!("/tokens?size=100{filter}")).await.expect(200);
        assert_eq!(all_of(&listed), seen, "{case}: {filter}");
    }
    for query in [Value::Null, json!("NOT type:card"), json!("type:token AND container:\"/*\"")] {
        let body = json!({"query": query, "size": 100});
        let found = session.post("/tokens/search", body).await.expect(200);
        assert_eq!(all_of(&found), seen, "{case}: {query}");
    }
    // The total is that of all pages.
    let first = session.get("/tokens?size=1").await.expect(200);
    assert_eq!(first["pagination"]["total_items"], seen.len(), "{case}");
    seen
}

/// Asserts which tokens a session sees, and whether it sees them in plaintext.
async fn assert_sees(session: &Client, expected: &[&str], revealed: bool, case: &str) {
    let seen = seen(session, case).await;
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(seen.keys().collect::<Vec<_>>(), expected, "{case}");
    for (id, token) in seen {
        // These tokens have no mask: whoever is not shown the data is shown none.
        let data = revealed.then(|| json!(id));
        assert_eq!(token.get("data").cloned(), data, "{case}: {id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_grantor_gives_what_lies_within_its_containers() {
    let world = World::with(rules(&NARROW, "reveal")).await;
    let mut granted = 0;
    for (conditions, covered) in SCOPES {
        let case = format!("{conditions:?}");
        let (session, answer) = world.session(conditions).await;
        // A condition on ids alone speaks of tokens wherever they lie.
        let within = |(attribute, _, value): &Condition| {
            let value = value.to_lowercase();
            *attribute == "container" && NARROW.iter().any(|scope| value.starts_with(scope))
        };
        if conditions.iter().any(within) {
            answer.expect(200);
            granted += 1;
            assert_sees(&session, covered, true, &case).await;
        } else {
            assert_eq!(answer.status, 403, "{case}: {}", answer.text());
            session.get("/tokens").await.expect(403);
            session.post("/tokens/search", json!({})).await.expect(403);
        }
    }
    assert_eq!(granted, 11);
}

/// The grantor's rules bound the grant when it is made, and what is done with it ever after.
#[tokio::test(flavor = "multi_thread")]
async fn a_grantor_that_is_narrowed_later_narrows_its_sessions() {
    let world = World::with(rules(&["/"], "reveal")).await;
    let mut sessions = Vec::new();
    for (conditions, covered) in SCOPES {
        let (session, answer) = world.session(conditions).await;
        answer.expect(200);
        assert_sees(&session, covered, true, &format!("{conditions:?}")).await;
        sessions.push(session);
    }
    // Fewer tokens, and each of them seen no better than the grantor sees it.
    world.change(rules(&NARROW, "mask")).await;
    for (session, (conditions, covered)) in sessions.iter().zip(SCOPES) {
        let left: Vec<&str> = covered.iter().filter(|id| !BEYOND.contains(id)).copied().collect();
        assert_sees(session, &left, false, &format!("narrowed {conditions:?}")).await;
    }
    // What the grantor gets back, its sessions get back.
    world.change(rules(&["/"], "reveal")).await;
    let (session, (conditions, covered)) = (&sessions[2], &SCOPES[2]);
    assert_sees(session, covered, true, &format!("widened {conditions:?}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_and_searching_are_narrowed_each_for_itself() {
    let world = World::with(rules(&["/"], "reveal")).await;
    let (session, answer) = world.session(&[("id", "starts_with", "order-")]).await;
    answer.expect(200);
    let rule = |priority: u32, container: &str, permission: &str| {
        json!({"priority": priority, "container": container, "transform": "reveal",
            "permissions": [permission]})
    };
    let apart = [rule(1, "/web/eu/", "token:read"), rule(2, "/bank/", "token:search")];
    world.change(json!(apart)).await;
    assert_eq!(session.list("").await, ["order-2"]);
    assert_eq!(session.search("").await, ["order-3"]);
    session.get("/tokens/order-2").await.expect(200);
    session.get("/tokens/order-3").await.expect(403);
    // Where there is nothing left of a permission, nobody is told how many tokens there are.
    world.change(json!([rule(1, "/web/eu/", "token:read")])).await;
    assert_eq!(session.list("").await, ["order-2"]);
    session.post("/tokens/search", json!({})).await.expect(403);
    // A rule about no token of the session's leaves it an empty list.
    world.change(json!([rule(1, "/shop/", "token:read")])).await;
    assert_eq!(session.list("").await, Vec::<String>::new());
}
