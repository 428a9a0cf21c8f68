//! Applications that an operator makes: the first one of a tenant, and another one where the keys of all are lost.

use super::audit::{Actor, Event};
use super::kept_application::KeptApplication;
use super::record::Entity;
use super::said::{granted, said};
use super::sealed_keys::SYSTEM_TENANT;
use super::tenants::Tenant;
use super::{Error, Vault};
use crate::crypto::api_key::ApiKey;
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::id::{ApplicationId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::{ApplicationType, Permission};
use crate::store::Expect;

/// The name of a management application that an operator makes.
pub const MANAGEMENT: &str = "Management";

/// An application that an operator made, with its key.
#[derive(Debug)]
pub struct IssuedKey {
    /// The application.
    pub application_id: ApplicationId,
    /// Its key.
    pub key: ApiKey,
}

impl Vault {
    /// Makes an application with every permission its type may hold.
    pub async fn issue_application(
        &self,
        tenant: TenantId,
        kind: ApplicationType,
        name: &str,
    ) -> Result<ApiKey, Error> {
        Ok(self.issue(tenant, kind, name).await?.key)
    }

    async fn issue(
        &self,
        tenant: TenantId,
        kind: ApplicationType,
        name: &str,
    ) -> Result<IssuedKey, Error> {
        // What belongs to no tenant has keys as well, and no applications.
        self.get::<Tenant>(SYSTEM_TENANT, &tenant.to_string()).await?;
        let (kept, key) = self.operators_application(tenant, kind, name, None);
        let mut change = self.change(tenant).await?;
        change.put(&kept, Expect::Absent)?;
        change.commit(Actor::OPERATOR, vec![created(&kept)]).await?;
        Ok(IssuedKey { application_id: kept.application.id, key })
    }

    /// Makes another management application, for an operator whose tenant has no key left that manages it.
    pub async fn issue_management_key(&self, tenant: TenantId) -> Result<IssuedKey, Error> {
        let issued = self.issue(tenant, ApplicationType::Management, MANAGEMENT).await;
        let issued = issued.map_err(|error| match error {
            // It was erased meanwhile.
            Error::TenantGone => Error::NotFound(<Tenant as Entity>::NOUN),
            other => other,
        })?;
        tracing::warn!(%tenant, application = %issued.application_id, "an operator made a management key");
        Ok(issued)
    }

    /// One with every permission that its type may hold.
    pub(super) fn operators_application(
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
}

pub fn created(kept: &KeptApplication) -> Event {
    let (entity, id) = (EntityType::Application, kept.application.id);
    let message = said("Application created", &granted(&kept.application.permissions, &[]));
    Event::done(entity, id, Operation::Create, message)
}
