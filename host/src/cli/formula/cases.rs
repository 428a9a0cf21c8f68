//! `tokamak formula test`: the cases of a project, each a file in `cases/`.
//!
//! ```json
//! {
//!   "description": "An amount over the limit is refused.",
//!   "tokens": { "my-card": { "type": "card", "data": { "number": "4242424242424242" } } },
//!   "configuration": { "limit": 1000 },
//!   "request": { "args": { "card": "{{ my-card }}", "amount": 1001 } },
//!   "error": { "status": 400, "errors": { "args.amount": ["is over the limit"] } }
//! }
//! ```
//!
//! `request` is the body of `POST /reactors/{id}/react`. `expected` is the whole of its answer, in which the text `*`
//! stands for any value, such as the id of a token that is made; `error` is compared as far as it goes: `status`, `title`,
//! `detail`, `errors`, and `headers` (by names in small letters) and `body` of an answer that the formula shapes itself.
//! `svc: false` gives the reactor no application, and an object one with these `permissions` and `rules`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::super::Failure;
use super::bench::{Ran, Svc, Trial};
use super::report::{BAD, DIM, GOOD, Problem, styled};
use super::run::figures;

/// Stands for any value.
const ANY: &str = "*";
/// Differences of one case that are shown.
const DIFFERENCES_MAX: usize = 20;
/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 200;

/// A case as it lies in its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// What it shows.
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    request: Map<String, Value>,
    #[serde(default)]
    configuration: Map<String, Value>,
    #[serde(default)]
    tokens: Map<String, Value>,
    #[serde(default)]
    svc: GivenSvc,
    #[serde(default)]
    expected: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

/// `svc` as a case has it.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "`svc` must be true, false, or an object of `permissions` and `rules`"
)]
enum GivenSvc {
    Whether(bool),
    With(Map<String, Value>),
}

impl Default for GivenSvc {
    fn default() -> Self {
        Self::Whether(true)
    }
}

/// How a case went.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The name of its file.
    pub name: String,
    /// What it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is as expected.
    pub passed: bool,
    /// Where it is not.
    pub differences: Vec<String>,
    /// The run.
    #[serde(flatten)]
    pub ran: Ran,
}

