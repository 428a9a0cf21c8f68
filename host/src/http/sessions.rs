//! `/sessions` (decisions §2).

use axum::extract::State as Shared;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::State;
use super::body::{Body, NoMembers};
use super::declared::Refusals;
use super::envelope::Reply;
use super::extract::{ClaimedKey, Grantor, Opener};
use super::problem::Rejection;
use crate::vault::{AuthorizeSession, NewSession, SessionView};

/// Open a session, with a public application's key.
///
/// The session may do nothing until a private application authorizes it by its nonce. When it ends then, and what it may do,
/// is told to whoever authorizes it, and to nobody else.
#[utoipa::path(post, operation_id = "create_session", path = "/sessions", tag = "sessions",
    responses((status = 201, description = "The session's key and nonce", body = NewSession), Refusals))]
pub async fn create(
    Opener(who): Opener,
    Shared(state): Shared<State>,
    claimed: ClaimedKey,
    _: NoMembers,
) -> Result<Response, Rejection> {
    // A session has no address of its own: whoever holds the key is the session.
    let session = state.vault.create_session(&who, claimed.claim()).await?;
    state.rates.note_issued(&session.session_key);
    let mut response = Reply(session).into_response();
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Authorize a session, with a private application's key.
///
/// Nothing can be granted that the application does not hold itself.
#[utoipa::path(post, operation_id = "authorize_session", path = "/sessions/authorize", tag = "sessions",
    request_body = AuthorizeSession,
    responses((status = 200, description = "The session", body = SessionView), Refusals))]
pub async fn authorize(
    Grantor(who): Grantor,
    Shared(state): Shared<State>,
    claimed: ClaimedKey,
    Body(body, _room): Body<AuthorizeSession>,
) -> Result<Reply<SessionView>, Rejection> {
    Ok(Reply(state.vault.authorize_session(&who, body, claimed.claim()).await?))
}
