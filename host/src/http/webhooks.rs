//! `/webhooks` (decisions §8).

use axum::extract::State as Shared;

use super::State;
use super::body::NoMembers;
use super::declared::Refusals;
use super::envelope::Reply;
use super::extract::Permitted;
use super::problem::Rejection;
use crate::model::permission::marker::{WebhookRead, WebhookUpdate};
use crate::vault::SigningSecretView;

/// Show the secrets that webhooks are signed with, newest first.
#[utoipa::path(get, operation_id = "list_signing_secrets", path = "/webhooks/signing-secrets", tag = "webhooks",
    responses((status = 200, description = "The secrets that sign now", body = Vec<SigningSecretView>), Refusals))]
pub async fn list(
    Permitted(permit): Permitted<WebhookRead>,
    Shared(state): Shared<State>,
) -> Result<Reply<Vec<SigningSecretView>>, Rejection> {
    Ok(Reply(state.vault.list_signing_secrets(&permit).await?))
}

/// Make a new signing secret; the one before signs beside it for 24 hours.
#[utoipa::path(post, operation_id = "rotate_signing_secret", path = "/webhooks/signing-secrets/rotate", tag = "webhooks",
    responses((status = 200, description = "The secrets that sign now", body = Vec<SigningSecretView>), Refusals))]
pub async fn rotate(
    Permitted(permit): Permitted<WebhookUpdate>,
    Shared(state): Shared<State>,
    _: NoMembers,
) -> Result<Reply<Vec<SigningSecretView>>, Rejection> {
    Ok(Reply(state.vault.rotate_signing_secret(&permit).await?))
}
