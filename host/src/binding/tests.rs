use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{bind, configure};
use crate::model::faults::Faults;
use crate::model::formula::Undeclared::{self, Drop, Forward};
use crate::model::parameter::ParameterType::{Array, Boolean, Number, Object, String as Text};
use crate::model::parameter::{DeclarationList, Parameter, ParameterType, validate};

fn parameter(name: &str, kind: ParameterType, optional: bool) -> Parameter {
    Parameter { name: name.to_owned(), description: None, kind, optional }
}

fn required(name: &str, kind: ParameterType) -> Parameter {
    parameter(name, kind, false)
}

fn optional(name: &str, kind: ParameterType) -> Parameter {
    parameter(name, kind, true)
}

fn bound(args: Value, parameters: &[Parameter], undeclared: Undeclared) -> Value {
    validate(parameters, DeclarationList::Request).unwrap();
    bind(Some(args), parameters, undeclared).unwrap()
}

const NO_NUMBER: &str = "cannot be cast to number: must be a number or the text of one";
const NO_OBJECT: &str = "cannot be cast to object: must be an object or the JSON text of one";

/// The faults of `args`, one `path: messages` each.
fn faults(args: Value, parameters: &[Parameter]) -> Vec<String> {
    faults_of(args, parameters, Forward)
}

fn faults_of(args: Value, parameters: &[Parameter], undeclared: Undeclared) -> Vec<String> {
    lines(bind(Some(args), parameters, undeclared).unwrap_err())
}

fn lines(faults: Faults) -> Vec<String> {
    let faults = faults.into_map();
    faults.iter().map(|(path, messages)| format!("{path}: {}", messages.join(", "))).collect()
}

#[test]
fn without_declarations_any_object_passes() {
    for undeclared in [Forward, Drop] {
        for args in [json!({}), json!({"a": null, "b": [1, {"c": "x"}]})] {
            assert_eq!(bind(Some(args.clone()), &[], undeclared), Ok(args));
        }
        assert_eq!(bind(None, &[], undeclared), Ok(json!({})));
        assert_eq!(bind(Some(Value::Null), &[], undeclared), Ok(json!({})));
    }
}

#[test]
fn args_are_an_object() {
    for args in [json!([]), json!("{}"), json!(1), json!(true)] {
        for parameters in [vec![], vec![required("a", Text)]] {
            assert_eq!(faults(args.clone(), &parameters), ["args: must be an object"], "{args}");
        }
    }
}

#[test]
fn args_are_required_once_something_is_declared() {
    let missing = "args: is required, because the formula declares request parameters";
    let parameters = [required("b.c", Text), optional("a", Text), required("d", Text)];
    let expected = [missing, "args.b.c: is required", "args.d: is required"];
    assert_eq!(faults(Value::Null, &parameters), expected);
    assert_eq!(bind(None, &parameters, Drop), bind(Some(Value::Null), &parameters, Drop));
    assert_eq!(faults(Value::Null, &[optional("a", Text)]), [missing]);
    assert_eq!(bound(json!({}), &[optional("a", Text)], Forward), json!({}));
}

#[test]
fn required_parameters_must_be_there() {
    let parameters = [
        required("amount", Number),
        optional("note", Text),
        required("user.address.city", Text),
        required("user.name", Text),
        optional("user.age", Number),
    ];
    let full = json!({"amount": 1, "user": {"address": {"city": "Ulm"}, "name": "Jane"}});
    assert_eq!(bound(full.clone(), &parameters, Forward), full);
    let (amount, city, name) = (
        "args.amount: is required",
        "args.user.address.city: is required",
        "args.user.name: is required",
    );
    for (args, expected) in [
        (json!({}), vec![amount, city, name]),
        (json!({"amount": null, "user": null}), vec![amount, city, name]),
        (json!({"amount": 1, "user": {}}), vec![city, name]),
        (json!({"amount": 1, "user": {"address": {}, "name": null}}), vec![city, name]),
        (json!({"amount": 1, "user": {"address": {"city": "Ulm"}}}), vec![name]),
        // Names are case-sensitive; a dotted name is a way into objects, not a member.
        (
            json!({"Amount": 1, "user.address.city": "Ulm", "user.name": "Jane"}),
            vec![amount, city, name],
        ),
    ] {
        assert_eq!(faults(args.clone(), &parameters), expected, "{args}");
    }
}

