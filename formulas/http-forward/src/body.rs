//! The body of the request: the template filled, or the arguments; as JSON or as a form.

use tokamak_sdk::{Faults, Map, Value, http};

use crate::settings::{ContentType, Sending, Source};
use crate::template::{Scope, Template};

/// What is sent.
pub(crate) enum Body {
    None,
    Json(Value),
    Form(Vec<(String, String)>),
}

impl Body {
    /// The request with this body.
    pub(crate) fn put_into(self, request: http::Request) -> http::Request {
        match self {
            Self::None => request,
            Self::Json(value) => request.json(&value),
            Self::Form(fields) => request.form(&fields),
        }
    }
}

/// Makes the body; notes every placeholder that stands for nothing.
pub(crate) fn render(sending: &Sending, scope: &Scope, faults: &mut Faults) -> Option<Body> {
    let (value, member) = match sending.body.as_ref()? {
        Source::Template(template) => {
            let text = template.as_str().and_then(Template::parse);
            let place = text.as_ref().and_then(Template::whole);
            // Where all of it is a placeholder, what stands there is to blame.
            let member = place.map_or("configuration.body_template", |place| &place.path);
            let value = fill(template, scope, faults);
            let may_be_absent = place.is_some_and(|place| place.optional);
            (if may_be_absent { value.unwrap_or_default() } else { value? }, member.to_owned())
        }
        Source::Args => (scope.args().clone(), "args".to_owned()),
        Source::Nothing => return Some(Body::None),
    };
    match sending.content_type? {
        ContentType::Json => Some(Body::Json(value)),
        ContentType::Form => {
            let mut fields = Vec::new();
            let members = match value {
                Value::Object(members) => Some(members),
                _ => None,
            };
            for (name, value) in faults.expect(members, &member, "must be an object, for a form")? {
                flatten(name, value, &mut fields);
            }
            Some(Body::Form(fields))
        }
    }
}

/// The template with its texts filled; none when it is a placeholder that may stand for nothing and does.
fn fill(template: &Value, scope: &Scope, faults: &mut Faults) -> Option<Value> {
    match template {
        Value::String(text) => fill_text(text, scope, faults),
        Value::Array(items) => {
            let filled = items.iter().filter_map(|item| fill(item, scope, faults));
            Some(Value::Array(filled.collect()))
        }
        Value::Object(members) => {
            let filled: Map<_, _> = members
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), fill(value, scope, faults)?)))
                .collect();
            Some(Value::Object(filled))
        }
        other => Some(other.clone()),
    }
}

fn fill_text(text: &str, scope: &Scope, faults: &mut Faults) -> Option<Value> {
    let template = faults.expect(
        Template::parse(text),
        "configuration.body_template",
        "must have placeholders that are closed and name members of args, configuration or invocation",
    )?;
    let Some(place) = template.whole() else {
        return template.render(scope, faults, |text| Ok(text.to_owned())).map(Value::String);
    };
    let value = scope.value(place).cloned();
    if value.is_none() && !place.optional {
        faults.add(place.path.as_str(), "is required");
    }
    value
}

/// A member as fields of a form: `card[number]`, `items[0]`. Null is no field.
fn flatten(name: String, value: Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::String(text) => fields.push((name, text)),
        Value::Array(items) => {
            for (index, item) in items.into_iter().enumerate() {
                flatten(format!("{name}[{index}]"), item, fields);
            }
        }
        Value::Object(members) => {
            for (member, value) in members {
                flatten(format!("{name}[{member}]"), value, fields);
            }
        }
        scalar => fields.push((name, scalar.to_string())),
    }
}
