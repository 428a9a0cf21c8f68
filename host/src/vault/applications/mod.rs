//! Applications: who may do what (interface §2.3, §4.4; decisions §2).

mod request;

use futures::FutureExt as _;
use serde::Serialize;
use utoipa::ToSchema;

use request::Definition;
pub use request::{Holder, WriteApplication, read_rights};

use super::audit::Event;
use super::authentication::Authenticated;
use super::index::term;
use super::kept_application::KeptApplication;
use super::page::{Page, PageRequest};
use super::permit::Permit;
use super::record::Stored;
use super::retry::{HOLDING_TRIES, TRIES, unless_lost};
use super::said::{granted, of_rules, others, said};
use super::{Error, Vault};
use crate::crypto::api_key::ApiKey;
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::faults::Faults;
use crate::model::formula::Reactor;
use crate::model::id::ApplicationId;
use crate::model::log::{EntityType, Operation};
use crate::model::member::Text;
use crate::model::permission::Permission;
use crate::model::permission::marker::{
    ApplicationCreate, ApplicationDelete, ApplicationRead, ApplicationUpdate,
};
use crate::model::rule::Rule;
use crate::model::time::parse_rfc3339;
use crate::store::{Expect, Filter};

/// An application and its key: shown when it is made and when its key is replaced, and never again.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApplicationWithKey {
    /// The application.
    #[serde(flatten)]
    pub application: Application,
    /// The key, for the header `SVC-API-KEY`. The answer to a repeated request does not show it again.
    #[schema(value_type = String, required = false)]
    #[serde(serialize_with = "ApiKey::in_clear")]
    pub key: ApiKey,
}

