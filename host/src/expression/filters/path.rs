//! The one value that a JSONPath finds (RFC 9535).

use serde_json::Value;
use serde_json_path::JsonPath;

use super::{Arguments, Refusal};

/// Bytes of a path; each step may visit all that is below it.
pub(crate) const PATH_BYTES_MAX: usize = 256;

const LONG: Refusal = "takes a path of at most 256 bytes";
const LIST: Refusal = "takes a path without lists";
const WIDE: Refusal = "takes a path with at most one .. or one filter";
const PATTERN: Refusal =
    "takes a path without match() and search(): each value would need its pattern read anew";
const FILTER: Refusal =
    "takes a filter without *, and with $ only for one value by itself, once in a comparison";
const UNCOMPARED: Refusal = "takes a filter with $ only beside ==, !=, <, <=, > or >=, \
     since whether it finds anything is the same for every value";

/// The one value that a path finds.
pub(crate) fn json(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    found(value, arguments)?.ok_or("found nothing at its path")
}

/// The same, and nothing if it finds none.
pub(crate) fn json_or_nothing(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    found(value, arguments).map(Option::unwrap_or_default)
}

fn found(value: &Value, arguments: &Arguments<'_>) -> Result<Option<Value>, Refusal> {
    let path = arguments.text(0, "");
    check_path(&path)?;
    let path = JsonPath::parse(&path).map_err(|_| "takes a JSONPath")?;
    let found = path.query(value);
    match found.at_most_one() {
        Ok(found) => Ok(found.cloned()),
        Err(_) => Err("found several values at its path"),
    }
}

/// Refuses paths whose cost grows faster than the data: each `..` visits everything below what the one before it
/// found, and a list of selectors may find the same value again and again. A filter looks into each value it is given,
/// at places of that value alone: with `..` it would do so at every level. Patterns are compiled anew for each value.
fn check_path(path: &str) -> Result<(), Refusal> {
    if path.len() > PATH_BYTES_MAX {
        return Err(LONG);
    }
    let (mut quote, mut escaped, mut walk) = (None, false, Walk::default());
    for (at, c) in path.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, c) => walk.step(path, at, c)?,
            (Some(_), _) => {}
        }
    }
    Ok(())
}

/// What stands in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Selectors,
    Filter,
    /// What is to be seen as one in a filter.
    Group,
    /// What a function is given.
    Call,
}

/// A walk over what is not quoted.
#[derive(Default)]
struct Walk {
    open: Vec<Bracket>,
    descents: usize,
    filters: usize,
    /// How often `$` stands between two operators of a filter that are `&&` or `||`.
    roots: usize,
    /// Whether something is compared there.
    compares: bool,
}

impl Walk {
    fn step(&mut self, path: &str, at: usize, c: char) -> Result<(), Refusal> {
        match c {
            '[' => self.open.push(Bracket::Selectors),
            '(' => self.open.push(match function_before(path, at) {
                "" => Bracket::Group,
                "match" | "search" => return Err(PATTERN),
                _ => Bracket::Call,
            }),
            ']' | ')' => {
                if let Some(Bracket::Filter | Bracket::Group) = self.open.pop() {
                    self.end_condition()?;
                }
            }
            ',' if self.open.last() != Some(&Bracket::Call) => return Err(LIST),
            '?' => {
                self.filters += 1;
                if let Some(last) = self.open.last_mut() {
                    *last = Bracket::Filter;
                }
            }
            '.' if path[at + 1..].starts_with('.') => self.descents += 1,
            _ if self.open.contains(&Bracket::Filter) => self.step_in_filter(c)?,
            _ => {}
        }
        if self.descents + self.filters > 1 { Err(WIDE) } else { Ok(()) }
    }

    /// For each value that is filtered, what `$` stands for is the same: it may be found at once, and compared with what
    /// is no larger than that value, but neither walked through nor compared with another one that `$` stands for.
    fn step_in_filter(&mut self, c: char) -> Result<(), Refusal> {
        let in_call = self.open.contains(&Bracket::Call);
        match c {
            '&' | '|' => self.end_condition()?,
            '=' | '<' | '>' => self.compares = true,
            '$' => {
                self.roots += 1;
                if in_call || self.roots > 1 {
                    return Err(FILTER);
                }
            }
            '*' => return Err(FILTER),
            // A slice.
            ':' if self.roots > 0 && !in_call => return Err(FILTER),
            _ => {}
        }
        Ok(())
    }

    /// A comparison walks to the one value at once. A test of whether there is any would copy its way there for each
    /// value anew, and say the same each time.
    fn end_condition(&mut self) -> Result<(), Refusal> {
        let is_compared = self.compares || self.roots == 0;
        (self.roots, self.compares) = (0, false);
        if is_compared { Ok(()) } else { Err(UNCOMPARED) }
    }
}

/// The name right before a bracket.
fn function_before(path: &str, bracket: usize) -> &str {
    let before = &path[..bracket];
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    &before[before.trim_end_matches(is_of_name).len()..]
}
