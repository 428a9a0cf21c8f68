//! `tokamak formula push`: makes the formula on a server, or replaces the one of the same name.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::super::Failure;
use super::report::{Problem, Progress};
use super::run::with_file;
use crate::egress::{ApiAnswer, ApiClient};

/// The path of formulas on a server.
const FORMULAS: &str = "/reactor-formulas";
/// Formulas of one name that are looked at: a list's largest page.
const PAGE: &str = "&size=100";
/// What `dev` calls the key that it keeps.
const DEV_KEY: &str = "management_key";
/// What a server answers to a key that lacks the rights.
const FORBIDDEN: u16 = 403;
/// What is said of it beside the server's words.
const NEEDED: &str =
    "A push needs a management key, with reactor:read, reactor:create and reactor:update.";

/// What is said of an answer that comes from something else.
const NO_FORMULA: &str = "what answered at --url is no Tokamak: its answer is no formula";

/// What is encoded in an address: all but what RFC 3986 leaves alone.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Options of `formula push`, beside those of all commands on a project.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("key_to_push_with").args(["key_file", "key"]).required(true)))]
pub struct PushOptions {
    /// The server's address, such as `https://vault.example.com`.
    #[arg(long, value_name = "URL")]
    url: String,
    /// A file with a management application's key, which has `reactor:read`, `reactor:create` and `reactor:update`, or
    /// the `keys.json` of `tokamak dev`; `-` reads standard input.
    #[arg(long, value_name = "MANAGEMENT-KEY-FILE|-")]
    key_file: Option<PathBuf>,
    /// The key itself. Others on the machine see it in the list of processes: a file is better.
    #[arg(long, value_name = "MANAGEMENT-KEY")]
    key: Option<String>,
    /// Replace the formula of this id, whatever its name.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// What became of a formula on the server.
#[derive(Debug, PartialEq)]
pub enum Pushed {
    /// It is there: whether it was made now, and how the server shows it.
    Done {
        /// Whether it is new.
        created: bool,
        /// The formula.
        formula: Value,
    },
    /// The server refused, in its words.
    Refused(Problem),
}

impl PushOptions {
    /// What can be said before anything is built.
    pub fn check(&self) -> Result<(), Failure> {
        if self.id.as_ref().is_some_and(String::is_empty) {
            return Err("--id must be the id of a formula, and is empty".into());
        }
        check_address(&self.url)
    }

    /// Sends the formula.
    pub async fn push(&self, body: &Value) -> Result<Pushed, Failure> {
        let client = ApiClient::new(&self.url, self.key()?)?;
        let _progress = Progress::of(format_args!("sending to {}", self.url));
        let name = body["name"].as_str().unwrap_or_default();
        let known = match &self.id {
            Some(id) => Some(id.clone()),
            None => match find(&client, name).await? {
                Ok(known) => known,
                Err(problem) => return Ok(Pushed::Refused(problem)),
            },
        };
        let (method, path, created) = match known {
            Some(id) => (Method::PUT, format!("{FORMULAS}/{}", encoded(&id)), false),
            None => (Method::POST, FORMULAS.to_owned(), true),
        };
        let ApiAnswer { status, body } = client.send(method, &path, Some(body)).await?;
        Ok(match status {
            200 | 201 if body["id"].is_string() => Pushed::Done { created, formula: body },
            200 | 201 => return Err(NO_FORMULA.into()),
            _ => Pushed::Refused(refusal(status, &body)),
        })
    }

    /// What is to be done with a new formula, for people.
    pub fn next(&self, id: &str) -> String {
        let url = self.url.trim_end_matches('/');
        format!(
            "make a reactor of it, with its configuration: POST {url}/reactors, or in a browser {url}/console#/reactors/new/{id}"
        )
    }

    fn key(&self) -> Result<String, Failure> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        let mut text = String::new();
        match &self.key_file {
            Some(path) if path.as_os_str() != "-" => {
                text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{}: {error}", with_file("--key-file", path)))?;
            }
            _ => {
                std::io::stdin().read_to_string(&mut text)?;
            }
        }
        let asked = "--key-file: it must hold a key and nothing else, or be the keys.json of dev";
        key_in(&text).ok_or_else(|| asked.to_owned().into())
    }
}

