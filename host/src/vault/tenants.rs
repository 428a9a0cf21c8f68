//! Tenants, made at the command line and never over HTTP (decisions §2, §9): these operations act for the operator, hence no
//! permits. A tenant sees and changes its own settings over HTTP, with one.

use std::collections::HashMap;

use futures::FutureExt as _;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::audit::{Actor, Event};
use super::operators::{MANAGEMENT, created};
use super::permit::Permit;
use super::record::{Entity, from_json_text, json_text, kind};
use super::retry::{TRIES, unless_lost};
use super::said::of_tenant;
use super::sealed_keys::SYSTEM_TENANT;
use super::{Change, Error, Vault};
use crate::crypto::api_key::ApiKey;
use crate::crypto::wiped::Wiped;
use crate::limits::{CVC_RETENTION_MINUTES_DEFAULT, CVC_RETENTION_MINUTES_MAX};
use crate::model::faults::Faults;
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::model::member::{FromJson as _, Member};
use crate::model::name::check_name;
use crate::model::permission::ApplicationType;
use crate::model::permission::marker::{TenantRead, TenantUpdate};
use crate::model::time::Timestamp;
use crate::store::{Batch, Expect, Filter, Kind, StoreError};

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// Identifies the tenant.
    pub id: TenantId,
    /// A name for people.
    pub name: String,
    /// What it has set.
    #[serde(default)]
    pub settings: TenantSettings,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who changed it last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub modified_by: Option<Uuid>,
    /// When it was last changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub modified_at: Option<Timestamp>,
}

/// What a tenant sets for itself (decisions §2, §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantSettings {
    /// Whether tokens are deduplicated that do not say.
    pub deduplicate_tokens: bool,
    /// How long a card's `cvc` stays, in minutes.
    #[schema(minimum = 1, maximum = 1440)]
    pub cvc_retention_minutes: u32,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self { deduplicate_tokens: false, cvc_retention_minutes: CVC_RETENTION_MINUTES_DEFAULT }
    }
}

/// Body of `PUT /tenants/self`. A setting that is absent goes back to its default.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct UpdateTenant {
    /// A name for people.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "\\S", required = true)]
    #[serde(default)]
    name: Member<String>,
    /// Settings.
    #[schema(value_type = Option<WriteTenantSettings>)]
    #[serde(default)]
    settings: Member<Map<String, Value>>,
}

/// Settings in a request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only the description reads it")]
struct WriteTenantSettings {
    /// Whether tokens are deduplicated that do not say (see `deduplicate_token`); not, where this is absent.
    deduplicate_tokens: Option<bool>,
    /// How long a card's `cvc` stays, in minutes; 60, where this is absent.
    #[schema(minimum = 1, maximum = 1440)]
    cvc_retention_minutes: Option<u32>,
}

