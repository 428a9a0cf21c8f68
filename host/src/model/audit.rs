//! Who made and last changed an entity, and when (interface §2.1).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::time::Timestamp;

/// The audit fields of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// Who made it; absent when the command line did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub created_by: Option<Uuid>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who changed it last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub modified_by: Option<Uuid>,
    /// When it was last changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub modified_at: Option<Timestamp>,
}

impl Audit {
    /// The fields of something new.
    pub fn created(by: Option<Uuid>, at: Timestamp) -> Self {
        Self { created_by: by, created_at: at, modified_by: None, modified_at: None }
    }

    /// The fields after a change.
    pub fn modified(&self, by: Option<Uuid>, at: Timestamp) -> Self {
        Self { modified_by: by, modified_at: Some(at), ..self.clone() }
    }
}
