//! A formula's project: a folder with `formula.json`, source and cases.
//!
//! `formula.json` is the body of `POST /reactor-formulas` without its code, and `language`. To take another language: a
//! variant of [`Language`], its way to code in `build`, its template in `new`.

use std::fs;
use std::io::ErrorKind;
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
/// What a server calls the language of every component.
const WASM: &str = "wasm";

/// What a manifest may say.
const MEMBERS: &[&str] = &[
    "id",
    "name",
    "description",
    "icon",
    "language",
    "configuration",
    "request_parameters",
    "undeclared_arguments",
    "allowed_hosts",
    "limits",
];
/// What its `limits` may say.
const OF_LIMITS: &[&str] = &["memory_mb"];
/// What it may say of an entry of its `configuration` and its `request_parameters`.
const OF_PARAMETERS: &[&str] = &["name", "description", "type", "optional"];

/// What a formula is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// A crate, built by cargo.
    Rust,
    /// One file, taken as it is.
    Javascript,
    /// A module, built by `componentize-py`.
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
    /// What it is written in, if that is known: a component that is built already needs no language.
    pub language: Option<Language>,
    manifest: Map<String, Value>,
}

impl Project {
    /// Reads the project in a folder.
    pub fn open(root: &Path) -> Result<Self, Failure> {
        let path = root.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|error| {
            let is_none = error.kind() == ErrorKind::NotFound;
            let remedy = if is_none { "; `tokamak formula new NAME` makes a project" } else { "" };
            format!("{}: {error}{remedy}", path.display())
        })?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no JSON: {error}", path.display()))?;
        let Value::Object(manifest) = value else {
            return Err(format!("{} must hold an object", path.display()).into());
        };
        let unknown = unknown(&manifest);
        if !unknown.is_empty() {
            let (unknown, known) = (unknown.join(", "), MEMBERS.join(", "));
            let path = path.display();
            return Err(format!("{path}: {unknown} is not known; there are {known}").into());
        }
        let language = language(root, &manifest)
            .map_err(|reason| format!("{}: language {reason}", path.display()))?;
        Ok(Self { root: root.to_owned(), language, manifest })
    }

    /// The name of the language, as a server has it where only the component is known.
    pub fn language_name(&self) -> &'static str {
        self.language.map_or(WASM, Language::as_str)
    }

    /// The language that the project is built by.
    pub fn language_of_source(&self) -> Result<Language, Failure> {
        self.language.ok_or_else(|| {
            let said = match self.manifest.get("language").and_then(Value::as_str) {
                Some(name) => format!("{name:?} does not say what builds the project"),
                None => "is missing".to_owned(),
            };
            let sources: Vec<_> = Language::value_variants().iter().map(|l| l.source()).collect();
            let (path, sources) = (self.root.join(MANIFEST), sources.join(", "));
            format!(
                "{}: language {said}, and the folder has none of {sources}; it is one of {}, or --component names a \
                component that is built already",
                path.display(),
                known()
            )
            .into()
        })
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

    /// Arguments that the formula reads and never gets: its types declare nothing of them, and neither does the manifest,
    /// which has what is not declared dropped.
    pub fn dropped(&self, description: &Description) -> Vec<String> {
        if self.manifest.get("undeclared_arguments").and_then(Value::as_str) != Some("drop") {
            return Vec::new();
        }
        let by_hand = self.manifest.get("request_parameters").and_then(Value::as_array);
        let by_hand: Vec<&str> =
            by_hand.into_iter().flatten().filter_map(|entry| entry["name"].as_str()).collect();
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let undeclared = written(description).remove("undeclared");
        let names = undeclared.as_ref().and_then(Value::as_array).into_iter().flatten();
        let names = names.filter_map(Value::as_str);
        names
            .filter(|name| !by_hand.iter().any(|own| within(name, own) || within(own, name)))
            .map(str::to_owned)
            .collect()
    }

    /// The members of the request that the component told of itself.
    pub fn told(&self, description: &Description) -> Vec<String> {
        let names = declared(description).into_iter().map(|(name, _)| name);
        names.filter(|name| !self.manifest.contains_key(name)).collect()
    }
}

/// What a component tells of itself.
fn written(description: &Description) -> Map<String, Value> {
    let written = description.parameters.as_deref().unwrap_or(b"{}");
    serde_json::from_slice(written).unwrap_or_default()
}

/// What a component declares: lists by their names.
fn declared(description: &Description) -> Map<String, Value> {
    let mut lists = written(description);
    lists.retain(|name, _| ["request_parameters", "configuration"].contains(&name.as_str()));
    lists
}

