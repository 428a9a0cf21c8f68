//! What is wrong with arguments, and how much of it is told.

use crate::binding::{REQUIRED, bind};
use crate::expression::{Arguments, Unfilled};
use crate::model::faults::Faults;
use crate::model::formula::Formula;
use crate::model::plaintext::wipe;
use crate::model::rule::Transform;
use crate::vault::Error;
use crate::vault::given::UsedToken;

/// Said of arguments to whoever may not read their tokens.
const UNSEEN: &str = "has an expression or a type that does not fit what a token holds; a key that may read the tokens \
    as the formula sees them is told which";

/// Faults of the arguments as those of the body.
pub fn under_args(faults: Faults) -> Error {
    let mut under = Faults::new();
    under.extend_under("args", faults);
    Error::Invalid(under)
}

/// What is wrong with references, and beside it with members that are none: all of it at once.
pub fn beside_references(wrong: Faults, arguments: &Arguments, formula: &Formula) -> Faults {
    let mut faults = Faults::new();
    faults.extend_under("args", wrong);
    let literal = Some(arguments.without_references());
    match bind(literal, &formula.request_parameters, formula.undeclared_arguments) {
        Ok(mut bound) => wipe(&mut bound),
        Err(bound) => {
            let is_known = |path: &str| {
                let inner = path.strip_prefix("args.").unwrap_or_default();
                !arguments.reach(inner) && !faults.reach(path)
            };
            let bound = bound.only(is_known);
            faults.extend_under("", bound);
        }
    }
    faults
}

/// What is told of references that could not be replaced.
pub fn of_filling(
    Unfilled { faults, is_bound }: Unfilled,
    sees_all: bool,
    arguments: &Arguments,
    formula: &Formula,
) -> Faults {
    let instead = || instead((&faults, is_bound), arguments, formula);
    let instead = if sees_all { None } else { instead() };
    instead.unwrap_or_else(|| beside_references(faults, arguments, formula))
}

/// What is told of arguments that do not fit once their references are replaced.
pub fn of_binding(
    faults: Faults,
    sees_all: bool,
    arguments: &Arguments,
    formula: &Formula,
) -> Faults {
    let instead = || instead((&faults.below("args"), faults.are_cut_short()), arguments, formula);
    let instead = if sees_all { None } else { instead() };
    instead.unwrap_or(faults)
}

/// The same, where the caller's rule shows each of the tokens so: what is missing was most often not forgotten.
pub fn under_rule(faults: Faults, given: &[UsedToken], arguments: &Arguments) -> Faults {
    let Some(shown) = given.first().map(|token| token.transform) else { return faults };
    if shown == Transform::Reveal || given.iter().any(|token| token.transform != shown) {
        return faults;
    }
    faults.reworded(|path, said| {
        let inner = path.strip_prefix("args.")?;
        (said == REQUIRED && arguments.reach(inner)).then(|| {
            format!(
                "is required, and the caller's rule for token:use leaves nothing here of the token (transform {shown})"
            )
        })
    })
}

