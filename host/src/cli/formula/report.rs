//! What the commands say: text with colours where somebody looks, JSON where a script asked for it.
//!
//! Colours are left out unless the output is a terminal that shows them, and where `NO_COLOR` is set.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value;

use crate::cli::output::counted;
use crate::vault::{Error, RunError};

/// What went well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What did not.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What matters less.
pub const DIM: Style = Style::new().dimmed();

/// Writes a line to standard output. A reader that is gone is no failure.
pub fn say(line: impl Display) {
    let mut out = anstream::stdout().lock();
    let _ =
        writeln!(out, "{line}").and_then(|()| out.flush()).inspect_err(crate::cli::output::lose);
}

/// Writes JSON to standard output, as a line.
pub fn say_json(json: &Value) {
    say(spelled(json));
}

/// JSON in which what terminals obey is spelled: where there is no terminal, it would be left out.
fn spelled(json: &Value) -> String {
    let obeyed = |c: char| matches!(c, '\u{7f}'..='\u{9f}');
    json.to_string().chars().fold(String::new(), |mut line, c| {
        if obeyed(c) {
            // Writing to a string cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut line, format_args!("\\u{:04x}", u32::from(c)));
        } else {
            line.push(c);
        }
        line
    })
}

/// Writes a line to standard error.
pub fn warn(line: impl Display) {
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{line}");
}

/// A text in a style.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A line on a terminal that says what is under way, for as long as this is held.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Says what is under way.
    pub fn of(what: impl Display) -> Self {
        let shown = std::io::stderr().is_terminal();
        if shown {
            let mut out = anstream::stderr().lock();
            let _ = write!(out, "{DIM}{what} …{DIM:#}").and_then(|()| out.flush());
        }
        Self { shown }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let mut out = anstream::stderr().lock();
            let _ = write!(out, "\r\x1b[2K").and_then(|()| out.flush());
        }
    }
}

/// A refusal in a server's words.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Problem {
    /// The status it has over HTTP.
    pub status: u16,
    /// The kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Member paths with their messages.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, Vec<String>>,
    /// Headers of an answer that the formula shaped itself, their names in small letters; values of one name are joined.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The answer, when the formula shaped it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::Run(run) = &error
            && let RunError::Custom { status, headers, body } = run.as_ref()
        {
            let (headers, body) = (joined(headers), Some(body.clone()));
            return Self { status: *status, headers, body, ..Self::default() };
        }
        let told = error.describe();
        let (title, detail) = (told.title.to_owned(), told.detail);
        Self { status: told.status, title, detail, errors: told.errors, ..Self::default() }
    }
}

impl Problem {
    /// Reads a problem that a server answered with.
    pub fn read(status: u16, body: &Value) -> Self {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let errors = serde_json::from_value(body["errors"].clone()).unwrap_or_default();
        let (title, detail) = (text("title"), text("detail"));
        Self { status, title, detail, errors, ..Self::default() }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{BAD}{} {}{BAD:#}", self.status, self.title)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        for (member, messages) in &self.errors {
            for message in messages {
                write!(f, "\n  {member}: {message}")?;
            }
        }
        for (name, value) in &self.headers {
            write!(f, "\n{name}: {value}")?;
        }
        match &self.body {
            Some(body) => write!(f, "\n{body:#}"),
            None => Ok(()),
        }
    }
}

/// Headers by their names.
fn joined(headers: &[(String, String)]) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let of_name = joined.entry(name.to_ascii_lowercase()).or_default();
        if !of_name.is_empty() {
            of_name.push_str(", ");
        }
        of_name.push_str(value);
    }
    joined
}

/// Bytes, for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    if count < 1024 {
        return counted(count, "byte", "bytes");
    }
    let mut tenths = count.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Microseconds as milliseconds.
pub fn milliseconds(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::{Problem, bytes, milliseconds, spelled};
    use serde_json::json;

    #[test]
    fn json_keeps_what_a_terminal_obeys() {
        let json = json!({"raw": "a\u{7f}b\u{9b}c\u{1b}é"});
        let text = spelled(&json);
        assert_eq!(text, r#"{"raw":"a\u007fb\u009bc\u001bé"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
    }

    #[test]
    fn figures_are_for_people() {
        for (count, shown) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB")]
        {
            assert_eq!(bytes(count), shown);
        }
        assert_eq!(bytes(u64::MAX / 20), "858993459.1 GiB");
        assert_eq!(milliseconds(12_345), "12.34 ms");
    }

    #[test]
    fn a_servers_problem_is_told_with_its_members() {
        let body = json!({ "title": "T", "detail": "D", "errors": { "a.b": ["is wrong"] } });
        let problem = Problem::read(400, &body);
        let shown = anstream::adapter::strip_str(&problem.to_string()).to_string();
        assert_eq!(shown, "400 T: D\n  a.b: is wrong");
        assert_eq!(Problem::read(502, &json!(null)).status, 502);
    }
}
