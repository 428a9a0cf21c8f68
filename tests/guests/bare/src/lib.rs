//! A formula without the SDK: the contract and wit-bindgen alone.
//!
//! It answers with the JSON text it was given, or with what stands between the quotes when that is a
//! string: so `"{"` makes it answer with `{`, which is not JSON. `{"log":"for ever"}` makes it do that, and a number in that
//! place makes it log one line of so many bytes first.

wit_bindgen::generate!({ path: "../../../wit", world: "formula" });

use exports::tokamak::formula::reactor::{Error, Guest, Request, Response};
use tokamak::formula::logging::{self, Level};

struct Bare;

impl Guest for Bare {
    fn react(request: Request) -> Result<Response, Error> {
        let args = request.args.as_str();
        if args == r#"{"log":"for ever"}"# {
            log_for_ever();
        }
        if let Some(bytes) = bytes_to_log(args) {
            logging::write(Level::Info, &"x".repeat(bytes));
        }
        let text = args.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(args);
        Ok(Response { raw: Some(text.to_owned()), tokenize: None })
    }
}

fn bytes_to_log(args: &str) -> Option<usize> {
    args.strip_prefix(r#"{"log":"#)?.strip_suffix('}')?.parse().ok()
}

/// Has the host read as much as one call takes, again and again, with next to no instruction of its own.
fn log_for_ever() -> ! {
    let text = "x".repeat(7 << 20);
    loop {
        logging::write(Level::Info, &text);
    }
}

export!(Bare);
