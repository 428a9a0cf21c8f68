//! How much is kept of which answer, and with what status and place it is given again.
//!
//! What is kept must not outlive what it shows: a token that was erased, a right that was revoked, a key of which the
//! vault keeps a hash. So of tokens only the outline is kept, and of keys nothing.
//!
//! An operation whose answer holds such things gets a row in [`Keeping::of`]; one that answers otherwise than with 200 a
//! row in [`Keeping::head`].

use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use http::{Method, StatusCode};
use serde_json::Value;
use zeroize::Zeroizing;

use super::changes;
use crate::http::envelope::segment;
use crate::model::id::TenantId;
use crate::model::plaintext::wipe;
use crate::vault::{Answer, Form, each_token, outline};

/// What changes nothing, although it is a POST.
const READS: [&str; 2] = ["/tokens/search", "/detokenize"];
/// Members of an answer that are shown to whoever did it, and to nobody who repeats it.
const SECRETS: [&str; 4] = ["key", "session_key", "nonce", "secret"];

/// Where the outline of a token has when it was made: another one may have its id by the time of a repetition.
pub(super) const MADE: &str = "_made";

/// How much is kept of the answer of an operation, and how a repetition is answered from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Nothing: the operation changes nothing, so that a repetition is carried out again.
    Nothing,
    /// All of it.
    Whole,
    /// All but the secrets in it.
    WithoutSecrets,
    /// The outline of the token it shows; a repetition shows it as the caller may see it then.
    Token,
    /// Its shape, with the outline of each token in it.
    Tokens,
    /// All of it, but of tokens the outline and how they were shown; a repetition shows them so, as far as they are there.
    Run,
}

impl Keeping {
    /// How the answer to a request is kept.
    pub(super) fn of(request: &Request) -> Self {
        let method = request.method().as_str();
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        match (method, path) {
            _ if !changes(request) || READS.contains(&path) => Self::Nothing,
            (
                "POST",
                "/applications"
                | "/applications/{id}/regenerate"
                | "/sessions"
                | "/webhooks/signing-secrets/rotate",
            ) => Self::WithoutSecrets,
            ("POST", "/tokens") | ("PATCH", "/tokens/{id}") => Self::Token,
            ("POST", "/tokenize") => Self::Tokens,
            (
                "POST",
                "/reactors/{id}/react" | "/reactors/{id}/results/{invocation_id}/redeliver",
            ) => Self::Run,
            _ => Self::Whole,
        }
    }

    /// What makes of an operation's answer as much as is kept.
    pub(super) fn form(self, method: &Method, route: &str, tenant: TenantId) -> Form {
        let operation = (method.clone(), route.to_owned());
        Arc::new(move |body: &mut Value| {
            let (status, location) = Self::head((operation.0.as_str(), &operation.1), body);
            self.reduce(tenant, body);
            let body = Zeroizing::new(body.to_string());
            Answer { status: status.as_u16(), location, body }
        })
    }

    /// Status and place of an operation's success, as its handler answers them.
    fn head(operation: (&str, &str), body: &Value) -> (StatusCode, Option<String>) {
        let text = |name: &str| segment(body[name].as_str().unwrap_or_default());
        let made = |collection: &str| Some(format!("{collection}/{}", text("id")));
        let run = || {
            let (reactor, run) = (text("reactor_id"), text("invocation_id"));
            Some(format!("/reactors/{reactor}/results/{run}"))
        };
        match operation {
            ("POST", "/tokens") if body.get("_extras").is_some() => (StatusCode::OK, None),
            ("POST", "/tokens" | "/applications" | "/reactors" | "/reactor-formulas") => {
                (StatusCode::CREATED, made(operation.1))
            }
            ("POST", "/sessions") => (StatusCode::CREATED, None),
            ("POST", "/reactors/{id}/results/{invocation_id}/redeliver") => {
                (StatusCode::ACCEPTED, run())
            }
            // What a formula answers has no such member.
            ("POST", "/reactors/{id}/react") if body.get("invocation_id").is_some() => {
                (StatusCode::ACCEPTED, run())
            }
            _ => (StatusCode::OK, None),
        }
    }

    /// Leaves what is kept.
    fn reduce(self, tenant: TenantId, value: &mut Value) {
        match self {
            Self::Nothing | Self::Whole | Self::Run => {}
            Self::WithoutSecrets => remove_secrets(value),
            Self::Token => {
                if let Value::Object(token) = value {
                    let made = token.remove("created_at");
                    outline(token);
                    token.extend(made.map(|made| (MADE.to_owned(), made)));
                }
            }
            Self::Tokens => each_token(value, tenant, &mut outline),
        }
    }
}

fn remove_secrets(value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|name, member| !is_wiped(name, member)),
        Value::Array(items) => items.iter_mut().for_each(remove_secrets),
        _ => {}
    }
}

/// Wipes a member that is a secret; gives whether it is.
fn is_wiped(name: &str, member: &mut Value) -> bool {
    let is_secret = SECRETS.contains(&name);
    if is_secret {
        wipe(member);
    }
    is_secret
}

#[cfg(test)]
mod tests {
    use super::{SECRETS, is_wiped, remove_secrets};
    use serde_json::json;

    #[test]
    fn secrets_that_are_not_kept_are_wiped_where_they_lie() {
        for name in SECRETS {
            let mut member = json!("key_prv_of_somebody");
            assert!(is_wiped(name, &mut member));
            assert_eq!(member, "", "{name}");
        }
        let mut member = json!("a name");
        assert!(!is_wiped("name", &mut member));
        assert_eq!(member, "a name");
        let mut answer = json!([{"id": 1, "secret": "s", "more": {"key": "kept"}}, {"nonce": "n"}]);
        remove_secrets(&mut answer);
        assert_eq!(answer, json!([{"id": 1, "more": {"key": "kept"}}, {}]));
    }
}
