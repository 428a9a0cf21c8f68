//! Callers with rights of many shapes, beside a plain evaluation of what each of them sees, as decisions §2 words it.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{CONTAINERS, draw};
use crate::support::TestServer;
use crate::support::client::Client;

const SEARCH: &str = "token:search";
/// How many callers have random rules, and how many are sessions.
const RANDOM: usize = 4;
const SESSIONS: usize = 4;
/// Scopes of rules beside the containers that tokens lie in: above all, of no token, as nobody keeps it.
const SCOPES: &[&str] = &["/", "/a/b/c/none/", "/A/B/"];
/// From what shows least.
const TRANSFORMS: &[&str] = &["redact", "mask", "reveal"];

/// A caller, and what it may do.
pub struct Caller {
    pub client: Client,
    pub rights: Rights,
}

/// What a caller may do.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    permissions: Vec<&'static str>,
    rules: Vec<Rule>,
    /// A session's: the rights of who authorized it.
    grantor: Option<Box<Rights>>,
}

#[derive(Debug, Clone)]
struct Rule {
    priority: u32,
    scope: Scope,
    /// A place in [`TRANSFORMS`].
    transform: usize,
    permissions: Vec<&'static str>,
}

/// Which tokens a rule is about.
#[derive(Debug, Clone)]
enum Scope {
    Container(&'static str),
    Conditions(Vec<Condition>),
}

#[derive(Debug, Clone)]
struct Condition {
    attribute: &'static str,
    operator: &'static str,
    value: String,
}

impl Rights {
    /// Whether it may search at all.
    pub fn may_search(&self) -> bool {
        let rules = self.rules.iter().flat_map(|rule| &rule.permissions);
        let holds = self.permissions.iter().chain(rules).any(|one| *one == SEARCH);
        holds && self.grantor.as_ref().is_none_or(|grantor| grantor.may_search())
    }

    /// A token as a search shows it; `None` when it does not.
    pub fn shown(&self, token: &Value) -> Option<Value> {
        let mut shown = token.clone();
        let members = shown.as_object_mut().unwrap();
        match TRANSFORMS[self.transform(token)?] {
            "reveal" => {}
            "mask" => match masked(token) {
                Some(masked) => members["data"] = masked,
                None => drop(members.remove("data")),
            },
            _ => drop(members.remove("data")),
        }
        Some(shown)
    }

    /// The transform of the first rule in ascending priority that grants a search and matches the token; permissions are
    /// a rule on `/` that masks, last in priority. A session sees nothing better than its grantor does.
    fn transform(&self, token: &Value) -> Option<usize> {
        let mut rules: Vec<&Rule> = self.rules.iter().collect();
        rules.sort_by_key(|rule| rule.priority);
        let deciding =
            rules.into_iter().find(|rule| rule.permissions.contains(&SEARCH) && rule.covers(token));
        let by_permission = self.permissions.contains(&SEARCH).then_some(1);
        let own = deciding.map(|rule| rule.transform).or(by_permission)?;
        match &self.grantor {
            None => Some(own),
            Some(grantor) => Some(own.min(grantor.transform(token)?)),
        }
    }

    /// The members of a request for them.
    fn body(&self) -> Value {
        let rule = |rule: &Rule| {
            let mut body = json!({"priority": rule.priority, "permissions": rule.permissions,
                "transform": TRANSFORMS[rule.transform]});
            match &rule.scope {
                Scope::Container(path) => body["container"] = json!(path),
                Scope::Conditions(conditions) => {
                    let condition = |one: &Condition| {
                        json!({"attribute": one.attribute, "operator": one.operator,
                            "value": one.value})
                    };
                    body["conditions"] = conditions.iter().map(condition).collect();
                }
            }
            body
        };
        let rules: Vec<Value> = self.rules.iter().map(rule).collect();
        json!({"name": "caller", "type": "private", "permissions": self.permissions, "rules": rules})
    }
}

impl Rule {
    fn covers(&self, token: &Value) -> bool {
        match &self.scope {
            Scope::Container(scope) => {
                let scope = segments(scope);
                containers(token).any(|path| segments(path).starts_with(&scope))
            }
            Scope::Conditions(conditions) => conditions.iter().all(|one| one.holds(token)),
        }
    }
}

impl Condition {
    fn holds(&self, token: &Value) -> bool {
        let compare = |text: &str, value: &str| match self.operator {
            "equals" => text == value,
            _ => text.starts_with(value),
        };
        match self.attribute {
            "id" => compare(token["id"].as_str().unwrap(), &self.value),
            // Containers are kept in lower case.
            _ => containers(token).any(|path| compare(path, &self.value.to_lowercase())),
        }
    }
}

fn containers(token: &Value) -> impl Iterator<Item = &str> {
    token["containers"].as_array().unwrap().iter().map(|path| path.as_str().unwrap())
}

/// The names on the way to a container.
fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|name| !name.is_empty()).map(str::to_lowercase).collect()
}

/// What the token's mask comes to, of those that the tokens of `search_model` have.
fn masked(token: &Value) -> Option<Value> {
    let data = &token["data"];
    if token.get("mask")?.is_object() {
        return Some(json!({"n": data["n"], "name": "hidden"}));
    }
    let text = data.as_str().unwrap();
    let hidden = text.chars().count() - 4;
    let hide = |(at, c): (usize, char)| if at < hidden && c != '-' { 'X' } else { c };
    Some(json!(text.chars().enumerate().map(hide).collect::<String>()))
}

