//! What requests for reactors hold: the body of `POST` and `PUT /reactors`, checked, and which of them are listed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::model::faults::Faults;
use crate::model::id::{ApplicationId, FormulaId, ReactorId};
use crate::model::member::{FromJson, Member};
use crate::model::name::check_name;
use crate::model::plaintext::opaque;

/// Which reactors are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReactorFilter {
    /// Only these, if there are any.
    pub ids: Vec<ReactorId>,
    /// Of this name, in which `*` stands for any characters.
    pub name: Option<String>,
    /// That use this formula.
    pub formula_id: Option<FormulaId>,
    /// That act as this application.
    pub application_id: Option<ApplicationId>,
}

/// Body of `POST /reactors`, and of `PUT /reactors/{id}`, which does not read `formula`.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[schema(as = CreateReactor)]
pub struct WriteReactor {
    /// A name for people.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "\\S", required = true)]
    #[serde(default)]
    name: Member<String>,
    /// Values for the formula's `configuration`.
    #[schema(value_type = HashMap<String, Value>, required = true)]
    #[serde(default)]
    configuration: Member<Map<String, Value>>,
    /// The formula to configure.
    #[schema(value_type = Reference, required = true)]
    #[serde(default)]
    formula: Member<Map<String, Value>>,
    /// A public or private application whose rights the reactor's `svc` has. Where the one before has ended, an update must
    /// name another one or `null`.
    #[schema(value_type = Option<Reference>)]
    #[serde(default)]
    application: Member<Map<String, Value>>,
}

opaque!(WriteReactor);

/// Another entity, by its id.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reference {
    /// The entity's id.
    id: uuid::Uuid,
}

/// Name, configuration and application of a reactor, as they stand in a request.
pub(super) struct Definition {
    /// Empty when the request has none, which is a fault.
    pub(super) name: String,
    /// `None` when the request has none, which is a fault.
    pub(super) configuration: Option<Map<String, Value>>,
    pub(super) application_id: Option<ApplicationId>,
    /// Whether the request says nothing of an application, not even that there is none.
    pub(super) application_is_absent: bool,
}

impl WriteReactor {
    /// The formula that a new reactor is to run.
    pub(super) fn formula_id(&mut self, faults: &mut Faults) -> Option<FormulaId> {
        let formula = std::mem::take(&mut self.formula).required("formula", faults);
        formula.and_then(|members| reference("formula.id", members, faults))
    }

    /// Checks all but the formula.
    pub(super) fn define(self, faults: &mut Faults) -> Definition {
        let name = self.name.required("name", faults);
        if let Some(name) = &name {
            check_name(name, faults);
        }
        let configuration = self.configuration.required("configuration", faults);
        let application_is_absent = matches!(self.application, Member::Absent);
        let application = self.application.optional("application", faults);
        let application_id =
            application.and_then(|members| reference("application.id", members, faults));
        let name = name.unwrap_or_default();
        Definition { name, configuration, application_id, application_is_absent }
    }
}

/// The id of `{"id": …}`.
fn reference<I>(path: &str, mut members: Map<String, Value>, faults: &mut Faults) -> Option<I>
where
    I: std::str::FromStr<Err: std::fmt::Display>,
{
    let Some(id) = members.remove("id").filter(|id| !id.is_null()) else {
        faults.add(path, "is required");
        return None;
    };
    match String::from_json(id) {
        Ok(text) => faults.check(path, text.parse()),
        Err(inner) => {
            faults.extend_under(path, inner);
            None
        }
    }
}
