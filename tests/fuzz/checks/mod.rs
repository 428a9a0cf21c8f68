//! What is checked of any input, one module for each target, and what they share: values from text, a bound on time, and
//! the oracle of JSON Merge Patch.
//!
//! The targets beside this folder feed these checks with what libFuzzer makes up; `tests/it/corpus.rs` feeds them with the
//! corpus, as a part of the usual tests.
//!
//! To add a target: a module here, its row in [`CHECKS`], a file in `targets/` with its `[[bin]]`, a folder in `corpus/`.

pub mod binding;
pub mod component;
pub mod cursor;
pub mod expression;
pub mod json;
pub mod query;
pub mod reference;
pub mod request;
pub mod time;
pub mod update;
pub mod wire;
mod world;

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokamak::limits::TOKEN_DATA_BYTES_MAX;

/// Panics on an input that something is wrong with.
pub type Check = fn(&[u8]);

/// Every check, by the name of its target. Those of text pass over what is no text.
pub const CHECKS: &[(&str, Check)] = &[
    ("binding", |input| of_text(input, binding::check)),
    ("component", component::check),
    ("cursor", cursor::check),
    ("expression", |input| of_text(input, expression::check)),
    ("json", json::check),
    ("query", |input| of_text(input, query::check)),
    ("reference", |input| of_text(input, reference::check)),
    ("request", request::check),
    ("time", |input| of_text(input, time::check)),
    ("update", |input| of_text(input, update::check)),
    ("wire", wire::check),
];

/// How long one call may take, in an optimised build with checks.
const CALL_MAX: Duration = Duration::from_secs(2);
/// How long it may take, if somebody says otherwise.
pub static CALL_MAX_SAID: OnceLock<Duration> = OnceLock::new();
/// Texts that stand for values too large to be found by mutation. Each fills most of a token's
/// data.
const LARGE_TEXT: &str = "@text";
const LARGE_ARRAY: &str = "@array";
const LARGE_OBJECT: &str = "@object";

/// Calls and gives the answer, unless it took too long: by the clock, and on the processor too,
/// which others may keep busy.
pub fn timely<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let (began, computed) = (Instant::now(), computed());
    let answer = call();
    let call_max = *CALL_MAX_SAID.get_or_init(|| CALL_MAX);
    if began.elapsed() > call_max {
        let took = self::computed().saturating_sub(computed);
        assert!(took < call_max, "{what} took {took:?}");
    }
    answer
}

fn of_text(input: &[u8], check: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        check(text);
    }
}

/// How long this thread has run.
fn computed() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// Panics that the product catches are no findings: only those that reach the fuzzer are, and they
/// end it all the same.
pub fn let_panics_be_caught() {
    drop(std::panic::take_hook());
    std::panic::set_hook(Box::new(|info| {
        // Liquid's own arithmetic; the product answers with an error.
        let caught = info.location().is_some_and(|at| at.file().contains("liquid"));
        if !caught {
            let _ = writeln!(std::io::stderr(), "{info}");
        }
    }));
}

/// The text as JSON, or as itself.
pub fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// A token's data: as [`value`], with large values in the place of their stand-ins.
pub fn data(text: &str) -> Option<Value> {
    let mut data = value(text);
    grow(&mut data);
    (data.to_string().len() <= TOKEN_DATA_BYTES_MAX).then_some(data)
}

fn grow(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(grow),
        Value::Object(members) => members.values_mut().for_each(grow),
        Value::String(text) => match text.as_str() {
            LARGE_TEXT => *value = Value::from("é 1<".repeat(150_000)),
            LARGE_ARRAY => *value = (0..10_000).map(|n| format!("{:07}", n % 5_000)).collect(),
            LARGE_OBJECT => *value = Value::Object((0..40_000).map(member).collect()),
            _ => {}
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn member(number: usize) -> (String, Value) {
    (format!("m{number}"), Value::from("4242"))
}

/// Bytes of all texts in a value, names of members included.
pub fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() + text_bytes(member)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// What RFC 7396 makes of a value.
pub fn merge_patch(target: Option<&Value>, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = target.and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    for (name, patch) in patch {
        if patch.is_null() {
            merged.shift_remove(name);
        } else {
            let member = merge_patch(merged.get(name), patch);
            merged.insert(name.clone(), member);
        }
    }
    Value::Object(merged)
}
