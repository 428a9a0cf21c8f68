//! The index against a plain list, through late records, and clocks that were set back; and kinds that are read late.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::{Change, Index};
use crate::model::id::TenantId;
use crate::store::sled::rows::IndexRow;
use crate::store::{Field, Filter, Kind, Position, Start, Term};

pub const KIND: Kind = Kind(3);
pub const TENANT: TenantId = TenantId(uuid::Uuid::nil());
pub const FIELD: Field = Field(7);
const TERMS: u8 = 3;

type Model = BTreeMap<Position, (BTreeSet<u8>, u64)>;
type Matches = Box<dyn Fn(&(BTreeSet<u8>, u64)) -> bool>;

pub fn position(id: u16, order_ms: u64) -> Position {
    // Ids of both forms.
    let uuid = uuid::Uuid::from_u128(u128::from(id) << 96);
    let id = if id.is_multiple_of(3) { format!("id{id}") } else { uuid.to_string() };
    Position { order_ms, id }
}

pub fn row(position: &Position, terms: &BTreeSet<u8>, number: u64) -> IndexRow {
    IndexRow {
        kind: KIND,
        tenant: TENANT,
        order_ms: position.order_ms,
        id: position.id.clone(),
        terms: terms.iter().map(|term| Term([*term; 16])).collect(),
        numbers: vec![(FIELD, number)],
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Sets the clock.
    Clock(u64),
    /// Puts a record so many milliseconds later; what it is found by.
    Put(u64, BTreeSet<u8>, u64),
    /// Writes or removes one that is there.
    Change(prop::sample::Index, Option<BTreeSet<u8>>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let terms = || prop::collection::btree_set(0..TERMS, 0..3);
    let step = prop_oneof![
        1 => (0..120_u64).prop_map(Step::Clock),
        10 => (0..3_u64, terms(), 0..9_u64).prop_map(|(later, terms, number)| Step::Put(later, terms, number)),
        4 => (any::<prop::sample::Index>(), prop::option::of(terms())).prop_map(|(at, terms)| Step::Change(at, terms)),
    ];
    prop::collection::vec(step, 1..160)
}

fn page(index: &Index, filter: &Filter, start: &Start, size: usize) -> (u64, Vec<Position>, bool) {
    let found = index.page((KIND, TENANT), filter, start, size, &HashMap::new());
    (found.total, found.page, found.more)
}

/// Compares every page of some queries, reached by number and by cursor.
fn compare(index: &Index, model: &Model, size: usize) {
    let term = |term: u8| Filter::Term(Term([term; 16]));
    let mut queries: Vec<(Filter, Matches)> = vec![
        (Filter::All, Box::new(|_| true)),
        (
            Filter::And(vec![Filter::All, term(0), Filter::Not(Box::new(term(1)))]),
            Box::new(|(terms, _)| terms.contains(&0) && !terms.contains(&1)),
        ),
        (
            Filter::Or(vec![term(1), term(2)]),
            Box::new(|(terms, _)| terms.contains(&1) || terms.contains(&2)),
        ),
    ];
    let from = std::ops::Bound::Included(4);
    let range = Filter::Range { field: FIELD, from, to: std::ops::Bound::Unbounded };
    queries.push((range, Box::new(|(_, number)| *number >= 4)));
    for (filter, matches) in queries {
        let expected: Vec<&Position> = model
            .iter()
            .rev()
            .filter(|(_, found_by)| matches(found_by))
            .map(|(position, _)| position)
            .collect();
        let total = expected.len() as u64;
        for number in 0..=expected.len() / size {
            let offset = number * size;
            let on_page: Vec<Position> =
                expected.iter().skip(offset).take(size).map(|one| (*one).clone()).collect();
            let answer = (total, on_page, offset + size < expected.len());
            assert_eq!(
                page(index, &filter, &Start::Offset(offset as u64), size),
                answer,
                "{filter:?}"
            );
            if let Some(before) = offset.checked_sub(1).and_then(|before| expected.get(before)) {
                assert_eq!(
                    page(index, &filter, &Start::After((*before).clone()), size),
                    answer,
                    "{filter:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 128, ..Config::default() })]

    #[test]
    fn pages_are_those_of_a_plain_list_however_late_records_come(steps in steps(), size in 1..9_usize) {
        let (mut index, mut model) = (Index::default(), Model::new());
        let mut now = 0;
        for (id, step) in (0_u16..).zip(steps) {
            match step {
                Step::Clock(time) => now = time,
                Step::Put(later, terms, number) => {
                    now += later;
                    let position = position(id, now);
                    index.put(row(&position, &terms, number));
                    model.insert(position, (terms, number));
                }
                Step::Change(at, terms) if !model.is_empty() => {
                    let position = model.keys().nth(at.index(model.len())).unwrap().clone();
                    if let Some(terms) = terms {
                        index.put(row(&position, &terms, 5));
                        model.insert(position, (terms, 5));
                    } else {
                        index.remove(KIND, TENANT, &position);
                        model.remove(&position);
                    }
                }
                Step::Change(..) => {}
            }
            prop_assert!(index.segments(KIND, TENANT) <= 3);
        }
        compare(&index, &model, size);
    }

    #[test]
    fn a_kind_that_is_read_late_is_as_if_it_had_been_there(
        before in prop::collection::btree_map(0..20_u16, prop::collection::btree_set(0..TERMS, 0..3), 0..20),
        changes in prop::collection::vec((0..20_u16, prop::option::of(prop::collection::btree_set(0..TERMS, 0..3))), 0..30),
        seen in prop::collection::vec(any::<bool>(), 20),
        early in 0..30_usize,
    ) {
        let at = |id: u16| position(id, u64::from(id) / 3);
        let (mut index, mut model) = (Index::default(), Model::new());
        index.await_kind(KIND);
        for (id, terms) in &before {
            model.insert(at(*id), (terms.clone(), 1));
        }
        let first = model.clone();
        for (number, (id, terms)) in changes.into_iter().enumerate() {
            if let Some(terms) = terms {
                index.put(row(&at(id), &terms, 1));
                model.insert(at(id), (terms, 1));
            } else {
                index.remove(KIND, TENANT, &at(id));
                model.remove(&at(id));
            }
            if number == early {
                prop_assert_eq!(page(&index, &Filter::All, &Start::Offset(0), 5).0, 0);
            }
        }
        // Each record is read as it was before all changes, or after them.
        let mut read = Index::default();
        for id in 0..20 {
            let model = if seen[usize::from(id)] { &model } else { &first };
            if let Some((terms, number)) = model.get(&at(id)) {
                read.put(row(&at(id), terms, *number));
            }
        }
        let mut changes: Vec<Change> = index.take_changes(KIND);
        let last = changes.split_off(early.min(changes.len()));
        read.apply(KIND, changes);
        for change in last {
            match change {
                Change::Put(row) => index.put(row),
                Change::Remove(tenant, position) => index.remove(KIND, tenant, &position),
            }
        }
        index.complete(KIND, read);
        compare(&index, &model, 4);
        let next = position(99, 99);
        index.put(row(&next, &BTreeSet::new(), 1));
        prop_assert_eq!(page(&index, &Filter::All, &Start::Offset(0), 1).1, vec![next]);
    }
}

/// Each record belongs before tens of thousands.
#[test]
fn a_clock_that_is_set_back_does_not_make_records_wait_for_those_behind() {
    const RECORDS: u64 = 60_000;
    let (mut index, none) = (Index::default(), BTreeSet::new());
    let put = |index: &mut Index, number: u64, order_ms| {
        let id = uuid::Uuid::from_u128(u128::from(number)).to_string();
        index.put(row(&Position { order_ms, id }, &none, order_ms));
    };
    for number in 0..RECORDS {
        put(&mut index, number, 1_000_000 + number);
    }
    let began = Instant::now();
    for number in RECORDS..2 * RECORDS {
        put(&mut index, number, number);
    }
    // Each would move all of the first ones; the bound is for the slowest machine.
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    assert_eq!(index.segments(KIND, TENANT), 2);
    let found = page(&index, &Filter::All, &Start::Offset(RECORDS - 1), 2);
    let orders: Vec<u64> = found.1.iter().map(|position| position.order_ms).collect();
    assert_eq!((found.0, orders, found.2), (2 * RECORDS, vec![1_000_000, 2 * RECORDS - 1], true));
}
