//! What a formula declares: request parameters and configuration entries (decisions §6).
//!
//! Declarations only; binding values to them is `binding`'s affair. To add a type of value: a
//! variant of [`ParameterType`], its name in [`ParameterType::as_str`], and the lists that may hold
//! it in [`DeclarationList::types`].

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::faults::Faults;
use crate::limits::{DESCRIPTION_CHARS_MAX, FAULTS_MAX, FORMULA_PARAMETERS_MAX, NAME_CHARS_MAX};

/// One declared request parameter or configuration entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Parameter {
    /// Case-sensitive. In a request parameter, dots lead into nested objects: `user.address.city`.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// For people.
    #[schema(max_length = 4000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What a value is cast to.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Whether a value may be missing.
    #[serde(default)]
    pub optional: bool,
}

/// The type of a declared value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    String,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// An object; in a request only.
    Object,
    /// An array; in a request only.
    Array,
}

/// A configuration entry in a request.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ConfigurationEntry {
    /// Case-sensitive.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// For people.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// What a value is cast to.
    pub r#type: ConfigurationType,
    /// Whether a value may be missing.
    pub optional: Option<bool>,
}

/// The types that a configuration entry may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConfigurationType {
    /// Text.
    String,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl ParameterType {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
        }
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The two lists of declarations a formula has, by the kinds of values they may declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclarationList {
    /// `configuration`: flat, of scalars; a dot in a name means nothing.
    Configuration,
    /// `request_parameters`: names lead into nested objects.
    Request,
}

impl DeclarationList {
    /// The types its entries may have.
    pub const fn types(self) -> &'static [ParameterType] {
        use ParameterType::{Array, Boolean, Number, Object, String};
        match self {
            Self::Configuration => &[String, Number, Boolean],
            Self::Request => &[String, Number, Boolean, Object, Array],
        }
    }

    fn types_fault(self) -> String {
        let names: Vec<_> = self.types().iter().map(|known| known.as_str()).collect();
        format!("must be one of {}", names.join(", "))
    }
}

/// Reads a list of declarations from a request body and checks it, with every fault at once.
///
/// `null` is an empty list. Paths are relative to the list: `[0].name`; the list itself is the
/// empty path.
pub fn parse_list(json: &Value, list: DeclarationList) -> Result<Vec<Parameter>, Faults> {
    let items = match json {
        Value::Null => &[][..],
        Value::Array(items) => items,
        _ => return Err(Faults::one("", "must be an array")),
    };
    let (mut entries, mut faults) = (Vec::new(), Faults::new());
    if items.len() > FORMULA_PARAMETERS_MAX {
        faults = too_many();
    }
    for (index, item) in items.iter().enumerate().take(FORMULA_PARAMETERS_MAX.max(FAULTS_MAX)) {
        let mut inner = Faults::new();
        let entry = read_entry(item, list, &mut inner);
        entries.extend(entry.map(|entry| (index, entry)));
        faults.extend_under(&format!("[{index}]"), inner);
    }
    check(&entries, list, &mut faults);
    let parameters = entries.into_iter().filter_map(|(_, entry)| entry.into_parameter());
    faults.into_result(parameters.collect())
}

/// Checks a list of declarations that came in another way; paths as in [`parse_list`].
pub fn validate(parameters: &[Parameter], list: DeclarationList) -> Result<(), Faults> {
    if parameters.len() > FORMULA_PARAMETERS_MAX {
        return Err(too_many());
    }
    let mut faults = Faults::new();
    let entries: Vec<_> = parameters.iter().map(Entry::of).enumerate().collect();
    check(&entries, list, &mut faults);
    faults.into_result(())
}

fn too_many() -> Faults {
    Faults::one("", format!("must have at most {FORMULA_PARAMETERS_MAX} entries"))
}

/// A declaration as far as it could be read: what is faulty in itself is not there.
struct Entry<'e> {
    name: Option<&'e str>,
    description: Option<&'e str>,
    kind: Option<ParameterType>,
    optional: bool,
}

