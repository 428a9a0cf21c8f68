//! Binding: values given by callers, against what a formula declares (interface §4.5 rules 4–9,
//! decisions §6, §7).
//!
//! [`bind`] takes the arguments of one invocation, after detokenization; [`configure`] takes the
//! configuration of a reactor. Both cast (see `cast`) and list every fault. The values are
//! sensitive: no message repeats one, and what is not passed on is wiped. This module must not know
//! where values come from. It expects lists that `model::parameter` has checked.

mod cast;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::model::faults::Faults;
use crate::model::formula::Undeclared;
use crate::model::parameter::{Parameter, ParameterType};
use crate::model::plaintext::wipe;
use cast::cast;
use shape::Shape;

/// Said of what is not there.
pub const REQUIRED: &str = "is required";
const NOT_OBJECT: &str = "must be an object";

/// Binds `args` to the declared `parameters`: checks, casts, and gives the object that the formula
/// gets.
///
/// - `null` is as good as absent, for `args` and for every parameter, and is not passed on.
/// - Without declared parameters any object passes as it is, and absent `args` are `{}`. With some,
///   `args` must be there.
/// - Every required parameter must be there, also within an object that is itself optional.
/// - Where only names within an object are declared (`user.age`), a value that is no object is none of them.
/// - `undeclared` decides on members that no parameter names, on each level that holds a declared
///   one. Within an `object` parameter that no other parameter leads into, everything stays.
///
/// Faults are at `args`, or at `args.user.name` for the parameter `user.name`.
pub fn bind(
    args: Option<Value>,
    parameters: &[Parameter],
    undeclared: Undeclared,
) -> Result<Value, Faults> {
    let members = match args {
        Some(Value::Object(members)) => members,
        None | Some(Value::Null) if parameters.is_empty() => Map::new(),
        None | Some(Value::Null) => return Err(no_args(parameters)),
        Some(mut other) => {
            wipe(&mut other);
            return Err(Faults::one("args", NOT_OBJECT));
        }
    };
    if parameters.is_empty() {
        return Ok(Value::Object(members));
    }
    let mut binder = Binder { undeclared, path: vec!["args"], faults: Faults::new() };
    let bound = binder.object(members, &Shape::of(parameters));
    bound_or_faults(Value::Object(bound), binder.faults)
}

/// Checks and casts the configuration of a reactor against the formula's `entries` (decisions §7).
///
/// Every entry that is not optional must be there; `null` is as good as absent; a name that no
/// entry declares is a fault. Names are taken as they are: a dot means nothing. Faults are at
/// `configuration.<name>`.
pub fn configure(values: &Value, entries: &[Parameter]) -> Result<Map<String, Value>, Faults> {
    let Value::Object(values) = values else {
        return Err(Faults::one("configuration", NOT_OBJECT));
    };
    let (mut configured, mut faults) = (Map::new(), Faults::new());
    let path = |name: &str| format!("configuration.{name}");
    let declared: HashMap<_, _> =
        entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    for entry in entries.iter().filter(|entry| !entry.optional) {
        if values.get(&entry.name).is_none_or(Value::is_null) {
            faults.add(path(&entry.name), REQUIRED);
        }
    }
    for (name, value) in values {
        match declared.get(name.as_str()) {
            None => faults.add(path(name), "is not declared by the formula"),
            Some(_) if value.is_null() => {}
            Some(entry) => match cast(value.clone(), entry.kind) {
                Ok(value) => {
                    configured.insert(name.clone(), value);
                }
                Err(fault) => faults.add(path(name), fault.to_string()),
            },
        }
    }
    match bound_or_faults(Value::Object(configured), faults)? {
        Value::Object(configured) => Ok(configured),
        _ => Ok(Map::new()),
    }
}

fn no_args(parameters: &[Parameter]) -> Faults {
    let message = "is required, because the formula declares request parameters";
    let mut faults = Faults::one("args", message);
    for parameter in parameters.iter().filter(|parameter| !parameter.optional) {
        faults.add(format!("args.{}", parameter.name), REQUIRED);
    }
    faults
}

fn bound_or_faults(mut bound: Value, faults: Faults) -> Result<Value, Faults> {
    if !faults.is_empty() {
        wipe(&mut bound);
    }
    faults.into_result(bound)
}

/// Walks the arguments and the declarations together.
struct Binder<'a> {
    undeclared: Undeclared,
    /// Declared names only, `args` first.
    path: Vec<&'a str>,
    faults: Faults,
}

impl<'a> Binder<'a> {
    fn object(&mut self, given: Map<String, Value>, shape: &Shape<'a>) -> Map<String, Value> {
        for (name, member) in &shape.members {
            if given.get(*name).is_none_or(Value::is_null) {
                self.within(name, |binder| binder.missing(member));
            }
        }
        let mut bound = Map::with_capacity(given.len());
        for (name, mut value) in given {
            if let Some((declared, member)) = shape.members.get_key_value(name.as_str()) {
                let value = self.within(declared, |binder| binder.value(value, member));
                value.and_then(|value| bound.insert(name, value));
            } else if self.undeclared == Undeclared::Forward {
                bound.insert(name, value);
            } else {
                wipe(&mut value);
            }
        }
        bound
    }

    fn value(&mut self, value: Value, shape: &Shape<'a>) -> Option<Value> {
        if value.is_null() {
            return None;
        }
        if !shape.is_declared() && !could_be_object(&value) {
            return self.beside(value, shape);
        }
        match cast(value, shape.value_type()) {
            Ok(Value::Object(given)) if !shape.members.is_empty() => {
                Some(Value::Object(self.object(given, shape)))
            }
            Ok(value) => Some(value),
            Err(fault) => {
                self.fault(fault.to_string());
                None
            }
        }
    }

    /// A value that no parameter names, where only names within an object are declared: the formula takes both, or the
    /// caller meant an object. Dropped, it would be lost without a word.
    fn beside(&mut self, value: Value, shape: &Shape<'a>) -> Option<Value> {
        self.missing(shape);
        if self.undeclared == Undeclared::Forward {
            return Some(value);
        }
        if let Err(fault) = cast(value, ParameterType::Object) {
            self.fault(fault.to_string());
        }
        None
    }

    /// Notes what is required of a member that is not there.
    fn missing(&mut self, shape: &Shape<'a>) {
        if shape.is_required() {
            self.fault(REQUIRED);
        }
        for (name, member) in &shape.members {
            self.within(name, |binder| binder.missing(member));
        }
    }

    fn fault(&mut self, message: impl Into<String>) {
        self.faults.add(self.path.join("."), message);
    }

    fn within<T>(&mut self, name: &'a str, act: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(name);
        let result = act(self);
        self.path.pop();
        result
    }
}

/// An object, or what may be the JSON text of one.
fn could_be_object(value: &Value) -> bool {
    value.is_object() || value.as_str().is_some_and(|text| text.trim_start().starts_with('{'))
}
