//! `/applications` (interface §4.4) and `/permissions` (decisions §2).

use axum::extract::State as Shared;
use http::StatusCode;
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::State;
use super::body::{Body, NoMembers};
use super::declared::{ConflictRefusals, ListParameters, ReadRefusals, Refusals, relaxed};
use super::envelope::{Created, Paginated, Reply};
use super::extract::{Id, Known, Permitted, Seer};
use super::problem::Rejection;
use super::query::Query;
use crate::model::application::Application;
use crate::model::id::ApplicationId;
use crate::model::permission::marker::{
    ApplicationCreate, ApplicationDelete, ApplicationRead, ApplicationUpdate,
};
use crate::model::permission::{ApplicationType, Permission};
use crate::vault::{ApplicationWithKey, WriteApplication};

/// Create an application.
#[utoipa::path(post, operation_id = "create_application", path = "/applications", tag = "applications", request_body = WriteApplication,
    responses((status = 201, description = "The application with its key", body = ApplicationWithKey), Refusals))]
pub async fn create(
    Permitted(permit): Permitted<ApplicationCreate>,
    Shared(state): Shared<State>,
    Body(body, _room): Body<WriteApplication>,
) -> Result<Created<ApplicationWithKey>, Rejection> {
    let body = state.vault.create_application(&permit, body).await?;
    state.rates.note_issued(&body.key);
    Ok(Created { location: format!("/applications/{}", body.application.id), body })
}

/// List applications.
#[utoipa::path(get, operation_id = "list_applications", path = "/applications", tag = "applications",
    params(ListParameters, ("id" = Option<Vec<ApplicationId>>, Query, description = "Only these; repeatable")),
    responses((status = 200, description = "A page of applications", body = Paginated<Application>), Refusals))]
pub async fn list(
    Permitted(permit): Permitted<ApplicationRead>,
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Reply<Paginated<Application>>, Rejection> {
    let page = query.page();
    let ids = query.every("id");
    let (page, ids) = query.checked((page, ids))?;
    Ok(Reply(state.vault.list_applications(&permit, ids, &page).await?.into()))
}

/// Show an application. Each one may see itself.
#[utoipa::path(get, operation_id = "get_application", path = "/applications/{id}", tag = "applications", params(("id" = ApplicationId, Path)),
    responses((status = 200, description = "The application", body = Application), ReadRefusals))]
pub async fn find(
    seer: Seer,
    Shared(state): Shared<State>,
    Id(id): Id<ApplicationId>,
) -> Result<Reply<Application>, Rejection> {
    Ok(Reply(match seer {
        Seer::Itself(who) => state.vault.find_own_application(&who).await?,
        Seer::Permitted(permit) => state.vault.find_application(&permit, id).await?,
    }))
}

/// Show the application that the key belongs to.
#[utoipa::path(get, operation_id = "get_application_by_key", path = "/applications/key", tag = "applications",
    responses((status = 200, description = "The application", body = Application), Refusals))]
pub async fn find_by_key(
    Known(who): Known,
    Shared(state): Shared<State>,
) -> Result<Reply<Application>, Rejection> {
    Ok(Reply(state.vault.find_own_application(&who).await?))
}

/// As the body of a new application, of which `type` and `expires_at` are not read.
pub enum UpdateApplication {}

impl PartialSchema for UpdateApplication {
    fn schema() -> RefOr<Schema> {
        let text = "Body of `PUT /applications/{id}`.";
        relaxed::<WriteApplication>(text, &["type", "expires_at"])
    }
}

impl ToSchema for UpdateApplication {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        WriteApplication::schemas(schemas);
    }
}

/// Replace an application's name, permissions and rules.
#[utoipa::path(put, operation_id = "update_application", path = "/applications/{id}", tag = "applications", params(("id" = ApplicationId, Path)),
    request_body = UpdateApplication,
    responses((status = 200, description = "The application", body = Application), ReadRefusals))]
pub async fn update(
    Permitted(permit): Permitted<ApplicationUpdate>,
    Shared(state): Shared<State>,
    Id(id): Id<ApplicationId>,
    Body(body, _room): Body<WriteApplication>,
) -> Result<Reply<Application>, Rejection> {
    Ok(Reply(state.vault.update_application(&permit, id, body).await?))
}

/// Replace an application's key.
///
/// The one before ends at once, and so does every session that it granted.
#[utoipa::path(post, operation_id = "regenerate_application_key", path = "/applications/{id}/regenerate", tag = "applications",
    params(("id" = ApplicationId, Path)),
    responses((status = 200, description = "The application with its new key", body = ApplicationWithKey), ReadRefusals))]
pub async fn regenerate(
    Permitted(permit): Permitted<ApplicationUpdate>,
    Shared(state): Shared<State>,
    Id(id): Id<ApplicationId>,
    _: NoMembers,
) -> Result<Reply<ApplicationWithKey>, Rejection> {
    let regenerated = state.vault.regenerate_key(&permit, id).await?;
    state.rates.note_issued(&regenerated.key);
    Ok(Reply(regenerated))
}

/// Delete an application.
#[utoipa::path(delete, operation_id = "delete_application", path = "/applications/{id}", tag = "applications", params(("id" = ApplicationId, Path)),
    responses((status = 204, description = "The application is gone"), ConflictRefusals))]
pub async fn delete(
    Permitted(permit): Permitted<ApplicationDelete>,
    Shared(state): Shared<State>,
    Id(id): Id<ApplicationId>,
) -> Result<StatusCode, Rejection> {
    state.vault.delete_application(&permit, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A permission, described.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PermissionView {
    /// Its name.
    r#type: Permission,
    /// What it allows.
    description: &'static str,
    /// The types of application that may hold it.
    application_types: &'static [ApplicationType],
}

/// List the permissions there are.
#[utoipa::path(get, operation_id = "list_permissions", path = "/permissions", tag = "applications",
    params(("application_type" = Option<ApplicationType>, Query, description = "Only what this type of application may hold")),
    responses((status = 200, description = "The permissions", body = Vec<PermissionView>), Refusals))]
pub async fn permissions(
    Known(_): Known,
    mut query: Query,
) -> Result<Reply<Vec<PermissionView>>, Rejection> {
    let kind = query.parsed::<ApplicationType>("application_type");
    // It has no pages; clients send these to every list.
    for name in ["page", "size"] {
        query.first(name);
    }
    let kind = query.checked(kind)?;
    let held =
        |permission: &&Permission| kind.is_none_or(|kind| permission.holders().contains(&kind));
    let view = |permission: &Permission| PermissionView {
        r#type: *permission,
        description: permission.description(),
        application_types: permission.holders(),
    };
    Ok(Reply(Permission::ALL.iter().filter(held).map(view).collect()))
}
