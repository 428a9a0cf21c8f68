//! Tenants, made at the command line and never over HTTP (decisions §2, §9).
//!
//! These operations act for the operator: hence no permits.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::applications::KeptApplication;
use super::audit::{Actor, Event};
use super::index::{Index, number};
use super::keyring::SYSTEM_TENANT;
use super::page::PageRequest;
use super::record::{Entity, from_json_text, json_text, kind};
use super::{Change, Error, Vault};
use crate::crypto::api_key::ApiKey;
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::id::{ApplicationId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::{ApplicationType, Permission};
use crate::model::time::Timestamp;
use crate::store::{Batch, Expect, Filter, Kind};

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Identifies the tenant.
    pub id: TenantId,
    /// A name for people.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A tenant just made, with the one way into it.
#[derive(Debug)]
pub struct NewTenant {
    /// The tenant.
    pub tenant: Tenant,
    /// The key of its management application.
    pub management_key: ApiKey,
}

impl Entity for Tenant {
    const KIND: Kind = kind::TENANT;
    const NOUN: &'static str = "tenant";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.created_at.0
    }

    fn index(&self, index: &mut Index<'_>) {
        index.number(number::CREATED_AT, self.created_at.0);
    }

    fn to_text(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Vault {
    /// Makes the first tenant, unless there is one (decisions §9).
    pub async fn bootstrap(&self, key: Option<ApiKey>) -> Result<Option<NewTenant>, Error> {
        if !self.tenants().await?.is_empty() {
            return Ok(None);
        }
        self.create_tenant("Default", key).await.map(Some)
    }

    /// Makes a tenant, its keys, and an application with all management permissions, in one commit: a tenant that
    /// nobody can enter never comes to be.
    pub async fn create_tenant(
        &self,
        name: &str,
        management_key: Option<ApiKey>,
    ) -> Result<NewTenant, Error> {
        self.ensure_system_tenant().await?;
        let id = TenantId(self.draw_id());
        let tenant = Tenant { id, name: name.to_owned(), created_at: self.now() };
        let (keys, keys_put) = self.0.keyring.draw_tenant(id, self.0.entropy.as_ref())?;
        let mut above = self.change(SYSTEM_TENANT).await?;
        above.put(&tenant, Expect::Absent)?;
        let mut change = Change { vault: self.clone(), tenant: id, keys, batch: above.batch };
        change.batch.puts.push(keys_put);
        let kind = ApplicationType::Management;
        let (application, key) = self.operators_application(id, kind, "Management", management_key);
        change.put(&application, Expect::Absent)?;
        let made = Event::done(EntityType::Tenant, id, Operation::Create, "Tenant created");
        change.commit(Actor::OPERATOR, vec![made, created(&application)]).await?;
        Ok(NewTenant { tenant, management_key: key })
    }

    /// Makes an application with every permission its type may hold.
    pub async fn issue_application(
        &self,
        tenant: TenantId,
        kind: ApplicationType,
        name: &str,
    ) -> Result<ApiKey, Error> {
        let (application, key) = self.operators_application(tenant, kind, name, None);
        let mut change = self.change(tenant).await?;
        change.put(&application, Expect::Absent)?;
        change.commit(Actor::OPERATOR, vec![created(&application)]).await?;
        Ok(key)
    }

    /// Every tenant, newest first.
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Error> {
        self.ensure_system_tenant().await?;
        let mut request = PageRequest::first();
        let mut tenants = Vec::new();
        loop {
            let page = self.page::<Tenant>(SYSTEM_TENANT, Filter::All, &request).await?;
            tenants.extend(page.data);
            match page.next.and_then(|cursor| PageRequest::following(&cursor)) {
                Some(next) => request = next,
                None => return Ok(tenants),
            }
        }
    }

    fn operators_application(
        &self,
        tenant: TenantId,
        kind: ApplicationType,
        name: &str,
        key: Option<ApiKey>,
    ) -> (KeptApplication, ApiKey) {
        let key = key.unwrap_or_else(|| ApiKey::draw(kind.key_tag(), self.0.entropy.as_ref()));
        let held = Permission::ALL.iter().copied().filter(|held| held.holders().contains(&kind));
        let application = Application {
            id: ApplicationId(self.draw_id()),
            tenant_id: tenant,
            name: name.to_owned(),
            kind,
            permissions: held.collect(),
            rules: Vec::new(),
            audit: Audit::created(None, self.now()),
            expires_at: None,
        };
        let key_hash = key.hash(self.0.keyring.pepper());
        (KeptApplication { application, key_hash }, key)
    }

    /// What belongs to no tenant is sealed with keys of its own, made at first need.
    async fn ensure_system_tenant(&self) -> Result<(), Error> {
        match self.keys(SYSTEM_TENANT).await {
            Err(Error::NotFound(_)) => {}
            known => return known.map(drop),
        }
        let entropy = self.0.entropy.as_ref();
        let (_, put) = self.0.keyring.draw_tenant(SYSTEM_TENANT, entropy)?;
        Ok(self.0.store.commit(Batch { puts: vec![put], removals: Vec::new() }).await?)
    }
}

fn created(kept: &KeptApplication) -> Event {
    let (entity, id) = (EntityType::Application, kept.application.id);
    Event::done(entity, id, Operation::Create, "Application created")
}
