//! Faults in a request: member paths and what is wrong with each.
//!
//! A fault's text is fixed or built from names the caller wrote (member names, permission names), never from
//! the values of `data`: it ends in an answer and perhaps in a log.

use std::collections::BTreeMap;
use std::fmt;

/// What is wrong with a request, by member path; all of it at once (decisions §1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(BTreeMap<String, Vec<String>>);

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
        self.0.entry(path.into()).or_default().push(message.into());
    }

    /// Takes over all faults of `other`, below `prefix` (`data` and `number` make `data.number`).
    pub fn extend_under(&mut self, prefix: &str, other: Self) {
        for (path, messages) in other.0 {
            self.0.entry(join(prefix, &path)).or_default().extend(messages);
        }
    }

    /// Keeps the value, or notes the fault at `path` and gives none.
    pub fn check<T, E: fmt::Display>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something is wrong at this path or below it.
    pub fn concern(&self, path: &str) -> bool {
        self.0.keys().any(|found| {
            found.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// `value` when nothing is wrong.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Paths and messages, in the order of the paths.
    pub fn into_map(self) -> BTreeMap<String, Vec<String>> {
        self.0
    }
}

fn join(prefix: &str, path: &str) -> String {
    match (prefix.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => prefix.to_owned(),
        _ if path.starts_with('[') => format!("{prefix}{path}"),
        _ => format!("{prefix}.{path}"),
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (path, messages)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{path}: {}", messages.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Faults;

    #[test]
    fn a_fault_concerns_the_paths_above_it() {
        let faults = Faults::one("rules[0].container", "must end with /");
        assert!(faults.concern("rules") && faults.concern("rules[0]"));
        assert!(!faults.concern("rule") && !faults.concern("rules[0].containers"));
    }

    #[test]
    fn paths_join_as_a_reader_would_write_them() {
        let mut faults = Faults::one("name", "is required");
        faults.extend_under("data", Faults::one("number", "fails the Luhn check"));
        faults.extend_under("rules", Faults::one("[0].container", "must end with /"));
        faults.extend_under("mask", Faults::one("", "is too large"));
        let paths: Vec<_> = faults.into_map().into_keys().collect();
        assert_eq!(paths, ["data.number", "mask", "name", "rules[0].container"]);
    }
}
