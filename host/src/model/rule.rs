//! Access rules (interface §2.3) and how one decides (decisions §2).
//!
//! Pure: given what a caller holds and where a token lies, which transform applies? The vault asks; nothing here
//! knows how a caller proved who it is.

mod grantor;

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use grantor::Grantor;

use super::container::Container;
use super::permission::Permission;

/// The last priority: the largest that every client's integers can hold.
pub const PRIORITY_MAX: u32 = i32::MAX.unsigned_abs();

/// What a caller sees of a token's `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// Nothing.
    Redact,
    /// The evaluated mask, or nothing when the token has none.
    Mask,
    /// The plaintext.
    Reveal,
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redact => "redact",
            Self::Mask => "mask",
            Self::Reveal => "reveal",
        })
    }
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

/// What of a token a condition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// Its id.
    Id,
    /// Any of its containers.
    Container,
}

/// How a condition compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The attribute starts with the value; a container is the value or lies in it.
    StartsWith,
    /// The attribute is the value.
    Equals,
}

impl std::str::FromStr for Attribute {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "id" => Ok(Self::Id),
            "container" => Ok(Self::Container),
            _ => Err("must be id or container"),
        }
    }
}

impl std::str::FromStr for Operator {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "starts_with" => Ok(Self::StartsWith),
            "equals" => Ok(Self::Equals),
            _ => Err("must be starts_with or equals"),
        }
    }
}

/// What a token must be like for a session's rule to cover it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    /// What is compared.
    pub attribute: Attribute,
    /// How.
    pub operator: Operator,
    /// With what; a whole container for the attribute `container`, also where the attribute only begins with it.
    #[schema(min_length = 1, max_length = 400)]
    pub value: String,
}

impl Condition {
    fn holds(&self, token: Subject<'_>) -> bool {
        match (self.attribute, self.operator) {
            (Attribute::Id, Operator::Equals) => token.id == self.value,
            (Attribute::Id, Operator::StartsWith) => token.id.starts_with(&self.value),
            (Attribute::Container, Operator::Equals) => {
                token.containers.iter().any(|container| container.as_str() == self.value)
            }
            (Attribute::Container, Operator::StartsWith) => {
                token.containers.iter().any(|container| container.as_str().starts_with(&self.value))
            }
        }
    }
}

/// What rules look at of a token.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'t> {
    /// Its id.
    pub id: &'t str,
    /// Where it lies.
    pub containers: &'t [Container],
}

/// One access rule of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// What the rule is for.
    #[schema(max_length = 4000)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// 1 decides first.
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub priority: u32,
    /// The tokens it covers: those in this container or below it. Sessions may have `conditions` instead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<Container>,
    /// Of a session's rule: the tokens it covers are those for which all of these hold.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub conditions: Option<Vec<Condition>>,
    /// How the caller sees `data`.
    pub transform: Transform,
    /// What it grants.
    #[schema(min_items = 1, example = json!(["token:read"]))]
    pub permissions: Vec<Permission>,
}

/// A rule in a request: the tokens it covers are those in a container or below it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ContainerRule {
    /// What the rule is for.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// 1 decides first; no two rules have the same.
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub priority: u32,
    /// The tokens it covers.
    pub container: Container,
    /// How the caller sees `data`.
    pub transform: Transform,
    /// What it grants: permissions for tokens only.
    #[schema(min_items = 1, example = json!(["token:read"]))]
    pub permissions: Vec<Permission>,
}

/// A session's rule in a request: the tokens it covers are those for which all conditions hold.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ConditionRule {
    /// What the rule is for.
    #[schema(max_length = 4000)]
    pub description: Option<String>,
    /// 1 decides first; no two rules have the same.
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub priority: u32,
    /// The tokens it covers.
    #[schema(min_items = 1, max_items = 20)]
    pub conditions: Vec<Condition>,
    /// How the caller sees `data`.
    pub transform: Transform,
    /// What it grants: permissions for tokens only.
    #[schema(min_items = 1, example = json!(["token:read"]))]
    pub permissions: Vec<Permission>,
}

/// A session's rule in a request: with a container or with conditions.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(missing_docs, reason = "generators of clients do not follow references beside words")]
pub enum SessionRule {
    Container(ContainerRule),
    Conditions(ConditionRule),
}

/// Where a token lies: in a container or below it, or there and nowhere below.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    place: Container,
    is_exact: bool,
}

impl Rule {
    /// Whether the rule speaks about this token.
    fn covers(&self, token: Subject<'_>) -> bool {
        let container = |scope: &Container| token.containers.iter().any(|one| scope.holds(one));
        match (&self.container, &self.conditions) {
            (Some(scope), None) => container(scope),
            (scope, Some(conditions)) => {
                scope.as_ref().is_none_or(container)
                    && conditions.iter().all(|condition| condition.holds(token))
            }
            // Requests with neither are refused; such a rule covers nothing.
            (None, None) => false,
        }
    }

