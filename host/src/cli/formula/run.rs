//! `tokamak formula run`: one run in the sandbox of the server, and how it went.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use super::super::Failure;
use super::bench::{Ran, Svc, Trial};
use super::report::{BAD, DIM, GOOD, bytes, milliseconds, styled};
use crate::limits::{ASYNCHRONOUS_TIMEOUT_MS_MAX, REACT_TIMEOUT_MS};
use crate::model::exact;
use crate::vault::InvocationView;

/// Options of `formula run`, beside those of all commands on a project.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The arguments, a JSON object: a file with it, or the object itself, which begins with `{` (others on the machine
    /// see it in the list of processes: a file is better for what is sensitive); `-` reads standard input.
    #[arg(long, value_name = "FILE|JSON|-")]
    args: Option<PathBuf>,
    /// A value of the reactor's configuration, as text: it is read as what the formula declares (others on the machine
    /// see it in the list of processes: give what is sensitive to `test`, whose cases are files). May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    config: Vec<String>,
    /// A token that is there: its data, or an object with `type` and `data` (others on the machine see it in the list of
    /// processes: give what is sensitive to `test`, whose cases are files). May be repeated.
    #[arg(long, value_name = "ID=JSON")]
    token: Vec<String>,
    /// What the application behind `svc` may do: an object of `permissions` and `rules`, as in the body of `POST
    /// /applications`, or a file with it [default: all permissions of a private application].
    #[arg(long, value_name = "FILE|JSON", conflicts_with = "no_svc")]
    svc: Option<PathBuf>,
    /// Give the reactor no application, so that the formula has no `svc`.
    #[arg(long)]
    no_svc: bool,
    /// How long the run may take, in milliseconds, as `timeout_ms` of a run that a server does not wait for [default:
    /// 10000].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(REACT_TIMEOUT_MS..=ASYNCHRONOUS_TIMEOUT_MS_MAX))]
    pub timeout_ms: Option<u64>,
}

impl RunOptions {
    /// The run that is asked for.
    pub fn trial(&self) -> Result<Trial, Failure> {
        let mut request = Map::new();
        if let Some(given) = &self.args {
            request.insert("args".to_owned(), read("--args", given)?);
        }
        let mut configuration = Map::new();
        for given in &self.config {
            let (name, value) = pair("--config", given)?;
            // The server casts text to what the formula declares. Read as JSON here, digits would be lost where it is text.
            configuration.insert(name.to_owned(), value.into());
        }
        let mut tokens = Map::new();
        for given in &self.token {
            let (id, value) = pair("--token", given)?;
            let read = serde_json::from_str(value).map_err(|error| {
                format!("--token {id}: is no JSON at column {}", error.column())
            })?;
            // As a server refuses it.
            exact::check(value.as_bytes(), |_| true)
                .map_err(|faults| format!("--token {id}: {faults}"))?;
            tokens.insert(id.to_owned(), read);
        }
        let svc = match &self.svc {
            Some(given) => match read("--svc", given)? {
                Value::Object(rights) => Svc::With(rights),
                _ => return Err("--svc must be an object of `permissions` and `rules`".into()),
            },
            None if self.no_svc => Svc::Absent,
            None => Svc::Whole,
        };
        Ok(Trial { request, configuration, tokens, svc, http: None })
    }
}

/// What was given in place of a file, if it is an object.
fn json_in(given: &Path) -> Option<&str> {
    given.to_str().filter(|text| text.trim_start().starts_with('{'))
}

/// What an option was given: JSON, or a file with it.
fn read(option: &str, path: &Path) -> Result<Value, Failure> {
    if let Some(text) = json_in(path) {
        return parsed(option, text);
    }
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", with_file(option, path)))?;
    }
    parsed(&with_file(option, path), &text)
}

/// An option with its file, unless that may be data or a key which was given in place of one.
pub fn with_file(option: &str, path: &Path) -> String {
    let name = path.display().to_string();
    let is_path = name.len() < 256 && name.contains(['/', '.']) && !name.contains(['"', '[', '{']);
    if is_path || path.exists() { format!("{option} {name}") } else { option.to_owned() }
}

/// The error tells the place and nothing of the text, which may be data.
fn parsed(whose: &str, text: &str) -> Result<Value, Failure> {
    let value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("{whose}: is no JSON at line {line}, column {column}")
    })?;
    // As a server refuses it.
    exact::check(text.as_bytes(), |_| true).map_err(|faults| format!("{whose}: {faults}"))?;
    Ok(value)
}

fn pair<'a>(option: &str, given: &'a str) -> Result<(&'a str, &'a str), Failure> {
    // A name has no quotes: whoever forgot it has given a value, which is not to be told.
    let is_name = |name: &str| !name.is_empty() && !name.contains(['"', '{', '[']);
    let split = given.split_once('=').filter(|(name, _)| is_name(name));
    split.ok_or_else(|| format!("{option} must be a name, = and a value").into())
}

