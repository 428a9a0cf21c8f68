//! Search queries: any text is read or refused at a place within it, and what is read can be
//! written and read again.

use super::timely;
use tokamak::limits::{QUERY_BYTES_MAX, QUERY_TERMS_MAX};
use tokamak::model::time::Timestamp;
use tokamak::query::{Query, QueryError, Term, TextField, TimeField, parse};

/// A word that no message has by itself.
const CANARY: &str = "zq7canaryx9";
/// Behind it, a time cannot be written.
const LAST_MS: u64 = 253_402_300_799_999;

/// Checks one input.
pub fn check(text: &str) {
    match timely("parsing", || parse(text)) {
        Ok(query) => {
            assert!((1..=QUERY_TERMS_MAX).contains(&terms(&query)), "{query:?}");
            if within_the_calendar(&query) {
                let written = write(&query);
                if written.len() <= QUERY_BYTES_MAX {
                    assert_eq!(parse(&written).as_ref(), Ok(&query), "{written}");
                }
            }
        }
        Err(error) => check_refusal(text, &error),
    }
    // Whatever stands beside it, what was searched for is not repeated.
    for text in [format!("{text}{CANARY}"), format!("{CANARY}{text}")] {
        if let Err(error) = parse(&text) {
            check_refusal(&text, &error);
            assert!(!error.to_string().contains(CANARY), "{error}");
        }
    }
}

fn check_refusal(text: &str, error: &QueryError) {
    if let QueryError::Expected { position, expected } = error {
        let chars = text.chars().count();
        assert!((1..=chars + 1).contains(position), "{position} of {chars}");
        assert!(!expected.is_empty());
    }
}

fn terms(query: &Query) -> usize {
    match query {
        Query::Term(_) => 1,
        Query::And(parts) | Query::Or(parts) => parts.iter().map(terms).sum(),
        Query::Not(part) => terms(part),
    }
}

fn within_the_calendar(query: &Query) -> bool {
    let written = |at: &Option<Timestamp>| at.is_none_or(|at| at.0 <= LAST_MS);
    match query {
        Query::Term(Term::Time { from, to, .. }) => written(from) && written(to),
        Query::Term(_) => true,
        Query::And(parts) | Query::Or(parts) => parts.iter().all(within_the_calendar),
        Query::Not(part) => within_the_calendar(part),
    }
}

/// A query as text, with no more parentheses than it was read with.
fn write(query: &Query) -> String {
    match query {
        Query::Term(term) => write_term(term),
        Query::And(parts) => {
            let group = |part: &Query| matches!(part, Query::And(_) | Query::Or(_));
            parts.iter().map(|part| operand(part, group(part))).collect::<Vec<_>>().join(" AND ")
        }
        Query::Or(parts) => {
            let group = |part: &Query| matches!(part, Query::Or(_));
            parts.iter().map(|part| operand(part, group(part))).collect::<Vec<_>>().join(" OR ")
        }
        Query::Not(part) => format!("NOT {}", operand(part, !matches!(**part, Query::Term(_)))),
    }
}

fn operand(query: &Query, group: bool) -> String {
    if group { format!("({})", write(query)) } else { write(query) }
}

fn write_term(term: &Term) -> String {
    match term {
        Term::Text(field, value) => format!("{}:{}", name(field), quoted(value)),
        Term::Container(path) => format!("container:{}", quoted(path)),
        Term::ContainerWithin(path) => format!("container:\"{path}*\""),
        Term::Time { field, from, to } => {
            let name = match field {
                TimeField::CreatedAt => "created_at",
                TimeField::ModifiedAt => "modified_at",
            };
            let bound =
                |at: &Option<Timestamp>| at.map_or("*".to_owned(), |at| format!("\"{at}\""));
            format!("{name}:[{} TO {}]", bound(from), bound(to))
        }
        Term::Nothing => "created_at:{* TO 1970-01-01}".to_owned(),
    }
}

fn name(field: &TextField) -> String {
    let name = match field {
        TextField::Id => "id",
        TextField::Type => "type",
        TextField::Data => "data",
        TextField::Fingerprint => "fingerprint",
        TextField::CreatedBy => "created_by",
        TextField::ModifiedBy => "modified_by",
        TextField::Metadata(key) => {
            let escaped = |c: char| ['\\', c];
            return format!("metadata.{}", key.chars().flat_map(escaped).collect::<String>());
        }
    };
    name.to_owned()
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
