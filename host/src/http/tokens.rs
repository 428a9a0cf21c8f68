//! `/tokens`, `/tokenize`, `/detokenize` (interface §4.1, decisions §3).

use axum::extract::State as Shared;
use http::StatusCode;
use serde_json::Value;

use super::State;
use super::body::{Body, JsonBody};
use super::envelope::{Created, Reply, segment};
use super::extract::{Id, Permitted};
use super::openapi::{ReadRefusals, Refusals};
use super::problem::Rejection;
use crate::model::permission::marker::{TokenCreate, TokenDelete, TokenRead};
use crate::vault::{CreateToken, TokenView};

/// Create a token.
#[utoipa::path(post, operation_id = "create_token", path = "/tokens", tag = "tokens", request_body = CreateToken,
    responses((status = 201, description = "The token, as the caller's rule shows it", body = TokenView), Refusals))]
pub async fn create(
    Permitted(permit): Permitted<TokenCreate>,
    Shared(state): Shared<State>,
    Body(body): Body<CreateToken>,
) -> Result<Created<TokenView>, Rejection> {
    let body = state.vault.create_token(&permit, body).await?;
    Ok(Created { location: format!("/tokens/{}", segment(body.id())), body })
}

/// Show a token.
#[utoipa::path(get, operation_id = "get_token", path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 200, description = "The token, as the caller's rule shows it", body = TokenView), ReadRefusals))]
pub async fn find(
    Permitted(permit): Permitted<TokenRead>,
    Shared(state): Shared<State>,
    Id(id): Id<String>,
) -> Result<Reply<TokenView>, Rejection> {
    Ok(Reply(state.vault.find_token(&permit, &id).await?))
}

/// Delete a token.
#[utoipa::path(delete, operation_id = "delete_token", path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 204, description = "The token is gone"), ReadRefusals))]
pub async fn delete(
    Permitted(permit): Permitted<TokenDelete>,
    Shared(state): Shared<State>,
    Id(id): Id<String>,
) -> Result<StatusCode, Rejection> {
    state.vault.delete_token(&permit, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make tokens of everything in a value.
#[utoipa::path(post, operation_id = "tokenize", path = "/tokenize", tag = "tokens", request_body = Value,
    responses((status = 200, description = "The value, with tokens in place of what was sensitive", body = Value), Refusals))]
pub async fn tokenize(
    Permitted(permit): Permitted<TokenCreate>,
    Shared(state): Shared<State>,
    JsonBody(value): JsonBody,
) -> Result<Reply<Value>, Rejection> {
    Ok(Reply(state.vault.tokenize(&permit, value).await?))
}

/// Replace references by the data of their tokens.
#[utoipa::path(post, operation_id = "detokenize", path = "/detokenize", tag = "tokens", request_body = Value,
    responses((status = 200, description = "The value, with data in place of references", body = Value), Refusals))]
pub async fn detokenize(
    Permitted(permit): Permitted<TokenRead>,
    Shared(state): Shared<State>,
    JsonBody(value): JsonBody,
) -> Result<Reply<Value>, Rejection> {
    Ok(Reply(state.vault.detokenize(&permit, &value).await?))
}
