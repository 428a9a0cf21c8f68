//! Sends detokenized arguments to an endpoint and maps its answer.
//!
//! # In
//! Any arguments. Where they go is the reactor's configuration (see `formula.json`), here one for a shop:
//!
//! ```json
//! {
//!   "url": "https://api.example.com/customers/{{ args.customer }}/cards",
//!   "headers": "{\"Authorization\": \"Bearer {{ configuration.api_key }}\", \"Idempotency-Key\": \"{{ invocation.id }}\"}",
//!   "body_template": "{\"number\": \"{{ args.card.number }}\", \"month\": \"{{ args.card.expiration_month }}\"}",
//!   "api_key": "…",
//!   "raw_path": "/id"
//! }
//! ```
//!
//! Placeholders name members of `args`, `configuration` and `invocation` (`id`, `reactor_id`, `attempt`); numbers lead
//! into arrays. What they stand for becomes a JSON value in the body, percent-encoded in the address, and is refused
//! in a header unless it is printable ASCII: nothing that a caller sends can become syntax. One that stands for
//! nothing is a bad request that names it, unless it ends in `?`. What is wrong with the configuration alone is a
//! runtime error, which no caller can mend.
//!
//! `invocation.id` is another for each call: where a call that is repeated must not act twice, let the caller send a key
//! as an argument, and put that in the header.
//!
//! # Out
//! - `raw`: `{"status", "body"}`; the part at `raw_path` when that is set; the status alone when only `tokenize_path`
//!   is. What `redact` names is left out first; `*` in it stands for every member or item. A body that is not JSON is a
//!   string, and so is a lone number, `true`, `false` or `null` that is said to be `text/…`. With `redact` all that is
//!   neither an object nor an array is null, since no part of it can be left out.
//! - `tokens`: the part at `tokenize_path`, tokenized.
//! - A number in either of them with more digits than a JSON number keeps is a runtime error, since it came out rounded.
//!
//! A status that is not expected is an error that tells the status and nothing of what was sent or answered: rate
//! limit for 429, service unavailable for 502 to 504, else a runtime error.

mod answer;
mod body;
mod configuration;
mod settings;
mod target;
mod template;

use tokamak_sdk::{Error, Faults, Request, Response, Value, formula, http, log};

use crate::answer::answer;
use crate::configuration::Members;
use crate::settings::{Answering, Sending};
use crate::template::Scope;

#[formula]
fn react(request: Request<Value>) -> Result<Response, Error> {
    let scope = Scope::of(&request);
    let mut faults = Faults::default();
    let (outgoing, answering) = match Members::of(&request.configuration, &mut faults) {
        Some(mut given) => {
            let (sending, answering) = (Sending::read(&mut given), Answering::read(&mut given));
            (build(&sending, &scope, &mut faults), answering)
        }
        None => (None, None),
    };
    let (outgoing, answering) = match outgoing.zip(answering) {
        Some(both) if faults.is_empty() => both,
        _ => return Err(faults.into_error("the request to the endpoint cannot be made")),
    };
    // Why it fails is logged, in the host's words, which are fixed ones: they hold nothing of the request.
    let received = outgoing.send()?;
    log::info(format_args!("the endpoint answered {}", received.status));
    answer(&received, &answering)
}

/// The request, all of whose placeholders stand for something. Each part is looked at, whatever is wrong with another.
fn build(sending: &Sending, scope: &Scope, faults: &mut Faults) -> Option<http::Request> {
    let url = sending.url.as_ref().and_then(|url| target::url(url, scope, faults));
    let templates = sending.headers.as_ref();
    let headers = templates.and_then(|headers| target::headers(headers, scope, faults));
    let body = body::render(sending, scope, faults);
    let mut request = http::request(sending.method?.name(), url?);
    for (name, value) in headers? {
        request = request.header(name, value);
    }
    if !templates?.keys().any(|name| name.eq_ignore_ascii_case("accept")) {
        request = request.header("accept", "application/json");
    }
    if let Some(timeout_ms) = sending.timeout_ms {
        request = request.timeout_ms(timeout_ms);
    }
    Some(body?.put_into(request))
}

#[cfg(test)]
mod tests;
