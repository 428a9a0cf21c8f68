use proptest::prelude::*;
use serde_json::{Value, json};

use super::{DeclarationList, Parameter, ParameterType, parse_list, validate};
use crate::limits::{DESCRIPTION_CHARS_MAX, FORMULA_PARAMETERS_MAX};

/// The faults of a list, one `path: messages` each.
fn faults(list: &Value, kind: DeclarationList) -> Vec<String> {
    let faults = parse_list(list, kind).unwrap_err().into_map();
    faults.iter().map(|(path, messages)| format!("{path}: {}", messages.join(", "))).collect()
}

#[test]
fn a_list_is_read_and_written() {
    let list = json!([
        {"name": "user", "type": "object", "optional": false},
        {"name": "user.name", "description": "As printed", "type": "string", "optional": true},
        {"name": "items", "type": "array", "optional": false},
        {"name": "count", "type": "number", "optional": false},
        {"name": "dry run", "type": "boolean", "optional": false},
    ]);
    let parameters = parse_list(&list, DeclarationList::Request).unwrap();
    assert_eq!(parameters[1].description.as_deref(), Some("As printed"));
    assert!(parameters[1].optional && !parameters[0].optional);
    assert_eq!(serde_json::to_value(&parameters).unwrap(), list);
    assert_eq!(serde_json::from_value::<Vec<Parameter>>(list).unwrap(), parameters);
    assert!(validate(&parameters, DeclarationList::Request).is_ok());
}

#[test]
fn what_may_be_left_out() {
    let list =
        json!([{"name": "a", "type": "number", "optional": null, "description": null, "x": 1}]);
    let expected = Parameter {
        name: "a".to_owned(),
        description: None,
        kind: ParameterType::Number,
        optional: false,
    };
    assert_eq!(parse_list(&list, DeclarationList::Configuration).unwrap(), [expected]);
    assert_eq!(parse_list(&Value::Null, DeclarationList::Request).unwrap(), []);
    assert_eq!(parse_list(&json!([]), DeclarationList::Configuration).unwrap(), []);
    let short: Parameter = serde_json::from_value(json!({"name": "a", "type": "array"})).unwrap();
    assert!(!short.optional && short.description.is_none());
}

#[test]
fn every_fault_is_listed() {
    let list = json!([
        {"type": "text"},
        {"name": 1, "type": 2, "optional": "yes", "description": 3},
        "a",
        {"name": "a", "type": "string"},
        {"name": "a", "type": "number"},
        {"name": "b"},
    ]);
    let types = "must be one of string, number, boolean, object, array";
    assert_eq!(
        faults(&list, DeclarationList::Request),
        [
            "[0].name: is required".to_owned(),
            format!("[0].type: {types}"),
            "[1].description: must be a string".to_owned(),
            "[1].name: must be a string".to_owned(),
            "[1].optional: must be true or false".to_owned(),
            format!("[1].type: {types}"),
            "[2]: must be an object".to_owned(),
            "[4].name: is declared more than once".to_owned(),
            "[5].type: is required".to_owned(),
        ]
    );
    for not_a_list in [json!({}), json!("a"), json!(1), json!(true)] {
        assert_eq!(faults(&not_a_list, DeclarationList::Request), [": must be an array"]);
    }
}

#[test]
fn a_faulty_member_of_a_declaration_hides_nothing_that_is_wrong_with_another() {
    for (member, value) in [
        ("type", json!("text")),
        ("type", json!(null)),
        ("optional", json!(1)),
        ("description", json!(1)),
    ] {
        let declared = |name: &str, member: &str, value: &Value| {
            let mut entry = json!({"name": name, "type": "string"});
            entry[member] = value.clone();
            entry
        };
        let paths = |list: &Value, kind: DeclarationList| -> Vec<String> {
            parse_list(list, kind).unwrap_err().into_map().into_keys().collect()
        };
        let faulty = |name: &str| declared(name, member, &value);
        let right = |name: &str| declared(name, "type", &json!("string"));
        for kind in [DeclarationList::Request, DeclarationList::Configuration] {
            // The same name again, before and after the faulty one.
            let twice = [format!("[0].{member}"), "[1].name".to_owned()];
            assert_eq!(paths(&json!([faulty("a"), right("a")]), kind), twice, "{member}");
            let mut twice = ["[1].name".to_owned(), format!("[1].{member}")];
            twice.sort();
            assert_eq!(paths(&json!([right("a"), faulty("a")]), kind), twice, "{member}");
            // A name that no declaration may have.
            let mut both = ["[0].name".to_owned(), format!("[0].{member}")];
            both.sort();
            assert_eq!(paths(&json!([faulty("")]), kind), both, "{member}");
        }
        // Other parameters lie within the first one.
        let within = ["[0].type".to_owned(), format!("[1].{member}")];
        assert_eq!(
            paths(&json!([right("a"), faulty("a.b")]), DeclarationList::Request),
            within,
            "{member}"
        );
    }
    let long = json!([{"type": "string", "description": "x".repeat(DESCRIPTION_CHARS_MAX + 1)}]);
    let length = format!("[0].description: must have at most {DESCRIPTION_CHARS_MAX} characters");
    let expected = [length, "[0].name: is required".to_owned()];
    assert_eq!(faults(&long, DeclarationList::Request), expected);
    // What is not there is not declared twice, and what has no type need not be an object.
    let list = json!([{"type": "string"}, {"type": "string"}, {"name": "a"},
        {"name": "a.b", "type": "string"}]);
    let expected = ["[0].name: is required", "[1].name: is required", "[2].type: is required"];
    assert_eq!(faults(&list, DeclarationList::Request), expected);
}

