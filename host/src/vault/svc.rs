//! `svc`: the vault as a formula sees it.
//!
//! A formula acts as its reactor's application and goes the same way as a request of that application: a permit for
//! every call, the same checks, the same log entries. There is no second, weaker path.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::apart::apart;
use super::authentication::{Authenticated, asked_by};
use super::permit::Permit;
use super::tokenize::{check_depth, too_deep};
use super::tokens::{ListTokens, TokenFilter, TokenPage};
use super::{Error, PageRequest, Vault, sharing};
use crate::limits::REQUEST_BODY_BYTES_MAX;
use crate::model::depth::is_too_deep;
use crate::model::faults::Faults;
use crate::model::log::{EntityType, Operation};
use crate::model::permission::Grant;
use crate::model::permission::marker::{
    TokenCreate, TokenDelete, TokenRead, TokenSearch, TokenUpdate,
};
use crate::model::{exact, member};
use crate::runtime::{GuestProblem, GuestVault};

/// Pages of tokens that a formula is given as everybody is.
const PAGES_AT_ONCE: u64 = 20;

/// The vault with the rights of one application.
pub struct Svc {
    vault: Vault,
    who: Authenticated,
    /// How many pages of tokens it was asked for.
    pages: AtomicU64,
}

impl Svc {
    /// Binds the vault to a caller.
    pub fn new(vault: Vault, who: Authenticated) -> Self {
        Self { vault, who, pages: AtomicU64::default() }
    }

    async fn permit<P: Grant>(&self, id: Option<&str>) -> Result<Permit<P>, Error> {
        self.vault.permit::<P>(&self.asker().await?, id).await
    }

    /// The application with the rights it has by now, since a run may take minutes. A call that waits for its turn is
    /// refused if these are others by then.
    async fn asker(&self) -> Result<Authenticated, Error> {
        let who = self.vault.as_it_is_now(&self.who).await?.ok_or(Error::Unauthenticated)?;
        asked_by(&who);
        Ok(who)
    }
}

type Reply<'a, T> = BoxFuture<'a, Result<T, GuestProblem>>;

impl Svc {
    /// Answers a call that carries so many bytes. What is opened for it counts by itself: a run may make any number of them.
    fn reply<'a, T: Send + 'a>(
        &self,
        bytes: usize,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Reply<'a, T> {
        let tenant = self.who.0.tenant();
        let call = async move {
            apart(tenant, bytes).await;
            call.await
        };
        sharing(Some(self.vault.share(tenant)), call).map(|(result, _)| reply(result)).boxed()
    }

    /// The same, of a call for a page of tokens: much in itself, for who makes many of them.
    fn reply_with_page<'a, T: Send + 'a>(
        &self,
        bytes: usize,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Reply<'a, T> {
        let are_many = self.pages.fetch_add(1, Ordering::Relaxed) >= PAGES_AT_ONCE;
        self.reply(if are_many { usize::MAX } else { bytes }, call)
    }
}

impl GuestVault for Svc {
    fn create_token(&self, token: String) -> Reply<'_, String> {
        let bytes = token.len();
        let create = async move {
            let permit = self.permit::<TokenCreate>(None).await?;
            let body = read_body(&token)?;
            write_json(&self.vault.create_token(&permit, body).await?)
        };
        self.reply(bytes, create)
    }

    fn get_token(&self, id: String) -> Reply<'_, String> {
        let bytes = id.len();
        let get = async move {
            let permit = self.permit::<TokenRead>(Some(&id)).await?;
            write_json(&self.vault.find_token(&permit, &id).await?)
        };
        self.reply(bytes, get)
    }

    fn list_tokens(&self, filter: String) -> Reply<'_, String> {
        let bytes = filter.len();
        let list = async move {
            let permit = self.permit::<TokenRead>(None).await?;
            let (filter, request) = read_filter(&filter)?;
            text_of(&self.vault.list_tokens(&permit, filter, &request).await?)
        };
        self.reply_with_page(bytes, list)
    }

    fn search_tokens(&self, search: String) -> Reply<'_, String> {
        let bytes = search.len();
        let search = async move {
            let permit = self.permit::<TokenSearch>(None).await?;
            let body = read_body(&search)?;
            text_of(&self.vault.search_tokens(&permit, body).await?)
        };
        self.reply_with_page(bytes, search)
    }

    fn update_token(&self, id: String, patch: String) -> Reply<'_, String> {
        let bytes = id.len() + patch.len();
        let update = async move {
            let permit = self.permit::<TokenUpdate>(Some(&id)).await?;
            let body = read_body(&patch)?;
            write_json(&self.vault.update_token(&permit, &id, body).await?)
        };
        self.reply(bytes, update)
    }

    fn delete_token(&self, id: String) -> Reply<'_, ()> {
        let bytes = id.len();
        let delete = async move {
            let permit = self.permit::<TokenDelete>(Some(&id)).await?;
            self.vault.delete_token(&permit, &id).await
        };
        self.reply(bytes, delete)
    }

    fn tokenize(&self, value: String) -> Reply<'_, String> {
        let bytes = value.len();
        let tokenize = async move {
            let permit = self.permit::<TokenCreate>(None).await?;
            let (value, inexact) = read_json(&value, |_| true)?;
            write_json(&self.vault.tokenize(&permit, value, inexact).await?)
        };
        self.reply(bytes, tokenize)
    }

    fn detokenize(&self, value: String) -> Reply<'_, String> {
        let bytes = value.len();
        let detokenize = async move {
            let attempt = (EntityType::Token, Operation::Use);
            let permit: Permit<TokenRead> =
                self.vault.permit_attempt(&self.asker().await?, attempt, None).await?;
            let (value, inexact) = read_json(&value, |_| true)?;
            write_json(&self.vault.detokenize(&permit, &value, inexact).await?)
        };
        self.reply(bytes, detokenize)
    }
}