fn on(priority: u32, container: &'static str, transform: usize) -> Rule {
    let scope = Scope::Container(container);
    Rule { priority, scope, transform, permissions: vec![SEARCH] }
}

/// Rules about these scopes, in any order of their priorities.
fn rules(scope: impl Strategy<Value = Scope>) -> impl Strategy<Value = Vec<Rule>> {
    let permissions = prop_oneof![
        4 => Just(vec![SEARCH]),
        2 => Just(vec!["token:read", SEARCH]),
        1 => Just(vec!["token:read", "token:use"]),
    ];
    let rule = (any::<u16>(), scope, 0..TRANSFORMS.len(), permissions);
    prop::collection::vec(rule, 1..6).prop_map(|rules| {
        let rule = |(index, (priority, scope, transform, permissions))| {
            // No two are the same.
            let priority = u32::from(priority) * 8 + index + 1;
            Rule { priority, scope, transform, permissions }
        };
        (0..).zip(rules).map(rule).collect()
    })
}

fn container() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => prop::sample::select(CONTAINERS), 1 => prop::sample::select(SCOPES)]
}

/// Rights of an application: rules, now and then with permissions.
fn of_application() -> impl Strategy<Value = Rights> {
    let permissions = prop_oneof![
        3 => Just(vec![]),
        1 => Just(vec!["token:read"]),
        1 => Just(vec![SEARCH]),
    ];
    (rules(container().prop_map(Scope::Container)), permissions)
        .prop_map(|(rules, permissions)| Rights { permissions, rules, grantor: None })
}

/// Rights of a session: rules with conditions on ids such as these, and on containers.
fn of_session(ids: Vec<String>) -> impl Strategy<Value = Rights> {
    let operator = || prop::sample::select(&["equals", "starts_with"][..]);
    let id =
        (prop::sample::select(ids), operator(), 1..36_usize).prop_map(|(id, operator, length)| {
            let value = if operator == "equals" { id } else { id[..length].to_owned() };
            Condition { attribute: "id", operator, value }
        });
    let place = (container(), operator()).prop_map(|(path, operator)| Condition {
        attribute: "container",
        operator,
        value: path.to_owned(),
    });
    let condition = prop_oneof![1 => id, 3 => place];
    let conditions = prop::collection::vec(condition, 1..3).prop_map(Scope::Conditions);
    let scope = prop_oneof![3 => conditions, 1 => container().prop_map(Scope::Container)];
    rules(scope).prop_map(|rules| Rights { rules, ..Rights::default() })
}

/// Callers of every shape.
pub async fn callers(
    server: &TestServer,
    tokens: &[Value],
    runner: &mut TestRunner,
) -> Vec<Caller> {
    let permissions = |permissions: &[&'static str], rules: Vec<Rule>| Rights {
        permissions: permissions.to_vec(),
        rules,
        grantor: None,
    };
    let everything = permissions(&[], vec![on(1, "/", 2)]);
    let mut applications = vec![
        everything.clone(),
        permissions(&[SEARCH], vec![]),
        // What decides below is not what decides above, and not what decides beside.
        permissions(&[SEARCH], vec![on(1, "/a/b/c/", 2), on(2, "/a/b/", 0), on(3, "/a/", 2)]),
        // `/a/bc/` is not below it, nor is `/a/`.
        permissions(&["token:read"], vec![on(7, "/a/b/", 2)]),
        // It may read everything, and search nothing.
        permissions(
            &["token:read", "token:use"],
            vec![Rule { permissions: vec!["token:read"], ..on(1, "/", 2) }],
        ),
    ];
    applications.extend((0..RANDOM).map(|_| draw(of_application(), runner)));
    let mut callers = Vec::new();
    for rights in applications {
        let made = server.management.post("/applications", rights.body()).await.expect(201);
        callers.push(Caller { client: server.client(made["key"].as_str().unwrap()), rights });
    }
    let ids: Vec<String> =
        tokens.iter().map(|token| token["id"].as_str().unwrap().into()).collect();
    let opener = server.application("public", &["token:create"], json!([])).await;
    for _ in 0..SESSIONS {
        let rights = draw(of_session(ids.clone()), runner);
        let grantor =
            draw(prop::option::of(of_application()), runner).unwrap_or(everything.clone());
        callers.push(session(server, &opener, (rights, grantor)).await);
    }
    callers
}

/// A session whose grantor held everything when it authorized it, and then was given these rights.
async fn session(
    server: &TestServer,
    opener: &Client,
    (rights, grantor): (Rights, Rights),
) -> Caller {
    let all = ["token:read", SEARCH, "token:use"];
    let all = Rights {
        rules: vec![Rule { permissions: all.to_vec(), ..on(1, "/", 2) }],
        ..Rights::default()
    };
    let made = server.management.post("/applications", all.body()).await.expect(201);
    let opened = opener.post("/sessions", json!({})).await.expect(201);
    let mut grant = rights.body();
    grant["nonce"] = opened["nonce"].clone();
    let by = server.client(made["key"].as_str().unwrap());
    by.post("/sessions/authorize", grant).await.expect(200);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    server.management.put(&path, grantor.body()).await.expect(200);
    let client = server.client(opened["session_key"].as_str().unwrap());
    Caller { client, rights: Rights { grantor: Some(Box::new(grantor)), ..rights } }
}
