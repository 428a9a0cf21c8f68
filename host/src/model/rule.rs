//! Access rules (interface §2.3) and how one decides (decisions §2).
//!
//! Pure: given what a caller holds and where a token lies, which transform applies? The vault asks; nothing here
//! knows how a caller proved who it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::container::Container;
use super::permission::Permission;

/// What a caller sees of a token's `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// Nothing.
    Redact,
    /// The evaluated mask, or nothing when the token has none.
    Mask,
    /// The plaintext.
    Reveal,
}

impl std::str::FromStr for Transform {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "redact" => Ok(Self::Redact),
            "mask" => Ok(Self::Mask),
            "reveal" => Ok(Self::Reveal),
            _ => Err("must be redact, mask or reveal"),
        }
    }
}

/// One access rule of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// What the rule is for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// 1 decides first.
    #[schema(minimum = 1)]
    pub priority: u32,
    /// The tokens it covers: those in this container or below it.
    #[schema(value_type = String, example = "/pci/high/")]
    pub container: Container,
    /// How the caller sees `data`.
    pub transform: Transform,
    /// What it grants.
    #[schema(value_type = Vec<String>, example = json!(["token:read"]))]
    pub permissions: Vec<Permission>,
}

/// Everything an application may do: its `permissions` and its `rules`, in the order in which they decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    permissions: Vec<Permission>,
    /// In ascending priority.
    rules: Vec<Rule>,
}

impl Rights {
    /// Puts the rules in order.
    pub fn new(permissions: Vec<Permission>, mut rules: Vec<Rule>) -> Self {
        rules.sort_by_key(|rule| rule.priority);
        Self { permissions, rules }
    }

    /// Whether the permission is held at all, be it for some container only.
    pub fn hold(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
            || self.rules.iter().any(|rule| rule.permissions.contains(&permission))
    }

    /// The transform for a token in these containers: that of the first rule which grants the permission and holds
    /// one of them; then `permissions`, which act as one rule on `/`, last in priority. `None` is a refusal.
    pub fn decide(&self, permission: Permission, containers: &[Container]) -> Option<Transform> {
        let by_rule = self.rules.iter().find(|rule| {
            rule.permissions.contains(&permission)
                && containers.iter().any(|container| rule.container.holds(container))
        });
        by_rule.map(|rule| rule.transform).or_else(|| self.by_permission(permission))
    }

    /// The first container for which no rule grants the permission, where each must have one (`token:create`,
    /// `token:use`, and moving a token).
    pub fn first_uncovered<'c>(
        &self,
        permission: Permission,
        containers: &'c [Container],
    ) -> Option<&'c Container> {
        containers
            .iter()
            .find(|container| self.decide(permission, std::slice::from_ref(container)).is_none())
    }

    fn by_permission(&self, permission: Permission) -> Option<Transform> {
        let implicit = match permission {
            Permission::TokenUse => Transform::Reveal,
            _ => Transform::Mask,
        };
        self.permissions.contains(&permission).then_some(implicit)
    }
}

#[cfg(test)]
mod tests;
