//! A formula without the SDK that sends requests: the contract, wit-bindgen and a JSON parser.
//!
//! `args`: `method`, `url`, `headers` (an array of pairs), `body` (text) or `body_bytes` (so many), `timeout_ms`,
//! `redirects`; `times`, for how often it is sent, and `holds_bytes`, for what it takes of memory then. It answers with
//! what came of the last: `status`, `headers`, `body` (text), `body_bytes`; or `error` and `reason`. `made` is how often
//! it was sent until one failed.
//!
//! With `all`, an array of such requests, it begins each of them, and answers with what came of those that `order` names, by
//! their places and in this order; the rest it gives up first.

wit_bindgen::generate!({ path: "../../../wit", world: "formula" });

use exports::tokamak::formula::reactor::{Error, Guest, Request, Response};
use serde_json::{Value, json};
use tokamak::formula::http;

struct Fetch;

impl Guest for Fetch {
    fn react(request: Request) -> Result<Response, Error> {
        let args: Value = serde_json::from_str(&request.args).unwrap_or_default();
        if let Some(all) = args["all"].as_array() {
            return Ok(Response { raw: Some(beside(all, &args["order"]).to_string()), tokenize: None });
        }
        let times = args["times"].as_u64().unwrap_or(1);
        let mut made = 0;
        let mut told = Value::Null;
        for _ in 0..times {
            let answer = http::send(&read(&args));
            made += 1;
            let failed = answer.is_err();
            told = answer.map_or_else(tell_error, tell);
            if failed {
                break;
            }
        }
        let held = vec![1_u8; args["holds_bytes"].as_u64().unwrap_or_default() as usize];
        std::hint::black_box(&held);
        told["made"] = made.into();
        Ok(Response { raw: Some(told.to_string()), tokenize: None })
    }
}

fn beside(all: &[Value], order: &Value) -> Value {
    let order = order.as_array().into_iter().flatten();
    let order: Vec<usize> = order.map(|place| place.as_u64().unwrap_or_default() as usize).collect();
    let mut begun: Vec<_> = all.iter().map(|args| Some(http::begin(&read(args)))).collect();
    for (place, exchange) in begun.iter_mut().enumerate() {
        if !order.contains(&place) {
            exchange.take();
        }
    }
    let answer = |place: &usize| begun[*place].as_ref().map(http::Exchange::answer);
    let answers = order.iter().filter_map(answer);
    answers.map(|answer| answer.map_or_else(tell_error, tell)).collect()
}

fn read(args: &Value) -> http::Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let headers = args["headers"].as_array().into_iter().flatten();
    let filled = args["body_bytes"].as_u64().map(|bytes| vec![b'x'; bytes as usize]);
    http::Request {
        method: args["method"].as_str().unwrap_or("GET").to_owned(),
        url: text(&args["url"]),
        headers: headers.map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        body: args["body"].as_str().map(|body| body.as_bytes().to_vec()).or(filled),
        timeout_ms: args["timeout_ms"].as_u64().map(|ms| ms as u32),
        redirects: args["redirects"].as_u64().unwrap_or_default() as u8,
    }
}

fn tell(response: http::Response) -> Value {
    let shown = response.body.get(..4_096).unwrap_or(&response.body);
    json!({
        "status": response.status,
        "headers": response.headers,
        "body": String::from_utf8_lossy(shown),
        "body_bytes": response.body.len(),
    })
}

fn tell_error(error: http::Error) -> Value {
    let (kind, reason) = match error {
        http::Error::Denied(reason) => ("denied", reason),
        http::Error::Invalid(reason) => ("invalid", reason),
        http::Error::Unreachable(reason) => ("unreachable", reason),
        http::Error::Timeout => ("timeout", String::new()),
        http::Error::TooLarge => ("too-large", String::new()),
    };
    json!({ "error": kind, "reason": reason })
}

export!(Fetch);
