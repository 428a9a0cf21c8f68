//! Looking for reactors and formulas by their names.
//!
//! Names are sealed. What is kept in clear are keyed hashes of the pieces of a name, up to three characters long, with
//! its start and end as characters of their own: of the records that have all pieces of a pattern, only those are
//! opened. A record of a time before there were pieces is opened in any case.

use super::index::{Index, term, term_of};
use super::page::PageRequest;
use super::record::Entity;
use super::{Error, Vault, let_go_of_all_but, opened_so_far};
use crate::crypto::keys::TenantKeys;
use crate::model::case::{caseless, stored_forms};
use crate::model::id::TenantId;
use crate::store::{Filter, Position, Record, Term};

/// The place before a name's first character.
const START: char = '\u{2}';
/// The place after its last.
const END: char = '\u{3}';
/// Characters of the longest piece.
const PIECE_CHARS_MAX: usize = 3;
/// Pieces of a pattern that are looked for: more would find hardly less.
const PIECES_MAX: usize = 64;

/// What is found by its name.
pub trait Named: Entity {
    /// The name.
    fn name(&self) -> &str;
}

/// Adds what a name is found by.
pub fn index_name(index: &mut Index<'_>, named: &impl Named) {
    index.term(term::NAMED, &[]);
    let marked: Vec<char> = marked(&index.folded(named.name())).chars().collect();
    for chars in 1..=PIECE_CHARS_MAX {
        for piece in marked.windows(chars) {
            index.term(term::NAME_PIECE, &[&piece.iter().collect::<String>()]);
        }
    }
}

/// The terms of a name.
pub fn terms_of_name(named: &impl Named, mut index: Index<'_>) -> Vec<Term> {
    index_name(&mut index, named);
    index.into_parts().0
}

/// Whether a record was stored with the pieces of its name.
pub fn has_pieces(record: &Record, keys: &TenantKeys) -> bool {
    record.terms.contains(&term_of(keys, term::NAMED, &[]))
}

/// What every record has whose name matches, and some that do not.
fn candidates(keys: &TenantKeys, pattern: &str) -> Filter {
    let with = |piece: String| Filter::Term(term_of(keys, term::NAME_PIECE, &[&piece]));
    let pieces = |pattern: &str| -> Vec<Filter> {
        marked(pattern).split('*').flat_map(pieces_of).take(PIECES_MAX).map(with).collect()
    };
    let named = Filter::Term(term_of(keys, term::NAMED, &[]));
    let unknown = Filter::Not(Box::new(named));
    let matching = stored_forms(pattern).map(|form| Filter::And(pieces(&form)));
    Filter::Or(matching.chain([unknown]).collect())
}

/// The longest pieces of a part of a pattern.
fn pieces_of(part: &str) -> Vec<String> {
    let chars: Vec<char> = part.chars().collect();
    match chars.as_slice() {
        [] | [START | END] => Vec::new(),
        short if short.len() <= PIECE_CHARS_MAX => vec![short.iter().collect()],
        long => long.windows(PIECE_CHARS_MAX).map(|piece| piece.iter().collect()).collect(),
    }
}

fn marked(text: &str) -> String {
    format!("{START}{text}{END}")
}

/// Whether a name matches a pattern in which `*` stands for any characters, ignoring case.
pub fn matches_name(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (caseless(pattern), caseless(name));
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

impl Vault {
    /// The places of all entities whose names match a pattern, newest first.
    pub(super) async fn named<E: Named>(
        &self,
        tenant: TenantId,
        filter: Filter,
        pattern: &str,
    ) -> Result<Vec<Position>, Error> {
        let keys = self.keys(tenant).await?;
        let filter = Filter::And(vec![filter, candidates(&keys, pattern)]);
        let mut request = PageRequest::first();
        let (mut named, before) = (Vec::new(), opened_so_far());
        loop {
            let page = self.page::<E>(tenant, filter.clone(), &request).await?;
            if page.next.is_some() {
                // There may be any number of them.
                self.go_apart(tenant).await?;
                tokio::task::yield_now().await;
            }
            let matching = page.data.iter().filter(|one| matches_name(pattern, one.name()));
            named.extend(matching.map(|one| Position { order_ms: one.created_ms(), id: one.id() }));
            let_go_of_all_but(before);
            match page.next.and_then(|cursor| PageRequest::following(&cursor)) {
                Some(next) => request = next,
                None => return Ok(named),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{END, PIECE_CHARS_MAX, START, caseless, marked, matches_name, pieces_of};

    #[test]
    fn name_patterns() {
        for (pattern, name, expected) in [
            ("card insights", "Card Insights", true),
            ("card", "card insights", false),
            ("card*", "card insights", true),
            ("*insights", "card insights", true),
            ("c*d*s", "card insights", true),
            ("*", "", true),
            ("a*a", "a", false),
            ("*ab*ab", "xab", false),
            ("*ab*", "xabx", true),
            ("ΟΔΟΣ*", "Οδοσα", true),
            ("*Σ", "οδός", true),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn pieces_of_patterns() {
        for (part, expected) in [
            (marked(""), vec![format!("{START}{END}")]),
            (START.to_string(), vec![]),
            (String::new(), vec![]),
            ("b".to_owned(), vec!["b".to_owned()]),
            (format!("{START}ab"), vec![format!("{START}ab")]),
            ("abcd".to_owned(), vec!["abc".to_owned(), "bcd".to_owned()]),
        ] {
            assert_eq!(pieces_of(&part), expected, "{part:?}");
        }
    }

    proptest! {
        /// Whatever matches has every piece that is looked for, or it would not be found.
        #[test]
        fn no_name_that_matches_lacks_a_piece(
            name in "[abABΣς]{0,8}",
            picks in prop::collection::vec(0..4_u8, 8),
        ) {
            let pattern: String = name.chars().zip(picks).fold(String::new(), |pattern, (c, pick)| {
                match pick {
                    0 => pattern + "*",
                    1 => pattern + "*" + &String::from(c),
                    2 => pattern + &c.to_uppercase().to_string(),
                    _ => pattern + &String::from(c),
                }
            });
            prop_assert!(matches_name(&pattern, &name));
            let name: Vec<char> = marked(&caseless(&name)).chars().collect();
            for part in marked(&caseless(&pattern)).split('*') {
                for piece in pieces_of(part) {
                    let chars: Vec<char> = piece.chars().collect();
                    prop_assert!(chars.len() <= PIECE_CHARS_MAX);
                    prop_assert!(name.windows(chars.len()).any(|window| window == chars));
                }
            }
        }
    }
}
