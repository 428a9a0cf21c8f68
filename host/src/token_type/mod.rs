//! Token types: what each demands of `data`, and what it gives a token by default (decisions §3).
//!
//! A type is a [`Row`]; everything the product knows of it stands there, and nothing outside this
//! folder matches on a type's name. It must not evaluate expressions, only name them. To add a
//! type: a row in the file of its family. To add a family: a file, its line in [`FAMILIES`]. The
//! row's own test table follows.

mod bank;
mod card;
mod digits;
mod generic;
mod identity;
#[cfg(test)]
mod tests;

use crate::model::log::EntityType;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use thiserror::Error;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

pub use digits::{aba_valid, luhn_valid};

use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::member::whole;
use digits::InvalidData;

/// Every type, by family, in the order in which they are listed.
static FAMILIES: [&[Row]; 4] = [&generic::ROWS, &card::ROWS, &bank::ROWS, &identity::ROWS];

/// All that is known of one type.
struct Row {
    name: &'static str,
    data: Data,
    container: &'static str,
    fingerprint: &'static str,
    search_indexes: &'static [&'static str],
    log_entity_type: EntityType,
}

/// What `data` has to be, and its default mask.
enum Data {
    /// Anything, without a mask.
    Anything,
    /// One value under one rule.
    One { rule: Rule, mask: &'static str },
    /// An object. Members that are not listed are kept as they are.
    Object(&'static [Member]),
}

/// A member of an object type.
struct Member {
    name: &'static str,
    required: bool,
    rule: Rule,
    /// Its part in the default mask.
    mask: Option<&'static str>,
    /// Whether it is erased some time after it was written.
    transient: bool,
}

/// Says what is wrong with a value, without repeating any of it.
type Rule = fn(&Value) -> Result<(), InvalidData>;

/// The type of a token. Parsed from its name and serialised as it.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct TokenType(&'static Row);

/// No type has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be one of {}", names())]
pub struct UnknownTokenType;

fn names() -> String {
    TokenType::all().map(TokenType::as_str).collect::<Vec<_>>().join(", ")
}

impl TokenType {
    /// `token`, which takes anything; what a plain value becomes in `POST /tokenize`.
    pub fn generic() -> Self {
        Self(&generic::ROWS[0])
    }

    /// Every type there is.
    pub fn all() -> impl Iterator<Item = Self> {
        FAMILIES.iter().copied().flatten().map(Self)
    }

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// Checks `data`; paths are relative to it (`number`; empty for the value itself).
    pub fn validate(self, data: &Value) -> Result<(), Faults> {
        let mut faults = Faults::new();
        match &self.0.data {
            Data::Anything => {}
            Data::One { rule, .. } => {
                faults.check("", rule(data));
            }
            Data::Object(members) => match data {
                Value::Object(given) => {
                    for member in *members {
                        faults.check(member.name, member.check(given.get(member.name)));
                    }
                }
                _ => faults.add("", InvalidData::NotObject.to_string()),
            },
        }
        faults.into_result(())
    }

    /// Writes the whole numbers of valid `data` as such. `12.0` is one, and who reads a month expects `12`.
    pub fn normalize(self, data: &mut Value) {
        let (Data::Object(members), Value::Object(given)) = (&self.0.data, data) else { return };
        for member in *members {
            if let Some(value) = given.get_mut(member.name).filter(|value| value.is_f64())
                && let Some(number) = whole(value)
            {
                *value = number.into();
            }
        }
    }

    /// Where a token goes that names no containers.
    pub fn default_container(self) -> Container {
        // A test parses every row. Were one wrong: the fewest rules reach the root.
        self.0.container.parse().unwrap_or_else(|_| Container::root())
    }

    /// The mask of a token that names none: expressions over `data`, in the shape of `data`.
    ///
    /// Optional members that this `data` lacks are left out, so that the mask always evaluates.
    pub fn default_mask(self, data: &Value) -> Option<Value> {
        match &self.0.data {
            Data::Anything => None,
            Data::One { mask, .. } => Some(Value::from(*mask)),
            Data::Object(members) => {
                let present = members.iter().filter(|member| member.is_in(data));
                let masks = present.filter_map(|member| {
                    member.mask.map(|mask| (member.name.to_owned(), Value::from(mask)))
                });
                let masks: Map<_, _> = masks.collect();
                (!masks.is_empty()).then_some(Value::Object(masks))
            }
        }
    }

    /// Takes from a mask the members of the default one whose members of `data` are gone: without them it would evaluate no
    /// more. It gets none for those that are new: a mask that nobody changes shows nothing else than before.
    pub fn follow_with_mask(self, mask: &mut Value, (before, after): (&Value, &Value)) {
        let defaults = [before, after].map(|data| self.default_mask(data).unwrap_or_default());
        if let (Value::Object(members), [Value::Object(before), after]) = (mask, defaults) {
            members.retain(|name, member| {
                before.get(name) != Some(member) || after.get(name).is_some()
            });
        }
    }

    /// The expression whose value is fingerprinted when the token names none.
    pub fn default_fingerprint_expression(self) -> &'static str {
        self.0.fingerprint
    }

    /// The index expressions of a token that names none.
    pub fn default_search_indexes(self) -> &'static [&'static str] {
        self.0.search_indexes
    }

    /// Members of `data` that are erased `cvc_retention_minutes` after they were written.
    pub fn transient_members(self) -> impl Iterator<Item = &'static str> {
        let members = match self.0.data {
            Data::Object(members) => members,
            Data::Anything | Data::One { .. } => &[],
        };
        members.iter().filter(|member| member.transient).map(|member| member.name)
    }

    /// The `entity_type` of a token's log entries (decisions §10).
    pub fn log_entity_type(self) -> EntityType {
        self.0.log_entity_type
    }
}

impl Member {
    fn is_in(&self, data: &Value) -> bool {
        data.get(self.name).is_some_and(|value| !value.is_null())
    }

    /// `null` is as good as absent: a merge patch cannot leave one, and clients send it for "none".
    fn check(&self, value: Option<&Value>) -> Result<(), InvalidData> {
        match value.filter(|value| !value.is_null()) {
            Some(value) => (self.rule)(value),
            None if self.required => Err(InvalidData::Missing),
            None => Ok(()),
        }
    }
}

impl PartialSchema for TokenType {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("What a token's data is"))
            .enum_values(Some(Self::all().map(Self::as_str)));
        schema.into()
    }
}

impl ToSchema for TokenType {}

impl FromStr for TokenType {
    type Err = UnknownTokenType;

    fn from_str(name: &str) -> Result<Self, UnknownTokenType> {
        Self::all().find(|known| known.as_str() == name).ok_or(UnknownTokenType)
    }
}

impl TryFrom<String> for TokenType {
    type Error = UnknownTokenType;

    fn try_from(name: String) -> Result<Self, UnknownTokenType> {
        name.parse()
    }
}

impl Serialize for TokenType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl PartialEq for TokenType {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for TokenType {}

impl fmt::Display for TokenType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TokenType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenType({})", self.as_str())
    }
}
