//! The body of `POST` and `PUT /applications`, checked.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::limits::{
    CONDITIONS_MAX, DESCRIPTION_CHARS_MAX, FAULTS_MAX, RULES_MAX, TOKEN_ID_CHARS_MAX,
};
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::member::{FromJson, Member, Text};
use crate::model::name::check_name;
use crate::model::permission::{ApplicationType, Permission};
use crate::model::rule::{
    Attribute, Condition, ContainerRule, Operator, PRIORITY_MAX, Rule, Transform,
};

/// Body of `POST /applications`, and of `PUT /applications/{id}`, which reads neither `type` nor `expires_at`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = CreateApplication)]
pub struct WriteApplication {
    /// A name for people.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "\\S", required = true)]
    #[serde(default)]
    name: Member<String>,
    /// Which permissions it may hold.
    #[schema(value_type = ApplicationType, required = true)]
    #[serde(default)]
    pub(super) r#type: Member<Text<ApplicationType>>,
    /// Rights on every container, last in priority.
    #[schema(value_type = Option<Vec<Permission>>)]
    #[serde(default)]
    permissions: Member<Vec<Value>>,
    /// Access rules.
    #[schema(value_type = Option<Vec<ContainerRule>>, max_items = 100)]
    #[serde(default)]
    rules: Member<Vec<Value>>,
    /// When it ends, RFC 3339. No update changes that.
    #[schema(value_type = Option<String>, pattern = "^[0-9]")]
    #[serde(default)]
    pub(super) expires_at: Member<String>,
}

/// Name, permissions and rules of an application.
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) permissions: Vec<Permission>,
    pub(super) rules: Vec<Rule>,
}

impl WriteApplication {
    /// Checks name, permissions and rules, for an application of this kind if it is known. What is faulty has a fault, and
    /// something else in its place or is left out.
    pub(super) fn define(self, kind: Option<ApplicationType>, faults: &mut Faults) -> Definition {
        let name = self.name.required("name", faults);
        if let Some(name) = &name {
            check_name(name, faults);
        }
        let holder = kind.map_or(Holder::Unknown, Holder::Application);
        let (permissions, rules) = read_rights(self.permissions, self.rules, holder, faults);
        Definition { name: name.unwrap_or_default(), permissions, rules }
    }
}

/// Who is to hold permissions and rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// An application of this type.
    Application(ApplicationType),
    /// An application that does not exist: its type cannot be checked.
    Unknown,
    /// A session.
    Session,
}

impl Holder {
    fn may_hold(self, permission: Permission) -> bool {
        match self {
            Self::Application(kind) => permission.holders().contains(&kind),
            Self::Unknown => true,
            // What a private application may hold, which is whose rights a session gets.
            Self::Session => permission.holders().contains(&ApplicationType::Private),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Application(ApplicationType::Private) => "private applications",
            Self::Application(ApplicationType::Public) => "public applications",
            Self::Application(ApplicationType::Management) => "management applications",
            Self::Unknown => "this application",
            Self::Session => "sessions",
        }
    }
}

/// Reads `permissions` and `rules`, at least one of which must not be empty.
pub fn read_rights(
    permissions: Member<Vec<Value>>,
    rules: Member<Vec<Value>>,
    holder: Holder,
    faults: &mut Faults,
) -> (Vec<Permission>, Vec<Rule>) {
    let names = permissions.optional("permissions", faults).unwrap_or_default();
    let permissions = read_permissions(&names, holder, |_| true, faults);
    let rules = rules.optional("rules", faults).unwrap_or_default();
    let no_rights = names.is_empty() && rules.is_empty();
    if no_rights && !faults.concern("permissions") && !faults.concern("rules") {
        faults.add("permissions", "is empty, and so is rules: at least one must not be");
    }
    (permissions, read_rules(rules, holder, faults))
}

fn read_permissions(
    names: &[Value],
    holder: Holder,
    may_be_granted: impl Fn(Permission) -> bool,
    faults: &mut Faults,
) -> Vec<Permission> {
    let mut permissions = Vec::with_capacity(names.len().min(Permission::ALL.len()));
    for (index, name) in names.iter().enumerate() {
        let path = format!("permissions[{index}]");
        let Some(name) = name.as_str() else {
            faults.add(path, "must be a string");
            continue;
        };
        match name.parse::<Permission>() {
            Err(error) => faults.add(path, format!("{} {error}", quoted(name))),
            Ok(permission) if !holder.may_hold(permission) => {
                let message = format!("{permission} cannot be held by {}", holder.noun());
                faults.add(path, message);
            }
            Ok(permission) if !may_be_granted(permission) => {
                faults.add(path, "cannot be granted by a rule");
            }
            Ok(permission) if permissions.contains(&permission) => {}
            Ok(permission) => permissions.push(permission),
        }
    }
    permissions
}

/// A name from a request, cut to a length that fits a message.
fn quoted(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("\"{shown}\"")
}

fn read_rules(mut values: Vec<Value>, holder: Holder, faults: &mut Faults) -> Vec<Rule> {
    if values.len() > RULES_MAX {
        faults.add("rules", format!("must have at most {RULES_MAX} entries"));
        values.truncate(FAULTS_MAX);
    }
    if holder == Holder::Application(ApplicationType::Management) && !values.is_empty() {
        faults.add("rules", "cannot be held by management applications");
    }
    let mut rules = Vec::with_capacity(values.len());
    let mut priorities = HashSet::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let mut inner = Faults::new();
        rules.extend(read_rule(value, holder, &mut priorities, &mut inner));
        faults.extend_under(&format!("rules[{index}]"), inner);
    }
    rules
}