/// A request struct, as the API reads one.
fn read_body<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let names = member::names_of::<T>();
    let (value, inexact) = read_json(text, |name| names.is_none_or(|names| names.contains(&name)))?;
    Ok(member::read_inexact(value, inexact)?)
}

/// What narrows a list. A member that is none is refused: without it the list would hold more than was asked for.
fn read_filter(text: &str) -> Result<(TokenFilter, PageRequest), Error> {
    let (value, inexact) = read_json(text, |_| true)?;
    let mut faults = Faults::new();
    let names = member::names_of::<ListTokens>().unwrap_or_default();
    let given = value.as_object().into_iter().flat_map(Map::keys);
    for name in given.filter(|name| !names.contains(&name.as_str())) {
        faults.add(name, "narrows nothing; metadata is an object of keys and values");
    }
    match member::read_inexact(value, inexact).and_then(ListTokens::check) {
        Ok(read) => Ok(faults.into_result(read)?),
        Err(others) => {
            faults.extend_under("", others);
            Err(faults.into())
        }
    }
}

/// What a text holds, and which of its numbers would be rounded.
fn read_json(text: &str, is_read: impl Fn(&str) -> bool) -> Result<(Value, Faults), Error> {
    if text.len() > REQUEST_BODY_BYTES_MAX {
        return Err(Error::invalid(
            "",
            format!("must have at most {REQUEST_BODY_BYTES_MAX} bytes"),
        ));
    }
    let unread = |error: serde_json::Error| {
        if is_too_deep(&error) {
            return too_deep();
        }
        let (line, column) = exact::place_of(&error, text.as_bytes());
        Error::invalid("", format!("is no JSON at line {line}, column {column}"))
    };
    let value = exact::parse(text.as_bytes()).map_err(unread)?;
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
        let detail = match error {
            // Whoever called the reactor may be told, and has other rights.
            Error::Forbidden { .. } => format!("For the reactor's application: {}", problem.detail),
            _ => problem.detail,
        };
        GuestProblem {
            status: problem.status,
            title: problem.title.to_owned(),
            detail,
            errors: problem.errors.into_iter().collect(),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::vault::Error;

    fn faults(text: &str) -> Vec<String> {
        match super::read_filter(text) {
            Ok(_) => Vec::new(),
            Err(Error::Invalid(faults)) => faults.into_map().into_keys().collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn nothing_that_is_wrong_with_a_filter_hides_another_fault() {
        for (text, expected) in [
            (r#"{"metadata":{"a":1e400},"size":"x"}"#, vec!["metadata.a", "size"]),
            (r#"{"size":12345678901234567890123}"#, vec!["size"]),
            (r#"{"type":["card"],"metadata":{"a":"b"}}"#, vec![]),
            (
                r#"{"types":["card"],"metadata.a":"b","size":"x"}"#,
                vec!["metadata.a", "size", "types"],
            ),
            ("{\"size\":1e400,\n x", vec![""]),
            (&"[".repeat(1_000), vec![""]),
            (&(r#"{"type":"#.to_owned() + &"[".repeat(100) + &"]".repeat(100) + "}"), vec![""]),
        ] {
            assert_eq!(faults(text), expected, "{text}");
        }
    }
}