#[test]
fn what_is_required_within_an_optional_object_is_required() {
    let parameters = [optional("user", Object), required("user.name", Text)];
    assert_eq!(faults(json!({}), &parameters), ["args.user.name: is required"]);
    let parameters = [required("user", Object), required("user.name", Text)];
    let both = ["args.user: is required", "args.user.name: is required"];
    assert_eq!(faults(json!({}), &parameters), both);
    assert_eq!(faults(json!({"user": null}), &parameters), both);
}

#[test]
fn null_is_as_good_as_absent() {
    let parameters = [optional("a", Number), optional("b.c", Text), optional("d", Object)];
    for args in [json!({"a": null, "b": null, "d": null}), json!({"d": null}), json!({})] {
        assert_eq!(bound(args, &parameters, Forward), json!({}));
    }
    let args = json!({"a": 1, "b": {"c": null, "x": null}, "d": {"y": null}, "e": null});
    let expected = json!({"a": 1, "b": {"x": null}, "d": {"y": null}, "e": null});
    assert_eq!(bound(args, &parameters, Forward), expected);
}

#[test]
fn values_are_cast_where_they_lie() {
    let parameters = [
        required("count", Number),
        required("id", Text),
        required("card", Object),
        required("card.number", Text),
        required("card.cvc", Number),
        required("user.address.lines", Array),
        required("user.vip", Boolean),
    ];
    let args = json!({
        "count": "42",
        "id": 7,
        // The data of a token that holds an object as text.
        "card": "{\"number\": 4242424242424242, \"cvc\": \"123\", \"brand\": 1}",
        "user": {"address": {"lines": "[\"a\", 2]"}, "vip": "true"},
    });
    let expected = json!({
        "count": 42,
        "id": "7",
        "card": {"number": "4242424242424242", "cvc": 123, "brand": 1},
        "user": {"address": {"lines": ["a", 2]}, "vip": true},
    });
    let result = bound(args, &parameters, Forward);
    assert_eq!(result, expected);
    assert_eq!(result.to_string(), expected.to_string(), "the order of members is kept");
}

#[test]
fn every_fault_is_listed_without_a_value() {
    let parameters = [
        required("count", Number),
        required("flag", Boolean),
        required("list", Array),
        required("missing", Text),
        required("name", Text),
        required("user.address.city", Text),
        required("user.age", Number),
    ];
    let args = json!({
        "count": "secret", "flag": "secret", "list": "secret", "name": ["secret"],
        "user": {"address": "secret", "age": "secret"},
    });
    assert_eq!(
        faults(args, &parameters),
        [
            &format!("args.count: {NO_NUMBER}"),
            "args.flag: cannot be cast to boolean: must be true or false",
            "args.list: cannot be cast to array: must be an array or the JSON text of one",
            "args.missing: is required",
            "args.name: cannot be cast to string: must be a string, a number or a boolean",
            "args.user.address.city: is required",
            &format!("args.user.age: {NO_NUMBER}"),
        ]
    );
    let cast = format!("args.user: {NO_OBJECT}");
    assert_eq!(faults(json!({"user": "{"}), &[optional("user.age", Number)]), [cast.as_str()]);
    // What is no object at all is none of the parameters within one.
    let age = [optional("user.age", Number)];
    assert_eq!(bound(json!({"user": 1}), &age, Forward), json!({"user": 1}));
    for other in [json!(1), json!("x"), json!(true), json!([{"age": 1}])] {
        assert_eq!(faults_of(json!({ "user": other }), &age, Drop), [cast.as_str()]);
    }
    assert_eq!(bound(json!({"user": null}), &age, Drop), json!({}));
    let required = parameter("user.age", Number, false);
    assert_eq!(faults(json!({"user": 1}), &[required]), ["args.user.age: is required"]);
    // A fault of an optional parameter is a fault.
    assert!(bind(Some(json!({"a": "x"})), &[optional("a", Number)], Drop).is_err());
}

