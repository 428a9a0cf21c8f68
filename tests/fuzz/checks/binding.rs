//! Declarations of a formula and values for them: what is bound has every required value, each of its declared type, and
//! binding it again changes nothing; what is refused is named by its path, and no value is repeated.
//!
//! An input is a list of declarations on its first line and the values after it, both JSON.

use serde_json::{Map, Value};
use tokamak::binding::{bind, configure};
use tokamak::model::faults::Faults;
use tokamak::model::formula::Undeclared;
use tokamak::model::parameter::{DeclarationList, Parameter, ParameterType, parse_list, validate};

use super::timely;

/// A word that no message has by itself.
const CANARY: &str = "zq7canaryx9";

/// Checks one input.
pub fn check(input: &str) {
    let (list, values) = input.split_once('\n').unwrap_or((input, "{}"));
    let (Ok(list), Ok(values)) = (serde_json::from_str(list), serde_json::from_str(values)) else {
        return;
    };
    arguments(&list, &values);
    configuration(&list, &values);
}

fn arguments(list: &Value, args: &Value) {
    let Ok(parameters) = timely("reading a list", || parse_list(list, DeclarationList::Request))
    else {
        return;
    };
    assert!(validate(&parameters, DeclarationList::Request).is_ok());
    for undeclared in [Undeclared::Forward, Undeclared::Drop] {
        let bound = timely("binding", || bind(Some(args.clone()), &parameters, undeclared));
        match bound {
            Ok(bound) => {
                let again = bind(Some(bound.clone()), &parameters, undeclared);
                assert_eq!(again.ok().as_ref(), Some(&bound), "bound twice");
                for parameter in &parameters {
                    check_bound(&bound, parameter, undeclared);
                }
                if undeclared == Undeclared::Drop && !parameters.is_empty() {
                    let declared = |name: &String| parameters.iter().any(|one| leads(one, name));
                    assert!(bound.as_object().unwrap().keys().all(declared), "{bound}");
                }
            }
            Err(faults) => check_faults(faults, "args", list),
        }
    }
}

fn check_bound(bound: &Value, parameter: &Parameter, undeclared: Undeclared) {
    let mut place = Some(bound);
    for name in parameter.name.split('.') {
        place = place.and_then(|value| value.get(name));
    }
    match place {
        None => assert!(parameter.optional, "{} is not in {bound}", parameter.name),
        Some(value) => {
            assert!(is_of(value, parameter.kind), "{}, {undeclared:?}: {value}", parameter.name);
        }
    }
}

/// Whether a parameter's name begins with this one.
fn leads(parameter: &Parameter, name: &str) -> bool {
    parameter.name.split('.').next() == Some(name)
}

fn configuration(list: &Value, values: &Value) {
    let Ok(entries) = timely("reading a list", || parse_list(list, DeclarationList::Configuration))
    else {
        return;
    };
    match timely("configuring", || configure(values, &entries)) {
        Ok(configured) => {
            let again = configure(&Value::Object(configured.clone()), &entries);
            assert_eq!(again.ok().as_ref(), Some(&configured), "configured twice");
            for entry in &entries {
                check_configured(&configured, entry);
            }
        }
        // A name that is not declared is told: it may be the canary.
        Err(faults) => check_faults(faults, "configuration", &Value::from(CANARY)),
    }
}

fn check_configured(configured: &Map<String, Value>, entry: &Parameter) {
    match configured.get(&entry.name) {
        None => assert!(entry.optional, "{} is missing", entry.name),
        Some(value) => assert!(is_of(value, entry.kind), "{}: {value}", entry.name),
    }
}

fn is_of(value: &Value, kind: ParameterType) -> bool {
    match kind {
        ParameterType::String => value.is_string(),
        ParameterType::Number => value.is_number(),
        ParameterType::Boolean => value.is_boolean(),
        ParameterType::Object => value.is_object(),
        ParameterType::Array => value.is_array(),
    }
}

fn check_faults(faults: Faults, at: &str, told: &Value) {
    let map = faults.into_map();
    assert!(!map.is_empty());
    let may_tell = told.to_string().contains(CANARY);
    for (path, messages) in map {
        let rest = path.strip_prefix(at).unwrap_or_else(|| panic!("{path} is not in {at}"));
        assert!(rest.is_empty() || rest.starts_with('.'), "{path}");
        assert!(!messages.is_empty() && messages.iter().all(|message| !message.is_empty()));
        assert!(may_tell || !path.contains(CANARY), "{path}");
        assert!(messages.iter().all(|message| !message.contains(CANARY)), "{messages:?}");
    }
}
