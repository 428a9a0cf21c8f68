//! A vault in memory, for tests of formulas.
//!
//! It keeps data and counts ids, and answers lists as a server does; it has no permissions, masks, validation of data,
//! expressions or deduplication, and a search finds what [`FakeVault::finds`] says. A test that needs more runs against a
//! server; one that needs an answer of its own refuses with [`FakeVault::refuse`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::list::{Cut, Kept, Wanted};
use crate::clock::Minute;
use crate::{Problem, Vault};

/// A vault in memory. Clones share their tokens.
///
/// A token without containers lies in that of its type, as `/pci/high/` is that of cards, and equal data of one type have
/// one fingerprint. Lists show what matches, newest first, in pages with cursors:
///
/// ```
/// use tokamak_sdk::{Svc, TokenFilter, testing::FakeVault};
///
/// let vault = FakeVault::new().with("a", "card", "1").with("b", "card", "2").with("c", "token", "3");
/// let svc = Svc::over(vault);
/// let cards = TokenFilter::new().container("/pci/*").size(1);
/// let first = svc.list(&cards).unwrap();
/// assert_eq!((first.tokens[0].id.as_str(), first.total), ("b", 2));
/// let second = svc.list(&cards.start(first.next.unwrap())).unwrap();
/// assert_eq!((second.tokens[0].id.as_str(), second.next), ("a", None));
/// ```
#[derive(Clone, Default)]
pub struct FakeVault(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    tokens: BTreeMap<String, Kept>,
    /// How many tokens were ever kept.
    kept: u64,
    /// How many of them a formula made.
    made: usize,
    searches: BTreeMap<String, Vec<String>>,
    refusal: Option<Problem>,
}

impl FakeVault {
    /// An empty vault.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a token under `id`.
    #[must_use]
    pub fn with(self, id: &str, token_type: &str, data: impl Into<Value>) -> Self {
        let token = json!({ "id": id, "type": token_type, "data": data.into() });
        self.0.borrow_mut().keep(id, token);
        self
    }

    /// Lets this query find these tokens, if they are there.
    #[must_use]
    pub fn finds(self, query: &str, ids: &[&str]) -> Self {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        self.0.borrow_mut().searches.insert(query.to_owned(), ids);
        self
    }

    /// Answers every call from now on with this problem.
    pub fn refuse(&self, problem: Problem) {
        self.0.borrow_mut().refusal = Some(problem);
    }

    /// The data of a token.
    pub fn data(&self, id: &str) -> Option<Value> {
        self.0.borrow().tokens.get(id).map(|kept| kept.token["data"].clone())
    }

    /// How many tokens are kept.
    pub fn count(&self) -> usize {
        self.0.borrow().tokens.len()
    }

    fn state(&self) -> Result<std::cell::RefMut<'_, State>, Problem> {
        let state = self.0.borrow_mut();
        match &state.refusal {
            Some(problem) => Err(problem.clone()),
            None => Ok(state),
        }
    }
}

impl State {
    fn create(&mut self, mut token: Map<String, Value>) -> Result<Value, Problem> {
        if token.get("data").is_none_or(Value::is_null) || !token.contains_key("type") {
            return Err(Problem::new(400, "Bad Request", "a token needs a type and data"));
        }
        self.made += 1;
        let id = match token.get("id").and_then(Value::as_str) {
            Some(id) => id.to_owned(),
            None => format!("token-{}", self.made),
        };
        if self.tokens.contains_key(&id) {
            return Err(Problem::new(409, "Conflict", "the id is taken"));
        }
        token.insert("id".to_owned(), id.clone().into());
        Ok(self.keep(&id, Value::Object(token)))
    }

    /// Puts a token there, with what a server adds; gives how it is shown.
    fn keep(&mut self, id: &str, mut token: Value) -> Value {
        if token["containers"].as_array().is_none_or(Vec::is_empty) {
            token["containers"] = json!([container_of(&token["type"])]);
        }
        token["fingerprint"] = fingerprint(&token);
        token["created_at"] = now();
        self.kept += 1;
        self.tokens.insert(id.to_owned(), Kept { order: self.kept, token: token.clone() });
        token
    }

    fn get(&self, id: &str) -> Result<&Value, Problem> {
        self.tokens.get(id).map(|kept| &kept.token).ok_or_else(missing)
    }

    /// The page of those tokens that match.
    fn page(&self, cut: &Cut, matches: impl Fn(&Value) -> bool) -> String {
        cut.page(self.tokens.values().filter(|kept| matches(&kept.token)).collect())
    }

