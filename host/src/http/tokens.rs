//! `/tokens`, `/tokenize`, `/detokenize` (interface §4.1, decisions §3).

use axum::extract::State as Shared;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::Value;

use super::State;
use super::body::{Body, JsonBody, PatchBody};
use super::declared::{ConflictRefusals, ListParameters, ReadRefusals, Refusals};
use super::envelope::{Created, Paginated, Reply, segment};
use super::extract::{Id, Permitted};
use super::problem::Rejection;
use super::query::Query;
use crate::model::permission::marker::{
    TokenCreate, TokenDelete, TokenRead, TokenSearch, TokenUpdate,
};
use crate::vault::{CreateToken, SearchTokens, TokenFilter, TokenPage, TokenView, UpdateToken};

/// Create a token.
#[utoipa::path(post, operation_id = "create_token", path = "/tokens", tag = "tokens", request_body = CreateToken,
    responses((status = 201, description = "The token, as the caller's rule shows it", body = TokenView),
        (status = 200, description = "A token of the same contents that was there before", body = TokenView), ReadRefusals))]
pub async fn create(
    Permitted(permit): Permitted<TokenCreate>,
    Shared(state): Shared<State>,
    Body(body, _room): Body<CreateToken>,
) -> Result<Response, Rejection> {
    let body = state.vault.create_token(&permit, body).await?;
    if body.is_deduplicated() {
        return Ok(Reply(body).into_response());
    }
    let location = format!("/tokens/{}", segment(body.id()));
    Ok(Created { location, body }.into_response())
}

/// List tokens.
///
/// Metadata is filtered by parameters such as `metadata.customer=17`: exact but for case, all of them together; a key
/// that is repeated counts once.
#[utoipa::path(get, operation_id = "list_tokens", path = "/tokens", tag = "tokens",
    params(ListParameters,
        ("id" = Option<Vec<String>>, Query, description = "Only these; repeatable"),
        ("type" = Option<Vec<String>>, Query, description = "Only of these types; repeatable"),
        ("fingerprint" = Option<Vec<String>>, Query, description = "Only with these fingerprints; repeatable"),
        ("container" = Option<Vec<String>>, Query, pattern = r"^/([A-Za-z0-9_-]+/)*\*?$",
            description = "Only in these containers, or with a trailing `*` below them; repeatable")),
    responses((status = 200, description = "A page of tokens, each as the caller's rule shows it", body = Paginated<TokenView>), Refusals))]
pub async fn list(
    Permitted(permit): Permitted<TokenRead>,
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<TokenPage, Rejection> {
    let page = query.page();
    let filter = TokenFilter {
        ids: query.every("id"),
        types: query.every("type"),
        fingerprints: query.every("fingerprint"),
        containers: query.containers(),
        metadata: query.members("metadata"),
    };
    let (page, filter) = query.checked((page, filter))?;
    Ok(state.vault.list_tokens(&permit, filter, &page).await?)
}

/// Search tokens.
///
/// Terms such as `type:card` or `metadata.customer:"17"`, joined by `AND`, `OR` and `NOT` (also `!` and `-`) and grouped by
/// parentheses; `NOT` binds before `AND`, and `AND` before `OR`. A value with spaces is put in double quotes. `\` takes its
/// meaning from the character behind it, in values and in metadata keys.
///
/// | Field | What it finds |
/// |---|---|
/// | `id`, `type`, `fingerprint`, `created_by`, `modified_by` | exactly this |
/// | `metadata.<key>` | this value, ignoring case |
/// | `data` | what one of the token's search indexes gave, whole, ignoring case |
/// | `container` | `"/a/"` itself; `"/a/*"` also all below it |
/// | `created_at`, `modified_at` | a day or a time (UTC), or a range: `[A TO B]` with its ends, `{A TO B}` without, `*` open |
///
/// There are no wildcards besides. At most 64 terms in 16 levels. The totals are exact, and whatever was acknowledged before
/// is found.
#[utoipa::path(post, operation_id = "search_tokens", path = "/tokens/search", tag = "tokens", request_body = SearchTokens,
    responses((status = 200, description = "A page of tokens, each as the caller's rule shows it", body = Paginated<TokenView>), Refusals))]
pub async fn search(
    Permitted(permit): Permitted<TokenSearch>,
    Shared(state): Shared<State>,
    query: Query,
    Body(body, _room): Body<SearchTokens>,
) -> Result<TokenPage, Rejection> {
    query.checked(())?;
    Ok(state.vault.search_tokens(&permit, body).await?)
}

/// Change a token.
///
/// Whoever may change a token chooses its mask, and so what it shows to whoever sees it masked, the answer to the change
/// included.
#[utoipa::path(patch, operation_id = "update_token", path = "/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    request_body(content = UpdateToken, content_type = "application/merge-patch+json"),
    responses((status = 200, description = "The token, as the caller's rule shows it", body = TokenView), ReadRefusals))]
pub async fn update(
    Permitted(permit): Permitted<TokenUpdate>,
    Shared(state): Shared<State>,
    Id(id): Id<String>,
    PatchBody(body, _room): PatchBody<UpdateToken>,
) -> Result<Reply<TokenView>, Rejection> {
    Ok(Reply(state.vault.update_token(&permit, &id, body).await?))
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
    responses((status = 204, description = "The token is gone"), ConflictRefusals))]
pub async fn delete(
    Permitted(permit): Permitted<TokenDelete>,
    Shared(state): Shared<State>,
    Id(id): Id<String>,
) -> Result<StatusCode, Rejection> {
    state.vault.delete_token(&permit, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make tokens of everything in a value.
///
/// An object with `type` and `data` is the body of a token, and the token takes its place; any other text, number or boolean
/// becomes the data of a token of type `token`, whose id takes its place. `null` stays, and so does the shape. At most 100
/// tokens; all are made or none.
#[utoipa::path(post, operation_id = "tokenize", path = "/tokenize", tag = "tokens", request_body = Value,
    responses((status = 200, description = "The value, with tokens in place of what was sensitive", body = Value), Refusals))]
pub async fn tokenize(
    Permitted(permit): Permitted<TokenCreate>,
    Shared(state): Shared<State>,
    JsonBody(value, inexact, _room): JsonBody,
) -> Result<Reply<Value>, Rejection> {
    Ok(Reply(state.vault.tokenize(&permit, value, inexact).await?))
}

/// Replace references by the data of their tokens.
///
/// A text `{{ <token id> }}` becomes the token's data, filters on it included; all else stays. Every token that is used needs
/// `token:read` by a rule whose transform is `reveal`. At most 100 tokens.
#[utoipa::path(post, operation_id = "detokenize", path = "/detokenize", tag = "tokens", request_body = Value,
    responses((status = 200, description = "The value, with data in place of references", body = Value), Refusals))]
pub async fn detokenize(
    Permitted(permit): Permitted<TokenRead>,
    Shared(state): Shared<State>,
    JsonBody(value, inexact, _room): JsonBody,
) -> Result<Reply<Value>, Rejection> {
    Ok(Reply(state.vault.detokenize(&permit, &value, inexact).await?))
}
