//! Faults in a request: member paths and what is wrong with each.
//!
//! A fault's text is fixed or built from names the caller wrote (member names, permission names), never from
//! the values of `data`: it ends in an answer and perhaps in a log.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use super::path::Path;
use crate::limits::FAULTS_MAX;

/// Said of the body itself when there are more faults than are named.
const MORE: &str = "has more faults than are named here";

/// What is wrong with a request, by member path; all of it at once (decisions §1), up to [`FAULTS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    by_path: BTreeMap<String, Vec<String>>,
    count: usize,
}

impl Faults {
    /// No fault yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A single fault.
    pub fn one(path: impl Into<String>, message: impl Into<String>) -> Self {
        let mut faults = Self::new();
        faults.add(path, message);
        faults
    }

    /// Adds a fault at a member path such as `rules[0].container`.
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.count += 1;
        match self.count.cmp(&(FAULTS_MAX + 1)) {
            Ordering::Less => self.by_path.entry(path.into()).or_default().push(message.into()),
            Ordering::Equal => self.say_of_more(String::new()),
            Ordering::Greater => {}
        }
    }

    /// Names no more, and says once of what there are.
    fn say_of_more(&mut self, path: String) {
        self.count = self.count.max(FAULTS_MAX + 1);
        let is_said = self.by_path.values().flatten().any(|said| said == MORE);
        if !is_said {
            self.by_path.entry(path).or_default().push(MORE.to_owned());
        }
    }

    /// Adds a fault where a walk stands. Its path is written only if it will be read.
    pub fn add_at(&mut self, path: Path<'_>, message: impl Into<String>) {
        let path = if self.count < FAULTS_MAX { path.to_string() } else { String::new() };
        self.add(path, message);
    }

    /// Takes over all faults of `other`, below `prefix` (`data` and `number` make `data.number`).
    pub fn extend_under(&mut self, prefix: &str, other: Self) {
        let mut of_more = None;
        for (path, messages) in other.by_path {
            for message in messages {
                match join(prefix, &path) {
                    path if message == MORE => of_more = Some(path),
                    path => self.add(path, message),
                }
            }
        }
        if let Some(path) = of_more {
            self.say_of_more(path);
        }
    }

    /// Keeps the value, or notes the fault at `path` and gives none.
    pub fn check<T, E: fmt::Display>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }

    /// As [`Self::check`], for what has faults with paths of their own.
    pub fn take<T>(&mut self, path: &str, result: Result<T, Self>) -> Option<T> {
        result.map_err(|inner| self.extend_under(path, inner)).ok()
    }

    /// As [`Self::check`], where a walk stands.
    pub fn check_at<T, E: fmt::Display>(
        &mut self,
        path: Path<'_>,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.add_at(path, error.to_string())).ok()
    }

    /// The same with other words where there are some.
    #[must_use]
    pub fn reworded(mut self, reword: impl Fn(&str, &str) -> Option<String>) -> Self {
        for (path, said) in &mut self.by_path {
            for one in said {
                if let Some(other) = reword(path, one) {
                    *one = other;
                }
            }
        }
        self
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// Whether something is wrong at this path or below it.
    pub fn concern(&self, path: &str) -> bool {
        self.by_path.keys().any(|found| is_within(found, path))
    }

    /// Whether something is wrong at this path or above it.
    pub fn reach(&self, path: &str) -> bool {
        self.by_path.keys().any(|found| is_within(path, found))
    }

    /// Keeps what is wrong at these paths.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.by_path.retain(|path, _| keep(path));
        self
    }

    /// Whether there are more than are named.
    pub fn are_cut_short(&self) -> bool {
        self.count > FAULTS_MAX
    }

    /// What is wrong at this path and below it, at paths from there.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let mut below = Self::new();
        for (found, messages) in &self.by_path {
            let Some(rest) = found.strip_prefix(path).filter(|_| is_within(found, path)) else {
                continue;
            };
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            for message in messages {
                below.add(rest, message.as_str());
            }
        }
        below
    }

    /// `value` when nothing is wrong.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Paths and messages, in the order of the paths.
    pub fn into_map(self) -> BTreeMap<String, Vec<String>> {
        self.by_path
    }
}

/// Whether a path is `above` or leads on from there.
pub fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn join(prefix: &str, path: &str) -> String {
    match (prefix.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => prefix.to_owned(),
        // A member without a name is written so.
        _ if path.starts_with(['[', '.']) => format!("{prefix}{path}"),
        _ => format!("{prefix}.{path}"),
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (path, messages)) in self.by_path.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            // What is said of the whole has no path.
            f.write_str(path)?;
            f.write_str(if path.is_empty() { "" } else { ": " })?;
            f.write_str(&messages.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FAULTS_MAX, Faults};

    #[test]
    fn a_fault_concerns_the_paths_above_it() {
        let faults = Faults::one("rules[0].container", "must end with /");
        assert!(faults.concern("rules") && faults.concern("rules[0]"));
        assert!(!faults.concern("rule") && !faults.concern("rules[0].containers"));
    }

    #[test]
    fn only_so_many_are_named() {
        let mut faults = Faults::new();
        let mut inner = Faults::new();
        for number in 0..500_000 {
            inner.extend_under(&format!("[{number}]"), Faults::one("", "must be a string"));
        }
        faults.extend_under("containers", inner);
        faults.add("zzz", "is required");
        let map = faults.into_map();
        assert_eq!(map.len(), FAULTS_MAX + 1);
        assert!(map["containers"][0].contains("more faults"));
    }

    #[test]
    fn that_there_are_more_is_said_once() {
        let many = |path: &str| {
            let mut many = Faults::new();
            for _ in 0..=FAULTS_MAX {
                many.add(path, "is wrong");
            }
            many
        };
        let mut faults = Faults::new();
        faults.extend_under("mask", many("a"));
        faults.extend_under("mask", many("b"));
        faults.extend_under("", many("c"));
        let map = faults.into_map();
        let said = map.values().flatten().filter(|said| said.contains("more faults"));
        assert_eq!(said.count(), 1, "{map:?}");
    }

    #[test]
    fn paths_join_as_a_reader_would_write_them() {
        let mut faults = Faults::one("name", "is required");
        faults.extend_under("data", Faults::one("number", "fails the Luhn check"));
        faults.extend_under("rules", Faults::one("[0].container", "must end with /"));
        faults.extend_under("mask", Faults::one("", "is too large"));
        faults.extend_under("metadata", Faults::one(".", "must be a string"));
        let paths: Vec<_> = faults.into_map().into_keys().collect();
        assert_eq!(paths, ["data.number", "mask", "metadata.", "name", "rules[0].container"]);
    }

    #[test]
    fn faults_of_a_part_keep_their_paths() {
        let mut faults = Faults::new();
        assert_eq!(faults.take("name", Ok(1)), Some(1));
        let wrong: Result<(), _> = Err(Faults::one("", "must be an object"));
        assert_eq!(faults.take("rules[0]", wrong), None);
        assert_eq!(faults.to_string(), "rules[0]: must be an object");
        assert_eq!(Faults::one("", "must be a string").to_string(), "must be a string");
    }
}
