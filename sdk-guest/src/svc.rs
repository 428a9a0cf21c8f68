//! The vault, with the rights of the reactor's application.
//!
//! Typed calls over JSON text. It does not know who answers: in a component the host, in a test a fake.
//! A new operation of the contract is a method of [`Vault`] and one of [`Svc`].

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{NewToken, Token, TokenFilter, TokenPage};

/// The operations of the vault as the contract has them, with JSON as text.
///
/// Formulas use [`Svc`]; implement this to answer a formula's calls in a test.
pub trait Vault {
    /// `POST /tokens`
    fn create_token(&self, token: &str) -> Result<String, Problem>;
    /// `GET /tokens/{id}`
    fn get_token(&self, id: &str) -> Result<String, Problem>;
    /// `GET /tokens`, its parameters as an object
    fn list_tokens(&self, filter: &str) -> Result<String, Problem>;
    /// `POST /tokens/search`
    fn search_tokens(&self, search: &str) -> Result<String, Problem>;
    /// `PATCH /tokens/{id}`
    fn update_token(&self, id: &str, patch: &str) -> Result<String, Problem>;
    /// `DELETE /tokens/{id}`
    fn delete_token(&self, id: &str) -> Result<(), Problem>;
    /// `POST /tokenize`
    fn tokenize(&self, value: &str) -> Result<String, Problem>;
    /// `POST /detokenize`
    fn detokenize(&self, value: &str) -> Result<String, Problem>;
}

/// The vault, as the application of the reactor sees it.
///
/// ```
/// use tokamak_sdk::{Error, NewToken, Svc, Token};
///
/// fn keep(svc: &Svc, iban: &str) -> Result<String, Error> {
///     let token = svc.create(&NewToken::new("token", iban).container("/bank/high/"))?;
///     Ok(token.id)
/// }
/// ```
pub struct Svc(Box<dyn Vault>);

impl Svc {
    /// A client of `vault`.
    pub fn over(vault: impl Vault + 'static) -> Self {
        Self(Box::new(vault))
    }

    /// Stores a token and returns it.
    pub fn create(&self, token: &NewToken) -> Result<Token, Problem> {
        read(&self.0.create_token(&write(token)?)?)
    }

    /// The token with this id, shaped by the application's rules.
    pub fn get(&self, id: &str) -> Result<Token, Problem> {
        read(&self.0.get_token(id)?)
    }

    /// The newest tokens that match, a page at a time.
    ///
    /// ```
    /// # use tokamak_sdk::{Problem, Svc, TokenFilter, TokenPage};
    /// fn cards_of(svc: &Svc, customer: &str) -> Result<TokenPage, Problem> {
    ///     svc.list(&TokenFilter::new().of_type("card").metadata("customer", customer))
    /// }
    /// ```
    pub fn list(&self, filter: &TokenFilter) -> Result<TokenPage, Problem> {
        read(&self.0.list_tokens(&write(filter)?)?)
    }

    /// The newest tokens that a query finds, such as `type:card AND metadata.customer:"17"`.
    ///
    /// `start` is the cursor of the page before, [`TokenPage::next`].
    pub fn search(&self, query: &str, start: Option<&str>) -> Result<TokenPage, Problem> {
        let mut search = Map::new();
        search.insert("query".to_owned(), query.into());
        if let Some(start) = start {
            search.insert("start".to_owned(), start.into());
        }
        read(&self.0.search_tokens(&write(&search)?)?)
    }

    /// Changes a token by a JSON Merge Patch and returns it.
    ///
    /// ```
    /// # use tokamak_sdk::{Problem, Svc, Token, json};
    /// fn renew(svc: &Svc, card: &str, year: u32) -> Result<Token, Problem> {
    ///     svc.update(card, json!({ "data": { "expiration_year": year } }))
    /// }
    /// ```
    pub fn update(&self, id: &str, patch: impl Serialize) -> Result<Token, Problem> {
        read(&self.0.update_token(id, &write(&patch)?)?)
    }

    /// Deletes the token with this id.
    pub fn delete(&self, id: &str) -> Result<(), Problem> {
        self.0.delete_token(id)
    }

    /// Stores what is in `value` and returns the same shape with tokens in place of the data.
    pub fn tokenize(&self, value: impl Serialize) -> Result<Value, Problem> {
        read(&self.0.tokenize(&write(&value)?)?)
    }

    /// Returns `value` with every reference, `{{ <token id> }}`, replaced by the data of its token.
    pub fn detokenize<T: DeserializeOwned>(&self, value: impl Serialize) -> Result<T, Problem> {
        read(&self.0.detokenize(&write(&value)?)?)
    }
}

impl fmt::Debug for Svc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Svc")
    }
}

/// A refusal of the vault: what its REST interface would have answered.
///
/// `?` turns it into an [`Error`](crate::Error) of the same status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// The status.
    pub status: u16,
    /// The kind, in a few words.
    pub title: String,
    /// This occurrence, in a sentence.
    pub detail: String,
    /// Member paths, each with its messages.
    pub errors: Vec<(String, Vec<String>)>,
}

impl Problem {
    /// A problem without messages on members.
    pub fn new(status: u16, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { status, title: title.into(), detail: detail.into(), errors: Vec::new() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.title, self.detail)
    }
}

impl std::error::Error for Problem {}

// Texts of serde quote what they found, so none of them is passed on.
fn write(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value)
        .map_err(|_| Problem::new(400, "Bad Request", "the value cannot be written as JSON"))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text)
        .map_err(|_| Problem::new(500, "Unexpected Answer", "the vault's answer has another type"))
}
