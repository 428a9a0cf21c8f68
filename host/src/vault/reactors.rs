//! Reactors: formulas configured for use (interface §2.5, §4.5; decisions §7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::applications::{KeptApplication, check_name};
use super::audit::Event;
use super::formulas::{FormulaView, matches_name};
use super::index::{Index, term};
use super::page::{Page, PageRequest};
use super::permit::Permit;
use super::record::{Entity, Stored, from_json_text, json_text, kind};
use super::{Change, Error, Vault, official};
use crate::binding::configure;
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::faults::Faults;
use crate::model::formula::{Formula, Reactor};
use crate::model::id::{ApplicationId, FormulaId, ReactorId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::member::{FromJson, Member};
use crate::model::permission::ApplicationType;
use crate::model::permission::marker::{ReactorCreate, ReactorDelete, ReactorRead, ReactorUpdate};
use crate::store::{Expect, Kind};

/// A reactor, as it is kept: its configuration is sealed with the rest of it.
pub type KeptReactor = Reactor;

impl Entity for Reactor {
    const KIND: Kind = kind::REACTOR;
    const NOUN: &'static str = "reactor";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.audit.created_at.0
    }

    fn index(&self, index: &mut Index<'_>) {
        index.term(term::FORMULA, &[&self.formula_id.to_string()]);
        if let Some(application_id) = self.application_id {
            index.term(term::APPLICATION, &[&application_id.to_string()]);
        }
    }

    fn to_text(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

/// A reactor, as a response shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ReactorView {
    /// Identifies the reactor.
    id: ReactorId,
    /// The owning tenant.
    tenant_id: TenantId,
    /// A name for people.
    #[schema(max_length = 200)]
    name: String,
    /// The formula it runs, without code.
    formula: FormulaView,
    /// Values for the formula's `configuration`.
    configuration: Map<String, Value>,
    /// The application whose rights its `svc` has.
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<Application>,
    /// Who made and changed it.
    #[serde(flatten)]
    audit: Audit,
}

impl ReactorView {
    /// The reactor's id.
    pub fn id(&self) -> ReactorId {
        self.id
    }
}

/// Body of `POST /reactors`, and of `PUT /reactors/{id}`, which does not read `formula`.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct WriteReactor {
    /// A name for people.
    #[schema(value_type = String, max_length = 200, required = true)]
    #[serde(default)]
    name: Member<String>,
    /// Values for the formula's `configuration`.
    #[schema(value_type = Object, required = true)]
    #[serde(default)]
    configuration: Member<Map<String, Value>>,
    /// The formula to configure.
    #[schema(value_type = Reference, required = true)]
    #[serde(default)]
    formula: Member<Map<String, Value>>,
    /// A public or private application whose rights the reactor's `svc` has.
    #[schema(value_type = Option<Reference>)]
    #[serde(default)]
    application: Member<Map<String, Value>>,
}

/// Another entity, by its id.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reference {
    /// The entity's id.
    id: uuid::Uuid,
}

/// Name, configuration and application of a reactor, as they stand in a request.
struct Definition {
    name: String,
    configuration: Map<String, Value>,
    application_id: Option<ApplicationId>,
}

impl Vault {
    /// Configures a formula.
    pub async fn create_reactor(
        &self,
        permit: &Permit<ReactorCreate>,
        mut body: WriteReactor,
    ) -> Result<ReactorView, Error> {
        let tenant = permit.tenant();
        let mut faults = Faults::new();
        let formula = std::mem::take(&mut body.formula).required("formula", &mut faults);
        let formula_id: Option<FormulaId> =
            formula.and_then(|members| reference("formula.id", members, &mut faults));
        let definition = body.define(&mut faults);
        let mut formula = None;
        if let Some(formula_id) = formula_id {
            match self.formula(tenant, formula_id).await {
                Ok(found) => formula = Some(found),
                Err(Error::NotFound(_)) => faults.add("formula.id", "is no formula"),
                Err(error) => return Err(error),
            }
        }
        let (Some(definition), Some(formula)) = (definition, formula) else {
            return Err(faults.into());
        };
        let id = ReactorId(self.draw_id());
        let audit = Audit::created(Some(permit.actor_id()), self.now());
        let before = Reactor {
            id,
            tenant_id: tenant,
            name: String::new(),
            formula_id: formula.id,
            configuration: Map::new(),
            application_id: None,
            audit,
        };
        let (reactor, used) = self.fit(before, definition, &formula, faults).await?;
        let mut change = self.change(tenant).await?;
        change.put(&reactor, Expect::Absent)?;
        self.hold_references(&mut change, &reactor, used.as_ref()).await?;
        let event = event(id, Operation::Create, "Reactor created");
        change.commit(permit.actor(), vec![event]).await?;
        Ok(view(reactor, formula, used.map(|used| used.entity.application)))
    }

