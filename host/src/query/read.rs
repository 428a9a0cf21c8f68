//! From text to tree: the grammar, then what each field demands of its value.

use pest::Parser as _;
use pest::iterators::Pair;

use super::error::{NO_SYMBOLS, QueryError, TEXT_ALONE, field_names};
use super::grammar::{Grammar, Rule};
use super::{Field, Query, Term, TextField, TimeField};
use crate::limits::{QUERY_BYTES_MAX, QUERY_LEVELS_MAX, QUERY_TERMS_MAX};
use crate::model::container::Container;
use crate::model::time::{InvalidTime, Timestamp, parse_bound, parse_span};

/// Reads a query.
pub fn parse(text: &str) -> Result<Query, QueryError> {
    if text.len() > QUERY_BYTES_MAX {
        return Err(QueryError::TooLong);
    }
    check_depth(text)?;
    let mut pairs =
        Grammar::parse(Rule::query, text).map_err(|error| QueryError::from_pest(text, &error))?;
    let disjunction = pairs.next().and_then(|query| query.into_inner().next());
    let Some(disjunction) = disjunction else {
        return Err(QueryError::expected(text, 0, "a term such as type:card"));
    };
    let mut reader = Reader { text, terms: 0 };
    reader.disjunction(disjunction)
}

/// The grammar recurses with every parenthesis, so that they are counted before it begins.
fn check_depth(text: &str) -> Result<(), QueryError> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for c in text.chars() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > QUERY_LEVELS_MAX {
            return Err(QueryError::TooDeep);
        }
    }
    Ok(())
}

/// How a time is read as a stretch.
type ReadSpan = fn(&str) -> Result<(Timestamp, Timestamp), InvalidTime>;

struct Reader<'t> {
    text: &'t str,
    terms: usize,
}

/// A value as it stands in a term.
struct Value {
    text: String,
    /// Where its text begins in the query.
    byte: usize,
    /// It ended with a `*` that no backslash stood before.
    wildcard: bool,
}

