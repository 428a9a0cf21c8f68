//! A formula's project: a folder with `formula.json`, source and cases.
//!
//! `formula.json` is the body of `POST /reactor-formulas` without its code, and `language`. To take another language: a
//! variant of [`Language`], its way to code in `build`, its template in `new`.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde_json::{Map, Value};

use super::super::Failure;
use crate::runtime::{Description, describe};

/// What describes the project.
pub const MANIFEST: &str = "formula.json";
/// Where things are kept that can be made again.
pub const KEPT: &str = ".tokamak";

/// What a formula is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// A crate, built by cargo.
    Rust,
    /// One file, taken as it is.
    Javascript,
    /// A module, built by componentize-py.
    Python,
    /// A module, built by `TinyGo`.
    Go,
}

impl Language {
    /// The name, as in `formula.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Javascript => "javascript",
            Self::Python => "python",
            Self::Go => "go",
        }
    }

    /// The file that a project of this language has.
    pub fn source(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Javascript => "formula.js",
            Self::Python => "formula.py",
            Self::Go => "go.mod",
        }
    }
}

/// A formula's code, as a server takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// A component.
    Component(Vec<u8>),
    /// Source that the server runs itself.
    Javascript(String),
}

/// A project.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its folder.
    pub root: PathBuf,
    /// What it is written in.
    pub language: Language,
    manifest: Map<String, Value>,
}

impl Project {
    /// Reads the project in a folder.
    pub fn open(root: &Path) -> Result<Self, Failure> {
        let path = root.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|error| {
            format!("{}: {error}; `tokamak formula new NAME` makes a project", path.display())
        })?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no JSON: {error}", path.display()))?;
        let Value::Object(manifest) = value else {
            return Err(format!("{} must hold an object", path.display()).into());
        };
        let language = language(root, &manifest)
            .map_err(|reason| format!("{}: language {reason}", path.display()))?;
        Ok(Self { root: root.to_owned(), language, manifest })
    }

    /// The formula's name; its folder's when the manifest has none.
    pub fn name(&self) -> String {
        let own = self.manifest.get("name").and_then(Value::as_str).map(str::to_owned);
        let folder = || Some(self.root.canonicalize().ok()?.file_name()?.to_str()?.to_owned());
        own.or_else(folder).unwrap_or_else(|| "formula".to_owned())
    }

    /// A folder below the project's own for what can be made again.
    pub fn kept(&self) -> PathBuf {
        self.root.join(KEPT)
    }

    /// The body of the request that makes the formula on a server. What the component declares of itself fills in what
    /// the manifest does not say.
    pub fn body(&self, code: &Code) -> Value {
        let mut body = self.manifest.clone();
        // Which of its languages a formula is of is told by its code.
        for own in ["language", "id"] {
            body.remove(own);
        }
        body.entry("name").or_insert_with(|| self.name().into());
        match code {
            Code::Javascript(source) => {
                body.insert("code".to_owned(), source.clone().into());
            }
            Code::Component(bytes) => {
                for (name, list) in declared(&describe(bytes)) {
                    body.entry(name).or_insert(list);
                }
                body.insert("component".to_owned(), STANDARD.encode(bytes).into());
            }
        }
        Value::Object(body)
    }

    /// The members of the request that the component told of itself.
    pub fn told(&self, description: &Description) -> Vec<String> {
        let names = declared(description).into_iter().map(|(name, _)| name);
        names.filter(|name| !self.manifest.contains_key(name)).collect()
    }
}

/// What a component declares: lists by their names.
fn declared(description: &Description) -> Map<String, Value> {
    let written = description.parameters.as_deref().unwrap_or(b"{}");
    let mut lists: Map<String, Value> = serde_json::from_slice(written).unwrap_or_default();
    lists.retain(|name, _| ["request_parameters", "configuration"].contains(&name.as_str()));
    lists
}

fn language(root: &Path, manifest: &Map<String, Value>) -> Result<Language, String> {
    let known: Vec<&str> = Language::value_variants().iter().map(|known| known.as_str()).collect();
    match manifest.get("language").and_then(Value::as_str) {
        // `wasm` is what a server says of every component.
        None | Some("wasm") => {
            let present = |language: &&Language| root.join(language.source()).is_file();
            let found = Language::value_variants().iter().find(present).copied();
            found.ok_or_else(|| format!("is missing; it is one of {}", known.join(", ")))
        }
        Some(name) => Language::from_str(name, false)
            .map_err(|_| format!("{name:?} is not known; it is one of {}", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Language, Project};
    use serde_json::{Map, Value, json};
    use std::path::PathBuf;

    fn project(manifest: Value) -> Project {
        let Value::Object(manifest) = manifest else { return project(json!({})) };
        Project { root: PathBuf::from("some/folder"), language: Language::Rust, manifest }
    }

    #[test]
    fn the_manifest_is_the_request_but_for_the_code() {
        let body = project(json!({ "name": "a", "language": "rust", "id": 1, "limits": {} }))
            .body(&Code::Component(b"abc".to_vec()));
        assert_eq!(body, json!({ "name": "a", "limits": {}, "component": "YWJj" }));
        let body = project(json!({ "name": "a" })).body(&Code::Javascript("x".to_owned()));
        assert_eq!(body, json!({ "name": "a", "code": "x" }));
    }

    #[test]
    fn declarations_fill_in_what_the_manifest_does_not_say() {
        let written = r#"{"request_parameters":[1],"configuration":[2],"name":"no"}"#;
        let written = written.replace('"', "\\\"");
        let text =
            format!(r#"(component (core module (@custom "tokamak:parameters" "{written}")))"#);
        let component = wat::parse_str(text).unwrap();
        let own = project(json!({ "name": "a", "configuration": [] }));
        let body = own.body(&Code::Component(component.clone()));
        assert_eq!(body["request_parameters"], json!([1]));
        assert_eq!(body["configuration"], json!([]));
        assert_eq!(body["name"], "a");
        assert_eq!(own.told(&crate::runtime::describe(&component)), ["request_parameters"]);
    }

    #[test]
    fn a_language_is_named_or_seen() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| super::language(folder.path(), &object(text));
        assert_eq!(of(r#"{"language":"python"}"#), Ok(Language::Python));
        assert!(of(r#"{"language":"cobol"}"#).unwrap_err().contains("rust, javascript"));
        assert!(of("{}").unwrap_err().contains("is missing"));
        std::fs::write(folder.path().join("go.mod"), "").unwrap();
        assert_eq!(of(r#"{"language":"wasm"}"#), Ok(Language::Go));
        assert_eq!(of("{}"), Ok(Language::Go));
    }

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }
}
