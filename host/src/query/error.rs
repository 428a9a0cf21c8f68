//! What is wrong with a query, and where.

use pest::error::{ErrorVariant, InputLocation};
use thiserror::Error;

use super::Field;
use super::grammar::Rule;
use crate::limits::{QUERY_BYTES_MAX, QUERY_LEVELS_MAX, QUERY_TERMS_MAX};

/// Why a text is no query. No text repeats any of the query.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Longer than queries may be.
    #[error("must have at most {QUERY_BYTES_MAX} bytes")]
    TooLong,
    /// Groups in groups in groups.
    #[error("must have at most {QUERY_LEVELS_MAX} levels of parentheses")]
    TooDeep,
    /// Too many terms.
    #[error("must have at most {QUERY_TERMS_MAX} terms")]
    TooManyTerms,
    /// Something else was expected.
    #[error("at character {position}: expected {expected}")]
    Expected {
        /// Where, counted in characters from 1.
        position: usize,
        /// What.
        expected: String,
    },
}

impl QueryError {
    /// Something else was expected at this byte of the query.
    pub(super) fn expected(text: &str, byte: usize, expected: impl Into<String>) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        Self::Expected { position: before.chars().count() + 1, expected: expected.into() }
    }

    pub(super) fn from_pest(text: &str, error: &pest::error::Error<Rule>) -> Self {
        let (InputLocation::Pos(byte) | InputLocation::Span((byte, _))) = error.location;
        // Where such a space is, a reader sees one that the grammar knows.
        let operator = || {
            let after = text.get(byte..).unwrap_or_default();
            ["AND", "NOT", "OR", "TO"].into_iter().find(|name| after.starts_with(name))
        };
        let end = byte + operator().map_or(0, str::len);
        if let Some(at) = unusual_space(text).filter(|at| *at <= end) {
            return Self::expected(text, at, TEXT_ALONE);
        }
        let mut names = Vec::new();
        if let ErrorVariant::ParsingError { positives, .. } = &error.variant {
            if let Some(at) = symbol_at(text, byte, positives) {
                return Self::expected(text, at, NO_SYMBOLS);
            }
            for name in positives.iter().map(|rule| named(*rule)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let expected = match names.as_slice() {
            [] => "something else".to_owned(),
            [only] => (*only).to_owned(),
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
        };
        Self::expected(text, byte, expected)
    }
}

/// What is expected where Lucene's other operators stand.
pub(super) const NO_SYMBOLS: &str = "AND or OR: && and || are not supported (quote or escape them)";

/// What is expected where its other features stand.
pub(super) const TEXT_ALONE: &str = "text: wildcards, fuzziness, boosts, regular expressions and unusual spaces are not \
    supported (quote or escape it)";

/// Where the first space stands that is none for the grammar, outside of quotes.
fn unusual_space(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' | '\r' | '\n' => {}
            c if c.is_whitespace() && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where one of them stands, if that is why a query cannot be read on at this byte: in place of an operator, or taken for a
/// field.
fn symbol_at(text: &str, byte: usize, positives: &[Rule]) -> Option<usize> {
    let (before, after) = text.split_at_checked(byte)?;
    let field = positives.contains(&Rule::colon).then(|| before.trim_end());
    ["&&", "||"].into_iter().find_map(|symbol| {
        let is_operator = positives.contains(&Rule::and) && after.starts_with(symbol);
        let at = field.and_then(|before| before.strip_suffix(symbol)).map(str::len);
        if is_operator { Some(byte) } else { at }
    })
}

/// The names of all fields, for messages.
pub(super) fn field_names() -> String {
    format!("one of the fields {}, metadata.<key>", Field::NAMES.join(", "))
}

/// A rule of the grammar in words.
fn named(rule: Rule) -> &'static str {
    match rule {
        Rule::query | Rule::disjunction | Rule::conjunction | Rule::negation | Rule::term => {
            "a term such as type:card"
        }
        Rule::field => "a field",
        Rule::group | Rule::open_group => "(",
        Rule::close_group => ")",
        Rule::not => "NOT",
        Rule::and => "AND",
        Rule::or => "OR",
        Rule::colon => ":",
        Rule::bare | Rule::quoted | Rule::inner => "a value",
        Rule::closing_quote => "a closing quote",
        Rule::range | Rule::open_range => "a range",
        Rule::close_range => "] or }",
        Rule::to => "TO",
        Rule::space => "a space",
        Rule::bound => "a date",
        Rule::open_end => "*",
        Rule::EOI => "the end of the query",
        _ => "something else",
    }
}