impl Vault {
    /// Makes an application and its key.
    pub async fn create_application(
        &self,
        permit: &Permit<ApplicationCreate>,
        mut body: WriteApplication,
    ) -> Result<ApplicationWithKey, Error> {
        let now = self.now();
        let mut faults = Faults::new();
        let kind = std::mem::take(&mut body.r#type).required("type", &mut faults);
        let expires_at = std::mem::take(&mut body.expires_at).optional("expires_at", &mut faults);
        let expires_at = expires_at.and_then(|text| {
            let end = faults.check("expires_at", parse_rfc3339(&text))?;
            if end <= now {
                faults.add("expires_at", "is in the past");
            }
            Some(end)
        });
        let kind = kind.map(|Text(kind)| kind);
        let definition = body.define(kind, &mut faults);
        let Some(kind) = kind else { return Err(faults.into()) };
        let definition = faults.into_result(definition)?;
        let application = Application {
            id: ApplicationId(self.draw_id()),
            tenant_id: permit.tenant(),
            name: definition.name,
            kind,
            permissions: definition.permissions,
            rules: definition.rules,
            audit: Audit::created(Some(permit.actor_id()), now),
            expires_at,
        };
        let key = ApiKey::draw(kind.key_tag(), self.0.entropy.as_ref());
        let kept = KeptApplication {
            key_hash: key.hash(self.0.keyring.pepper()),
            application: application.clone(),
        };
        let mut change = self.change(permit.tenant()).await?;
        change.put(&kept, Expect::Absent)?;
        let told =
            said("Application created", &granted(&application.permissions, &application.rules));
        let event = event(application.id, Operation::Create, &told);
        let made = ApplicationWithKey { application, key };
        permit.keep_answer(&mut change, &made)?;
        change.commit(permit.actor(), vec![event]).await?;
        Ok(made)
    }

    /// Lists applications, of these ids if any are given.
    pub async fn list_applications(
        &self,
        permit: &Permit<ApplicationRead>,
        ids: Vec<ApplicationId>,
        request: &PageRequest,
    ) -> Result<Page<Application>, Error> {
        let filter = super::page::only_ids(&ids);
        let page = self.page::<KeptApplication>(permit.tenant(), filter, request).await?;
        let page = page.map(|kept| kept.application);
        let read = |application: &Application| {
            event(application.id, Operation::Read, "Application listed")
        };
        let events = page.data.iter().map(read).collect();
        self.log(permit.tenant(), permit.actor(), events).await?;
        Ok(page)
    }

    /// Shows an application.
    pub async fn find_application(
        &self,
        permit: &Permit<ApplicationRead>,
        id: ApplicationId,
    ) -> Result<Application, Error> {
        let kept = self.get::<KeptApplication>(permit.tenant(), &id.to_string()).await?;
        let event = event(id, Operation::Read, "Application read");
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        Ok(kept.entity.application)
    }

    /// Shows the caller to itself, which needs no permission.
    pub async fn find_own_application(&self, who: &Authenticated) -> Result<Application, Error> {
        let application = who.caller().application.clone();
        let event = event(application.id, Operation::Read, "Application read by its key");
        self.log(application.tenant_id, who.caller().actor(), vec![event]).await?;
        Ok(application)
    }

    /// Replaces name, permissions and rules.
    pub async fn update_application(
        &self,
        permit: &Permit<ApplicationUpdate>,
        id: ApplicationId,
        body: WriteApplication,
    ) -> Result<Application, Error> {
        let step = || self.try_update_application(permit, id, body.clone()).boxed();
        self.retried(TRIES, step).await
    }

    /// One try; `None` when the application was changed meanwhile.
    async fn try_update_application(
        &self,
        permit: &Permit<ApplicationUpdate>,
        id: ApplicationId,
        body: WriteApplication,
    ) -> Result<Option<Application>, Error> {
        // The kind decides which permissions fit; without the application only the rest can be checked.
        let stored = self.get::<KeptApplication>(permit.tenant(), &id.to_string()).await;
        let kind = stored.as_ref().ok().map(|stored| stored.entity.application.kind);
        let mut faults = Faults::new();
        let definition = body.define(kind, &mut faults);
        let itself = permit.actor_id() == id.0;
        let keeps = definition.permissions.contains(&Permission::ApplicationUpdate);
        if itself && !keeps && !faults.concern("permissions") {
            faults.add("permissions", "an application cannot remove its own application:update");
        }
        let Definition { name, permissions, rules } = faults.into_result(definition)?;
        let stored = stored?;
        let before = stored.entity.application;
        let audit = before.audit.modified(Some(permit.actor_id()), self.now());
        let told = updated(&before, (&name, &permissions, &rules));
        let application = Application { name, permissions, rules, audit, ..before };
        let kept = KeptApplication { application, ..stored.entity };
        let event = event(id, Operation::Update, &told);
        self.replace_application(permit, kept, stored.version, event).await
    }

    /// Gives the application a new key; the old one is void at once.
    pub async fn regenerate_key(
        &self,
        permit: &Permit<ApplicationUpdate>,
        id: ApplicationId,
    ) -> Result<ApplicationWithKey, Error> {
        self.retried(HOLDING_TRIES, || self.try_regenerate_key(permit, id).boxed()).await
    }

    /// One try; `None` when the application was changed meanwhile.
    async fn try_regenerate_key(
        &self,
        permit: &Permit<ApplicationUpdate>,
        id: ApplicationId,
    ) -> Result<Option<ApplicationWithKey>, Error> {
        let stored = self.get::<KeptApplication>(permit.tenant(), &id.to_string()).await?;
        let Stored { entity: KeptApplication { application, .. }, version } = stored;
        let key = ApiKey::draw(application.kind.key_tag(), self.0.entropy.as_ref());
        let audit = application.audit.modified(Some(permit.actor_id()), self.now());
        let application = Application { audit, ..application };
        let key_hash = key.hash(self.0.keyring.pepper());
        let kept = KeptApplication { application, key_hash };
        let event = event(id, Operation::Update, "Application key regenerated");
        let replaced = self.replace_application(permit, kept, version, event).await?;
        Ok(replaced.map(|application| ApplicationWithKey { application, key }))
    }

    /// Deletes an application, its key with it.
    pub async fn delete_application(
        &self,
        permit: &Permit<ApplicationDelete>,
        id: ApplicationId,
    ) -> Result<(), Error> {
        self.retried(TRIES, || self.try_delete_application(permit, id).boxed()).await
    }

    /// One try; `None` when the application was changed meanwhile.
    async fn try_delete_application(
        &self,
        permit: &Permit<ApplicationDelete>,
        id: ApplicationId,
    ) -> Result<Option<()>, Error> {
        let stored = self.get::<KeptApplication>(permit.tenant(), &id.to_string()).await?;
        if permit.actor_id() == id.0 {
            return Err(Error::Conflict("An application cannot delete itself."));
        }
        let keys = self.keys(permit.tenant()).await?;
        let users = super::index::term_of(&keys, term::APPLICATION, &[&id.to_string()]);
        // A reactor that is made from now on changes the application's version, which the removal would not find.
        self.settled_of(permit.tenant()).await?;
        if self.any::<Reactor>(permit.tenant(), &Filter::Term(users)).await? {
            return Err(Error::Conflict(
                "Reactors act as this application: GET /reactors lists them by its id as application_id.",
            ));
        }
        let mut change = self.change(permit.tenant()).await?;
        change.remove(&stored);
        let event = event(id, Operation::Delete, "Application deleted");
        let committed = change.try_commit(permit.actor(), vec![event]).await?;
        self.0.callers.forget_all();
        unless_lost(committed, ())
    }

    async fn replace_application(
        &self,
        permit: &Permit<ApplicationUpdate>,
        kept: KeptApplication,
        version: u64,
        event: Event,
    ) -> Result<Option<Application>, Error> {
        let mut change = self.change(permit.tenant()).await?;
        // Rights and keys are to be taken away on a full disk, too.
        change.batch.urgent = true;
        change.put(&kept, Expect::Version(version))?;
        // A new key is shown once: what is kept of either answer is the application.
        permit.keep_answer(&mut change, &kept.application)?;
        let committed = change.try_commit(permit.actor(), vec![event]).await?;
        self.0.callers.forget_all();
        unless_lost(committed, kept.application)
    }
}

fn event(id: ApplicationId, operation: Operation, message: &str) -> Event {
    Event::done(EntityType::Application, id, operation, message)
}

/// What the log says of an update: whoever looks into who could do what needs no copies from before.
fn updated(
    before: &Application,
    (name, permissions, rules): (&str, &[Permission], &[Rule]),
) -> String {
    let lacking = |some: &[Permission], others: &[Permission]| -> Vec<String> {
        some.iter().filter(|one| !others.contains(one)).map(ToString::to_string).collect()
    };
    let mut changes = Vec::new();
    for (what, some) in [
        ("granted", lacking(permissions, &before.permissions)),
        ("withdrawn", lacking(&before.permissions, permissions)),
    ] {
        if !some.is_empty() {
            changes.push(format!("{what} {}", some.join(", ")));
        }
    }
    changes.extend(of_rules(&before.rules, rules));
    changes.extend(others(&[("name", name != before.name)]));
    said("Application updated", &changes)
}
