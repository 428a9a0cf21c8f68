//! `/reactors` (interface §4.5).

use axum::extract::State as Shared;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::State;
use super::body::{Body, NoMembers};
use super::declared::{
    ConflictRefusals, ListParameters, ReactRefusals, ReadRefusals, Refusals, relaxed,
};
use super::envelope::{Accepted, Created, Paginated, Reply};
use super::extract::{Id, InvocationOf, Permitted};
use super::problem::Rejection;
use super::query::Query;
use super::trace::NotCounted;
use crate::model::id::{ApplicationId, FormulaId, InvocationId, ReactorId};
use crate::model::permission::marker::{
    ReactorCreate, ReactorDelete, ReactorRead, ReactorUpdate, TokenUse,
};
use crate::vault::{
    Error, InvocationView, JobView, ReactRequest, ReactResponse, Reacted, ReactorFilter,
    ReactorView, WriteReactor,
};

/// The header that names the invocation of a run that failed: with it, its log is found among the reactor's invocations.
const INVOCATION_ID: HeaderName = HeaderName::from_static("svc-invocation-id");

/// Create a reactor.
#[utoipa::path(post, operation_id = "create_reactor", path = "/reactors", tag = "reactors", request_body = WriteReactor,
    responses((status = 201, description = "The reactor", body = ReactorView), Refusals))]
pub async fn create(
    Permitted(permit): Permitted<ReactorCreate>,
    Shared(state): Shared<State>,
    Body(body, _room): Body<WriteReactor>,
) -> Result<Created<ReactorView>, Rejection> {
    let body = state.vault.create_reactor(&permit, body).await?;
    Ok(Created { location: format!("/reactors/{}", body.id()), body })
}

/// List reactors.
#[utoipa::path(get, operation_id = "list_reactors", path = "/reactors", tag = "reactors",
    params(ListParameters,
        ("id" = Option<Vec<ReactorId>>, Query, description = "Only these; repeatable"),
        ("name" = Option<String>, Query, description = "Only this name; `*` stands for any characters"),
        ("formula_id" = Option<FormulaId>, Query, description = "Only those that use this formula"),
        ("application_id" = Option<ApplicationId>, Query, description = "Only those that act as this application")),
    responses((status = 200, description = "A page of reactors", body = Paginated<ReactorView>), Refusals))]
pub async fn list(
    Permitted(permit): Permitted<ReactorRead>,
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Reply<Paginated<ReactorView>>, Rejection> {
    let page = query.page();
    let filter = ReactorFilter {
        ids: query.every("id"),
        name: query.first("name").map(str::to_owned),
        formula_id: query.parsed("formula_id"),
        application_id: query.parsed("application_id"),
    };
    let (page, filter) = query.checked((page, filter))?;
    Ok(Reply(state.vault.list_reactors(&permit, filter, &page).await?.into()))
}

/// Show a reactor.
#[utoipa::path(get, operation_id = "get_reactor", path = "/reactors/{id}", tag = "reactors", params(("id" = ReactorId, Path)),
    responses((status = 200, description = "The reactor", body = ReactorView), ReadRefusals))]
pub async fn find(
    Permitted(permit): Permitted<ReactorRead>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
) -> Result<Reply<ReactorView>, Rejection> {
    Ok(Reply(state.vault.find_reactor(&permit, id).await?))
}

/// As the body of a new reactor, of which `formula` is not read.
pub enum UpdateReactor {}

impl PartialSchema for UpdateReactor {
    fn schema() -> RefOr<Schema> {
        let text = "Body of `PUT /reactors/{id}`.";
        relaxed::<WriteReactor>(text, &["formula"])
    }
}

impl ToSchema for UpdateReactor {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        WriteReactor::schemas(schemas);
    }
}

/// Replace a reactor's name, configuration and application.
#[utoipa::path(put, operation_id = "update_reactor", path = "/reactors/{id}", tag = "reactors", params(("id" = ReactorId, Path)),
    request_body = UpdateReactor,
    responses((status = 200, description = "The reactor", body = ReactorView), ReadRefusals))]
pub async fn update(
    Permitted(permit): Permitted<ReactorUpdate>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
    Body(body, _room): Body<WriteReactor>,
) -> Result<Reply<ReactorView>, Rejection> {
    Ok(Reply(state.vault.update_reactor(&permit, id, body).await?))
}