/// A run, for people.
pub fn shown(ran: &Ran) -> String {
    let mut text = String::new();
    let status = match &ran.error {
        None => styled(GOOD, "completed"),
        Some(_) => styled(BAD, "failed"),
    };
    let _ = match &ran.invocation {
        Some(invocation) => writeln!(text, "{status}  {}", figures(invocation)),
        None => writeln!(text, "{status}  {DIM}before it ran{DIM:#}"),
    };
    for line in ran.invocation.iter().flat_map(|invocation| &invocation.log) {
        let _ = writeln!(text, "{DIM}{:>6}{DIM:#}  {}", line.level, line.message.trim_end());
    }
    if ran.invocation.as_ref().is_some_and(|invocation| invocation.log_truncated) {
        let _ = writeln!(text, "{DIM}   and more, which is not kept{DIM:#}");
    }
    let _ = match (&ran.error, &ran.response) {
        (Some(problem), _) => write!(text, "{problem}"),
        (None, Some(response)) => write!(text, "{response:#}"),
        (None, None) => Ok(()),
    };
    text
}

/// What a run used.
pub fn figures(invocation: &InvocationView) -> String {
    format!(
        "{DIM}{}, {} fuel, {} of memory{DIM:#}",
        milliseconds(invocation.elapsed_us),
        invocation.fuel,
        bytes(invocation.memory_peak_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::{RunOptions, Svc, pair};
    use clap::Args as _;
    use serde_json::json;

    fn options(config: &[&str], token: &[&str]) -> RunOptions {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (config, token) = (owned(config), owned(token));
        RunOptions { args: None, config, token, svc: None, no_svc: true, timeout_ms: None }
    }

    #[test]
    fn what_is_given_becomes_a_trial() {
        let config = ["limit=1e3", "name=a=b", "flag=true", "none=null"];
        let token = [r#"card={"type":"card","data":{}}"#, "text=\"x\""];
        let trial = options(&config, &token).trial().unwrap();
        assert_eq!(
            serde_json::Value::Object(trial.configuration),
            json!({ "limit": "1e3", "name": "a=b", "flag": "true", "none": "null" })
        );
        let tokens = json!({ "card": { "type": "card", "data": {} }, "text": "x" });
        assert_eq!(serde_json::Value::Object(trial.tokens), tokens);
        assert!(trial.svc == Svc::Absent && trial.request.is_empty());
    }

    #[test]
    fn who_may_give_data_is_told_who_else_sees_it() {
        let command = RunOptions::augment_args(clap::Command::new("run"));
        for name in ["args", "config", "token"] {
            let option = command.get_arguments().find(|option| option.get_id() == name).unwrap();
            let help = option.get_help().unwrap().to_string();
            assert!(help.contains("the list of processes"), "{name}: {help}");
        }
    }

    #[test]
    fn rights_of_svc_are_an_object() {
        let given =
            |svc: &str| RunOptions { svc: Some(svc.into()), no_svc: false, ..options(&[], &[]) };
        let trial = given(r#"{"permissions":["token:read"]}"#).trial().unwrap();
        let serde_json::Value::Object(rights) = json!({"permissions": ["token:read"]}) else {
            panic!()
        };
        assert_eq!(trial.svc, Svc::With(rights));
        let error = given("{").trial().unwrap_err().to_string();
        assert!(error.starts_with("--svc: is no JSON at line 1"), "{error}");
        let error = given("absent.json").trial().unwrap_err().to_string();
        assert!(error.starts_with("--svc absent.json: "), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("svc.json");
        std::fs::write(&file, "[]").unwrap();
        let error = given(file.to_str().unwrap()).trial().unwrap_err().to_string();
        assert!(error.starts_with("--svc must be an object"), "{error}");
    }

    #[test]
    fn arguments_may_be_given_in_place_of_a_file() {
        let given = |args: &str| RunOptions { args: Some(args.into()), ..options(&[], &[]) };
        for args in [r#"{"amount":100}"#, " \n{ \"amount\": 100 }"] {
            let trial = given(args).trial().unwrap();
            assert_eq!(trial.request["args"], json!({ "amount": 100 }));
        }
        let error = given(r#"{"amount":42x}"#).trial().unwrap_err().to_string();
        assert!(error.starts_with("--args: is no JSON at line 1") && !error.contains("42x"));
        for args in [r#"["4242424242424242"]"#, "4242424242424242"] {
            let error = given(args).trial().unwrap_err().to_string();
            assert!(error.starts_with("--args: ") && !error.contains("4242"), "{error}");
        }
        let error = given("absent.json").trial().unwrap_err().to_string();
        assert!(error.starts_with("--args absent.json: "), "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_named_without_its_value() {
        assert!(pair("--config", "=x").is_err());
        assert!(pair("--token", r#"{"data":"4242","note":"a=b"}"#).is_err());
        let error = options(&["secret"], &[]).trial().unwrap_err().to_string();
        assert!(error.starts_with("--config") && !error.contains("secret"), "{error}");
        let error = options(&[], &["id=4242"]).trial();
        assert!(error.is_ok());
        let error = options(&[], &["id=42x"]).trial().unwrap_err().to_string();
        assert!(error.contains("--token id") && !error.contains("42x"), "{error}");
    }
}