/// An access rule as it stands in a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WriteRule {
    description: Member<String>,
    priority: Member<u32>,
    container: Member<Text<Container>>,
    conditions: Member<Vec<Value>>,
    transform: Member<Text<Transform>>,
    permissions: Member<Vec<Value>>,
}

/// Reads a rule, whose priority is none of those before it. They are looked at whatever else is wrong with a rule.
fn read_rule(
    value: Value,
    holder: Holder,
    priorities: &mut HashSet<u32>,
    faults: &mut Faults,
) -> Option<Rule> {
    let value = faults.take("", Map::from_json(value))?;
    let body: WriteRule = faults.take("", crate::model::member::read(Value::Object(value)))?;
    let description = body.description.optional("description", faults);
    if description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        let message = format!("must have at most {DESCRIPTION_CHARS_MAX} characters");
        faults.add("description", message);
    }
    let priority = body.priority.required("priority", faults);
    if let Some(priority) = priority {
        if !(1..=PRIORITY_MAX).contains(&priority) {
            faults.add("priority", format!("must be a whole number from 1 to {PRIORITY_MAX}"));
        } else if !priorities.insert(priority) {
            faults.add("priority", "is another rule's priority too");
        }
    }
    let (container, conditions) = read_scope(body.container, body.conditions, holder, faults);
    let transform = body.transform.required_text("transform", faults);
    let names = body.permissions.required("permissions", faults)?;
    if names.is_empty() {
        faults.add("permissions", "must not be empty");
    }
    let on_tokens = |permission: Permission| permission.as_str().starts_with("token:");
    let permissions = read_permissions(&names, holder, on_tokens, faults);
    Some(Rule {
        description,
        priority: priority?,
        container,
        conditions,
        transform: transform?,
        permissions,
    })
}

/// What a rule covers: a container, or for sessions conditions instead.
fn read_scope(
    container: Member<Text<Container>>,
    conditions: Member<Vec<Value>>,
    holder: Holder,
    faults: &mut Faults,
) -> (Option<Container>, Option<Vec<Condition>>) {
    let has_conditions = conditions.is_there();
    if holder != Holder::Session {
        if has_conditions {
            faults.add("conditions", "are for sessions only; give a container");
        }
        // Of a rule that cannot be at all, nothing is missing.
        let container = if holder == Holder::Application(ApplicationType::Management) {
            container.optional("container", faults).map(|Text(container)| container)
        } else {
            container.required_text("container", faults)
        };
        return (container, None);
    }
    let has_container = container.is_there();
    match (has_container, has_conditions) {
        (true, true) => faults.add("conditions", "cannot be combined with container"),
        (false, false) => faults.add("conditions", "is required, unless there is a container"),
        _ => {}
    }
    let container = container.optional("container", faults).map(|Text(container)| container);
    let conditions = conditions.optional("conditions", faults);
    (container, conditions.map(|values| read_conditions(values, faults)))
}

/// A condition as it stands in a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WriteCondition {
    attribute: Member<Text<Attribute>>,
    operator: Member<Text<Operator>>,
    value: Member<String>,
}

fn read_conditions(mut values: Vec<Value>, faults: &mut Faults) -> Vec<Condition> {
    if values.is_empty() || values.len() > CONDITIONS_MAX {
        faults.add("conditions", format!("must have 1 to {CONDITIONS_MAX} entries"));
        values.truncate(FAULTS_MAX);
    }
    let mut conditions = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let mut inner = Faults::new();
        conditions.extend(read_condition(value, &mut inner));
        faults.extend_under(&format!("conditions[{index}]"), inner);
    }
    conditions
}

fn read_condition(value: Value, faults: &mut Faults) -> Option<Condition> {
    let value = faults.take("", Map::from_json(value))?;
    let body: WriteCondition = faults.take("", crate::model::member::read(Value::Object(value)))?;
    let attribute = body.attribute.required_text("attribute", faults);
    let operator = body.operator.required_text("operator", faults);
    let value = body.value.required("value", faults);
    let value = value.and_then(|value| read_compared(value, attribute, faults));
    Some(Condition { attribute: attribute?, operator: operator?, value: value? })
}

/// What an attribute is compared with; whatever is wrong with the rest of the condition.
fn read_compared(
    value: String,
    attribute: Option<Attribute>,
    faults: &mut Faults,
) -> Option<String> {
    if value.is_empty() {
        faults.add("value", "must not be empty");
        return None;
    }
    match attribute {
        // As containers are kept: in lower case, whole segments.
        Some(Attribute::Container) => {
            let container = value.parse::<Container>();
            let container =
                container.map_err(|reason| format!("must be a whole container: it {reason}"));
            faults.check("value", container).map(|container| container.to_string())
        }
        Some(Attribute::Id) if value.chars().count() > TOKEN_ID_CHARS_MAX => {
            faults.add("value", format!("must have at most {TOKEN_ID_CHARS_MAX} characters"));
            None
        }
        _ => Some(value),
    }
}
