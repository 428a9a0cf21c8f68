//! Applications: who calls, and with which rights (interface §2.3).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::audit::Audit;
use super::id::{ApplicationId, TenantId};
use super::permission::{ApplicationType, Permission};
use super::rule::{Rights, Rule};
use super::time::Timestamp;

/// An application, as it is kept and shown. Its key is neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Application {
    /// Identifies the application.
    pub id: ApplicationId,
    /// The owning tenant.
    pub tenant_id: TenantId,
    /// A name for people.
    #[schema(max_length = 200)]
    pub name: String,
    /// Which permissions it may hold.
    #[serde(rename = "type")]
    pub kind: ApplicationType,
    /// Rights on every container, last in priority.
    #[schema(example = json!(["token:create", "token:use"]))]
    pub permissions: Vec<Permission>,
    /// Access rules.
    pub rules: Vec<Rule>,
    /// Who made and changed it.
    #[serde(flatten)]
    pub audit: Audit,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
}

impl Application {
    /// What it may do.
    pub fn rights(&self) -> Rights {
        Rights::new(self.permissions.clone(), self.rules.clone())
    }

    /// Whether it has ended.
    pub fn expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}
