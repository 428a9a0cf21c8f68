//! The vault, with the rights of the reactor's application.
//!
//! Typed calls over JSON text. It does not know who answers: in a component the host, in a test a fake.
//! A new operation of the contract is a method of [`Vault`] and one of [`Svc`].

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

    /// The data of the token with this id, as a type of the formula.
    ///
    /// What the application may not read, or may read masked only, is not there or does not fit: a problem.
    ///
    /// ```
    /// # use serde::Deserialize;
    /// # use tokamak_sdk::{Problem, Svc};
    /// #[derive(Deserialize)]
    /// struct Card {
    ///     number: String,
    /// }
    ///
    /// fn bin(svc: &Svc, id: &str) -> Result<String, Problem> {
    ///     let card: Card = svc.data(id)?;
    ///     Ok(card.number.chars().take(6).collect())
    /// }
    /// # use tokamak_sdk::{json, testing::FakeVault};
    /// # let vault = FakeVault::new().with("a", "card", json!({ "number": "4242424242424242" }));
    /// # assert_eq!(bin(&Svc::over(vault), "a").unwrap(), "424242");
    /// ```
    pub fn data<T: DeserializeOwned>(&self, id: &str) -> Result<T, Problem> {
        self.get(id)?.data_as()
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
    /// `start` is the cursor of the page before, [`TokenPage::next`]. For pages of another size see
    /// [`search_with`](Self::search_with).
    pub fn search(&self, query: &str, start: Option<&str>) -> Result<TokenPage, Problem> {
        let search = Search::new(query);
        self.search_with(&match start {
            Some(start) => search.start(start),
            None => search,
        })
    }

    /// The newest tokens that a search finds, a page at a time.
    ///
    /// ```
    /// # use tokamak_sdk::{Problem, Search, Svc};
    /// fn cards(svc: &Svc) -> Result<Vec<String>, Problem> {
    ///     let mut ids = Vec::new();
    ///     let mut search = Search::new("type:card").size(100);
    ///     loop {
    ///         let page = svc.search_with(&search)?;
    ///         ids.extend(page.tokens.into_iter().map(|token| token.id));
    ///         let Some(next) = page.next else { return Ok(ids) };
    ///         search = search.start(next);
    ///     }
    /// }
    /// # use tokamak_sdk::testing::FakeVault;
    /// # let vault = FakeVault::new().with("a", "card", "1").finds("type:card", &["a"]);
    /// # assert_eq!(cards(&Svc::over(vault)).unwrap(), ["a"]);
    /// ```
    pub fn search_with(&self, search: &Search) -> Result<TokenPage, Problem> {
        read(&self.0.search_tokens(&write(search)?)?)
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

/// What a search finds, and which page of it.
///
/// ```
/// use tokamak_sdk::Search;
///
/// Search::new(r#"type:card AND metadata.customer:"17""#).size(100).page(2);
/// ```
#[derive(Clone, Default, Serialize)]
pub struct Search {
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
}

impl Search {
    /// The tokens that this query finds.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: Some(query.into()), ..Self::everything() }
    }

    /// Every token that the application may search.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Which page, from 1. To go through many, [`start`](Self::start) is cheaper.
    #[must_use]
    pub fn page(self, page: u32) -> Self {
        Self { page: Some(page), start: None, ..self }
    }

    /// Tokens on a page, 1 to 100; 20 unless set.
    #[must_use]
    pub fn size(self, size: u32) -> Self {
        Self { size: Some(size), ..self }
    }

    /// Continues after the page that gave this cursor, [`TokenPage::next`]; in place of a number.
    #[must_use]
    pub fn start(self, cursor: impl Into<String>) -> Self {
        Self { start: Some(cursor.into()), page: None, ..self }
    }
}

// A query may hold what it looks for.
impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("page", &self.page)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A refusal of the vault: what its REST interface would have answered.
///
/// `?` turns it into an [`Error`](crate::Error) of the same status as far as formulas have it: any other status from 400 to
/// 499 becomes a bad request, 400, and the rest a runtime error.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Search, write};

    fn written(search: &Search) -> Value {
        write(search).unwrap().parse().unwrap()
    }

    #[test]
    fn a_search_says_what_was_set_and_no_more() {
        assert_eq!(written(&Search::everything()), json!({}));
        assert_eq!(written(&Search::new("type:card")), json!({ "query": "type:card" }));
        let second = Search::new("id:a").size(5).page(2);
        assert_eq!(written(&second), json!({ "query": "id:a", "page": 2, "size": 5 }));
        assert_eq!(format!("{second:?}"), "Search { page: Some(2), size: Some(5), .. }");
        // A cursor and a number both say where to go on: the last one counts.
        let next = second.start("there");
        assert_eq!(written(&next), json!({ "query": "id:a", "size": 5, "start": "there" }));
        let first = next.page(1);
        assert_eq!(written(&first), json!({ "query": "id:a", "page": 1, "size": 5 }));
    }
}
