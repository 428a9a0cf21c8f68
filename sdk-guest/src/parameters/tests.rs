use serde_json::{Value, json};

use super::{Declared, Member, OfArgs, OfConfiguration, Parameters, Shape, Undeclared as _};
use crate::Request;

const INNER: &[Member] = &[
    Member { name: "a\"b", description: "A \\ and\na\ttab: é", shape: Shape::STRING },
    Member { name: "any", description: "", shape: Shape::ANY },
    Member { name: "list", description: "", shape: Shape::ARRAY.or_absent() },
];
const OUTER: &[Member] = &[
    Member { name: "one", description: "not shown", shape: Shape::object(INNER) },
    Member { name: "two", description: "", shape: Shape::object(INNER).or_absent() },
    Member { name: "map", description: "", shape: Shape::OBJECT },
];

struct Told;

impl Parameters for Told {
    const SHAPE: Shape = Shape::object(OUTER);
}

struct Silent;

fn read(declared: Declared) -> Value {
    let writer = declared.write::<4096>();
    assert_eq!(writer.length, declared.length());
    serde_json::from_slice(&writer.bytes[..writer.length]).unwrap()
}

#[test]
fn members_of_members_are_declared_with_dots() {
    let declared = read(Declared { request_parameters: Some(Told::SHAPE), configuration: None });
    let description = "A \\ and\na\ttab: é";
    assert_eq!(
        declared,
        json!({ "request_parameters": [
            { "name": "one.a\"b", "description": description, "type": "string" },
            { "name": "one.list", "type": "array", "optional": true },
            // What is within something that may be absent may be absent.
            { "name": "two.a\"b", "description": description, "type": "string", "optional": true },
            { "name": "two.list", "type": "array", "optional": true },
            { "name": "map", "type": "object" },
        ], "undeclared": ["one.any", "two.any"] })
    );
}

#[test]
fn what_no_reactor_can_be_given_is_known_while_compiling() {
    const FLAT: &[Member] = &[
        Member { name: "limit", description: "", shape: Shape::NUMBER },
        // In a configuration a dot means nothing.
        Member { name: "a.b", description: "", shape: Shape::STRING.or_absent() },
    ];
    const INSIDE: &[Member] = &[Member { name: "in", description: "", shape: Shape::object(FLAT) }];
    const LIST: &[Member] = &[Member { name: "list", description: "", shape: Shape::ARRAY }];
    const ANY: &[Member] =
        &[Member { name: "any", description: "", shape: Shape::ANY.or_absent() }];
    const { assert!(super::is_flat(Some(Shape::object(FLAT))) && super::is_flat(None)) };
    const { assert!(!super::is_flat(Some(Told::SHAPE))) };
    const { assert!(super::is_declared(Some(Shape::object(FLAT))) && super::is_declared(None)) };
    const { assert!(!super::is_declared(Some(Shape::object(LIST)))) };
    const { assert!(!super::is_declared(Some(Shape::object(ANY)))) };
    const { assert!(super::is_undotted(Some(Told::SHAPE)) && super::is_undotted(None)) };
    const { assert!(!super::is_undotted(Some(Shape::object(FLAT)))) };
    const { assert!(!super::is_undotted(Some(Shape::object(INSIDE)))) };
}

#[test]
fn a_type_that_does_not_tell_declares_nothing() {
    let declared =
        |request_parameters, configuration| read(Declared { request_parameters, configuration });
    let args = <OfArgs<Request<Told, Silent>>>::SHAPE;
    let configuration = <OfConfiguration<Request<Told, Silent>>>::SHAPE;
    let one = declared(args, configuration);
    assert!(one.get("request_parameters").is_some() && one.get("configuration").is_none());
    let args = <OfArgs<Request<Silent, Told>>>::SHAPE;
    let configuration = <OfConfiguration<Request<Silent, Told>>>::SHAPE;
    let other = declared(args, configuration);
    assert!(other.get("request_parameters").is_none() && other.get("configuration").is_some());
    let both = declared(Some(Told::SHAPE), Some(Told::SHAPE));
    assert_eq!(both["request_parameters"], both["configuration"]);
    assert_eq!(declared(None, None), json!({}));
}

#[test]
fn what_is_written_while_compiling_is_the_same() {
    const DECLARED: Declared =
        Declared { request_parameters: Some(Told::SHAPE), configuration: Some(Told::SHAPE) };
    static WRITTEN: [u8; DECLARED.length()] = DECLARED.written();
    assert_eq!(serde_json::from_slice::<Value>(&WRITTEN).unwrap(), read(DECLARED));
}

#[test]
fn types_of_rust_are_types_of_json() {
    fn kind<T: Parameters>() -> (&'static str, bool) {
        (T::SHAPE.kind.name(), T::SHAPE.optional)
    }
    assert_eq!(kind::<String>(), ("string", false));
    assert_eq!(kind::<Option<u8>>(), ("number", true));
    assert_eq!(kind::<Box<bool>>(), ("boolean", false));
    assert_eq!(kind::<Vec<Silent>>(), ("array", false));
    assert_eq!(kind::<std::collections::BTreeMap<String, u8>>(), ("object", false));
    assert_eq!(kind::<Option<Value>>(), ("", true));
}