/// Settings at hand with the versions of their tenants, so that making a token reads no tenant.
pub type SettingsCache = RwLock<HashMap<TenantId, (u64, TenantSettings)>>;

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

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Vault {
    /// Makes the first tenant of a vault that never had one (decisions §9). Whoever erased the last one wants no other, with
    /// a key that had come to its end.
    pub async fn bootstrap(&self, key: Option<ApiKey>) -> Result<Option<NewTenant>, Error> {
        // The log above tenants begins with the first that is erased, and no log is forgotten.
        let heads = self.0.store.chain_heads()?;
        if heads.iter().any(|head| head.tenant == SYSTEM_TENANT) {
            return Ok(None);
        }
        self.with_a_tenant(key).await
    }

    /// Makes a tenant, unless there is one.
    pub async fn with_a_tenant(&self, key: Option<ApiKey>) -> Result<Option<NewTenant>, Error> {
        if !self.tenants().await?.is_empty() {
            return Ok(None);
        }
        self.ensure_system_tenant().await?;
        // An application of a tenant that was erased may have had this key.
        self.remove_erased().await?;
        self.create_tenant("Default", key).await.map(Some)
    }

    /// Makes a tenant, its keys, and an application with all management permissions, in one commit: a tenant that
    /// nobody can enter never comes to be.
    pub async fn create_tenant(
        &self,
        name: &str,
        management_key: Option<ApiKey>,
    ) -> Result<NewTenant, Error> {
        check_tenant_name(name)?;
        self.ensure_system_tenant().await?;
        // Its keys are to be wrapped by the root key that counts when they are stored.
        let _one = self.0.keyring.operating.lock().await;
        let id = TenantId(self.draw_id());
        let tenant = Tenant {
            id,
            name: name.to_owned(),
            settings: TenantSettings::default(),
            created_at: self.now(),
            modified_by: None,
            modified_at: None,
        };
        let (keys, keys_put) = self.0.keyring.draw_tenant(id, self.0.entropy.as_ref())?;
        let mut above = self.change(SYSTEM_TENANT).await?;
        above.put(&tenant, Expect::Absent)?;
        let mut change =
            Change { vault: self.clone(), tenant: id, keys, batch: above.batch, answer: None };
        change.batch.puts.push(keys_put);
        let kind = ApplicationType::Management;
        let (application, key) = self.operators_application(id, kind, MANAGEMENT, management_key);
        change.put(&application, Expect::Absent)?;
        let made = Event::done(EntityType::Tenant, id, Operation::Create, "Tenant created");
        change.commit(Actor::OPERATOR, vec![made, created(&application)]).await?;
        Ok(NewTenant { tenant, management_key: key })
    }

    /// Every tenant, newest first.
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Error> {
        self.ensure_system_tenant().await?;
        self.all(SYSTEM_TENANT, &Filter::All).await
    }

    /// Shows the caller's tenant.
    pub async fn find_own_tenant(&self, permit: &Permit<TenantRead>) -> Result<Tenant, Error> {
        let id = permit.tenant().to_string();
        let stored = self.get::<Tenant>(SYSTEM_TENANT, &id).await?;
        let event = Event::done(EntityType::Tenant, id, Operation::Read, "Tenant read");
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        Ok(stored.entity)
    }

    /// Changes the caller's tenant.
    pub async fn update_own_tenant(
        &self,
        permit: &Permit<TenantUpdate>,
        body: UpdateTenant,
    ) -> Result<Tenant, Error> {
        let (name, settings) = body.check()?;
        self.retried(TRIES, || self.try_update_tenant(permit, name.clone(), settings).boxed()).await
    }

    /// One try; `None` when the tenant was changed meanwhile.
    async fn try_update_tenant(
        &self,
        permit: &Permit<TenantUpdate>,
        name: String,
        settings: TenantSettings,
    ) -> Result<Option<Tenant>, Error> {
        let id = permit.tenant().to_string();
        let stored = self.get::<Tenant>(SYSTEM_TENANT, &id).await?;
        let before = (stored.entity.name.as_str(), stored.entity.settings);
        let told = of_tenant(before, (&name, settings));
        let tenant = Tenant {
            name,
            settings,
            modified_by: Some(permit.actor_id()),
            modified_at: Some(self.now()),
            ..stored.entity
        };
        // The record is the system's, its log entry the tenant's: one commit holds both.
        let mut above = self.change(SYSTEM_TENANT).await?;
        above.put(&tenant, Expect::Version(stored.version))?;
        let mut change = self.change(permit.tenant()).await?;
        change.batch = above.batch;
        permit.keep_answer(&mut change, &tenant)?;
        let event = Event::done(EntityType::Tenant, id, Operation::Update, told);
        let committed = change.try_commit(permit.actor(), vec![event]).await?;
        if committed.is_ok() {
            // Read anew: who seals it anew meanwhile counts its version on too.
            match self.get::<Tenant>(SYSTEM_TENANT, &tenant.id.to_string()).await {
                Ok(now) => {
                    self.remember_settings(permit.tenant(), now.version, now.entity.settings);
                }
                // Whoever asks next reads it.
                Err(_) => drop(self.0.settings.write().remove(&permit.tenant())),
            }
        }
        unless_lost(committed, tenant)
    }

    /// A tenant's settings.
    pub(super) async fn settings(&self, tenant: TenantId) -> Result<TenantSettings, Error> {
        if let Some((_, settings)) = self.0.settings.read().get(&tenant) {
            return Ok(*settings);
        }
        let stored = self.get::<Tenant>(SYSTEM_TENANT, &tenant.to_string()).await?;
        Ok(self.remember_settings(tenant, stored.version, stored.entity.settings))
    }

    /// Remembers settings, unless somebody has remembered newer ones meanwhile; gives the newest.
    fn remember_settings(
        &self,
        tenant: TenantId,
        version: u64,
        settings: TenantSettings,
    ) -> TenantSettings {
        let mut remembered = self.0.settings.write();
        let newest = remembered.entry(tenant).or_insert((version, settings));
        if newest.0 < version {
            *newest = (version, settings);
        }
        newest.1
    }

    /// What belongs to no tenant is sealed with keys of its own, made at first need.
    async fn ensure_system_tenant(&self) -> Result<(), Error> {
        match self.keys(SYSTEM_TENANT).await {
            Err(Error::NotFound(_)) => {}
            known => return known.map(drop),
        }
        let entropy = self.0.entropy.as_ref();
        let (_, put) = self.0.keyring.draw_tenant(SYSTEM_TENANT, entropy)?;
        match self.0.store.commit(Batch { puts: vec![put], ..Batch::default() }).await {
            // Somebody else made them meanwhile: theirs are the keys.
            Err(StoreError::Exists { .. }) => Ok(()),
            made => Ok(made?),
        }
    }
}

/// Refuses what is no name of a new tenant.
pub fn check_tenant_name(name: &str) -> Result<(), Error> {
    let mut faults = Faults::new();
    check_name(name, &mut faults);
    // Who makes tenants reads their names in a terminal, where a line is one name.
    if name.chars().any(char::is_control) {
        faults.add("name", "must have no control characters");
    }
    Ok(faults.into_result(())?)
}

impl UpdateTenant {
    fn check(self) -> Result<(String, TenantSettings), Faults> {
        let mut faults = Faults::new();
        let name = self.name.required("name", &mut faults);
        if let Some(name) = &name {
            check_name(name, &mut faults);
        }
        let mut settings = TenantSettings::default();
        for (member, value) in self.settings.optional("settings", &mut faults).unwrap_or_default() {
            let path = format!("settings.{member}");
            match (member.as_str(), value) {
                (_, Value::Null) => {}
                ("deduplicate_tokens", value) => {
                    let given = faults.take(&path, bool::from_json(value));
                    settings.deduplicate_tokens = given.unwrap_or_default();
                }
                ("cvc_retention_minutes", value) => {
                    let given = faults.take(&path, u32::from_json(value));
                    let given = given.unwrap_or(CVC_RETENTION_MINUTES_DEFAULT);
                    if !(1..=CVC_RETENTION_MINUTES_MAX).contains(&given) {
                        let range =
                            format!("must be a whole number from 1 to {CVC_RETENTION_MINUTES_MAX}");
                        faults.add(&path, range);
                    }
                    settings.cvc_retention_minutes = given;
                }
                _ => {}
            }
        }
        faults.into_result((name.unwrap_or_default(), settings))
    }
}