impl Reader<'_> {
    fn disjunction(&mut self, pair: Pair<'_, Rule>) -> Result<Query, QueryError> {
        let parts = pair.into_inner().filter(|part| part.as_rule() == Rule::conjunction);
        let parts = parts.map(|part| self.conjunction(part)).collect::<Result<Vec<_>, _>>()?;
        Ok(one_or(parts, Query::Or))
    }

    fn conjunction(&mut self, pair: Pair<'_, Rule>) -> Result<Query, QueryError> {
        let parts = pair.into_inner().filter(|part| part.as_rule() == Rule::negation);
        let parts = parts.map(|part| self.negation(part)).collect::<Result<Vec<_>, _>>()?;
        Ok(one_or(parts, Query::And))
    }

    fn negation(&mut self, pair: Pair<'_, Rule>) -> Result<Query, QueryError> {
        let mut negated = false;
        let byte = pair.as_span().start();
        for part in pair.into_inner() {
            let found = match part.as_rule() {
                Rule::not => {
                    negated = !negated;
                    continue;
                }
                Rule::group => {
                    let inner = part.into_inner().find(|part| part.as_rule() == Rule::disjunction);
                    match inner {
                        Some(inner) => self.disjunction(inner)?,
                        None => break,
                    }
                }
                _ => Query::Term(self.term(part)?),
            };
            return Ok(if negated { Query::Not(Box::new(found)) } else { found });
        }
        Err(QueryError::expected(self.text, byte, "a term such as type:card"))
    }

    fn term(&mut self, pair: Pair<'_, Rule>) -> Result<Term, QueryError> {
        self.terms += 1;
        if self.terms > QUERY_TERMS_MAX {
            return Err(QueryError::TooManyTerms);
        }
        let mut parts = pair.into_inner();
        let (Some(field), Some(value)) =
            (parts.next(), parts.find(|part| part.as_rule() != Rule::colon))
        else {
            return Err(QueryError::expected(self.text, 0, "a term such as type:card"));
        };
        let byte = field.as_span().start();
        self.check_bare(field.as_str(), byte)?;
        let (name, wildcard) = unescape(field.as_str());
        if wildcard {
            return Err(self.literal(field.as_span().end() - 1));
        }
        let unknown = || QueryError::expected(self.text, byte, field_names());
        match Field::named(&name).ok_or_else(unknown)? {
            Field::Time(field) if value.as_rule() == Rule::range => self.range(field, value),
            _ if value.as_rule() == Rule::range => {
                let byte = value.as_span().start();
                Err(QueryError::expected(self.text, byte, "a value: only times have ranges"))
            }
            Field::Time(field) => self.time(field, value),
            Field::Container => self.container(value),
            Field::Text(field) => self.plain(field, value),
        }
    }

    fn plain(&self, field: TextField, pair: Pair<'_, Rule>) -> Result<Term, QueryError> {
        let value = self.value(pair)?;
        if value.wildcard {
            return Err(self.no_wildcard(&value));
        }
        Ok(Term::Text(field, value.text))
    }

    fn container(&self, pair: Pair<'_, Rule>) -> Result<Term, QueryError> {
        let mut value = self.quoted_or_bare(pair)?;
        let wildcard = value.wildcard;
        if wildcard {
            value.text.pop();
        }
        let expected = "a container such as \"/pci/high/\", or \"/pci/*\" for all below it";
        let wrong = |_| QueryError::expected(self.text, value.byte, expected);
        let container: Container = value.text.parse().map_err(wrong)?;
        let path = container.as_str().to_owned();
        Ok(if wildcard { Term::ContainerWithin(path) } else { Term::Container(path) })
    }

    fn time(&self, field: TimeField, pair: Pair<'_, Rule>) -> Result<Term, QueryError> {
        let value = self.value(pair)?;
        let (from, to) = self.span(&value, parse_span)?;
        Ok(Term::Time { field, from: Some(from), to: Some(to) })
    }

    fn range(&self, field: TimeField, pair: Pair<'_, Rule>) -> Result<Term, QueryError> {
        let (mut inclusive, mut bounds) = (true, Vec::with_capacity(2));
        for part in pair.into_inner() {
            match part.as_rule() {
                Rule::open_range => inclusive = part.as_str() == "[",
                Rule::bound => bounds.push(self.bound(part)?),
                Rule::close_range if inclusive != (part.as_str() == "]") => {
                    let closing = if inclusive { "]" } else { "}" };
                    return Err(QueryError::expected(self.text, part.as_span().start(), closing));
                }
                _ => {}
            }
        }
        let [from, to] = bounds.as_slice() else { return Ok(Term::Nothing) };
        // A date is a whole day: `[a TO b]` holds both days, `{a TO b}` neither. A time is an instant.
        let from = match from {
            Some((first, _)) if inclusive => Some(*first),
            Some((_, last)) => Some(Timestamp(last.0 + 1)),
            None => None,
        };
        let to = match to {
            Some((_, last)) if inclusive => Some(*last),
            Some((Timestamp(0), _)) => return Ok(Term::Nothing),
            Some((first, _)) => Some(Timestamp(first.0 - 1)),
            None => None,
        };
        Ok(match (from, to) {
            (Some(from), Some(to)) if from > to => Term::Nothing,
            (from, to) => Term::Time { field, from, to },
        })
    }

    fn bound(&self, pair: Pair<'_, Rule>) -> Result<Option<(Timestamp, Timestamp)>, QueryError> {
        match pair.into_inner().next() {
            Some(part) if part.as_rule() != Rule::open_end => {
                self.span(&self.value(part)?, parse_bound).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn span(&self, value: &Value, read: ReadSpan) -> Result<(Timestamp, Timestamp), QueryError> {
        let expected = "a date such as 2030-08-26 or a time such as 2030-08-26T19:23:57Z";
        let wrong = |_| QueryError::expected(self.text, value.byte, expected);
        read(&value.text).map_err(wrong)
    }

    /// A value in which a trailing `*` of a quoted text means itself.
    fn value(&self, pair: Pair<'_, Rule>) -> Result<Value, QueryError> {
        let quoted = pair.as_rule() == Rule::quoted;
        let source = pair.as_str();
        if !quoted && source.len() > 2 && source.starts_with('/') && source.ends_with('/') {
            return Err(self.literal(pair.as_span().start()));
        }
        let mut value = self.quoted_or_bare(pair)?;
        value.wildcard &= !quoted;
        if value.wildcard { Err(self.no_wildcard(&value)) } else { Ok(value) }
    }

    fn quoted_or_bare(&self, pair: Pair<'_, Rule>) -> Result<Value, QueryError> {
        if pair.as_rule() == Rule::quoted {
            let byte = pair.as_span().start() + 1;
            let inner = pair.into_inner().find(|part| part.as_rule() == Rule::inner);
            let (text, wildcard) = unescape(inner.map_or("", |inner| inner.as_str()));
            return Ok(Value { text, byte, wildcard });
        }
        let byte = pair.as_span().start();
        self.check_bare(pair.as_str(), byte)?;
        let (text, wildcard) = unescape(pair.as_str());
        Ok(Value { text, byte, wildcard })
    }

    /// Other features of Lucene would be silently taken for text: they are refused instead.
    fn check_bare(&self, source: &str, start: usize) -> Result<(), QueryError> {
        let mut escaped = false;
        for (at, c) in source.char_indices() {
            let last = at + c.len_utf8() == source.len();
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '&' | '|' if source[at + 1..].starts_with(c) => {
                    return Err(QueryError::expected(self.text, start + at, NO_SYMBOLS));
                }
                // Such spaces come with what is copied from a page: they are seen as others are.
                c if c.is_whitespace() || c.is_control() => return Err(self.literal(start + at)),
                '?' | '~' | '^' => return Err(self.literal(start + at)),
                '*' if !last => return Err(self.literal(start + at)),
                _ => {}
            }
        }
        Ok(())
    }

    fn literal(&self, byte: usize) -> QueryError {
        QueryError::expected(self.text, byte, TEXT_ALONE)
    }

    fn no_wildcard(&self, value: &Value) -> QueryError {
        let expected = "a value: only containers may end with a wildcard (quote or escape it)";
        QueryError::expected(self.text, value.byte, expected)
    }
}

fn one_or(mut parts: Vec<Query>, many: fn(Vec<Query>) -> Query) -> Query {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
        None => many(parts),
    }
}

/// The text without its backslashes, and whether it ends with a `*` that none stood before.
fn unescape(source: &str) -> (String, bool) {
    let (mut text, mut escaped, mut wildcard) = (String::with_capacity(source.len()), false, false);
    for c in source.chars() {
        if c == '\\' && !escaped {
            escaped = true;
            continue;
        }
        wildcard = c == '*' && !escaped;
        text.push(c);
        escaped = false;
    }
    (text, wildcard)
}