#[test]
fn undeclared_arguments() {
    let parameters = [
        required("a", Text),
        optional("free", Object),
        optional("user", Object),
        optional("user.name", Text),
        optional("user.address.city", Text),
    ];
    let args = json!({
        "x": 1,
        "a": "text",
        "free": {"y": 2, "z": {"deep": null}},
        "user": {"name": "Jane", "x": 3, "address": {"city": "Ulm", "x": 4}},
        "user.name": "a member with a dot",
        "A": "another case",
    });
    assert_eq!(bound(args.clone(), &parameters, Forward), args);
    let expected = json!({
        "a": "text",
        "free": {"y": 2, "z": {"deep": null}},
        "user": {"name": "Jane", "address": {"city": "Ulm"}},
    });
    assert_eq!(bound(args, &parameters, Drop), expected);
    // Undeclared members are not validated, whatever they are.
    assert_eq!(bound(json!({"a": "x", "b": [null]}), &parameters, Drop), json!({"a": "x"}));
}

#[test]
fn configuration() {
    let entries = [
        required("KEY", Text),
        required("retries", Number),
        optional("live", Boolean),
        optional("service.url", Text),
    ];
    let values = json!({"service.url": "https://a", "retries": "3", "KEY": 12, "live": "false"});
    let expected = json!({"service.url": "https://a", "retries": 3, "KEY": "12", "live": false});
    let configured = Value::Object(configure(&values, &entries).unwrap());
    assert_eq!(configured.to_string(), expected.to_string());

    let few = json!({"KEY": "a", "retries": 0, "live": null});
    let configured = Value::Object(configure(&few, &entries).unwrap());
    assert_eq!(configured, json!({"KEY": "a", "retries": 0}));
    assert_eq!(configure(&json!({}), &[]), Ok(Map::new()));
}

#[test]
fn faults_of_a_configuration() {
    let entries = [required("KEY", Text), required("retries", Number), optional("live", Boolean)];
    let undeclared = "is not declared by the formula";
    for (values, expected) in [
        (json!({}), vec!["configuration.KEY: is required", "configuration.retries: is required"]),
        (
            json!({"KEY": null, "retries": "secret", "live": 1}),
            vec![
                "configuration.KEY: is required",
                "configuration.live: cannot be cast to boolean: must be true or false",
                &*format!("configuration.retries: {NO_NUMBER}"),
            ],
        ),
        (
            json!({"KEY": "a", "retries": 1, "key": "secret", "x.y": null}),
            vec![
                &*format!("configuration.key: {undeclared}"),
                &*format!("configuration.x.y: {undeclared}"),
            ],
        ),
        (json!(null), vec!["configuration: must be an object"]),
        (json!(["secret"]), vec!["configuration: must be an object"]),
        (json!("{}"), vec!["configuration: must be an object"]),
    ] {
        let faults = configure(&values, &entries).unwrap_err().into_map();
        let faults: Vec<_> = faults
            .iter()
            .map(|(path, messages)| format!("{path}: {}", messages.join(", ")))
            .collect();
        assert_eq!(faults, expected, "{values}");
    }
}

