//! The audit log's vocabulary (interface §2.4, decisions §10).
//!
//! To add a type of entity: one row in `entity_types!`, and an arm in the log's filter if it can be filtered by.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! entity_types {
    ($($name:ident $value:literal $display:literal;)+) => {
        /// What an entry is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum EntityType {
            $(#[doc = $display] $name,)+
        }

        impl EntityType {
            /// Every type, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The system name, as in an entry's `entity_type`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $value),+ }
            }

            /// The readable name.
            pub fn display_name(self) -> &'static str {
                match self { $(Self::$name => $display),+ }
            }
        }
    };
}

entity_types! {
    Token "token" "Token";
    Card "card" "Card";
    Bank "bank" "Bank";
    Application "application" "Application";
    Tenant "tenant" "Tenant";
    Session "session" "Session";
    Proxy "proxy" "Proxy";
    Reactor "reactor" "Reactor";
    ReactorFormula "reactor_formula" "Reactor Formula";
    Webhook "webhook" "Webhook";
}

impl EntityType {
    /// The types a filter on this one finds: a filter on `token` finds cards and bank accounts too.
    pub fn found_by_filter(self) -> &'static [Self] {
        match self {
            Self::Token => &[Self::Token, Self::Card, Self::Bank],
            Self::Card => &[Self::Card],
            Self::Bank => &[Self::Bank],
            Self::Application => &[Self::Application],
            Self::Tenant => &[Self::Tenant],
            Self::Session => &[Self::Session],
            Self::Proxy => &[Self::Proxy],
            Self::Reactor => &[Self::Reactor],
            Self::ReactorFormula => &[Self::ReactorFormula],
            Self::Webhook => &[Self::Webhook],
        }
    }
}

impl FromStr for EntityType {
    type Err = UnknownEntityType;

    fn from_str(text: &str) -> Result<Self, UnknownEntityType> {
        let found = Self::ALL.iter().copied().find(|entity| entity.as_str() == text);
        found.ok_or(UnknownEntityType)
    }
}

/// The text names no type of entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no entity type; GET /logs/entity-types lists them")]
pub struct UnknownEntityType;

/// What was done, or attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Something new was stored.
    Create,
    /// Something was shown.
    Read,
    /// Something was changed.
    Update,
    /// Something was removed.
    Delete,
    /// A token was detokenized, for a reactor or for who asked for that.
    Use,
    /// A reactor was run.
    Invoke,
}

impl Operation {
    /// The name, as in an entry's `operation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Use => "use",
            Self::Invoke => "invoke",
        }
    }
}

/// Who acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActorType {
    /// A person at the command line.
    User,
    /// An application with its key.
    Application,
    /// A session.
    Session,
}

impl ActorType {
    /// The name, as in an entry's `actor_type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Application => "application",
            Self::Session => "session",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EntityType;

    #[test]
    fn the_serialised_name_is_the_system_name() {
        for entity in EntityType::ALL {
            let json = serde_json::to_value(entity).unwrap();
            assert_eq!(json, entity.as_str());
            assert_eq!(entity.as_str().parse(), Ok(*entity));
            assert!(entity.found_by_filter().contains(entity));
        }
        assert!("tokens".parse::<EntityType>().is_err());
    }

    #[test]
    fn a_filter_on_token_finds_cards_and_banks() {
        assert_eq!(EntityType::Token.found_by_filter().len(), 3);
    }
}
