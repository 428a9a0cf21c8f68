//! The vault behind `svc`.

use std::cell::RefCell;

use rquickjs::convert::List;
use rquickjs::prelude::{Func, Opt};
use rquickjs::{Ctx, Object, Result};
use serde_json::json;

use super::{Text, error};
use crate::answer::well_formed;
use crate::bindings::tokamak::formula::vault::{Problem, Svc};

thread_local! {
    static SVC: RefCell<Option<Svc>> = const { RefCell::new(None) };
}

/// Bytes of what is handed to the vault: more than it takes, and less than what the host ends a run for that hands it as much.
const HANDED_BYTES_MAX: usize = 6 << 20;

/// Keeps the binding of this invocation.
pub fn bind(svc: Option<Svc>) {
    SVC.with_borrow_mut(|bound| *bound = svc);
}

/// Whether there is one.
pub fn is_bound() -> bool {
    SVC.with_borrow(Option::is_some)
}

/// Offers what this file has.
pub fn offer(host: &Object<'_>) -> Result<()> {
    host.set("svc", Func::from(call))
}

/// `svc(operation, …)`: `[true, answer]` or `[false, problem]`, each as JSON
fn call(
    ctx: Ctx<'_>,
    operation: Text,
    first: Text,
    second: Opt<Text>,
) -> Result<List<(bool, String)>> {
    let answer = SVC.with_borrow(|svc| {
        let svc = svc.as_ref().ok_or_else(|| error(&ctx, "there is no svc"))?;
        let first = first.0;
        if first.len() + second.0.as_ref().map_or(0, |second| second.0.len()) > HANDED_BYTES_MAX {
            return Ok(Err(too_large()));
        }
        Ok(match (operation.0.as_str(), second.0) {
            ("create", None) => svc.create_token(&well_formed(first)),
            ("get", None) => svc.get_token(&first),
            ("list", None) => svc.list_tokens(&well_formed(first)),
            ("search", None) => svc.search_tokens(&well_formed(first)),
            ("update", Some(patch)) => svc.update_token(&first, &well_formed(patch.0)),
            ("delete", None) => svc.delete_token(&first).map(|()| String::new()),
            ("tokenize", None) => svc.tokenize(&well_formed(first)),
            ("detokenize", None) => svc.detokenize(&well_formed(first)),
            _ => return Err(error(&ctx, "svc has no such operation")),
        })
    })?;
    Ok(List(match answer {
        Ok(text) => (true, text),
        Err(problem) => (false, described(problem)),
    }))
}

/// What the vault says of a request that is too large.
fn too_large() -> Problem {
    Problem {
        status: 400,
        title: "Bad Request".to_owned(),
        detail: "The request is invalid; see errors.".to_owned(),
        errors: vec![(String::new(), vec!["must have at most 4194304 bytes".to_owned()])],
    }
}

fn described(problem: Problem) -> String {
    let Problem { status, title, detail, errors } = problem;
    let errors: serde_json::Map<String, serde_json::Value> =
        errors.into_iter().map(|(path, messages)| (path, messages.into())).collect();
    json!({ "status": status, "title": title, "detail": detail, "errors": errors }).to_string()
}