#[test]
fn names() {
    let segments = "[0].name: must have a name before, between and after its dots";
    let length = "[0].name: must have at most 200 characters";
    let request = DeclarationList::Request;
    for (name, fault) in [
        ("", "[0].name: must not be empty"),
        (".", segments),
        (".a", segments),
        ("a.", segments),
        ("a..b", segments),
        (&"é".repeat(201), length),
        (&"a.".repeat(1_000_000), length),
    ] {
        assert_eq!(faults(&json!([{"name": name, "type": "string"}]), request), [fault]);
    }
    for name in ["a", "a.b", "user.address.city", "A b-c", "é", &"é".repeat(200)] {
        assert!(parse_list(&json!([{"name": name, "type": "string"}]), request).is_ok(), "{name}");
    }
    // Configuration is flat: a dot is a character like any other.
    let flat = json!([{"name": ".a.", "type": "string"}, {"name": ".a..b", "type": "string"}]);
    assert!(parse_list(&flat, DeclarationList::Configuration).is_ok());
}

#[test]
fn a_parameter_that_others_lie_within_is_an_object() {
    let nested = |kind: &str| {
        json!([
            {"name": "user.address.city", "type": "string"},
            {"name": "user.address", "type": kind},
            {"name": "user.address2", "type": "string"},
            {"name": "users", "type": "string"},
        ])
    };
    assert!(parse_list(&nested("object"), DeclarationList::Request).is_ok());
    for kind in ["string", "number", "boolean", "array"] {
        let fault = "[1].type: must be object, because other parameters lie within it";
        assert_eq!(faults(&nested(kind), DeclarationList::Request), [fault]);
    }
    let flat = json!([{"name": "a", "type": "string"}, {"name": "a.b", "type": "string"}]);
    assert!(parse_list(&flat, DeclarationList::Configuration).is_ok());
}

#[test]
fn configuration_holds_scalars_only() {
    for kind in ["object", "array"] {
        let list = json!([{"name": "a", "type": kind}]);
        let fault = "[0].type: must be one of string, number, boolean";
        assert_eq!(faults(&list, DeclarationList::Configuration), [fault]);
        // The same when it came in as Rust values.
        let parameters = parse_list(&list, DeclarationList::Request).unwrap();
        assert!(validate(&parameters, DeclarationList::Configuration).is_err());
    }
}

#[test]
fn sizes() {
    let list = |count: usize| {
        let entries =
            (0..count).map(|index| json!({"name": format!("p{index}"), "type": "string"}));
        Value::Array(entries.collect())
    };
    let parameters = parse_list(&list(FORMULA_PARAMETERS_MAX), DeclarationList::Request).unwrap();
    let fault = ": must have at most 200 entries";
    assert_eq!(faults(&list(FORMULA_PARAMETERS_MAX + 1), DeclarationList::Request), [fault]);
    let too_many = [parameters.as_slice(), &parameters[..1]].concat();
    assert!(validate(&too_many, DeclarationList::Request).is_err());

    let described =
        |chars: usize| json!([{"name": "a", "type": "string", "description": "é".repeat(chars)}]);
    assert!(parse_list(&described(DESCRIPTION_CHARS_MAX), DeclarationList::Request).is_ok());
    let fault = "[0].description: must have at most 4000 characters";
    assert_eq!(faults(&described(DESCRIPTION_CHARS_MAX + 1), DeclarationList::Request), [fault]);
}

#[test]
fn names_of_types_are_their_json() {
    for kind in DeclarationList::Request.types() {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
    }
}

proptest! {
    #[test]
    fn what_is_read_is_valid(
        names in prop::collection::vec("[ab.]{0,4}", 0..6),
        object: bool,
    ) {
        let kind = if object { "object" } else { "string" };
        let entries = names.iter().map(|name| json!({"name": name, "type": kind}));
        for list in [DeclarationList::Request, DeclarationList::Configuration] {
            match parse_list(&Value::Array(entries.clone().collect()), list) {
                Ok(parameters) => prop_assert!(validate(&parameters, list).is_ok()),
                Err(faults) => prop_assert!(!faults.is_empty()),
            }
        }
    }
}
