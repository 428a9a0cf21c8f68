//! JSON to liquid's values and back, without losing types.

use liquid_core::model::{KString, ScalarCow};
use liquid_core::{Object, Value as Liquid, ValueView};
use serde_json::{Map, Number, Value};

/// A JSON value as liquid's.
pub fn to_liquid(value: &Value) -> Liquid {
    match value {
        Value::Null => Liquid::Nil,
        Value::Bool(flag) => Liquid::scalar(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Liquid::scalar(integer),
            (None, Some(float)) => Liquid::scalar(float),
            (None, None) => Liquid::scalar(number.to_string()),
        },
        Value::String(text) => Liquid::scalar(text.clone()),
        Value::Array(items) => Liquid::Array(items.iter().map(to_liquid).collect()),
        Value::Object(members) => Liquid::Object(to_object(members)),
    }
}

/// A JSON object as liquid's.
pub fn to_object(members: &Map<String, Value>) -> Object {
    let member = |(name, value): (&String, &Value)| (KString::from_ref(name), to_liquid(value));
    members.iter().map(member).collect()
}

/// Liquid's value as JSON.
pub fn from_liquid(value: &dyn ValueView) -> Value {
    if let Some(scalar) = value.as_scalar() {
        return from_scalar(&scalar);
    }
    if let Some(items) = value.as_array() {
        return Value::Array(items.values().map(from_liquid).collect());
    }
    if let Some(members) = value.as_object() {
        let member = |(name, value): (liquid_core::model::KStringCow<'_>, &dyn ValueView)| {
            (name.to_string(), from_liquid(value))
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