    /// Where every token lies that the rule covers, the token's other containers aside: all conditions hold together, so that
    /// each of those on containers says as much on its own.
    fn bounds(&self) -> Vec<Bound> {
        let of_condition = |condition: &Condition| {
            let is_container = condition.attribute == Attribute::Container;
            let place = is_container.then(|| condition.value.parse().ok()).flatten()?;
            Some(Bound { place, is_exact: condition.operator == Operator::Equals })
        };
        let conditions = self.conditions.iter().flatten().filter_map(of_condition);
        let within = |place: &Container| Bound { place: place.clone(), is_exact: false };
        let mut bounds: Vec<Bound> = self.container.iter().map(within).chain(conditions).collect();
        bounds.sort_unstable();
        bounds.dedup();
        if bounds.is_empty() { vec![within(&Container::root())] } else { bounds }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let conditions = self.conditions.iter().flatten();
        let conditions = conditions.map(|one| size_of::<Condition>() + one.value.len());
        size_of::<Self>()
            + self.description.as_ref().map_or(0, String::len)
            + self.container.as_ref().map_or(0, |container| container.as_str().len())
            + conditions.sum::<usize>()
            + self.permissions.len()
    }
}

/// Everything an application may do: its `permissions` and its `rules`, in the order in which they decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    permissions: Vec<Permission>,
    /// In ascending priority.
    rules: Vec<Rule>,
    /// Rights of whoever granted these: no token is ever shown better than there.
    within: Option<Box<Rights>>,
}

impl Rights {
    /// Puts the rules in order. What they are for is not kept: it decides nothing, and is most of what they take.
    pub fn new(mut permissions: Vec<Permission>, mut rules: Vec<Rule>) -> Self {
        // In whatever order they were given, they are the same.
        permissions.sort_unstable();
        for rule in &mut rules {
            rule.description = None;
            rule.permissions.sort_unstable();
        }
        rules.sort_by_key(|rule| rule.priority);
        Self { permissions, rules, within: None }
    }

    /// The same rights, but never more than these.
    #[must_use]
    pub fn within(self, grantor: Self) -> Self {
        Self { within: Some(Box::new(grantor)), ..self }
    }

    /// Whether nothing is granted at all.
    pub fn is_empty(&self) -> bool {
        self.permissions.is_empty() && self.rules.is_empty()
    }

    /// Whether the permission is held at all, be it for some container only.
    pub fn hold(&self, permission: Permission) -> bool {
        self.hold_by_themselves(permission)
            && self.within.as_ref().is_none_or(|within| within.hold(permission))
    }

    /// The same, whatever became of the rights of whoever granted these.
    pub fn hold_by_themselves(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
            || self.rules.iter().any(|rule| rule.permissions.contains(&permission))
    }

    /// The transform for a token: that of the first rule which grants the permission and covers it; then
    /// `permissions`, which act as one rule on `/`, last in priority. `None` is a refusal.
    pub fn decide(&self, permission: Permission, token: Subject<'_>) -> Option<Transform> {
        let by_rule = self.granting(permission).find(|rule| rule.covers(token));
        let own = by_rule.map(|rule| rule.transform).or_else(|| self.by_permission(permission))?;
        match &self.within {
            None => Some(own),
            Some(within) => within.decide(permission, token).map(|theirs| theirs.min(own)),
        }
    }

    /// The first container for which no rule grants the permission, where each must have one (`token:create`,
    /// `token:use`, and moving a token).
    pub fn first_uncovered<'c>(
        &self,
        permission: Permission,
        token: Subject<'c>,
    ) -> Option<&'c Container> {
        let alone = |container: &'c Container| Subject {
            id: token.id,
            containers: std::slice::from_ref(container),
        };
        token.containers.iter().find(|one| self.decide(permission, alone(one)).is_none())
    }

    /// The rules that grant a permission, in deciding order.
    pub fn granting(&self, permission: Permission) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.permissions.contains(&permission))
    }

    /// Whether the permission is held on every container, after all rules.
    pub fn hold_everywhere(&self, permission: Permission) -> bool {
        self.permissions.contains(&permission)
    }

    /// Rights that bound these.
    pub fn bounds(&self) -> Option<&Self> {
        self.within.as_deref()
    }

    /// What whoever holds these rights may grant.
    pub fn grantor(&self) -> Grantor<'_> {
        Grantor::new(self)
    }

    /// About how many bytes they take.
    pub fn bytes(&self) -> usize {
        let rules: usize = self.rules.iter().map(Rule::bytes).sum();
        size_of::<Self>() + rules + self.within.as_ref().map_or(0, |within| within.bytes())
    }

    fn by_permission(&self, permission: Permission) -> Option<Transform> {
        self.permissions.contains(&permission).then_some(Self::implicit(permission))
    }

    /// The transform of a permission that no rule grants.
    fn implicit(permission: Permission) -> Transform {
        match permission {
            Permission::TokenUse => Transform::Reveal,
            _ => Transform::Mask,
        }
    }
}

#[cfg(test)]
mod tests;