    fn tokenize(&mut self, value: Value) -> Result<Value, Problem> {
        match value {
            Value::Object(token) if token.contains_key("type") && token.contains_key("data") => {
                self.create(token)
            }
            Value::Object(members) => members
                .into_iter()
                .map(|(name, value)| Ok((name, self.tokenize(value)?)))
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.tokenize(item))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Value::Null => Ok(Value::Null),
            primitive => {
                let mut token = Map::new();
                token.insert("type".to_owned(), "token".into());
                token.insert("data".to_owned(), primitive);
                self.create(token).map(|token| token["id"].clone())
            }
        }
    }

    fn detokenize(&self, value: Value) -> Result<Value, Problem> {
        match value {
            Value::String(text) => match reference(&text) {
                Some(id) => self.get(id).map(|token| token["data"].clone()),
                None => Ok(Value::String(text)),
            },
            Value::Object(members) => members
                .into_iter()
                .map(|(name, value)| Ok((name, self.detokenize(value)?)))
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.detokenize(item))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            other => Ok(other),
        }
    }
}

impl Vault for FakeVault {
    fn create_token(&self, token: &str) -> Result<String, Problem> {
        match parse(token)? {
            Value::Object(token) => self.state()?.create(token).map(|token| token.to_string()),
            _ => Err(Problem::new(400, "Bad Request", "a token is an object")),
        }
    }

    fn get_token(&self, id: &str) -> Result<String, Problem> {
        self.state()?.get(id).map(Value::to_string)
    }

    fn list_tokens(&self, filter: &str) -> Result<String, Problem> {
        let (wanted, cut) = Wanted::read(&parse(filter)?)?;
        Ok(self.state()?.page(&cut, |token| wanted.matches(token)))
    }

    fn search_tokens(&self, search: &str) -> Result<String, Problem> {
        let search = parse(search)?;
        let cut = Cut::of_search(&search)?;
        let state = self.state()?;
        let query = search["query"].as_str().filter(|query| !query.is_empty());
        let Some(query) = query else { return Ok(state.page(&cut, |_| true)) };
        let found = state.searches.get(query).cloned().unwrap_or_default();
        Ok(state.page(&cut, |token| found.iter().any(|id| token["id"] == id.as_str())))
    }

    fn update_token(&self, id: &str, patch: &str) -> Result<String, Problem> {
        let patch = parse(patch)?;
        let mut state = self.state()?;
        let token = &mut state.tokens.get_mut(id).ok_or_else(missing)?.token;
        if patch.get("data").is_some_and(Value::is_null) {
            return Err(Problem::new(400, "Bad Request", "data is required"));
        }
        for member in CHANGEABLE {
            match patch.get(member) {
                None => {}
                // It goes back to what it is when nobody says anything.
                Some(Value::Null) => {
                    token.as_object_mut().and_then(|members| members.remove(member));
                }
                Some(patch) => merge(&mut token[member], patch),
            }
        }
        if token.get("containers").is_none() {
            token["containers"] = json!([container_of(&token["type"])]);
        }
        token["fingerprint"] = fingerprint(token);
        token["modified_at"] = now();
        Ok(token.to_string())
    }

    fn delete_token(&self, id: &str) -> Result<(), Problem> {
        self.state()?.tokens.remove(id).map(drop).ok_or_else(missing)
    }

    fn tokenize(&self, value: &str) -> Result<String, Problem> {
        let value = parse(value)?;
        self.state()?.tokenize(value).map(|value| value.to_string())
    }

    fn detokenize(&self, value: &str) -> Result<String, Problem> {
        let value = parse(value)?;
        self.state()?.detokenize(value).map(|value| value.to_string())
    }
}

/// What an update may change.
const CHANGEABLE: [&str; 8] = [
    "data",
    "mask",
    "metadata",
    "containers",
    "search_indexes",
    "fingerprint_expression",
    "deduplicate_token",
    "expires_at",
];

/// Where tokens of a type are kept when nobody says where.
fn container_of(token_type: &Value) -> &'static str {
    match token_type.as_str().unwrap_or_default() {
        "card" | "card_number" => "/pci/high/",
        "bank" | "us_bank_account_number" => "/bank/high/",
        "us_bank_routing_number" => "/bank/low/",
        "social_security_number" | "employer_id_number" => "/pii/high/",
        _ => "/general/high/",
    }
}

/// The time of the call, to the minute.
fn now() -> Value {
    let Minute { year, month, day, hour, minute } = Minute::now();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z").into()
}

/// The same for equal data of one type. It is that of the whole data: there are no expressions here.
fn fingerprint(token: &Value) -> Value {
    let mut hasher = DefaultHasher::new();
    (token["type"].to_string(), token["data"].to_string()).hash(&mut hasher);
    format!("fingerprint-{:016x}", hasher.finish()).into()
}

/// A JSON Merge Patch (RFC 7396).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (name, patch) in patch {
        if patch.is_null() {
            value.as_object_mut().and_then(|members| members.remove(name));
        } else {
            merge(&mut value[name], patch);
        }
    }
}

/// The id in a text that is one whole reference, `{{ <token id> }}`.
fn reference(text: &str) -> Option<&str> {
    let id = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    (!id.is_empty()).then_some(id)
}

fn parse(text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text)
        .map_err(|_| Problem::new(400, "Bad Request", "the body is not valid JSON"))
}

fn missing() -> Problem {
    Problem::new(404, "Not Found", "there is no such token")
}