/// What the manifest says that means nothing, by path. A server takes no notice of it, which a newer one might: here it is
/// a slip of the author's, who is to know.
fn unknown(manifest: &Map<String, Value>) -> Vec<String> {
    fn beside(path: &str, value: Option<&Value>, known: &[&str], unknown: &mut Vec<String>) {
        let names = value.and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let names = names.filter(|name| !known.contains(&name.as_str()));
        unknown.extend(names.map(|name| format!("{path}.{name}")));
    }
    let names = manifest.keys().filter(|name| !MEMBERS.contains(&name.as_str()));
    let mut unknown: Vec<String> = names.cloned().collect();
    beside("limits", manifest.get("limits"), OF_LIMITS, &mut unknown);
    for list in ["configuration", "request_parameters"] {
        let entries = manifest.get(list).and_then(Value::as_array).into_iter().flatten();
        for (at, entry) in entries.enumerate() {
            beside(&format!("{list}[{at}]"), Some(entry), OF_PARAMETERS, &mut unknown);
        }
    }
    unknown
}

/// The language that is named, or else the one whose source is there.
fn language(root: &Path, manifest: &Map<String, Value>) -> Result<Option<Language>, String> {
    match manifest.get("language").and_then(Value::as_str) {
        None | Some(WASM) => {
            let present = |language: &&Language| root.join(language.source()).is_file();
            Ok(Language::value_variants().iter().find(present).copied())
        }
        Some(name) => Language::from_str(name, false)
            .map(Some)
            .map_err(|_| format!("{name:?} is not known; it is one of {}", known())),
    }
}

fn known() -> String {
    let names: Vec<_> = Language::value_variants().iter().map(|known| known.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Code, Language, Project};
    use serde_json::{Map, Value, json};
    use std::path::PathBuf;

    fn project(manifest: Value) -> Project {
        let Value::Object(manifest) = manifest else { return project(json!({})) };
        Project { root: PathBuf::from("some/folder"), language: Some(Language::Rust), manifest }
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
    fn what_a_manifest_says_that_means_nothing_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let opened = |manifest: Value| {
            std::fs::write(folder.path().join("formula.json"), manifest.to_string()).unwrap();
            Project::open(folder.path()).map(|_| ()).map_err(|error| error.to_string())
        };
        for known in [
            json!({}),
            json!({ "id": "x", "name": "a", "icon": "x", "limits": { "memory_mb": 16 },
                "configuration": [{ "name": "a", "type": "string", "optional": true }] }),
            // What is of another type is for the server to refuse.
            json!({ "limits": 5, "configuration": "x", "request_parameters": [5] }),
        ] {
            assert_eq!(opened(known.clone()), Ok(()), "{known}");
        }
        for (manifest, name) in [
            (json!({ "alowed_hosts": [] }), "formula.json: alowed_hosts is not known; there are"),
            (json!({ "code": "x" }), "code is not known"),
            (json!({ "limits": { "memory_md": 1 } }), "limits.memory_md is not known"),
            (
                json!({ "request_parameters": [{ "name": "a" }, { "optinal": true }] }),
                "request_parameters[1].optinal is not known",
            ),
        ] {
            let told = opened(manifest).unwrap_err();
            assert!(told.contains(name), "{told}");
        }
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
    fn arguments_that_never_arrive_are_known() {
        let written = r#"{"request_parameters":[],"undeclared":["payload","order.way","order"]}"#;
        let description = crate::runtime::Description {
            parameters: Some(written.as_bytes().to_vec()),
            ..crate::runtime::Description::default()
        };
        let dropped = |manifest: Value| project(manifest).dropped(&description);
        assert!(dropped(json!({})).is_empty());
        assert!(dropped(json!({ "undeclared_arguments": "forward" })).is_empty());
        let dropping = json!({ "undeclared_arguments": "drop" });
        assert_eq!(dropped(dropping), ["payload", "order.way", "order"]);
        let by_hand = json!({ "undeclared_arguments": "drop", "request_parameters": [
            { "name": "pay", "type": "string" }, { "name": "order.way", "type": "string" },
        ] });
        assert_eq!(dropped(by_hand), ["payload"]);
    }

    #[test]
    fn a_language_is_named_or_seen() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| super::language(folder.path(), &object(text));
        assert_eq!(of(r#"{"language":"python"}"#), Ok(Some(Language::Python)));
        assert!(of(r#"{"language":"cobol"}"#).unwrap_err().contains("rust, javascript"));
        for text in ["{}", r#"{"language":"wasm"}"#] {
            assert_eq!(of(text), Ok(None));
        }
        std::fs::write(folder.path().join("go.mod"), "").unwrap();
        assert_eq!(of(r#"{"language":"wasm"}"#), Ok(Some(Language::Go)));
        assert_eq!(of("{}"), Ok(Some(Language::Go)));
    }

    #[test]
    fn a_project_that_nothing_builds_is_told_what_it_says_itself() {
        for (manifest, part) in [
            (json!({}), "some/folder/formula.json: language is missing, and the folder has none"),
            (json!({ "language": "wasm" }), "language \"wasm\" does not say what builds"),
        ] {
            let project = Project { language: None, ..project(manifest) };
            let told = project.language_of_source().unwrap_err().to_string();
            assert!(told.contains(part) && told.contains("--component"), "{told}");
            assert!(told.contains("it is one of rust, javascript, python, go"), "{told}");
            assert_eq!(project.language_name(), "wasm");
        }
    }

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }
}