/// Whether requests can be sent to this address. It is not repeated: it may be a key, given in the wrong place.
fn check_address(text: &str) -> Result<(), Failure> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https") if text.contains(['?', '#']) => {
            Err("--url must be where the server is, without a query".into())
        }
        Some("http" | "https") => Ok(()),
        _ => Err("--url must begin with http:// or https://".into()),
    }
}

/// Whether a server has examined the formula and found something wrong, or one that has the place already.
pub fn is_of_the_formula(problem: &Problem) -> bool {
    matches!(problem.status, 400 | 409 | 413 | 422)
}

/// What a server refused, and which key is wanted when it was for that.
fn refusal(status: u16, body: &Value) -> Problem {
    let mut problem = Problem::read(status, body);
    if status == FORBIDDEN {
        let said = format!("{} {NEEDED}", problem.detail);
        said.trim_start().clone_into(&mut problem.detail);
    }
    problem
}

/// The key in a file, which holds nothing else or is the one that `dev` writes.
fn key_in(text: &str) -> Option<String> {
    let key = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(keys)) => keys.get(DEV_KEY)?.as_str()?.to_owned(),
        _ => text.trim().to_owned(),
    };
    let is_one = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    is_one.then_some(key)
}

/// The id of the tenant's own formula of this name, if there is one; two are for the caller to choose from.
async fn find(client: &ApiClient, name: &str) -> Result<Result<Option<String>, Problem>, Failure> {
    let path = format!("{FORMULAS}?name={}{PAGE}", encoded(name));
    let ApiAnswer { status, body } = client.send(Method::GET, &path, None).await?;
    if status != 200 {
        return Ok(Err(refusal(status, &body)));
    }
    // The server's pattern ignores case and knows `*`.
    let own = |formula: &&Value| formula["name"] == name && formula["type"] == "private";
    let listed = body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ids: Vec<&str> =
        listed.iter().filter(own).filter_map(|formula| formula["id"].as_str()).collect();
    if ids.len() > 1 {
        let message = format!(
            "{} formulas are named {name}: say which by --id\n  {}",
            ids.len(),
            ids.join("\n  ")
        );
        return Err(message.into());
    }
    Ok(Ok(ids.first().map(|id| (*id).to_owned())))
}

/// What became of it, for scripts.
pub fn as_json(pushed: &Pushed) -> Value {
    match pushed {
        Pushed::Done { created, formula } => {
            let status = if *created { "created" } else { "updated" };
            json!({ "status": status, "formula": formula })
        }
        Pushed::Refused(problem) => json!({ "status": "refused", "error": problem }),
    }
}

/// A text as part of an address.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::{check_address, key_in, refusal};
    use serde_json::{Value, json};

    #[test]
    fn a_key_is_alone_in_its_file_or_named_as_dev_does() {
        let dev = r#"{"management_key": "key_mgt_1", "private_key": "key_prv_2"}"#;
        for (text, key) in [
            ("key_mgt_1\n", Some("key_mgt_1")),
            (dev, Some("key_mgt_1")),
            (r#"{"private_key": "key_prv_2"}"#, None),
            (r#"{"management_key": 1}"#, None),
            ("", None),
            ("key_mgt_1\nkey_prv_2", None),
        ] {
            assert_eq!(key_in(text).as_deref(), key, "{text}");
        }
    }

    #[test]
    fn an_address_says_how_it_is_spoken_to() {
        for text in ["http://127.0.0.1:8080", "https://vault.example.com/", "HTTP://vault"] {
            assert!(check_address(text).is_ok(), "{text}");
        }
        for text in ["127.0.0.1:8080", "vault.example.com", "ftp://vault", "http:vault", ""] {
            let error = check_address(text).unwrap_err().to_string();
            assert_eq!(error, "--url must begin with http:// or https://");
        }
    }

    #[test]
    fn who_may_not_push_is_told_which_key_may() {
        let body = json!({ "detail": "The application does not hold reactor:read." });
        let said = refusal(403, &body).detail;
        assert!(said.starts_with("The application does not hold reactor:read. A push needs"));
        assert!(refusal(403, &Value::Null).detail.starts_with("A push needs a management key"));
        assert_eq!(refusal(422, &body).detail, "The application does not hold reactor:read.");
    }

    #[test]
    fn names_are_encoded_for_addresses() {
        assert_eq!(super::encoded("a-B_9 é&*"), "a-B_9%20%C3%A9%26%2A");
    }
}
