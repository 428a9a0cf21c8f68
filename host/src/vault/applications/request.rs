//! The body of `POST` and `PUT /applications`, checked.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, RULES_MAX};
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::member::{FromJson, Member, Text};
use crate::model::permission::{ApplicationType, Permission};
use crate::model::rule::{Rule, Transform};

/// Body of `POST /applications`, and of `PUT /applications/{id}`, which reads neither `type` nor `expires_at`.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct WriteApplication {
    /// A name for people.
    #[schema(value_type = String, max_length = 200, example = "checkout backend", required = true)]
    #[serde(default)]
    name: Member<String>,
    /// Which permissions it may hold.
    #[schema(value_type = Option<ApplicationType>)]
    #[serde(default)]
    pub(super) r#type: Member<Text<ApplicationType>>,
    /// Rights on every container, last in priority.
    #[schema(value_type = Option<Vec<String>>, example = json!(["token:create", "token:use"]))]
    #[serde(default)]
    permissions: Member<Vec<String>>,
    /// Access rules.
    #[schema(value_type = Option<Vec<Rule>>)]
    #[serde(default)]
    rules: Member<Vec<Value>>,
    /// When it ends, RFC 3339.
    #[schema(value_type = Option<String>)]
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
    /// Checks name, permissions and rules, for an application of this kind if it is known.
    pub(super) fn define(
        self,
        kind: Option<ApplicationType>,
        faults: &mut Faults,
    ) -> Option<Definition> {
        let name = self.name.required("name", faults);
        if let Some(name) = &name {
            check_name(name, faults);
        }
        let names = self.permissions.optional("permissions", faults).unwrap_or_default();
        let permissions = read_permissions("permissions", &names, kind, faults);
        let rules = self.rules.optional("rules", faults).unwrap_or_default();
        let no_rights = names.is_empty() && rules.is_empty();
        if no_rights && !faults.concern("permissions") && !faults.concern("rules") {
            faults.add("permissions", "is empty, and so is rules: at least one must not be");
        }
        let rules = read_rules(rules, kind, faults);
        Some(Definition { name: name?, permissions, rules })
    }
}

/// Faults of a name of an application, reactor or formula.
pub fn check_name(name: &str, faults: &mut Faults) {
    if name.trim().is_empty() {
        faults.add("name", "must not be empty");
    }
    if name.chars().count() > NAME_CHARS_MAX {
        faults.add("name", format!("must have at most {NAME_CHARS_MAX} characters"));
    }
}

fn read_permissions(
    path: &str,
    names: &[String],
    kind: Option<ApplicationType>,
    faults: &mut Faults,
) -> Vec<Permission> {
    let mut permissions = Vec::with_capacity(names.len().min(Permission::ALL.len()));
    for (index, name) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        match name.parse::<Permission>() {
            Err(error) => faults.add(path, format!("{} {error}", quoted(name))),
            Ok(permission) if kind.is_some_and(|kind| !permission.holders().contains(&kind)) => {
                let kind = kind.map_or("", ApplicationType::as_str);
                faults.add(path, format!("{permission} cannot be held by {kind} applications"));
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

fn read_rules(values: Vec<Value>, kind: Option<ApplicationType>, faults: &mut Faults) -> Vec<Rule> {
    if values.len() > RULES_MAX {
        faults.add("rules", format!("must be at most {RULES_MAX}"));
        return Vec::new();
    }
    if kind == Some(ApplicationType::Management) && !values.is_empty() {
        faults.add("rules", "cannot be held by management applications");
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let mut inner = Faults::new();
        let rule = read_rule(value, kind, &mut inner);
        if let Some(rule) = rule {
            if rules.iter().any(|other| other.priority == rule.priority) {
                inner.add("priority", "is another rule's priority too");
            }
            rules.push(rule);
        }
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
    conditions: Member<Value>,
    transform: Member<Text<Transform>>,
    permissions: Member<Vec<String>>,
}

fn read_rule(value: Value, kind: Option<ApplicationType>, faults: &mut Faults) -> Option<Rule> {
    let value = faults.check("", Map::from_json(value))?;
    let body: WriteRule = faults.check("", crate::model::member::read(Value::Object(value)))?;
    let description = body.description.optional("description", faults);
    if description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        faults.add("description", "is too long");
    }
    let priority = body.priority.required("priority", faults);
    if priority == Some(0) {
        faults.add("priority", "must be at least 1");
    }
    if matches!(body.conditions, Member::Given(_) | Member::Faulty(_)) {
        faults.add("conditions", "are for sessions only; give a container");
    }
    let container = body.container.required_text("container", faults);
    let transform = body.transform.required_text("transform", faults);
    let names = body.permissions.required("permissions", faults)?;
    if names.is_empty() {
        faults.add("permissions", "must not be empty");
    }
    let permissions = read_permissions("permissions", &names, kind, faults);
    for (index, permission) in permissions.iter().enumerate() {
        if !permission.as_str().starts_with("token:") {
            faults.add(format!("permissions[{index}]"), "cannot be granted by a rule");
        }
    }
    Some(Rule {
        description,
        priority: priority?,
        container: container?,
        transform: transform?,
        permissions,
    })
}
