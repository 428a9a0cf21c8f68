//! A formula without the SDK: the contract and wit-bindgen alone.
//!
//! It answers with the JSON text it was given, or with what stands between the quotes when that is a
//! string: so `"{"` makes it answer with `{`, which is not JSON.

wit_bindgen::generate!({ path: "../../../wit", world: "formula" });

use exports::tokamak::formula::reactor::{Error, Guest, Request, Response};

struct Bare;

impl Guest for Bare {
    fn react(request: Request) -> Result<Response, Error> {
        let args = request.args.as_str();
        let text = args.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(args);
        Ok(Response { raw: Some(text.to_owned()), tokenize: None })
    }
}

export!(Bare);
