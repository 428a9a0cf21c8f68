//! Permissions and who may hold them (decisions §2).
//!
//! To add a permission: one row in the table `permissions!` below. The row makes the variant, its name, and the
//! marker type with which a handler asks for it (`Permit<marker::TokenRead>`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::log::{EntityType, Operation};

/// What kind of application holds a key (interface §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApplicationType {
    /// Backend services that keep their key secret.
    Private,
    /// Browsers and mobile devices.
    Public,
    /// Managing applications and reactors.
    Management,
}

impl ApplicationType {
    /// The name, as in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
            Self::Management => "management",
        }
    }

    /// The part of a key that tells its type.
    pub fn key_tag(self) -> &'static str {
        match self {
            Self::Private => "prv",
            Self::Public => "pub",
            Self::Management => "mgt",
        }
    }
}

impl FromStr for ApplicationType {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        [Self::Private, Self::Public, Self::Management]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or("must be private, public or management")
    }
}

/// A permission as a type: what a permit is for.
pub trait Grant: Send + Sync + 'static {
    /// The permission.
    const PERMISSION: Permission;
}

macro_rules! permissions {
    ($($name:ident $text:literal $holders:tt $entity:ident $operation:ident $description:literal;)+) => {
        /// One right (interface §5).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Permission {
            $(#[doc = $description] $name,)+
        }

        impl Permission {
            /// Every permission, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name, such as `token:create`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What it allows, in a sentence.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $description),+ }
            }

            /// The types of application that may hold it.
            pub fn holders(self) -> &'static [ApplicationType] {
                match self { $(Self::$name => holders!($holders)),+ }
            }

            /// What the log calls an attempt at it, unless it is known to be at something else.
            pub fn attempt(self) -> (EntityType, Operation) {
                match self { $(Self::$name => (EntityType::$entity, Operation::$operation)),+ }
            }
        }

        /// The permissions as types.
        pub mod marker {
            use super::{Grant, Permission};
            $(
                #[doc = $description]
                #[derive(Debug, Clone, Copy)]
                pub struct $name;

                impl Grant for $name {
                    const PERMISSION: Permission = Permission::$name;
                }
            )+
        }
    };
}

macro_rules! holders {
    (all) => {
        &[ApplicationType::Public, ApplicationType::Private]
    };
    (private) => {
        &[ApplicationType::Private]
    };
    (management) => {
        &[ApplicationType::Management]
    };
}

permissions! {
    TokenCreate "token:create" all Token Create "Create tokens.";
    TokenUpdate "token:update" all Token Update "Change tokens.";
    TokenRead "token:read" private Token Read "Read and list tokens.";
    TokenSearch "token:search" private Token Read "Search tokens.";
    TokenDelete "token:delete" private Token Delete "Delete tokens.";
    TokenUse "token:use" private Token Use "Invoke reactors and detokenize for them.";
    ApplicationCreate "application:create" management Application Create "Create applications.";
    ApplicationRead "application:read" management Application Read "Read and list applications.";
    ApplicationUpdate "application:update" management Application Update "Change applications and their keys.";
    ApplicationDelete "application:delete" management Application Delete "Delete applications.";
    ReactorCreate "reactor:create" management Reactor Create "Create reactors and formulas.";
    ReactorRead "reactor:read" management Reactor Read "Read reactors, formulas and invocations.";
    ReactorUpdate "reactor:update" management Reactor Update "Change reactors and formulas.";
    ReactorDelete "reactor:delete" management Reactor Delete "Delete reactors and formulas.";
    LogRead "log:read" management Tenant Read "Read the log.";
    TenantRead "tenant:read" management Tenant Read "Read the tenant and its settings.";
    TenantUpdate "tenant:update" management Tenant Update "Change the tenant and its settings.";
    WebhookRead "webhook:read" management Webhook Read "Read webhook signing secrets.";
    WebhookUpdate "webhook:update" management Webhook Update "Rotate webhook signing secrets.";
}

/// Described by the names in the table, which stays the one place to add one.
impl PartialSchema for Permission {
    fn schema() -> RefOr<Schema> {
        let names = Self::ALL.iter().map(|permission| permission.as_str());
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("One right; `GET /permissions` describes them"))
            .enum_values(Some(names));
        schema.into()
    }
}

impl ToSchema for Permission {}

impl FromStr for Permission {
    type Err = UnknownPermission;

    fn from_str(text: &str) -> Result<Self, UnknownPermission> {
        let found = Self::ALL.iter().copied().find(|permission| permission.as_str() == text);
        found.ok_or(UnknownPermission)
    }
}

/// The text names no permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no permission")]
pub struct UnknownPermission;

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Permission {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Permission {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{ApplicationType, Permission};

    /// The table of decisions §2, as it stands there.
    #[test]
    fn holders_are_those_of_the_specification() {
        for permission in Permission::ALL {
            let expected: &[ApplicationType] = match permission.as_str() {
                "token:create" | "token:update" => {
                    &[ApplicationType::Public, ApplicationType::Private]
                }
                "token:read" | "token:search" | "token:delete" | "token:use" => {
                    &[ApplicationType::Private]
                }
                _ => &[ApplicationType::Management],
            };
            assert_eq!(permission.holders(), expected, "{permission}");
        }
    }

    #[test]
    fn names_parse_back() {
        assert_eq!(Permission::ALL.len(), 19);
        for permission in Permission::ALL {
            assert_eq!(permission.as_str().parse(), Ok(*permission));
        }
        assert!("token:destroy".parse::<Permission>().is_err());
    }
}
