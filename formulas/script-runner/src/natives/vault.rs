//! The vault behind `svc`.

use std::cell::RefCell;

use boa_engine::object::builtins::JsArray;
use boa_engine::{Context, JsResult, JsString, JsValue};
use serde_json::json;

use super::{Table, text};
use crate::bindings::tokamak::formula::vault::{Problem, Svc};
use crate::engine::error;

/// What this file offers.
pub const TABLE: Table = &[("svc", call)];

thread_local! {
    static SVC: RefCell<Option<Svc>> = const { RefCell::new(None) };
}

/// Keeps the binding of this invocation.
pub fn bind(svc: Option<Svc>) {
    SVC.with_borrow_mut(|bound| *bound = svc);
}

/// Whether there is one.
pub fn is_bound() -> bool {
    SVC.with_borrow(Option::is_some)
}

/// `svc(operation, …)`: `[true, answer]` or `[false, problem]`, each as JSON
fn call(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let (operation, first) = (text(arguments, 0)?, text(arguments, 1)?);
    let answer = SVC.with_borrow(|svc| {
        let svc = svc.as_ref().ok_or_else(|| error("there is no svc"))?;
        Ok::<_, boa_engine::JsError>(match operation.as_str() {
            "create" => svc.create_token(&first),
            "get" => svc.get_token(&first),
            "list" => svc.list_tokens(&first),
            "search" => svc.search_tokens(&first),
            "update" => svc.update_token(&first, &text(arguments, 2)?),
            "delete" => svc.delete_token(&first).map(|()| String::new()),
            "tokenize" => svc.tokenize(&first),
            "detokenize" => svc.detokenize(&first),
            _ => return Err(error("svc has no such operation")),
        })
    })?;
    let (granted, text) = match answer {
        Ok(text) => (true, text),
        Err(problem) => (false, described(problem)),
    };
    let pair = [granted.into(), JsString::from(text.as_str()).into()];
    Ok(JsArray::from_iter(pair, context).into())
}

fn described(problem: Problem) -> String {
    let Problem { status, title, detail, errors } = problem;
    let errors: serde_json::Map<String, serde_json::Value> =
        errors.into_iter().map(|(path, messages)| (path, messages.into())).collect();
    json!({ "status": status, "title": title, "detail": detail, "errors": errors }).to_string()
}
