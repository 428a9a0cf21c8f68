//! `svc`: the vault as a formula sees it.
//!
//! A formula acts as its reactor's application and goes the same way as a request of that application: a permit for
//! every call, the same checks, the same log entries. There is no second, weaker path.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use super::authentication::Authenticated;
use super::page::Paginated;
use super::permit::Permit;
use super::tokenize::check_depth;
use super::tokens::ListTokens;
use super::{Error, Vault};
use crate::limits::REQUEST_BODY_BYTES_MAX;
use crate::model::faults::Faults;
use crate::model::log::{EntityType, Operation};
use crate::model::permission::Grant;
use crate::model::permission::marker::{
    TokenCreate, TokenDelete, TokenRead, TokenSearch, TokenUpdate,
};
use crate::model::{exact, member};
use crate::runtime::{GuestProblem, GuestVault};

/// The vault with the rights of one application.
pub struct Svc {
    vault: Vault,
    who: Authenticated,
}

impl Svc {
    /// Binds the vault to a caller.
    pub fn new(vault: Vault, who: Authenticated) -> Self {
        Self { vault, who }
    }

    async fn permit<P: Grant>(&self, id: Option<&str>) -> Result<Permit<P>, Error> {
        self.vault.permit::<P>(&self.who_now().await?, id).await
    }

    /// The application with the rights it has by now: a run may take minutes.
    async fn who_now(&self) -> Result<Authenticated, Error> {
        self.vault.as_it_is_now(&self.who).await?.ok_or(Error::Unauthenticated)
    }
}

type Reply<'a, T> = BoxFuture<'a, Result<T, GuestProblem>>;

impl GuestVault for Svc {
    fn create_token(&self, token: String) -> Reply<'_, String> {
        let create = async move {
            let permit = self.permit::<TokenCreate>(None).await?;
            let body = member::read(read_json(&token)?)?;
            write_json(&self.vault.create_token(&permit, body).await?)
        };
        create.map(reply).boxed()
    }

    fn get_token(&self, id: String) -> Reply<'_, String> {
        let get = async move {
            let permit = self.permit::<TokenRead>(Some(&id)).await?;
            write_json(&self.vault.find_token(&permit, &id).await?)
        };
        get.map(reply).boxed()
    }

    fn list_tokens(&self, filter: String) -> Reply<'_, String> {
        let list = async move {
            let permit = self.permit::<TokenRead>(None).await?;
            let body: ListTokens = member::read(read_json(&filter)?)?;
            let (filter, request) = body.check()?;
            let page = self.vault.list_tokens(&permit, filter, &request).await?;
            write_json(&Paginated::from(page))
        };
        list.map(reply).boxed()
    }

    fn search_tokens(&self, search: String) -> Reply<'_, String> {
        let search = async move {
            let permit = self.permit::<TokenSearch>(None).await?;
            let body = member::read(read_json(&search)?)?;
            let page = self.vault.search_tokens(&permit, body).await?;
            write_json(&Paginated::from(page))
        };
        search.map(reply).boxed()
    }

    fn update_token(&self, id: String, patch: String) -> Reply<'_, String> {
        let update = async move {
            let permit = self.permit::<TokenUpdate>(Some(&id)).await?;
            let body = member::read(read_json(&patch)?)?;
            write_json(&self.vault.update_token(&permit, &id, body).await?)
        };
        update.map(reply).boxed()
    }

    fn delete_token(&self, id: String) -> Reply<'_, ()> {
        let delete = async move {
            let permit = self.permit::<TokenDelete>(Some(&id)).await?;
            self.vault.delete_token(&permit, &id).await
        };
        delete.map(reply).boxed()
    }

    fn tokenize(&self, value: String) -> Reply<'_, String> {
        let tokenize = async move {
            let permit = self.permit::<TokenCreate>(None).await?;
            write_json(&self.vault.tokenize(&permit, read_json(&value)?, Faults::new()).await?)
        };
        tokenize.map(reply).boxed()
    }

    fn detokenize(&self, value: String) -> Reply<'_, String> {
        let detokenize = async move {
            let attempt = (EntityType::Token, Operation::Use);
            let permit: Permit<TokenRead> =
                self.vault.permit_attempt(&self.who_now().await?, attempt, None).await?;
            write_json(&self.vault.detokenize(&permit, &read_json(&value)?, Faults::new()).await?)
        };
        detokenize.map(reply).boxed()
    }
}

fn read_json(text: &str) -> Result<Value, Error> {
    if text.len() > REQUEST_BODY_BYTES_MAX {
        return Err(Error::invalid(
            "",
            format!("must have at most {REQUEST_BODY_BYTES_MAX} bytes"),
        ));
    }
    let place = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        Error::invalid("", format!("is no JSON at line {line}, column {column}"))
    };
    let value = serde_json::from_str(text).map_err(place)?;
    check_depth(&value)?;
    exact::check(text.as_bytes(), |_| true)?;
    Ok(value)
}

fn write_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::internal)
}

fn reply<T>(result: Result<T, Error>) -> Result<T, GuestProblem> {
    result.map_err(|error| {
        let problem = error.describe();
        GuestProblem {
            status: problem.status,
            title: problem.title.to_owned(),
            detail: problem.detail,
            errors: problem.errors.into_iter().collect(),
        }
    })
}
