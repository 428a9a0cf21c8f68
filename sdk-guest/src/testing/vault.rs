//! A vault in memory, for tests of formulas.
//!
//! It keeps data and counts ids; it has no permissions, masks, validation or expressions, and a search finds what
//! [`FakeVault::finds`] says. A test that needs more runs against a server; one that needs an answer of its own
//! refuses with [`FakeVault::refuse`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::{Problem, Vault};

/// A vault in memory. Clones share their tokens.
#[derive(Clone, Default)]
pub struct FakeVault(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    tokens: BTreeMap<String, Value>,
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
        self.0.borrow_mut().tokens.insert(id.to_owned(), token);
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
        self.0.borrow().tokens.get(id).map(|token| token["data"].clone())
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
        if !token.contains_key("data") || !token.contains_key("type") {
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
        let token = Value::Object(token);
        self.tokens.insert(id, token.clone());
        Ok(token)
    }

    fn get(&self, id: &str) -> Result<&Value, Problem> {
        self.tokens.get(id).ok_or_else(missing)
    }

    /// A page with all tokens that match; the newest are those whose ids sort last.
    fn page(&self, matches: impl Fn(&Value) -> bool) -> String {
        let found: Vec<&Value> =
            self.tokens.values().rev().filter(|token| matches(token)).collect();
        let pagination = json!({ "total_items": found.len(), "page_number": 1 });
        json!({ "pagination": pagination, "data": found }).to_string()
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
        let filter = parse(filter)?;
        let allowed = |member: &str, token: &Value| {
            let wanted = filter.get(member).and_then(Value::as_array);
            wanted.is_none_or(|wanted| wanted.contains(&token[member]))
        };
        let metadata = filter.get("metadata").and_then(Value::as_object);
        let tagged = |token: &Value| {
            let mut wanted = metadata.into_iter().flatten();
            wanted.all(|(key, value)| token["metadata"][key] == *value)
        };
        let matches =
            |token: &Value| allowed("id", token) && allowed("type", token) && tagged(token);
        Ok(self.state()?.page(matches))
    }

    fn search_tokens(&self, search: &str) -> Result<String, Problem> {
        let search = parse(search)?;
        let state = self.state()?;
        let query = search["query"].as_str().filter(|query| !query.is_empty());
        let Some(query) = query else { return Ok(state.page(|_| true)) };
        let found = state.searches.get(query).cloned().unwrap_or_default();
        Ok(state.page(|token| found.iter().any(|id| token["id"] == id.as_str())))
    }

    fn update_token(&self, id: &str, patch: &str) -> Result<String, Problem> {
        let patch = parse(patch)?;
        let mut state = self.state()?;
        let token = state.tokens.get_mut(id).ok_or_else(missing)?;
        for member in ["data", "metadata", "containers", "expires_at"] {
            if let Some(patch) = patch.get(member) {
                merge(&mut token[member], patch);
            }
        }
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