/// What is told instead of what is wrong within arguments, to whoever may not read what their tokens hold; nothing where that
/// may be told. A filter or a cast that fails for some data and not for other tells of it, and whatever is named beside it
/// may tell more: where it stands among others, how many there are. So that is all that is said of tokens then.
fn instead(
    (faults, is_bound): (&Faults, bool),
    arguments: &Arguments,
    formula: &Formula,
) -> Option<Faults> {
    let is_plain = |path: &str| arguments.is_plain(path);
    let is_all = !is_bound && !faults.are_cut_short();
    if arguments.are_plain() || is_all && faults.clone().only(is_plain) == *faults {
        return None;
    }
    let mut told = beside_references(Faults::new(), arguments, formula);
    let place = arguments.only_place_that_is_not_plain().unwrap_or_default();
    told.extend_under("args", Faults::one(place, UNSEEN));
    Some(told)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::{Arguments, Formula, bind, of_binding, of_filling};
    use crate::crypto::entropy::SeededEntropy;
    use crate::expression::{TokenParts, Work};
    use crate::limits::ARGUMENTS_WORK_BYTES_MAX;

    type Told = BTreeMap<String, Vec<String>>;

    /// What a token may hold: three digits that are 1 or 2, and others.
    const HELD: [&str; 8] = ["1115", "1125", "1215", "1225", "2115", "2125", "2215", "2225"];

    fn formula() -> Formula {
        let declared =
            |name: &str, kind: &str| json!({"name": name, "type": kind, "optional": true});
        let parameters = [
            ("n", "number"),
            ("s", "string"),
            ("o.a", "number"),
            ("o.b.c", "boolean"),
            ("list", "array"),
            ("map", "object"),
            ("n x", "number"),
        ];
        let parameters = parameters.map(|(name, kind)| declared(name, kind));
        serde_json::from_value(json!({
            "id": "01930000-0000-7000-8000-000000000001", "status": "verified", "type": "private",
            "name": "f", "language": "wasm", "configuration": [], "request_parameters": parameters,
            "undeclared_arguments": "forward", "allowed_hosts": [], "limits": {"memory_mb": 64},
            "component_digest": "", "created_at": "2030-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    /// Expressions that fail for some of what a token may hold, for all of it or for none.
    fn expressions() -> impl Strategy<Value = String> {
        let grow = |what: &str| format!("replace: '{what}', '{}'", "xy".repeat(100));
        let filters = (0..3_usize, 1..3_u8, 0..12_usize).prop_map(move |(place, digit, which)| {
            let one = format!("| slice: {place} | replace: '{digit}'");
            match which {
                0 => String::new(),
                1 => format!("{one}, 'x' | to_number"),
                2 => format!("{one}, 'x'"),
                3 => "| json: '$.none'".to_owned(),
                4 => "| json: '$'".to_owned(),
                5 => format!("{one}, '{{' | append: '}}'"),
                6 => {
                    let first = grow(&digit.to_string());
                    let [x, y] = ["x", "y"].map(grow);
                    format!("| slice: {place} | {first} | {x} | {y} | {x} | size")
                }
                7 => "| slice: 0".to_owned(),
                8 => format!("{one}, '[1' | append: ']'"),
                9 => format!("{one}, 'x' | to_boolean"),
                10 => format!("{one}, '1e999'"),
                _ => format!("| slice: {place} | divided_by: 0"),
            }
        });
        let around = prop::sample::select(vec!["", "", "", "", "1", "1e"]);
        (around, filters).prop_map(|(before, filters)| format!("{before}{{{{ one {filters} }}}}"))
    }

    fn arguments() -> impl Strategy<Value = Value> {
        let names = vec![
            "n", "s", "o", "a", "b", "c", "list", "map", "n x", "o.a", "o.b.c", "", ".a", "a.b",
            "n[0]", "list[0]", "args", "args.n", "[0]", "[a", "[n", "é",
        ];
        let plain = prop::sample::select(vec![json!(null), json!(1), json!("x"), json!(true)]);
        let leaf = prop_oneof![6 => expressions().prop_map(Value::String), 1 => plain];
        let names = prop::sample::select(names).prop_map(str::to_owned);
        let value = leaf.prop_recursive(3, 24, 6, {
            let names = names.clone();
            move |inner| {
                let object = prop::collection::btree_map(names.clone(), inner.clone(), 0..6);
                let object =
                    object.prop_map(|members| Value::Object(members.into_iter().collect()));
                prop_oneof![object, prop::collection::vec(inner, 0..6).prop_map(Value::Array)]
            }
        });
        prop::collection::btree_map(names, value, 1..6)
            .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
    }

    /// What is told to whoever may not read a token that holds this; nothing where the run would begin.
    fn told(arguments: &Arguments, formula: &Formula, held: &str) -> Option<Told> {
        let whole = Some(json!({"id": "one", "data": held}));
        let token = TokenParts { id: "one".to_owned(), data: json!(held), whole };
        let work = Work::new(ARGUMENTS_WORK_BYTES_MAX);
        let filled = match arguments.fill(&|_| Some(&token), &SeededEntropy::new(1), &work) {
            Ok(filled) => filled,
            Err(unfilled) => {
                return Some(of_filling(unfilled, false, arguments, formula).into_map());
            }
        };
        let bound = bind(Some(filled), &formula.request_parameters, formula.undeclared_arguments);
        let faults = bound.err()?;
        Some(of_binding(faults, false, arguments, formula).into_map())
    }

    proptest! {
        // Filters that meet bounds take their time.
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// One bit at most: of two things that may come of it, which did.
        #[test]
        fn an_answer_tells_no_more_than_whether_something_does_not_fit(value in arguments()) {
            let formula = formula();
            let arguments = Arguments::parse(&value).unwrap();
            let told: BTreeSet<_> =
                HELD.iter().map(|held| told(&arguments, &formula, held)).collect();
            prop_assert!(told.len() <= 2, "{told:?}");
        }
    }
}
