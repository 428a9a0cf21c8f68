//! What is wrong with arguments, and how much of it is told.

use crate::binding::bind;
use crate::expression::Arguments;
use crate::model::faults::Faults;
use crate::model::formula::Formula;
use crate::model::plaintext::wipe;
use crate::vault::Error;

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

/// What is told instead of what is wrong within arguments, to whoever may not read what their tokens hold; nothing where that
/// may be told. A filter or a cast that fails for some data and not for other tells of it, and whatever is named beside it
/// may tell more: where it stands among others, how many there are. So that is all that is said of tokens then.
pub fn instead(
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