/// Delete a reactor.
#[utoipa::path(delete, operation_id = "delete_reactor", path = "/reactors/{id}", tag = "reactors", params(("id" = ReactorId, Path)),
    responses((status = 204, description = "The reactor is gone"), ConflictRefusals))]
pub async fn delete(
    Permitted(permit): Permitted<ReactorDelete>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
) -> Result<StatusCode, Rejection> {
    state.vault.delete_reactor(&permit, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Run a reactor: wait for its answer, or with a `callback_url` have it queued and its result told as a webhook.
///
/// A run that failed is named by the header `SVC-INVOCATION-ID`, as among the reactor's invocations.
#[utoipa::path(post, operation_id = "react", path = "/reactors/{id}/react", tag = "reactors", params(("id" = ReactorId, Path)),
    request_body = ReactRequest,
    responses((status = 200, description = "What the formula answered", body = ReactResponse),
        (status = 202, description = "The run is queued", body = JobView), ReactRefusals))]
pub async fn react(
    Permitted(permit): Permitted<TokenUse>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
    query: Query,
    Body(body, _room): Body<ReactRequest>,
) -> Result<Response, Rejection> {
    // What is meant for the body, such as `callback_url`, would make it another kind of run.
    query.checked(())?;
    Ok(match state.vault.react(&permit, id, body).await {
        Ok(Reacted::Answered(answer)) => Reply(answer).into_response(),
        Ok(Reacted::Queued(job)) => {
            Accepted { location: job.location(), body: job }.into_response()
        }
        Err(failed) => failure(failed.error, failed.invocation),
    })
}

/// What a run that failed is answered with.
fn failure(error: Error, invocation: Option<InvocationId>) -> Response {
    // The outcome of a run that is kept tells by itself; none is kept of one that never began, or could not be stored.
    let is_told = invocation.is_some() || !error.is_ours();
    let mut response = Rejection::from(error).into_response();
    if is_told {
        response.extensions_mut().insert(NotCounted);
    }
    if let Some(id) = invocation.and_then(|id| HeaderValue::try_from(id.to_string()).ok()) {
        response.headers_mut().insert(INVOCATION_ID, id);
    }
    response
}

/// Show an asynchronous run: where it stands, what it answered, and how the telling of it goes.
#[utoipa::path(get, operation_id = "get_result", path = "/reactors/{id}/results/{invocation_id}", tag = "reactors",
    params(("id" = ReactorId, Path), ("invocation_id" = InvocationId, Path)),
    responses((status = 200, description = "The run", body = JobView), ReadRefusals))]
pub async fn result(
    Permitted(permit): Permitted<TokenUse>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
    InvocationOf(invocation): InvocationOf,
) -> Result<Reply<JobView>, Rejection> {
    Ok(Reply(state.vault.find_result(&permit, id, invocation).await?))
}

/// Tell the result of an asynchronous run once more.
#[utoipa::path(post, operation_id = "redeliver", path = "/reactors/{id}/results/{invocation_id}/redeliver", tag = "reactors",
    params(("id" = ReactorId, Path), ("invocation_id" = InvocationId, Path)),
    responses((status = 202, description = "The run, its delivery queued", body = JobView), ConflictRefusals))]
pub async fn redeliver(
    Permitted(permit): Permitted<TokenUse>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
    InvocationOf(invocation): InvocationOf,
    _: NoMembers,
) -> Result<Accepted<JobView>, Rejection> {
    let body = state.vault.redeliver(&permit, id, invocation).await?;
    Ok(Accepted { location: body.location(), body })
}

/// List a reactor's invocations: how each went and what it logged, never what went in or came out.
#[utoipa::path(get, operation_id = "list_invocations", path = "/reactors/{id}/invocations", tag = "reactors",
    params(("id" = ReactorId, Path), ListParameters),
    responses((status = 200, description = "A page of invocations", body = Paginated<InvocationView>), ReadRefusals))]
pub async fn invocations(
    Permitted(permit): Permitted<ReactorRead>,
    Shared(state): Shared<State>,
    Id(id): Id<ReactorId>,
    mut query: Query,
) -> Result<Reply<Paginated<InvocationView>>, Rejection> {
    let page = query.page();
    let page = query.checked(page)?;
    Ok(Reply(state.vault.list_invocations(&permit, id, &page).await?.into()))
}