impl<'e> Entry<'e> {
    fn of(parameter: &'e Parameter) -> Self {
        let Parameter { name, description, kind, optional } = parameter;
        Self {
            name: Some(name),
            description: description.as_deref(),
            kind: Some(*kind),
            optional: *optional,
        }
    }

    fn into_parameter(self) -> Option<Parameter> {
        Some(Parameter {
            name: self.name?.to_owned(),
            description: self.description.map(str::to_owned),
            kind: self.kind?,
            optional: self.optional,
        })
    }
}

fn read_entry<'e>(
    json: &'e Value,
    list: DeclarationList,
    faults: &mut Faults,
) -> Option<Entry<'e>> {
    let Value::Object(members) = json else {
        return missing(faults, "", "must be an object");
    };
    let member = |name| members.get(name).unwrap_or(&Value::Null);
    let name = match member("name") {
        Value::String(name) => Some(name.as_str()),
        Value::Null => missing(faults, "name", "is required"),
        _ => missing(faults, "name", "must be a string"),
    };
    let description = match member("description") {
        Value::String(description) => Some(description.as_str()),
        Value::Null => None,
        _ => missing(faults, "description", "must be a string"),
    };
    let optional = match member("optional") {
        Value::Bool(optional) => *optional,
        Value::Null => false,
        _ => missing(faults, "optional", "must be true or false"),
    };
    let known = |name: &String| list.types().iter().find(|known| known.as_str() == name);
    let kind = match member("type") {
        Value::Null => Err("is required".to_owned()),
        Value::String(name) => known(name).copied().ok_or_else(|| list.types_fault()),
        _ => Err(list.types_fault()),
    };
    Some(Entry { name, description, kind: faults.check("type", kind), optional })
}

/// Notes a fault and gives something to go on with, so that the other members are looked at too.
fn missing<T: Default>(faults: &mut Faults, member: &str, message: &str) -> T {
    faults.add(member, message);
    T::default()
}

/// The rules that hold for any list, however it came, for each member that is there.
fn check(entries: &[(usize, Entry<'_>)], list: DeclarationList, faults: &mut Faults) {
    let mut names = HashSet::new();
    let mut prefixes = HashSet::new();
    for &(index, Entry { name, description, kind, .. }) in entries {
        match name.map(|name| (name, check_name(name, list))) {
            None => {}
            Some((_, Err(message))) => faults.add(format!("[{index}].name"), message),
            Some((name, Ok(()))) if names.insert(name) => {
                // Only of names of bounded length: a long name has very many prefixes.
                prefixes.extend(name.match_indices('.').map(|(dot, _)| &name[..dot]));
            }
            Some(_) => faults.add(format!("[{index}].name"), "is declared more than once"),
        }
        if description.is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
            let message = format!("must have at most {DESCRIPTION_CHARS_MAX} characters");
            faults.add(format!("[{index}].description"), message);
        }
        if kind.is_some_and(|kind| !list.types().contains(&kind)) {
            faults.add(format!("[{index}].type"), list.types_fault());
        }
    }
    if list == DeclarationList::Request {
        for &(index, Entry { name, kind, .. }) in entries {
            let holds_others = name.is_some_and(|name| prefixes.contains(name));
            if holds_others && kind.is_some_and(|kind| kind != ParameterType::Object) {
                let message = "must be object, because other parameters lie within it";
                faults.add(format!("[{index}].type"), message);
            }
        }
    }
}

fn check_name(name: &str, list: DeclarationList) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".to_owned());
    }
    // Bytes first: no need to count the characters of a name of megabytes.
    if name.len() > 4 * NAME_CHARS_MAX || name.chars().count() > NAME_CHARS_MAX {
        return Err(format!("must have at most {NAME_CHARS_MAX} characters"));
    }
    if list == DeclarationList::Request && name.split('.').any(str::is_empty) {
        return Err("must have a name before, between and after its dots".to_owned());
    }
    Ok(())
}
