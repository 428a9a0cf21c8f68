//! Reactor formulas (decisions §6): what a tenant brings, and what ships with the product.

mod component;
mod request;
mod verify;

use std::sync::Arc;

use futures::FutureExt as _;

pub(super) use component::Component;
use request::Definition;
pub use request::{Code, WriteFormula};

use super::audit::Event;
use super::index::{Index, term, term_of};
use super::names::{Named, index_name, matches_name};
use super::page::{Page, PageRequest, only_ids};
use super::permit::Permit;
use super::record::{Entity, Stored, from_json_text, json_text, kind};
use super::retry::{HOLDING_TRIES, TRIES, unless_lost};
use super::said::{of_formula, of_new_formula};
use super::{Error, Vault, official};
use crate::crypto::hash::sha256_hex;
use crate::crypto::wiped::Wiped;
use crate::model::audit::Audit;
use crate::model::formula::{Formula, FormulaStatus, FormulaType, Language, Reactor};
use crate::model::id::{FormulaId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::{ReactorCreate, ReactorDelete, ReactorRead, ReactorUpdate};
use crate::store::{Expect, Filter, Kind, Position, Removal};

/// A formula, as a response shows it.
pub type FormulaView = Formula;

impl Entity for Formula {
    const KIND: Kind = kind::FORMULA;
    const NOUN: &'static str = "formula";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.audit.created_at.0
    }

    fn index(&self, index: &mut Index<'_>) {
        index_name(index, self);
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Named for Formula {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Vault {
    /// Makes a formula of a component, which is checked and compiled first, or of a script, which is parsed.
    pub async fn create_formula(
        &self,
        permit: &Permit<ReactorCreate>,
        body: WriteFormula,
    ) -> Result<FormulaView, Error> {
        let (definition, code) = body.check_with_code()?;
        let digest = self.verify(permit, &code).await?;
        let now = self.now();
        let id = FormulaId(self.draw_id());
        let audit = Audit::created(Some(permit.actor_id()), now);
        let about = About { id, tenant: permit.tenant(), language: code.language, digest, audit };
        let formula = assemble(definition, about);
        let component = Component { formula_id: id, created_ms: now.0, bytes: code.bytes };
        let mut change = self.change(permit.tenant()).await?;
        change.put(&formula, Expect::Absent)?.put(&component, Expect::Absent)?;
        permit.keep_answer(&mut change, &formula)?;
        let event = event(id, Operation::Create, &of_new_formula(&formula));
        change.commit(permit.actor(), vec![event]).await?;
        Ok(formula)
    }

    /// Lists formulas, official ones last; `name` may hold `*` for any characters.
    pub async fn list_formulas(
        &self,
        permit: &Permit<ReactorRead>,
        ids: Vec<FormulaId>,
        name: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<FormulaView>, Error> {
        let asked = |formula: &Formula| {
            (ids.is_empty() || ids.contains(&formula.id))
                && name.is_none_or(|name| matches_name(name, &formula.name))
        };
        let official: Vec<Formula> = official::formulas().filter(&asked).collect();
        let page = match name {
            None => {
                let own = self.page(permit.tenant(), only_ids(&ids), request).await?;
                continued(own, official, request)?
            }
            Some(name) => {
                self.formulas_named(permit.tenant(), &ids, name, official, request).await?
            }
        };
        let read = |formula: &Formula| event(formula.id, Operation::Read, "Formula listed");
        let events = page.data.iter().map(read).collect();
        self.log(permit.tenant(), permit.actor(), events).await?;
        Ok(page)
    }

    /// A page of the tenant's formulas that have such a name, and of these official ones.
    async fn formulas_named(
        &self,
        tenant: TenantId,
        ids: &[FormulaId],
        name: &str,
        official: Vec<Formula>,
        request: &PageRequest,
    ) -> Result<Page<Formula>, Error> {
        let mut places = self.named::<Formula>(tenant, only_ids(ids), name).await?;
        let place = |one: &Formula| Position { order_ms: one.created_ms(), id: one.id() };
        places.extend(official.iter().map(place));
        let page = request.cut(places, |place| place.order_ms, |place| place.id.clone());
        let ids: Vec<&str> = page.data.iter().map(|place| place.id.as_str()).collect();
        let mut own = self.find::<Formula>(tenant, &ids).await?.into_iter();
        page.try_filter_map(|place| {
            let own = own.next().flatten().map(|stored| stored.entity);
            let official = || official.iter().find(|one| one.id() == place.id).cloned();
            // One that was deleted meanwhile is left out.
            Ok(own.or_else(official))
        })
    }

    /// Shows a formula.
    pub async fn find_formula(
        &self,
        permit: &Permit<ReactorRead>,
        id: FormulaId,
    ) -> Result<FormulaView, Error> {
        let formula = self.formula(permit.tenant(), id).await?;
        let event = event(id, Operation::Read, "Formula read");
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        Ok(formula)
    }

    /// Gives a formula's component, or its script.
    pub async fn find_component(
        &self,
        permit: &Permit<ReactorRead>,
        id: FormulaId,
    ) -> Result<(Language, Vec<u8>), Error> {
        let both = || self.try_find_component(permit.tenant(), id).boxed();
        let found = self.retried(HOLDING_TRIES, both).await?;
        let event = event(id, Operation::Read, "Component read");
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        Ok(found)
    }

    /// One try; `None` when either was replaced between the two looks.
    async fn try_find_component(
        &self,
        tenant: TenantId,
        id: FormulaId,
    ) -> Result<Option<(Language, Vec<u8>)>, Error> {
        let formula = self.formula(tenant, id).await?;
        let bytes = self.component(tenant, id).await?;
        let is_whole = sha256_hex(&bytes) == formula.component_digest;
        Ok(is_whole.then_some((formula.language, bytes)))
    }

    /// Replaces a formula's description, parameters and limits, and its code if the body has any.
    pub async fn update_formula(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: FormulaId,
        body: WriteFormula,
    ) -> Result<FormulaView, Error> {
        let (definition, code) = body.check()?;
        let step = || self.try_update_formula(permit, id, definition.clone(), code.clone()).boxed();
        self.retried(TRIES, step).await
    }

    /// One try; `None` when the formula was changed meanwhile.
    async fn try_update_formula(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: FormulaId,
        definition: Definition,
        code: Option<Code>,
    ) -> Result<Option<FormulaView>, Error> {
        let stored = self.own_formula(permit.tenant(), id).await?;
        let (language, digest) = match &code {
            Some(code) => (code.language, self.verify(permit, code).await?),
            None => (stored.entity.language, stored.entity.component_digest.clone()),
        };
        definition.check_for(language)?;
        let audit = stored.entity.audit.modified(Some(permit.actor_id()), self.now());
        let about = About { id, tenant: permit.tenant(), language, digest, audit };
        let formula = assemble(definition, about);
        self.replace_formula(permit, formula, stored, code).await
    }

    /// Replaces a formula's component.
    pub async fn update_component(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: FormulaId,
        bytes: Vec<u8>,
    ) -> Result<FormulaView, Error> {
        let code = Code::component(bytes);
        let step = || self.try_update_component(permit, id, code.clone()).boxed();
        self.retried(TRIES, step).await
    }

    /// One try; `None` when the formula was changed meanwhile.
    async fn try_update_component(
        &self,
        permit: &Permit<ReactorUpdate>,
        id: FormulaId,
        code: Code,
    ) -> Result<Option<FormulaView>, Error> {
        let stored = self.own_formula(permit.tenant(), id).await?;
        let component_digest = self.verify(permit, &code).await?;
        let audit = stored.entity.audit.modified(Some(permit.actor_id()), self.now());
        let language = code.language;
        let before = stored.entity.clone();
        let formula = Formula { language, component_digest, audit, ..before };
        self.replace_formula(permit, formula, stored, Some(code)).await
    }

    /// Deletes a formula that no reactor uses.
    pub async fn delete_formula(
        &self,
        permit: &Permit<ReactorDelete>,
        id: FormulaId,
    ) -> Result<(), Error> {
        self.retried(TRIES, || self.try_delete_formula(permit, id).boxed()).await
    }

    /// One try; `None` when the formula was changed meanwhile.
    async fn try_delete_formula(
        &self,
        permit: &Permit<ReactorDelete>,
        id: FormulaId,
    ) -> Result<Option<()>, Error> {
        let tenant = permit.tenant();
        let stored = self.own_formula(tenant, id).await?;
        let keys = self.keys(tenant).await?;
        let users = Filter::Term(term_of(&keys, term::FORMULA, &[&id.to_string()]));
        // A reactor that is made from now on changes the formula's version, which the removal would not find.
        self.settled_of(tenant).await?;
        if self.any::<Reactor>(tenant, &users).await? {
            return Err(Error::Conflict(
                "Reactors use this formula: GET /reactors lists them by its id as formula_id.",
            ));
        }
        let mut change = self.change(tenant).await?;
        change.remove(&stored);
        // It changes with its formula only, and is not read to be removed.
        let (kind, expect) = (Component::KIND, Expect::Any);
        change.batch.removals.push(Removal { kind, tenant, id: id.to_string(), expect });
        let event = event(id, Operation::Delete, "Formula deleted");
        let deleted = unless_lost(change.try_commit(permit.actor(), vec![event]).await?, ())?;
        self.0.programs.unused.look();
        Ok(deleted)
    }

    /// A formula that the tenant may use: its own or an official one.
    pub(super) async fn formula(&self, tenant: TenantId, id: FormulaId) -> Result<Formula, Error> {
        if let Some(official) = official::find(id) {
            return Ok(official.formula.clone());
        }
        Ok(self.get::<Formula>(tenant, &id.to_string()).await?.entity)
    }

    /// The component of a formula that the tenant may use.
    pub(super) async fn component(
        &self,
        tenant: TenantId,
        id: FormulaId,
    ) -> Result<Vec<u8>, Error> {
        if let Some(official) = official::find(id) {
            return Ok(official.component.to_vec());
        }
        // The formula is what may be missing, to whoever asks.
        let component = self.get::<Component>(tenant, &id.to_string()).await;
        let component = component.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound(Formula::NOUN),
            error => error,
        })?;
        Ok(Arc::unwrap_or_clone(component.entity.bytes))
    }

    /// A formula of the tenant's own, to be changed. Official ones are everybody's and change with the product only.
    pub(super) async fn own_formula(
        &self,
        tenant: TenantId,
        id: FormulaId,
    ) -> Result<Stored<Formula>, Error> {
        if official::find(id).is_some() {
            return Err(Error::Conflict("Official formulas are read-only."));
        }
        self.get::<Formula>(tenant, &id.to_string()).await
    }

    async fn replace_formula(
        &self,
        permit: &Permit<ReactorUpdate>,
        formula: Formula,
        Stored { entity: before, version }: Stored<Formula>,
        code: Option<Code>,
    ) -> Result<Option<Formula>, Error> {
        let mut change = self.change(permit.tenant()).await?;
        // Where it may send something is to be taken away on a full disk, too.
        change.batch.urgent = code.is_none();
        change.put(&formula, Expect::Version(version))?;
        if let Some(Code { bytes, .. }) = code {
            let created_ms = formula.audit.created_at.0;
            change.put(&Component { formula_id: formula.id, created_ms, bytes }, Expect::Any)?;
        }
        permit.keep_answer(&mut change, &formula)?;
        let event = event(formula.id, Operation::Update, &of_formula(&before, &formula));
        let replaced = unless_lost(change.try_commit(permit.actor(), vec![event]).await?, formula)?;
        self.0.programs.unused.look();
        Ok(replaced)
    }
}

/// A page of the tenant's own formulas, gone on with by the official ones, which are older than any of them.
fn continued(
    own: Page<Formula>,
    official: Vec<Formula>,
    request: &PageRequest,
) -> Result<Page<Formula>, Error> {
    if own.next.is_some() {
        return Ok(Page { total_items: own.total_items + official.len() as u64, ..own });
    }
    // These are the last of its own. Those before them stand in the row without being read: they count, they are newer
    // than the rest, and no page that comes so far shows them.
    let before = own.total_items.saturating_sub(own.data.len() as u64);
    let before = usize::try_from(before).map_err(Error::internal)?;
    let known = own.data.into_iter().chain(official).map(Some);
    let row: Vec<Option<Formula>> = std::iter::repeat_n(None, before).chain(known).collect();
    let page = request.cut(
        row,
        |entry| entry.as_ref().map_or(u64::MAX, Entity::created_ms),
        |entry| entry.as_ref().map(Entity::id).unwrap_or_default(),
    );
    page.try_filter_map(Ok)
}

fn event(id: FormulaId, operation: Operation, message: &str) -> Event {
    Event::done(EntityType::ReactorFormula, id, operation, message)
}

/// What is known of a formula beside its definition.
struct About {
    id: FormulaId,
    tenant: TenantId,
    language: Language,
    digest: String,
    audit: Audit,
}

fn assemble(definition: Definition, about: About) -> Formula {
    let About { id, tenant, language, digest, audit } = about;
    Formula {
        id,
        tenant_id: Some(tenant),
        status: FormulaStatus::Verified,
        kind: FormulaType::Private,
        name: definition.name,
        description: definition.description,
        icon: definition.icon,
        language,
        configuration: definition.configuration,
        request_parameters: definition.request_parameters,
        undeclared_arguments: definition.undeclared_arguments,
        allowed_hosts: definition.allowed_hosts,
        limits: definition.limits,
        component_digest: digest,
        audit,
    }
}
