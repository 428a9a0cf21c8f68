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
//! `svc: false` gives the reactor no application, and an object one with these `permissions` and `rules`. `http` answers in
//! place of other hosts ([`super::stand_ins`]), and `log` is what the run has to log. `request.timeout_ms` is the time of a
//! long run, which is waited for here.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::{Failure, counted};
use super::bench::{Ran, Svc, Trial};
use super::differences::{compare, short};
use super::report::{BAD, DIM, GOOD, Problem, styled};
use super::run::figures;
use super::stand_ins::Exchange;
use crate::limits::{ASYNCHRONOUS_TIMEOUT_MS_MAX, REACT_TIMEOUT_MS};
use crate::model::exact;
use crate::vault::SERVER_LEVEL;

/// Differences of one case that are shown.
const DIFFERENCES_MAX: usize = 20;

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
    /// What the formula sends to other hosts, and what comes back.
    #[serde(default)]
    http: Option<Vec<Exchange>>,
    #[serde(default)]
    log: Option<Vec<Value>>,
    /// Time of the run, if it is no usual one.
    #[serde(skip)]
    pub timeout_ms: Option<u64>,
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
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
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
        let mut case: Self =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        // As a server refuses what is sent to it.
        let is_sent = |member: &str| ["request", "configuration", "tokens"].contains(&member);
        exact::check(text.as_bytes(), is_sent)
            .map_err(|faults| format!("{}: {faults}", path.display()))?;
        case.name = name;
        case.settle().map_err(|told| format!("{}: {told}", path.display()))?;
        Ok(case)
    }

    /// Checks what its types do not.
    fn settle(&mut self) -> Result<(), String> {
        if self.expected.is_some() == self.error.is_some() {
            return Err("a case has either `expected` or `error`".to_owned());
        }
        for (index, exchange) in self.http.iter().flatten().enumerate() {
            if let Some(fault) = exchange.fault() {
                return Err(format!("http[{index}] {fault}"));
            }
        }
        // Only what a server would take for a run that it does not wait for.
        if let Some(given) = self.request.remove("timeout_ms") {
            let (least, most) = (REACT_TIMEOUT_MS, ASYNCHRONOUS_TIMEOUT_MS_MAX);
            let given = given.as_u64().filter(|ms| (least..=most).contains(ms));
            self.timeout_ms = Some(given.ok_or_else(|| {
                format!("request.timeout_ms must be a whole number from {least} to {most}")
            })?);
        }
        Ok(())
    }

    /// The run that it asks for.
    pub fn trial(&self) -> Trial {
        Trial {
            request: self.request.clone(),
            configuration: self.configuration.clone(),
            tokens: self.tokens.clone(),
            http: self.http.clone(),
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
        found.extend(ran.sent.iter().cloned());
        if let Some(expected) = &self.log {
            compare_log(expected, &ran, &mut found);
        }
        let (name, description) = (self.name.clone(), self.description.clone());
        Judged { name, description, passed: found.is_empty(), differences: found, ran }
    }
}

/// Compares what a run logged with the lines that were expected: texts, or objects of `level` and `message`.
fn compare_log(expected: &[Value], ran: &Ran, differences: &mut Vec<String>) {
    let lines = ran.invocation.iter().flat_map(|invocation| &invocation.log);
    // What the server says of a run is none of the formula's.
    let own = lines.filter(|line| line.level != SERVER_LEVEL);
    let lines: Vec<Value> = own
        .map(|line| json!({ "level": line.level, "message": line.message.trim_end() }))
        .collect();
    if lines.len() != expected.len() {
        let (expected, found) = (expected.len(), lines.len());
        differences
            .push(format!("log: expected {}, got {found}", counted(expected, "line", "lines")));
    }
    for (index, (expected, line)) in expected.iter().zip(&lines).enumerate() {
        let line = if expected.is_object() { line } else { &line["message"] };
        compare(&format!("log[{index}]"), expected, line, false, differences);
    }
}

fn plain(problem: &Problem) -> String {
    anstream::adapter::strip_str(&problem.to_string()).to_string()
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
    use super::{Case, Problem, Ran};
    use serde_json::{Value, json};

    fn case(text: Value) -> Case {
        serde_json::from_value(text).unwrap()
    }

    fn ran(response: Option<Value>, error: Option<Problem>) -> Ran {
        Ran { response, error, invocation: None, is_asked: true, sent: Vec::new() }
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
            (r#"{"expected": 1, "http": [{}]}"#, "http[0] has either `response` or `error`"),
            (r#"{"expected": 1, "http": [{"response": {"status": 199}}]}"#, "from 200 to 599"),
            (r#"{"expected": 1, "http": [{"error": "gone"}]}"#, "gone"),
            (r#"{"expected": 1, "request": {"timeout_ms": 9999}}"#, "request.timeout_ms must be"),
            (r#"{"expected": 1, "request": {"timeout_ms": "x"}}"#, "request.timeout_ms must be"),
        ] {
            assert!(told(text).contains(part), "{text}: {}", told(text));
        }
        std::fs::write(folder.path().join("cases/a.json"), r#"{"expected": 1}"#).unwrap();
        std::fs::write(folder.path().join("cases/notes.txt"), "").unwrap();
        assert_eq!(Case::of_project(folder.path(), None).unwrap().len(), 1);
        assert!(Case::of_project(folder.path(), Some("b")).unwrap().is_empty());
    }
}
