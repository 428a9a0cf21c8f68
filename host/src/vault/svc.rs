//! `svc`: the vault as a formula sees it.
//!
//! A formula acts as its reactor's application and goes the same way as a request of that application: a permit for
//! every call, the same checks, the same log entries. There is no second, weaker path.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::authentication::Authenticated;
use super::permit::Permit;
use super::tokenize::check_depth;
use super::tokens::{ListTokens, TokenPage};
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
            let body = read_body(&token)?;
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
            let body: ListTokens = read_body(&filter)?;
            let (filter, request) = body.check()?;
            text_of(&self.vault.list_tokens(&permit, filter, &request).await?)
        };
        list.map(reply).boxed()
    }

    fn search_tokens(&self, search: String) -> Reply<'_, String> {
        let search = async move {
            let permit = self.permit::<TokenSearch>(None).await?;
            let body = read_body(&search)?;
            text_of(&self.vault.search_tokens(&permit, body).await?)
        };
        search.map(reply).boxed()
    }

    fn update_token(&self, id: String, patch: String) -> Reply<'_, String> {
        let update = async move {
            let permit = self.permit::<TokenUpdate>(Some(&id)).await?;
            let body = read_body(&patch)?;
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
            let (value, inexact) = read_json(&value, |_| true)?;
            write_json(&self.vault.tokenize(&permit, value, inexact).await?)
        };
        tokenize.map(reply).boxed()
    }

    fn detokenize(&self, value: String) -> Reply<'_, String> {
        let detokenize = async move {
            let attempt = (EntityType::Token, Operation::Use);
            let permit: Permit<TokenRead> =
                self.vault.permit_attempt(&self.who_now().await?, attempt, None).await?;
            let (value, inexact) = read_json(&value, |_| true)?;
            write_json(&self.vault.detokenize(&permit, &value, inexact).await?)
        };
        detokenize.map(reply).boxed()
    }
}

/// A request struct, as the API reads one.
fn read_body<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let names = member::names_of::<T>();
    let (value, inexact) = read_json(text, |name| names.is_none_or(|names| names.contains(&name)))?;
    Ok(member::read_inexact(value, inexact)?)
}

/// What a text holds, and which of its numbers would be rounded.
fn read_json(text: &str, is_read: impl Fn(&str) -> bool) -> Result<(Value, Faults), Error> {
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
    let value = exact::parse(text.as_bytes()).map_err(place)?;
    check_depth(&value)?;
    Ok((value, exact::check(text.as_bytes(), is_read).err().unwrap_or_default()))
}

fn write_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::internal)
}

fn text_of(page: &TokenPage) -> Result<String, Error> {
    std::str::from_utf8(page.as_ref()).map(str::to_owned).map_err(Error::internal)
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

#[cfg(test)]
mod tests {
    use crate::vault::Error;
    use crate::vault::tokens::ListTokens;

    fn faults(text: &str) -> Vec<String> {
        let read = super::read_body::<ListTokens>(text)
            .and_then(|body| body.check().map(drop).map_err(Error::from));
        match read {
            Ok(()) => Vec::new(),
            Err(Error::Invalid(faults)) => faults.into_map().into_keys().collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn numbers_that_do_not_fit_hide_no_other_fault_and_what_is_not_read_may_be_anything() {
        for (text, expected) in [
            (r#"{"metadata":{"a":1e400},"size":"x"}"#, vec!["metadata.a", "size"]),
            (r#"{"size":12345678901234567890123}"#, vec!["size"]),
            (r#"{"nothing":1e400,"type":["card"]}"#, vec![]),
            ("{\"size\":1e400,\n x", vec![""]),
            (&"[".repeat(1_000), vec![""]),
        ] {
            assert_eq!(faults(text), expected, "{text}");
        }
    }
}
