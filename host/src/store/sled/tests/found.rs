//! What records are found by, in an index through which many came and went.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::FIELD;
use crate::store::conformance::{KIND, TENANT};
use crate::store::sled::index::Index;
use crate::store::sled::rows::IndexRow;
use crate::store::{Filter, Position, Start, Term};

#[test]
fn holes_and_terms_of_no_record_go_and_nothing_moves() {
    let term =
        |number: u64| Term(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let row = |n: u64, terms: Vec<Term>| IndexRow {
        kind: KIND,
        tenant: TENANT,
        order_ms: n,
        id: n.to_string(),
        terms,
        numbers: vec![(FIELD, n)],
    };
    let mut index = Index::default();
    let found = |index: &Index, filter: Filter| {
        let found = index.page((KIND, TENANT), &filter, &Start::Offset(0), 5, &HashMap::new());
        (found.total, found.page.into_iter().map(|position| position.order_ms).collect::<Vec<_>>())
    };
    for n in 0..6_000 {
        index.put(row(n, vec![term(n), term(100_000 + n % 3)]));
    }
    // More than half go, several times over; then what is left gets other terms, many times.
    for n in (0..6_000).filter(|n| n % 10 != 0) {
        index.remove(KIND, TENANT, &Position { order_ms: n, id: n.to_string() });
    }
    for round in 0..10 {
        for n in (0..6_000).step_by(10) {
            index.put(row(n, vec![term(n + round * 1_000_000), term(100_000 + n % 3)]));
        }
    }
    assert_eq!(found(&index, Filter::All), (600, vec![5_990, 5_980, 5_970, 5_960, 5_950]));
    assert_eq!(
        found(&index, Filter::Term(term(100_002))),
        (200, vec![5_990, 5_960, 5_930, 5_900, 5_870])
    );
    assert_eq!(found(&index, Filter::Term(term(4_000 + 9_000_000))), (1, vec![4_000]));
    for gone in [4_000, 4_001, 4_000 + 8_000_000] {
        assert_eq!(found(&index, Filter::Term(term(gone))), (0, vec![]));
    }
    let range = Filter::Range { field: FIELD, from: Bound::Included(15), to: Bound::Excluded(40) };
    assert_eq!(found(&index, range), (2, vec![30, 20]));
    // One that is made anew where it was.
    index.remove(KIND, TENANT, &Position { order_ms: 20, id: "20".into() });
    index.put(row(20, vec![term(7)]));
    assert_eq!(found(&index, Filter::Term(term(7))), (1, vec![20]));
    // Of 12,000 terms that there were, 604 are left.
    assert!(index.terms(KIND, TENANT) < 2 * 1_024, "{}", index.terms(KIND, TENANT));
}

/// Of many records, which come and go and move: a late one moves all behind it, and many holes make everything move.
#[test]
fn ids_that_begin_so_are_found_through_every_change() {
    let (mut index, mut plain) = (Index::default(), BTreeMap::new());
    let filter = |prefix: &str| Filter::IdPrefix(prefix.to_owned());
    let ask = |index: &Index, plain: &BTreeMap<String, u64>, prefix: &str| {
        let none = HashMap::new();
        let found = index.page((KIND, TENANT), &filter(prefix), &Start::Offset(0), 5_000, &none);
        let mut ids: Vec<String> = found.page.into_iter().map(|position| position.id).collect();
        ids.sort_unstable();
        let begin = plain.keys().filter(|id| id.starts_with(prefix));
        assert_eq!(ids, begin.cloned().collect::<Vec<_>>(), "{prefix}");
        assert_eq!(found.total, ids.len() as u64);
    };
    let put = |index: &mut Index, plain: &mut BTreeMap<String, u64>, number: u64, order_ms| {
        let id = format!("{}-{number:05}", if number.is_multiple_of(3) { "cart" } else { "card" });
        let (terms, numbers) = (Vec::new(), Vec::new());
        index.put(IndexRow {
            kind: KIND,
            tenant: TENANT,
            order_ms,
            id: id.clone(),
            terms,
            numbers,
        });
        plain.insert(id, order_ms);
    };
    for number in 0..3_000 {
        put(&mut index, &mut plain, number, number + 1_000);
        if number % 500 == 250 {
            // A late one, and what the order was made for first.
            put(&mut index, &mut plain, number + 50_000, number);
            for prefix in ["", "car", "cart-", "card-000", "card-00001", "x"] {
                ask(&index, &plain, prefix);
            }
        }
    }
    for (number, (id, order_ms)) in plain.clone().into_iter().enumerate() {
        if number % 10 != 0 {
            index.remove(KIND, TENANT, &Position { order_ms, id: id.clone() });
            plain.remove(&id);
        }
        if number % 700 == 0 {
            for prefix in ["", "cart-", "card-01"] {
                ask(&index, &plain, prefix);
            }
        }
    }
    let cut = Filter::And(vec![filter("cart-"), Filter::Not(Box::new(filter("cart-00")))]);
    let found = index.page((KIND, TENANT), &cut, &Start::Offset(0), 10, &HashMap::new());
    let expected = plain.keys().filter(|id| id.starts_with("cart-") && !id.starts_with("cart-00"));
    assert_eq!(found.total, expected.count() as u64);
}