impl Case {
    /// All cases of a project, by their names; those whose names hold `filter`.
    pub fn of_project(root: &Path, filter: Option<&str>) -> Result<Vec<Self>, Failure> {
        let folder = root.join("cases");
        let entries = fs::read_dir(&folder)
            .map_err(|error| format!("{}: {error}: there are no cases", folder.display()))?;
        let mut cases = Vec::new();
        for path in entries.map_while(Result::ok).map(|entry| entry.path()) {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            let Some(name) = name.filter(|_| path.extension().is_some_and(|e| e == "json")) else {
                continue;
            };
            if filter.is_none_or(|filter| name.contains(filter)) {
                cases.push(Self::read(&path, name)?);
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    fn read(path: &Path, name: String) -> Result<Self, Failure> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let case: Self =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if case.expected.is_some() == case.error.is_some() {
            let told = format!("{}: a case has either `expected` or `error`", path.display());
            return Err(told.into());
        }
        Ok(Self { name, ..case })
    }

    /// The run that it asks for.
    pub fn trial(&self) -> Trial {
        Trial {
            request: self.request.clone(),
            configuration: self.configuration.clone(),
            tokens: self.tokens.clone(),
            svc: match &self.svc {
                GivenSvc::Whether(true) => Svc::Whole,
                GivenSvc::Whether(false) => Svc::Absent,
                GivenSvc::With(rights) => Svc::With(rights.clone()),
            },
        }
    }

    /// Compares what came with what was expected.
    pub fn judge(&self, ran: Ran) -> Judged {
        let mut found = Vec::new();
        match (&self.expected, &self.error, &ran.response, &ran.error) {
            (Some(expected), _, Some(response), _) => {
                compare("response", expected, response, true, &mut found);
            }
            (Some(_), _, _, Some(problem)) => {
                found.push(format!("expected an answer, got {}", plain(problem)));
            }
            (_, Some(_), _, Some(problem)) if !ran.is_asked => {
                found.push(format!("the formula was not asked: {}", plain(problem)));
            }
            (_, Some(expected), _, Some(problem)) => {
                let problem = serde_json::to_value(problem).unwrap_or_default();
                compare("error", expected, &problem, false, &mut found);
            }
            (_, Some(_), Some(response), _) => {
                found.push(format!("expected an error, got {}", short(response)));
            }
            _ => found.push("nothing came of the run".to_owned()),
        }
        let (name, description) = (self.name.clone(), self.description.clone());
        Judged { name, description, passed: found.is_empty(), differences: found, ran }
    }
}

fn plain(problem: &Problem) -> String {
    anstream::adapter::strip_str(&problem.to_string()).to_string()
}

/// Notes where `found` is another value than `expected`. Members that are not expected count when the whole was asked for.
fn compare(at: &str, expected: &Value, found: &Value, whole: bool, differences: &mut Vec<String>) {
    match (expected, found) {
        (Value::String(any), _) if any == ANY => {}
        (Value::Object(expected), Value::Object(found)) => {
            for (name, value) in expected {
                let at = format!("{at}.{name}");
                match found.get(name) {
                    Some(found) => compare(&at, value, found, whole, differences),
                    None => differences.push(format!("{at}: expected {}, is absent", short(value))),
                }
            }
            let more = found.iter().filter(|(name, _)| whole && !expected.contains_key(*name));
            for (name, value) in more {
                differences.push(format!("{at}.{name}: is not expected, got {}", short(value)));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{at}[{index}]"), expected, found, whole, differences);
            }
        }
        (Value::Number(expected), Value::Number(found)) if is_same(expected, found) => {}
        _ if expected == found => {}
        _ => differences.push(format!("{at}: expected {}, got {}", short(expected), short(found))),
    }
}

/// Whether two numbers are the same, however they are written. As doubles whole ones of many digits would be, too.
fn is_same(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one == other,
        _ => one.as_f64() == other.as_f64(),
    }
}

/// A value, cut short.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A case, for people.
pub fn shown(judged: &Judged) -> String {
    let verdict = if judged.passed { styled(GOOD, "ok") } else { styled(BAD, "FAILED") };
    let mut text = format!("{verdict}  {}", judged.name);
    if let Some(invocation) = &judged.ran.invocation {
        let _ = write!(text, "  {}", figures(invocation));
    }
    if let Some(description) = judged.description.as_ref().filter(|_| !judged.passed) {
        let _ = write!(text, "\n    {description}");
    }
    for difference in judged.differences.iter().take(DIFFERENCES_MAX) {
        let _ = write!(text, "\n    {difference}");
    }
    if judged.differences.len() > DIFFERENCES_MAX {
        let more = judged.differences.len() - DIFFERENCES_MAX;
        let _ = write!(text, "\n    and {more} more");
    }
    if !judged.passed {
        for line in judged.ran.invocation.iter().flat_map(|invocation| &invocation.log) {
            let (level, message) = (&line.level, line.message.trim_end());
            let _ = write!(text, "\n    {DIM}{level:>6}{DIM:#}  {message}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Case, Problem, Ran, compare};
    use serde_json::{Value, json};

    fn differences(expected: &Value, found: &Value, whole: bool) -> Vec<String> {
        let mut differences = Vec::new();
        compare("x", expected, found, whole, &mut differences);
        differences
    }

    #[test]
    fn each_difference_is_told_where_it_is() {
        let expected = json!({ "a": { "b": [1, "*", 3] }, "c": 1, "d": null });
        let found = json!({ "a": { "b": [1, { "any": "thing" }, 4] }, "d": null, "e": "more" });
        assert_eq!(
            differences(&expected, &found, true),
            [
                "x.a.b[2]: expected 3, got 4",
                "x.c: expected 1, is absent",
                "x.e: is not expected, got \"more\"",
            ]
        );
        assert_eq!(differences(&expected, &found, false).len(), 2);
        assert!(differences(&json!(1), &json!(1.0), true).is_empty());
        let (odd, even) = (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64));
        assert!(differences(&odd, &odd, true).is_empty());
        assert_eq!(differences(&odd, &even, true).len(), 1);
        assert_eq!(differences(&json!([1]), &json!([1, 2]), true).len(), 1);
        assert!(differences(&json!("a".repeat(500)), &json!(1), true)[0].len() < 300);
    }

    fn case(text: Value) -> Case {
        serde_json::from_value(text).unwrap()
    }

    fn ran(response: Option<Value>, error: Option<Problem>) -> Ran {
        Ran { response, error, invocation: None, is_asked: true }
    }

    #[test]
    fn a_case_passes_by_what_it_expects_alone() {
        let refused =
            Problem { status: 400, title: "Bad Request".to_owned(), ..Problem::default() };
        let answers = case(json!({ "expected": { "raw": 1 } }));
        let fails = case(json!({ "error": { "status": 400 } }));
        for (case, ran, expected) in [
            (&answers, ran(Some(json!({ "raw": 1 })), None), true),
            (&answers, ran(Some(json!({ "raw": 2 })), None), false),
            (&answers, ran(None, Some(refused.clone())), false),
            (&fails, ran(None, Some(refused.clone())), true),
            (&fails, ran(None, Some(Problem { status: 500, ..refused.clone() })), false),
            (&fails, ran(Some(json!({})), None), false),
            (&fails, ran(None, None), false),
            // As anything may be that stands before the formula.
            (&fails, Ran { is_asked: false, ..ran(None, Some(refused.clone())) }, false),
        ] {
            let judged = case.judge(ran);
            assert_eq!(judged.passed, expected, "{judged:?}");
        }
    }

    #[test]
    fn files_that_are_no_cases_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let told = |text: &str| {
            std::fs::write(folder.path().join("cases/a.json"), text).unwrap();
            Case::of_project(folder.path(), None).unwrap_err().to_string()
        };
        assert!(
            Case::of_project(folder.path(), None).unwrap_err().to_string().contains("no cases")
        );
        std::fs::create_dir(folder.path().join("cases")).unwrap();
        for (text, part) in [
            ("{", "a.json"),
            ("{}", "either `expected` or `error`"),
            (r#"{"expected": 1, "error": 2}"#, "either"),
            (r#"{"expected": 1, "arguments": 2}"#, "arguments"),
        ] {
            assert!(told(text).contains(part), "{text}: {}", told(text));
        }
        std::fs::write(folder.path().join("cases/a.json"), r#"{"expected": 1}"#).unwrap();
        std::fs::write(folder.path().join("cases/notes.txt"), "").unwrap();
        assert_eq!(Case::of_project(folder.path(), None).unwrap().len(), 1);
        assert!(Case::of_project(folder.path(), Some("b")).unwrap().is_empty());
    }
}
