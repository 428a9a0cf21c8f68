//! What a caller sees of a token. The one way from [`Token`] to a response.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{About, Token};
use crate::expression::Mask;
use crate::limits::EXPRESSION_WORK_BYTES_MAX;
use crate::model::audit::Audit;
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::id::TenantId;
use crate::model::plaintext::opaque;
use crate::model::rule::Transform;
use crate::model::time::Timestamp;
use crate::vault::effort::{unless_crowded, with_effort};
use crate::vault::{Error, Vault};

/// A token as one caller sees it.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub struct TokenView {
    /// Identifies the token.
    id: String,
    /// The owning tenant.
    tenant_id: TenantId,
    /// The token type.
    #[schema(value_type = crate::token_type::TokenType)]
    r#type: String,
    /// The data as the caller's rule shows it: in plaintext, masked, or absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// The mask expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Value>,
    /// Equal for equal contents of one type in one tenant, of which `100` and `100.0` are two.
    fingerprint: String,
    /// Where the token lies.
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
    #[schema(value_type = TokenAudit)]
    audit: Option<Audit>,
    /// What the answer says beside the token.
    #[serde(rename = "_extras", skip_serializing_if = "Option::is_none")]
    extras: Option<Extras>,
    /// How its data is shown here, where the caller may see more than the outline.
    #[serde(skip)]
    shown: Option<Transform>,
}

opaque!(TokenView);

/// Who made and changed a token; absent when the caller may not read it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only the description reads it")]
struct TokenAudit {
    /// Who made it; absent when the command line did, too.
    created_by: Option<Uuid>,
    /// When it was made.
    created_at: Option<Timestamp>,
    /// Who changed it last.
    modified_by: Option<Uuid>,
    /// When it was last changed.
    modified_at: Option<Timestamp>,
}

/// What an answer says beside the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Extras {
    /// The token was there before: nothing was stored.
    deduplicated: bool,
}

impl TokenView {
    fn new(about: About, data: Option<Value>, transform: Transform) -> Self {
        Self {
            id: about.id,
            tenant_id: about.tenant_id,
            r#type: about.type_name,
            data,
            mask: about.mask,
            fingerprint: about.fingerprint,
            containers: about.containers,
            metadata: about.metadata,
            search_indexes: about.search_indexes,
            fingerprint_expression: about.fingerprint_expression,
            deduplicate_token: about.deduplicate_token,
            expires_at: about.expires_at,
            audit: Some(about.audit),
            extras: None,
            shown: Some(transform),
        }
    }

    /// The least that can be said of a token, for a caller who may not read it (decisions §3).
    pub(super) fn outline(about: &About) -> Self {
        let About { id, tenant_id, type_name, fingerprint, containers, .. } = about;
        Self::outline_of(id, *tenant_id, type_name, (fingerprint, containers))
    }

    /// The same of one that is shown already.
    pub(super) fn in_outline(&self) -> Self {
        let Self { id, tenant_id, r#type, fingerprint, containers, extras, .. } = self;
        let outline = Self::outline_of(id, *tenant_id, r#type, (fingerprint, containers));
        Self { extras: *extras, ..outline }
    }

    fn outline_of(
        id: &str,
        tenant_id: TenantId,
        type_name: &str,
        (fingerprint, containers): (&str, &[Container]),
    ) -> Self {
        Self {
            id: id.to_owned(),
            tenant_id,
            r#type: type_name.to_owned(),
            data: None,
            mask: None,
            fingerprint: fingerprint.to_owned(),
            containers: containers.to_vec(),
            metadata: None,
            search_indexes: None,
            fingerprint_expression: None,
            deduplicate_token: None,
            expires_at: None,
            audit: None,
            extras: None,
            shown: None,
        }
    }

    /// The same view of a token that was there before.
    #[must_use]
    pub(super) fn deduplicated(self) -> Self {
        Self { extras: Some(Extras { deduplicated: true }), ..self }
    }

    /// Whether the token was there before.
    pub fn is_deduplicated(&self) -> bool {
        self.extras.is_some()
    }

    /// The token's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How it is shown, and who made and changed it when. Nothing of one that is shown in outline.
    pub(super) fn shown(&self) -> Option<(Transform, &Audit)> {
        self.shown.zip(self.audit.as_ref())
    }
}

impl Vault {
    /// Shapes a token for a caller with this transform. A mask that is slow is evaluated as the caller sees to it
    /// ([`crate::vault::effort`]).
    pub(in crate::vault) fn show(&self, token: &Token, transform: Transform) -> TokenView {
        TokenView::new(token.about.clone(), self.shown_data(token, transform), transform)
    }

    /// As [`Self::show`], when it is its turn.
    pub(in crate::vault) async fn show_in_turn(
        &self,
        token: &Token,
        transform: Transform,
    ) -> Result<TokenView, Error> {
        unless_crowded(token.about.tenant_id, || self.show(token, transform)).await
    }

    /// As [`Self::show_in_turn`], of a token that nobody needs any more.
    pub(in crate::vault) async fn show_last(
        &self,
        token: Token,
        transform: Transform,
    ) -> Result<TokenView, Error> {
        let shown = || self.shown_data(&token, transform);
        let data = unless_crowded(token.about.tenant_id, shown).await?;
        Ok(TokenView::new(token.about, data, transform))
    }

    /// A token's data under a transform; as [`Self::show`] where the mask is slow.
    pub(in crate::vault) fn shown_data(
        &self,
        token: &Token,
        transform: Transform,
    ) -> Option<Value> {
        match (transform, &token.about.mask) {
            (Transform::Reveal, _) => Some(token.data.expose().clone()),
            (Transform::Mask, Some(mask)) => {
                let mut faults = Faults::new();
                let mask = Mask::read(mask, &mut faults);
                if !faults.is_empty() {
                    tracing::error!(
                        "a mask that was stored cannot be read, and hides what it would show"
                    );
                }
                // All of it could be evaluated when it was written, but an expression may want a member that was erased
                // since, or refuse what it drew this time. That hides nothing of the others.
                with_effort(EXPRESSION_WORK_BYTES_MAX, |work| {
                    mask.evaluate_in_part(token.data.expose(), self.0.entropy.as_ref(), work)
                })
            }
            (Transform::Redact, _) | (Transform::Mask, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use uuid::Uuid;

    use super::TokenView;
    use crate::model::id::TenantId;
    use crate::vault::tokens::outline::OUTLINE;

    #[test]
    fn an_outline_has_the_members_that_are_left_of_an_answer() {
        let tenant = TenantId(Uuid::from_u128(7));
        let view = TokenView::outline_of("one", tenant, "token", ("f", &[])).deduplicated();
        let Value::Object(members) = serde_json::to_value(&view).unwrap() else { panic!() };
        let mut names: Vec<&str> = members.keys().map(String::as_str).collect();
        let mut left = OUTLINE;
        names.sort_unstable();
        left.sort_unstable();
        assert_eq!(names, left);
        // And so has one of which nothing else may be kept.
        assert_eq!(serde_json::to_value(view.in_outline()).unwrap(), Value::Object(members));
        assert!(view.shown().is_none());
    }
}
