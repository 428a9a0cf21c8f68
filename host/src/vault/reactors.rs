//! Reactors: formulas configured for use (interface §2.5, §4.5; decisions §7).

mod request;

use std::collections::BTreeSet;

use futures::FutureExt as _;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use request::Definition;
pub use request::{ReactorFilter, WriteReactor};

use super::audit::Event;
use super::index::{Index, term, term_of};
use super::kept_application::KeptApplication;
use super::names::{Named, index_name};
use super::page::{Page, PageRequest, only_ids};
use super::permit::Permit;
use super::record::{Entity, Stored, from_json_text, json_text, kind};
use super::retry::{HOLDING_TRIES, TRIES, unless_lost};
use super::said::{of_new_reactor, of_reactor};
use super::{Error, Vault, official};
use crate::binding::configure;
use crate::crypto::wiped::Wiped;
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::faults::Faults;
use crate::model::formula::{Configuration, Formula, Reactor};
use crate::model::id::{ApplicationId, FormulaId, ReactorId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::{ReactorCreate, ReactorDelete, ReactorRead, ReactorUpdate};
use crate::model::permission::{ApplicationType, Grant};
use crate::model::plaintext::opaque;
use crate::store::{Expect, Filter, Kind};

// As it is kept: its configuration is sealed with the rest of it.
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
        index_name(index, self);
        if let Some(application_id) = self.application_id {
            index.term(term::APPLICATION, &[&application_id.to_string()]);
        }
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Named for Reactor {
    fn name(&self) -> &str {
        &self.name
    }
}

/// A reactor, as a response shows it.
#[derive(Clone, Serialize, ToSchema)]
pub struct ReactorView {
    /// Identifies the reactor.
    id: ReactorId,
    /// The owning tenant.
    tenant_id: TenantId,
    /// A name for people.
    #[schema(max_length = 200)]
    name: String,
    /// The formula it runs, without code.
    formula: Formula,
    /// Values for the formula's `configuration`.
    #[schema(value_type = Map<String, Value>)]
    configuration: Configuration,
    /// The id of the application whose rights its `svc` has, also once that has ended, with which nothing is run any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    application_id: Option<ApplicationId>,
    /// That application; absent where it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<Application>,
    /// Who made and changed it.
    #[serde(flatten)]
    audit: Audit,
}

opaque!(ReactorView);

impl ReactorView {
    /// The reactor's id.
    pub fn id(&self) -> ReactorId {
        self.id
    }
}

/// What a reactor refers to, as it was read.
struct Referred {
    formula: Formula,
    /// Absent of an official formula, which nobody deletes.
    formula_version: Option<u64>,
    application: Option<Stored<KeptApplication>>,
}

impl Vault {
    /// Configures a formula.
    pub async fn create_reactor(
        &self,
        permit: &Permit<ReactorCreate>,
        body: WriteReactor,
    ) -> Result<ReactorView, Error> {
        let step = || self.try_create_reactor(permit, body.clone()).boxed();
        self.retried(HOLDING_TRIES, step).await
    }

    /// One try; `None` when the formula or the application was changed meanwhile.
    async fn try_create_reactor(
        &self,
        permit: &Permit<ReactorCreate>,
        mut body: WriteReactor,
    ) -> Result<Option<ReactorView>, Error> {
        let tenant = permit.tenant();
        let mut faults = Faults::new();
        let formula_id = body.formula_id(&mut faults);
        let definition = body.define(&mut faults);
        let mut formula = None;
        if let Some(formula_id) = formula_id {
            match self.formula_to_hold(tenant, formula_id).await {
                Ok(found) => formula = Some(found),
                Err(Error::NotFound(_)) => faults.add("formula.id", "is no formula"),
                Err(error) => return Err(error),
            }
        }
        let application_id = definition.application_id;
        let application = self.application_to_hold(tenant, application_id, &mut faults).await?;
        let Some((formula, formula_version)) = formula else { return Err(faults.into()) };
        let before = Reactor {
            id: ReactorId(self.draw_id()),
            tenant_id: tenant,
            name: String::new(),
            formula_id: formula.id,
            configuration: Configuration::default(),
            application_id: None,
            audit: Audit::created(Some(permit.actor_id()), self.now()),
        };
        let reactor = fitted(before, definition, &formula, faults)?;
        let event = event(reactor.id, Operation::Create, &of_new_reactor(&reactor));
        let referred = Referred { formula, formula_version, application };
        self.keep_reactor(permit, reactor, Expect::Absent, referred, event).await
    }

    /// Lists reactors.
    pub async fn list_reactors(
        &self,
        permit: &Permit<ReactorRead>,
        wanted: ReactorFilter,
        request: &PageRequest,
    ) -> Result<Page<ReactorView>, Error> {
        let tenant = permit.tenant();
        let keys = self.keys(tenant).await?;
        let formula = wanted.formula_id.map(|id| (term::FORMULA, id.to_string()));
        let application = wanted.application_id.map(|id| (term::APPLICATION, id.to_string()));
        let used = [formula, application].into_iter().flatten();
        let used = used.map(|(term, id)| Filter::Term(term_of(&keys, term, &[&id])));
        let filter = Filter::And(used.chain([only_ids(&wanted.ids)]).collect());
        let page = match wanted.name.as_deref() {
            None => self.page::<Reactor>(tenant, filter, request).await?,
            Some(name) => {
                let places = self.named::<Reactor>(tenant, filter, name).await?;
                let page = request.cut(places, |place| place.order_ms, |place| place.id.clone());
                let ids: Vec<&str> = page.data.iter().map(|place| place.id.as_str()).collect();
                let mut found = self.find::<Reactor>(tenant, &ids).await?.into_iter();
                // One that was deleted meanwhile is left out.
                page.try_filter_map(|_| Ok(found.next().flatten().map(|stored| stored.entity)))?
            }
        };
        let mut views = Vec::with_capacity(page.data.len());
        for reactor in &page.data {
            views.push(match self.view_reactor(reactor.clone()).await {
                // It was deleted since the page was read, and its formula after it.
                Err(Error::NotFound(_)) => None,
                view => Some(view?),
            });
        }
        let read = |view: &ReactorView| event(view.id, Operation::Read, "Reactor listed");
        let mut events: Vec<Event> = views.iter().flatten().map(read).collect();
        events.extend(of_applications(views.iter().flatten()));
        self.log(permit.tenant(), permit.actor(), events).await?;
        let mut views = views.into_iter();
        page.try_filter_map(|_| Ok(views.next().flatten()))
    }

    /// Shows a reactor.
    pub async fn find_reactor(
        &self,
        permit: &Permit<ReactorRead>,
        id: ReactorId,
    ) -> Result<ReactorView, Error> {
        let stored = self.get::<Reactor>(permit.tenant(), &id.to_string()).await?;
        let view = self.view_reactor(stored.entity).await?;
        let mut events = vec![event(id, Operation::Read, "Reactor read")];
        events.extend(of_applications([&view]));
        self.log(permit.tenant(), permit.actor(), events).await?;
        Ok(view)
    }

    /// Replaces name, configuration and application.
    pub async fn update_reactor(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: ReactorId,
        body: WriteReactor,
    ) -> Result<ReactorView, Error> {
        let step = || self.try_update_reactor(permit, id, body.clone()).boxed();
        self.retried(HOLDING_TRIES, step).await
    }

    /// One try; `None` when the reactor, its formula or its application was changed meanwhile.
    async fn try_update_reactor(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: ReactorId,
        body: WriteReactor,
    ) -> Result<Option<ReactorView>, Error> {
        let tenant = permit.tenant();
        let mut faults = Faults::new();
        let definition = body.define(&mut faults);
        let is_faulty = !faults.is_empty();
        let application_id = definition.application_id;
        let application = self.application_to_hold(tenant, application_id, &mut faults).await?;
        let stored = match self.get::<Reactor>(tenant, &id.to_string()).await {
            // What is wrong with the body comes before what is not there.
            Err(Error::NotFound(_)) if is_faulty => return Err(faults.into()),
            found => found?,
        };
        let acts_as = self.reactors_application(&stored.entity).await;
        if definition.application_is_absent && matches!(acts_as, Err(Error::ApplicationEnded)) {
            // It is shown without one, and saved so it would run with every caller's own rights.
            faults.add("application", "has ended: name another one, or null for none");
        }
        let formula_id = stored.entity.formula_id;
        let (formula, formula_version) = self.formula_to_hold(tenant, formula_id).await?;
        let audit = stored.entity.audit.modified(Some(permit.actor_id()), self.now());
        let before = Reactor { audit, ..stored.entity };
        let reactor = fitted(before.clone(), definition, &formula, faults)?;
        let event = event(id, Operation::Update, &of_reactor(&before, &reactor));
        let referred = Referred { formula, formula_version, application };
        let expect = Expect::Version(stored.version);
        self.keep_reactor(permit, reactor, expect, referred, event).await
    }

    /// Deletes a reactor.
    pub async fn delete_reactor(
        &self,
        permit: &Permit<ReactorDelete>,
        id: ReactorId,
    ) -> Result<(), Error> {
        self.retried(TRIES, || self.try_delete_reactor(permit, id).boxed()).await
    }

    /// One try; `None` when the reactor was changed meanwhile.
    async fn try_delete_reactor(
        &self,
        permit: &Permit<ReactorDelete>,
        id: ReactorId,
    ) -> Result<Option<()>, Error> {
        let stored = self.get::<Reactor>(permit.tenant(), &id.to_string()).await?;
        let mut change = self.change(permit.tenant()).await?;
        change.remove(&stored);
        let event = event(id, Operation::Delete, "Reactor deleted");
        unless_lost(change.try_commit(permit.actor(), vec![event]).await?, ())
    }

    /// The application whose rights a reactor is to have, if its definition names one.
    async fn application_to_hold(
        &self,
        tenant: TenantId,
        id: Option<ApplicationId>,
        faults: &mut Faults,
    ) -> Result<Option<Stored<KeptApplication>>, Error> {
        let Some(id) = id else { return Ok(None) };
        let stored = match self.get::<KeptApplication>(tenant, &id.to_string()).await {
            Err(Error::NotFound(_)) => {
                faults.add("application.id", "is no application");
                return Ok(None);
            }
            found => found?,
        };
        if stored.entity.application.kind == ApplicationType::Management {
            faults.add("application.id", "must be a public or private application");
        }
        Ok(Some(stored))
    }

    /// A formula that a reactor is to run, with the version of one that may be changed or deleted meanwhile.
    async fn formula_to_hold(
        &self,
        tenant: TenantId,
        id: FormulaId,
    ) -> Result<(Formula, Option<u64>), Error> {
        if let Some(official) = official::find(id) {
            return Ok((official.formula.clone(), None));
        }
        let stored = self.own_formula(tenant, id).await?;
        Ok((stored.entity, Some(stored.version)))
    }

    /// Stores a reactor. What it refers to is written anew, unchanged: a deletion that runs at the same time then
    /// conflicts, and no reactor is left with a formula or application that is gone.
    async fn keep_reactor<P: Grant>(
        &self,
        permit: &Permit<P>,
        reactor: Reactor,
        expect: Expect,
        referred: Referred,
        event: Event,
    ) -> Result<Option<ReactorView>, Error> {
        let Referred { formula, formula_version, application } = referred;
        let mut change = self.change(reactor.tenant_id).await?;
        // A reactor's rights are to be taken away on a full disk, too, and its configuration to be changed.
        change.batch.urgent = !expect.is_absent();
        change.put(&reactor, expect)?;
        if let Some(Stored { entity, version }) = &application {
            change.put(entity, Expect::Version(*version))?;
        }
        if let Some(version) = formula_version {
            change.put(&formula, Expect::Version(version))?;
        }
        let application = application.map(|stored| stored.entity.application);
        let view = view(reactor, formula, application);
        permit.keep_answer(&mut change, &view)?;
        let events = std::iter::once(event).chain(of_applications([&view])).collect();
        unless_lost(change.try_commit(permit.actor(), events).await?, view)
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

/// What the log tells of the applications that reactors are shown with, each once.
fn of_applications<'v>(views: impl IntoIterator<Item = &'v ReactorView>) -> Vec<Event> {
    let shown = views.into_iter().filter_map(|view| view.application.as_ref());
    let ids: BTreeSet<ApplicationId> = shown.map(|application| application.id).collect();
    let message = "Application shown with a reactor";
    let read = |id| Event::done(EntityType::Application, id, Operation::Read, message);
    ids.into_iter().map(read).collect()
}

/// The reactor as its definition has it, with the configuration that its formula declares.
fn fitted(
    before: Reactor,
    definition: Definition,
    formula: &Formula,
    mut faults: Faults,
) -> Result<Reactor, Faults> {
    let Definition { name, configuration, application_id, .. } = definition;
    // One that is no object has no entries to be named.
    let configuration = configuration
        .and_then(|given| faults.take("", configure(&Value::Object(given), &formula.configuration)))
        .map_or_else(Configuration::default, Configuration::from);
    faults.into_result(Reactor { name, configuration, application_id, ..before })
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
        application_id: reactor.application_id,
        application,
        audit: reactor.audit,
    }
}
