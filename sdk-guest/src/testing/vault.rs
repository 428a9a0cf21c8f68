//! A vault in memory, for tests of formulas.
//!
//! It keeps data and counts ids; it has no permissions, masks, validation or expressions. A test that needs
//! those runs against a server; one that needs an answer of its own refuses with [`FakeVault::refuse`].

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