/// Lists that `validate` accepts, over few names, so that they meet the names in [`any_args`].
fn any_parameters() -> impl Strategy<Value = Vec<Parameter>> {
    let names = vec!["a", "b", "c", "a.b", "a.c", "b.a", "b.a.c", "c.c.c"];
    let types = prop::sample::select(DeclarationList::Request.types());
    prop::sample::subsequence(names, 0..=8)
        .prop_flat_map(move |names| {
            let count = names.len();
            let details = prop::collection::vec((types.clone(), prop::bool::weighted(0.8)), count);
            (Just(names), details)
        })
        .prop_map(|(names, details)| {
            let leads_on =
                |name: &str| names.iter().any(|other| other.starts_with(&format!("{name}.")));
            let with_details = names.iter().zip(details);
            with_details
                .map(|(name, (kind, optional))| {
                    parameter(name, if leads_on(name) { Object } else { kind }, optional)
                })
                .collect()
        })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        prop::sample::select(vec!["1", "true", "x", "", "[]", "{}", "{\"a\":1,\"d\":2}"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            4 => members(inner),
        ]
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "c", "d", "a.b"]).prop_map(str::to_owned);
    prop::collection::vec((name, value), 0..5)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn any_args() -> impl Strategy<Value = Value> {
    members(any_json())
}

/// Arguments in which every declared parameter has its type, and an undeclared one stands beside
/// them.
fn typed_args(parameters: &[Parameter]) -> Value {
    let mut args = json!({"undeclared": [null, {"x": "y"}]});
    for Parameter { name, kind, .. } in parameters {
        let place = name.split('.').fold(&mut args, |place, segment| &mut place[segment]);
        if place.is_null() {
            *place = match kind {
                Text => json!("42"),
                Number => json!(42),
                Boolean => json!(true),
                Object => json!({"z": "kept"}),
                Array => json!(["kept"]),
            };
        }
    }
    args
}

/// Whether `part` can be had from `whole` by removing members of objects outside arrays.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().all(|(name, member)| {
            whole.get(name).is_some_and(|of_whole| is_part(member, of_whole))
        }),
        _ => part == whole,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_args_are_answered(args in any_json(), parameters in any_parameters()) {
        prop_assert_eq!(validate(&parameters, DeclarationList::Request), Ok(()));
        for undeclared in [Forward, Drop] {
            let _ = bind(Some(args.clone()), &parameters, undeclared);
        }
        let _ = configure(&args, &parameters);
    }

    #[test]
    fn unchecked_declarations_do_no_harm(
        args in any_args(),
        names in prop::collection::vec("[ab.]{0,5}", 0..5),
    ) {
        let parameters: Vec<_> = names.iter().map(|name| required(name, Number)).collect();
        let _ = bind(Some(args), &parameters, Drop);
    }

    #[test]
    fn typed_args_come_back_as_they_are(parameters in any_parameters()) {
        let args = typed_args(&parameters);
        let result = bind(Some(args.clone()), &parameters, Forward).unwrap();
        prop_assert_eq!(result.to_string(), args.to_string());
    }

    #[test]
    fn binding_twice_is_binding_once(args in any_args(), parameters in any_parameters()) {
        for undeclared in [Forward, Drop] {
            let Ok(once) = bind(Some(args.clone()), &parameters, undeclared) else { continue };
            let twice = bind(Some(once.clone()), &parameters, undeclared);
            prop_assert_eq!(twice, Ok(once));
        }
    }

    #[test]
    fn dropping_only_removes_and_refuses_what_is_no_object(
        args in any_args(),
        parameters in any_parameters(),
    ) {
        let forwarded = bind(Some(args.clone()), &parameters, Forward);
        let dropped = bind(Some(args), &parameters, Drop);
        if let (Ok(forwarded), Ok(dropped)) = (&forwarded, &dropped) {
            prop_assert!(is_part(dropped, forwarded));
        }
        let [forwarded, dropped] =
            [forwarded, dropped].map(|bound| bound.err().map_or_else(Vec::new, lines));
        let more: Vec<_> = dropped.iter().filter(|line| !forwarded.contains(line)).collect();
        prop_assert!(more.iter().all(|line| line.ends_with(NO_OBJECT)), "{:?}", more);
        prop_assert!(forwarded.iter().all(|line| dropped.contains(line)), "{:?}", forwarded);
    }
}
