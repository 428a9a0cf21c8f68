//! JSON to liquid's values and back, without losing types.
//!
//! Liquid's whole numbers are signed: a larger one passes through it as an object of one member, [`LARGE`]. A member whose own
//! name begins like that has one [`MARK`] more in front of it meanwhile.

use liquid_core::model::{KString, ScalarCow};
use liquid_core::{Object, Value as Liquid, ValueView};
use serde_json::{Map, Number, Value};

/// The member that holds the digits of a whole number too large for liquid.
const LARGE: &str = "\0large";
/// What it begins with.
const MARK: char = '\0';

/// A JSON value as liquid's.
pub fn to_liquid(value: &Value) -> Liquid {
    match value {
        Value::Null => Liquid::Nil,
        Value::Bool(flag) => Liquid::scalar(*flag),
        Value::Number(number) => from_number(number),
        Value::String(text) => Liquid::scalar(text.clone()),
        Value::Array(items) => Liquid::Array(items.iter().map(to_liquid).collect()),
        Value::Object(members) => Liquid::Object(to_object(members)),
    }
}

fn from_number(number: &Number) -> Liquid {
    if let Some(integer) = number.as_i64() {
        return Liquid::scalar(integer);
    }
    if number.is_u64() {
        let digits = Liquid::scalar(number.to_string());
        return Liquid::Object([(KString::from_static(LARGE), digits)].into_iter().collect());
    }
    number.as_f64().map_or(Liquid::Nil, Liquid::scalar)
}

/// The digits of a whole number too large for liquid.
pub fn large_number(value: &dyn ValueView) -> Option<KString> {
    let members = value.as_object().filter(|members| members.size() == 1)?;
    let digits = members.get(LARGE)?.to_kstr().into_owned();
    digits.parse::<u64>().is_ok_and(|number| i64::try_from(number).is_err()).then_some(digits)
}

/// Whether this is a number that JSON cannot have.
pub fn is_infinite(value: &dyn ValueView) -> bool {
    let number = value.as_scalar().filter(|scalar| scalar.type_name() == "fractional number");
    number.and_then(|number| number.to_float()).is_some_and(|number| !number.is_finite())
}

/// A JSON object as liquid's.
pub fn to_object(members: &Map<String, Value>) -> Object {
    let member = |(name, value): (&String, &Value)| (to_name(name), to_liquid(value));
    members.iter().map(member).collect()
}

/// The name of a member as liquid has it.
pub fn to_name(name: &str) -> KString {
    if name.starts_with(MARK) {
        KString::from_string(format!("{MARK}{name}"))
    } else {
        KString::from_ref(name)
    }
}

fn from_name(name: &str) -> String {
    name.strip_prefix(MARK).unwrap_or(name).to_owned()
}

/// Liquid's value as JSON.
pub fn from_liquid(value: &dyn ValueView) -> Value {
    if let Some(scalar) = value.as_scalar() {
        return from_scalar(&scalar);
    }
    if let Some(items) = value.as_array() {
        return Value::Array(items.values().map(from_liquid).collect());
    }
    if let Some(number) = large_number(value).and_then(|digits| digits.parse::<u64>().ok()) {
        return number.into();
    }
    if let Some(members) = value.as_object() {
        let member = |(name, value): (liquid_core::model::KStringCow<'_>, &dyn ValueView)| {
            (from_name(&name), from_liquid(value))
        };
        return Value::Object(members.iter().map(member).collect());
    }
    Value::Null
}

fn from_scalar(scalar: &ScalarCow<'_>) -> Value {
    match scalar.type_name() {
        "whole number" => scalar.to_integer().map_or(Value::Null, Value::from),
        "fractional number" => {
            let number = scalar.to_float().and_then(Number::from_f64);
            number.map_or(Value::Null, Value::Number)
        }
        "boolean" => scalar.to_bool().map_or(Value::Null, Value::Bool),
        _ => Value::String(scalar.to_kstr().into_owned().into_string()),
    }
}

/// A value as text: a string is itself, anything else canonical JSON.
pub fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => canonical(value),
    }
}

/// JSON text with the members of every object in the order of their names.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(member, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}
