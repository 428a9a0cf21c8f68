//! What a caller sees of a token. The one way from [`Token`] to a response.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Token;
use crate::expression::Mask;
use crate::model::audit::Audit;
use crate::model::container::Container;
use crate::model::id::TenantId;
use crate::model::rule::Transform;
use crate::model::time::Timestamp;
use crate::vault::{Error, Vault};

/// A token as one caller sees it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokenView {
    /// Identifies the token.
    id: String,
    /// The owning tenant.
    tenant_id: TenantId,
    /// The token type.
    r#type: String,
    /// The data as the caller's rule shows it: in plaintext, masked, or absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// The mask expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Value>,
    /// Equal for equal contents of one type in one tenant.
    fingerprint: String,
    /// Where the token lies.
    #[schema(value_type = Vec<String>)]
    containers: Vec<Container>,
    /// Non-sensitive notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<BTreeMap<String, String>>,
    /// The index expressions the token was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    search_indexes: Option<Vec<String>>,
    /// The fingerprint expression the token was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint_expression: Option<String>,
    /// Whether the token was to be deduplicated.
    #[serde(skip_serializing_if = "Option::is_none")]
    deduplicate_token: Option<bool>,
    /// When the token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Who made and changed it.
    #[serde(flatten)]
    audit: Audit,
}

impl TokenView {
    /// The token's id.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Vault {
    /// Shapes a token for a caller with this transform.
    pub(in crate::vault) fn show(
        &self,
        token: &Token,
        transform: Transform,
    ) -> Result<TokenView, Error> {
        let about = token.about.clone();
        Ok(TokenView {
            id: about.id,
            tenant_id: about.tenant_id,
            r#type: about.type_name,
            data: self.shown_data(token, transform)?,
            mask: about.mask,
            fingerprint: about.fingerprint,
            containers: about.containers,
            metadata: about.metadata,
            search_indexes: about.search_indexes,
            fingerprint_expression: about.fingerprint_expression,
            deduplicate_token: about.deduplicate_token,
            expires_at: about.expires_at,
            audit: about.audit,
        })
    }

    /// A token's data under a transform.
    pub(in crate::vault) fn shown_data(
        &self,
        token: &Token,
        transform: Transform,
    ) -> Result<Option<Value>, Error> {
        match (transform, &token.about.mask) {
            (Transform::Reveal, _) => Ok(Some(token.data.expose().clone())),
            (Transform::Mask, Some(mask)) => {
                // It was evaluated when it was written; that it cannot be now would be a fault of ours.
                let mask = Mask::parse(mask).map_err(Error::internal)?;
                let entropy = self.0.entropy.as_ref();
                mask.evaluate(token.data.expose(), entropy).map(Some).map_err(Error::internal)
            }
            (Transform::Redact, _) | (Transform::Mask, None) => Ok(None),
        }
    }
}
