//! The secrets that webhooks are signed with (decisions §8).
//!
//! A tenant has one from the first time that anybody needs it. After a rotation the old one signs beside the new one
//! for a day, so that receivers can change over without missing a delivery.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use zeroize::Zeroize as _;

use super::audit::{Actor, Event};
use super::permit::Permit;
use super::record::{Entity, Stored, from_json_text, json_text, kind};
use super::retry::{TRIES, unless_lost};
use super::{Error, Vault};
use crate::crypto::webhook::SigningSecret;
use crate::crypto::wiped::Wiped;
use crate::limits::{OLD_SECRET_SIGNS_MS, SIGNING_SECRETS_MAX};
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::{WebhookRead, WebhookUpdate};
use crate::model::time::Timestamp;
use crate::store::{Expect, Kind};

const SECRETS_ID: &str = "secrets";

/// A secret, with which receivers check signatures.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SigningSecretView {
    /// Identifies the secret.
    id: Uuid,
    /// `whsec_` and base64, as libraries for Standard Webhooks take it. The answer to a repeated request to make one does
    /// not show it.
    #[schema(required = false, example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: String,
    /// When it was made.
    created_at: Timestamp,
    /// When it stops signing; absent for the newest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    expires_at: Option<Timestamp>,
}

impl Drop for SigningSecretView {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

/// The secrets of a tenant, newest first.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SigningSecrets {
    secrets: Vec<SigningSecretView>,
}

impl Entity for SigningSecrets {
    const KIND: Kind = kind::SIGNING_SECRETS;
    const NOUN: &'static str = "signing secret";

    fn id(&self) -> String {
        SECRETS_ID.to_owned()
    }

    fn created_ms(&self) -> u64 {
        0
    }

    fn settle(&mut self, now_ms: u64) {
        self.secrets.retain(|secret| secret.expires_at.is_none_or(|end| end.0 > now_ms));
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Vault {
    /// Shows the secrets that sign, newest first.
    pub async fn list_signing_secrets(
        &self,
        permit: &Permit<WebhookRead>,
    ) -> Result<Vec<SigningSecretView>, Error> {
        let secrets = self.secrets_of(permit.tenant()).await?.entity.secrets;
        let event = event_of(permit.tenant(), Operation::Read, "Signing secrets read");
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        Ok(secrets)
    }

    /// Makes a new secret; the one before signs for a day more. Shows all that sign.
    pub async fn rotate_signing_secret(
        &self,
        permit: &Permit<WebhookUpdate>,
    ) -> Result<Vec<SigningSecretView>, Error> {
        self.retried(TRIES, || Box::pin(self.rotate_once(permit))).await
    }

    async fn rotate_once(
        &self,
        permit: &Permit<WebhookUpdate>,
    ) -> Result<Option<Vec<SigningSecretView>>, Error> {
        let tenant = permit.tenant();
        let Stored { entity: mut kept, version } = self.secrets_of(tenant).await?;
        if kept.secrets.len() >= SIGNING_SECRETS_MAX {
            return Err(Error::Conflict("Too many secrets still sign: wait until older ones end."));
        }
        let now = self.now();
        for secret in &mut kept.secrets {
            secret.expires_at.get_or_insert(Timestamp(now.0 + OLD_SECRET_SIGNS_MS));
        }
        kept.secrets.insert(0, self.draw_secret());
        let event = event_of(tenant, Operation::Update, "Signing secret rotated");
        let mut change = self.change(tenant).await?;
        // As keys are to be changed on a full disk, so are these.
        change.batch.urgent = true;
        change.put(&kept, Expect::Version(version))?;
        permit.keep_answer(&mut change, &kept.secrets)?;
        let committed = change.try_commit(permit.actor(), vec![event]).await?;
        unless_lost(committed, kept.secrets.clone())
    }

    /// The secrets that sign now.
    pub(super) async fn signing_secrets(
        &self,
        tenant: TenantId,
    ) -> Result<Vec<SigningSecret>, Error> {
        let kept = self.secrets_of(tenant).await?.entity;
        Ok(kept.secrets.iter().map(|kept| SigningSecret::given(kept.secret.clone())).collect())
    }

    async fn secrets_of(&self, tenant: TenantId) -> Result<Stored<SigningSecrets>, Error> {
        self.retried(TRIES, || Box::pin(self.secrets_once(tenant))).await
    }

    /// The tenant's secrets; `None` when there were none and they were just made.
    async fn secrets_once(
        &self,
        tenant: TenantId,
    ) -> Result<Option<Stored<SigningSecrets>>, Error> {
        let found = self.find::<SigningSecrets>(tenant, &[SECRETS_ID]).await?;
        if let Some(stored) = found.into_iter().flatten().next() {
            return Ok(Some(stored));
        }
        let made = SigningSecrets { secrets: vec![self.draw_secret()] };
        let event = event_of(tenant, Operation::Create, "Signing secret created");
        let mut change = self.change(tenant).await?;
        // What came of runs is told on a full disk, too, and is signed with it.
        change.batch.urgent = true;
        change.put(&made, Expect::Absent)?;
        match change.try_commit(Actor::SERVER, vec![event]).await? {
            // They are read then, with their version.
            Ok(()) | Err(crate::store::StoreError::Exists { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn draw_secret(&self) -> SigningSecretView {
        SigningSecretView {
            id: self.draw_id(),
            secret: SigningSecret::draw(self.0.entropy.as_ref()).expose().to_owned(),
            created_at: self.now(),
            expires_at: None,
        }
    }
}

fn event_of(tenant: TenantId, operation: Operation, message: &str) -> Event {
    Event::done(EntityType::Webhook, tenant, operation, message)
}