    /// Lists reactors; `name` may hold `*` for any characters.
    pub async fn list_reactors(
        &self,
        permit: &Permit<ReactorRead>,
        ids: Vec<ReactorId>,
        name: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<ReactorView>, Error> {
        let mut reactors = self.all::<Reactor>(permit.tenant()).await?;
        reactors.retain(|reactor| ids.is_empty() || ids.contains(&reactor.id));
        reactors.retain(|reactor| name.is_none_or(|name| matches_name(name, &reactor.name)));
        let page = request.cut(reactors, Entity::created_ms, Entity::id);
        let mut views = Vec::with_capacity(page.data.len());
        for reactor in &page.data {
            views.push(self.view_reactor(reactor.clone()).await?);
        }
        let read = |reactor: &Reactor| event(reactor.id, Operation::Read, "Reactor listed");
        let events = page.data.iter().map(read).collect();
        self.log(permit.tenant(), permit.actor(), events).await?;
        let mut views = views.into_iter();
        page.try_filter_map(|_| Ok(views.next()))
    }

    /// Shows a reactor.
    pub async fn find_reactor(
        &self,
        permit: &Permit<ReactorRead>,
        id: ReactorId,
    ) -> Result<ReactorView, Error> {
        let stored = self.get::<Reactor>(permit.tenant(), &id.to_string()).await?;
        let event = event(id, Operation::Read, "Reactor read");
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        self.view_reactor(stored.entity).await
    }

    /// Replaces name, configuration and application.
    pub async fn update_reactor(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: ReactorId,
        body: WriteReactor,
    ) -> Result<ReactorView, Error> {
        let tenant = permit.tenant();
        let mut faults = Faults::new();
        let definition = body.define(&mut faults);
        let Some(definition) = definition else { return Err(faults.into()) };
        let stored = self.get::<Reactor>(tenant, &id.to_string()).await?;
        let formula = self.formula(tenant, stored.entity.formula_id).await?;
        let audit = stored.entity.audit.modified(Some(permit.actor_id()), self.now());
        let before = Reactor { audit, ..stored.entity };
        let (reactor, used) = self.fit(before, definition, &formula, faults).await?;
        let mut change = self.change(tenant).await?;
        change.put(&reactor, Expect::Version(stored.version))?;
        self.hold_references(&mut change, &reactor, used.as_ref()).await?;
        let event = event(id, Operation::Update, "Reactor updated");
        change.commit(permit.actor(), vec![event]).await?;
        Ok(view(reactor, formula, used.map(|used| used.entity.application)))
    }

    /// Deletes a reactor.
    pub async fn delete_reactor(
        &self,
        permit: &Permit<ReactorDelete>,
        id: ReactorId,
    ) -> Result<(), Error> {
        let stored = self.get::<Reactor>(permit.tenant(), &id.to_string()).await?;
        let mut change = self.change(permit.tenant()).await?;
        change.remove(&stored);
        let event = event(id, Operation::Delete, "Reactor deleted");
        change.commit(permit.actor(), vec![event]).await
    }

    /// Fits a definition to its formula and application.
    async fn fit(
        &self,
        before: Reactor,
        definition: Definition,
        formula: &Formula,
        mut faults: Faults,
    ) -> Result<(Reactor, Option<Stored<KeptApplication>>), Error> {
        let Definition { name, configuration, application_id } = definition;
        let configured = configure(&Value::Object(configuration), &formula.configuration);
        let configuration = match configured {
            Ok(configuration) => configuration,
            Err(inner) => {
                faults.extend_under("", inner);
                Map::new()
            }
        };
        let application = match application_id {
            None => None,
            Some(id) => {
                match self.get::<KeptApplication>(before.tenant_id, &id.to_string()).await {
                    Ok(stored) => Some(stored),
                    Err(Error::NotFound(_)) => {
                        faults.add("application.id", "is no application");
                        None
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let management = application
            .as_ref()
            .is_some_and(|stored| stored.entity.application.kind == ApplicationType::Management);
        if management {
            faults.add("application.id", "must be a public or private application");
        }
        let reactor = Reactor { name, configuration, application_id, ..before };
        Ok(faults.into_result((reactor, application))?)
    }

    /// Writes what the reactor refers to anew, unchanged: a deletion that runs at the same time then conflicts, and no
    /// reactor is left with a formula or application that is gone.
    async fn hold_references(
        &self,
        change: &mut Change,
        reactor: &Reactor,
        application: Option<&Stored<KeptApplication>>,
    ) -> Result<(), Error> {
        if let Some(Stored { entity, version }) = application {
            change.put(entity, Expect::Version(*version))?;
        }
        if official::find(reactor.formula_id).is_none() {
            let stored = self.own_formula(change.tenant, reactor.formula_id).await?;
            change.put(&stored.entity, Expect::Version(stored.version))?;
        }
        Ok(())
    }

    async fn view_reactor(&self, reactor: Reactor) -> Result<ReactorView, Error> {
        let tenant = reactor.tenant_id;
        let formula = self.formula(tenant, reactor.formula_id).await?;
        let application = match reactor.application_id {
            None => None,
            // An application may end by its own date while reactors still name it.
            Some(id) => self.find::<KeptApplication>(tenant, &[&id.to_string()]).await?.pop(),
        };
        let application = application.flatten().map(|stored| stored.entity.application);
        Ok(view(reactor, formula, application))
    }
}

fn event(id: ReactorId, operation: Operation, message: &str) -> Event {
    Event::done(EntityType::Reactor, id, operation, message)
}

fn view(reactor: Reactor, formula: Formula, application: Option<Application>) -> ReactorView {
    ReactorView {
        id: reactor.id,
        tenant_id: reactor.tenant_id,
        name: reactor.name,
        formula,
        configuration: reactor.configuration,
        application,
        audit: reactor.audit,
    }
}

impl WriteReactor {
    fn define(self, faults: &mut Faults) -> Option<Definition> {
        let name = self.name.required("name", faults);
        if let Some(name) = &name {
            check_name(name, faults);
        }
        let configuration = self.configuration.required("configuration", faults);
        let application = self.application.optional("application", faults);
        let application_id =
            application.and_then(|members| reference("application.id", members, faults));
        Some(Definition { name: name?, configuration: configuration?, application_id })
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
