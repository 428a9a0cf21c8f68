//! References in arguments: a place that is filled holds nothing of a token that it does not name,
//! what is no reference stays as it is, and data is never read as a reference.
//!
//! An input is the arguments, as JSON. Every id is that of a token; `big` is a large one, `none` is
//! none.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{timely, value};
use serde_json::{Value, json};
use tokamak::crypto::entropy::SeededEntropy;
use tokamak::expression::{Arguments, TokenParts, Work, is_expression};
use tokamak::limits::{ARGUMENTS_WORK_BYTES_MAX, TOKENS_PER_CALL_MAX};
use tokamak::model::id::TokenId;

/// Begins every token's secret; an input with it could write other tokens' secrets by itself.
const SECRET: &str = "Sec";
const BIG: &str = "big";
const NONE: &str = "none";

/// Checks one input.
pub fn check(input: &str) {
    let args = value(input);
    let Ok(arguments) = timely("parsing", || Arguments::parse(&args)) else { return };
    let ids = arguments.token_ids();
    assert!(ids.len() <= TOKENS_PER_CALL_MAX);
    let tokens: HashMap<&TokenId, TokenParts> = ids
        .iter()
        .filter(|id| id.as_str() != NONE)
        .map(|id| (id, token(&arguments, id.as_str())))
        .collect();
    assert!(tokens.len() + 1 >= ids.len(), "each id stands there once");
    let entropy = SeededEntropy::new(1);
    let work = Work::new(ARGUMENTS_WORK_BYTES_MAX);
    match timely("filling", || arguments.fill(&|id| tokens.get(id), &entropy, &work)) {
        Ok(filled) => {
            assert!(ids.iter().all(|id| id.as_str() != NONE), "a token that is none was filled in");
            Check { arguments: &arguments, tokens: &tokens }.place("", &args, &filled);
        }
        Err(unfilled) => {
            let told = unfilled.faults.to_string();
            assert!(!tokens.keys().any(|id| told.contains(&secret(id.as_str()))), "{told}");
        }
    }
    // Without any tokens, all that refers to one is refused.
    let filled = arguments.fill(&|_| None, &entropy, &Work::new(ARGUMENTS_WORK_BYTES_MAX));
    assert_eq!(filled.is_ok(), ids.is_empty());
}

fn secret(id: &str) -> String {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{SECRET}{:016x}", hasher.finish())
}

/// What a token shows: the whole of it only where that is wanted.
fn token(arguments: &Arguments, id: &str) -> TokenParts {
    let secret = secret(id);
    let data = match id.len() % 4 {
        _ if id == BIG => Value::from(format!("{secret} ").repeat(50_000)),
        0 => json!({"number": secret, "a": [{"b": secret}, 1, null], "c": "{{ other }}"}),
        1 => json!([secret, "{{ other }}", 4.5, {"number": "4242424242424242"}]),
        _ => Value::from(format!("{{{{ other }}}} {secret}")),
    };
    let whole = || json!({"id": id, "type": "token", "data": data.clone()});
    let whole = arguments.shows_whole(id).then(whole);
    TokenParts { id: id.to_owned(), data, whole }
}

struct Check<'c> {
    arguments: &'c Arguments,
    tokens: &'c HashMap<&'c TokenId, TokenParts>,
}

impl Check<'_> {
    /// Compares a place with what it was filled with.
    fn place(&self, path: &str, arg: &Value, filled: &Value) {
        match (arg, filled) {
            (Value::String(text), filled) if is_expression(text) => self.text(path, text, filled),
            (Value::Array(args), Value::Array(filled)) => {
                assert_eq!(args.len(), filled.len());
                for (index, (arg, filled)) in args.iter().zip(filled).enumerate() {
                    self.place(&format!("{path}[{index}]"), arg, filled);
                }
            }
            (Value::Object(args), Value::Object(filled)) => {
                assert_eq!(args.len(), filled.len());
                for ((name, arg), (filled_name, filled)) in args.iter().zip(filled) {
                    assert_eq!(name, filled_name);
                    let dot = if path.is_empty() { "" } else { "." };
                    self.place(&format!("{path}{dot}{name}"), arg, filled);
                }
            }
            (arg, filled) => assert_eq!(arg, filled),
        }
    }

    fn text(&self, path: &str, text: &str, filled: &Value) {
        if let Some(plain) = self.plain(text) {
            assert_eq!(filled, plain, "{text}");
        } else if !text.contains("{{") {
            assert_eq!(filled, text);
        }
        if text.contains(SECRET) {
            return;
        }
        let shown = filled.to_string();
        for id in self.tokens.keys() {
            if shown.contains(&secret(id.as_str())) {
                assert!(self.arguments.paths_of(id).iter().any(|used| used == path), "{path}");
                assert!(text.contains(id.as_str()), "{text} names no {id}");
            }
        }
    }

    /// What a text that is one reference without filters stands for.
    fn plain(&self, text: &str) -> Option<&Value> {
        let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
        if inner.contains(['{', '}', '|']) {
            return None;
        }
        let inner = inner.trim();
        let whole = inner.strip_prefix("token:").map(str::trim);
        let id: TokenId = whole.unwrap_or(inner).parse().ok()?;
        let parts = &self.tokens[&id];
        Some(if whole.is_some() { parts.whole.as_ref().unwrap() } else { &parts.data })
    }
}
